"""Reader of line_profiler's results: the text that kernprof -lv, %lprun and print_stats write, and its .lprof files.

Both give functions with the lines that ran. Times are exact: the printed or stored number times the timer's unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import pickles
from kernelscope.analysis.files.pickles import Stood, of_kind

# Numbers as the tool prints them; longer ones are not its own, and could be crafted to fill the memory.
_NUMBER = r"\d{1,19}(?:\.\d{0,12})?(?:e[+-]?\d{1,2})?"
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,32}m|\x1b\]8;[^\x1b\x07\n]{0,4096}(?:\x1b\\|\x07)")
_INDENT = r"^[ \t]{0,80}"  # in a report quoted in a notebook or a document
_UNIT = re.compile(rf"{_INDENT}Timer unit: ({_NUMBER}) s[ \r]*$", re.MULTILINE)
_TOTAL = re.compile(rf"{_INDENT}Total time: ({_NUMBER}) s[ \r]*$", re.MULTILINE)
_FILE = re.compile(rf"{_INDENT}(?:File: |Could not find file )(.+?)[ \r]*$", re.MULTILINE)
_FUNCTION = re.compile(rf"{_INDENT}Function: (.*) at line (\d{{1,9}})[ \r]*$", re.MULTILINE)
# Columns may have been cut, but not those of executions, time and source; pages take the rule below for the mark of a heading
_HEADER = re.compile(
    rf"(?P<columns>{_INDENT}(?P<number>Line # +)?Hits +Time +(?P<each>Per Hit +)?(?P<share>% Time +)?)Line Contents[ \r]*\n"
    r"(?:[ \t]{0,80}=+[ \r]*\n|(?:[ \t]{0,80}\r?\n)?(?=[ \t]{0,80}\d))",
    re.MULTILINE,
)
# A header whose columns are separated by tabs, or by bars as in Markdown
_SPLIT_HEADER = re.compile(
    r"^ {0,80}\|? {0,80}(?:Line # *[\t|] *)?Hits *[\t|] *Time *[\t|] *(?:Per Hit *[\t|] *)?(?:% Time *[\t|] *)?"
    r"Line Contents *\|?[ \t\r]*$",
    re.MULTILINE,
)
_RULE = re.compile(r"[ \t|:]*[=-]{3}[ \t|:=-]*$")
_CELLS = {"Line #": 6, "Hits": 9, "Time": 12, "Per Hit": 8, "% Time": 8}  # columns and their widths as the tool prints them
_LINE = re.compile(r"[ \t]*(\d{1,9})\b")
_COUNTED = re.compile(rf"[ \t]*{_NUMBER} +{_NUMBER}(?: |$)")  # a row without the line's number
# The modules of line_profiler's class: up to version 3, in 4, and from 5 on
_CLASSES = frozenset(
    ("_line_profiler LineStats", "line_profiler._line_profiler LineStats", "line_profiler.line_profiler LineStats")
)
_TOO_MANY = 2**63
_ROUNDED = 0.02  # by which a printed total may differ from the sum of the lines


@dataclass
class Line:
    """One line that ran. time_ns: exact, not rounded to whole ns. text: the source, None if unknown."""

    number: int
    hits: int
    time_ns: Fraction
    text: str | None = None


@dataclass
class Function:
    """One profiled function: its file, name and first line (0 if unknown), and those of its lines that ran.

    total_ns: as printed, None if not printed. name: empty if the source was not found. unreadable: how many lines could not be
    read; unreadable_at: the number of the first of them in the report, 0 for none. derived: whether the unit is not printed, but
    follows from the total. counted: whether the lines' numbers are not printed, but counted from the function's first line.
    """

    file: str
    name: str
    first: int
    unit_s: str
    lines: list[Line] = field(default_factory=list)
    total_ns: Fraction | None = None
    unreadable: int = 0
    unreadable_at: int = 0
    derived: bool = False
    counted: bool = False

    def skip(self, text: str, position: int) -> None:
        """Count the line at a position of a report as unreadable."""
        self.unreadable += 1
        self.unreadable_at = self.unreadable_at or text.count("\n", 0, position) + 1

    @property
    def time_ns(self) -> Fraction:
        """The sum over the lines."""
        return sum((line.time_ns for line in self.lines), Fraction(0))


def is_report(text: str) -> bool:
    """Return whether a text has, anywhere, the line of the timer's unit or the header of a table."""
    return any(pattern.search(text) is not None for pattern in (_UNIT, _HEADER, _SPLIT_HEADER))


def parse_text(text: str, place: str) -> list[Function]:
    """Return the functions of a report of any version, coloured or not, indented or not, with other output around its tables.

    Raise EvidenceError if there is no table, or if a table precedes the timer's unit.
    """
    text = _aligned(_COLOURS.sub("", text) if "\x1b" in text else text)
    functions = []
    unit = None
    end = 0
    for header in _HEADER.finditer(text):
        before = text[end : header.start()]
        units = _UNIT.findall(before)
        unit = units[-1] if units else unit
        own = unit or _unit_of(before, text, header)
        if own is None:
            raise EvidenceError(f"{place}: a table without the line 'Timer unit: ... s' before it; use the whole report")
        function = _function(before, own)
        function.derived = unit is None
        end = _read_rows(text, header, function)
        functions.append(function)
    if not functions:
        raise EvidenceError(f"{place}: no table of line_profiler; write one with python -m line_profiler FILE.lprof")
    return functions


def _aligned(text: str) -> str:
    """Return a report whose tables have columns separated by tabs or bars with columns as the tool prints them."""
    pieces, end = [], 0
    for header in _SPLIT_HEADER.finditer(text):
        if header.start() >= end:
            pieces.append(text[end : header.start()])
            rows, end = _split_rows(text, header)
            pieces += rows
    return "".join([*pieces, text[end:]])


def _split_rows(text: str, header: re.Match[str]) -> tuple[list[str], int]:
    """Return a table with separated columns as the tool prints it, and where it ends."""
    mark = "|" if "|" in header[0] else "\t"
    names = [cell.strip() for cell in _cells(header[0], mark, 0)]
    rows, end = [_row(names, names), "=" * 80 + "\n"], min(header.end() + 1, len(text))
    while end < len(text):
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        line = text[end:stop].rstrip("\r")
        cells = _cells(line, mark, len(names))
        if not _RULE.match(line):
            if len(cells) < len(names):
                break
            rows.append(_row(names, cells))
        end = min(stop + 1, len(text))
    return rows, end


def _cells(line: str, mark: str, count: int) -> list[str]:
    """Return the cells of a row; the last of `count` keeps marks in the source. count: 0 for the header."""
    if mark == "\t":
        return line.strip("\r\n").split(mark, count - 1)
    bare = line.strip()
    bare = bare[1:] if bare.startswith(mark) else bare
    bare = bare[:-1] if bare.endswith(mark) and not bare.endswith("\\|") else bare
    return [cell.replace("\\|", mark) for cell in bare.split(mark, count - 1)]


def _row(names: list[str], cells: list[str]) -> str:
    """Return a row with the tool's columns."""
    numbers = [f"{cell.strip():>{_CELLS[name]}}" for name, cell in zip(names[:-1], cells[:-1], strict=True)]
    source = cells[-1].strip()
    quoted = len(source) > 1 and source[0] == source[-1] == "`"
    return f"{' '.join(numbers)}  {source[1:-1] if quoted else source}\n"


def _unit_of(before: str, text: str, header: re.Match[str]) -> str | None:
    """Return the timer's unit in seconds if it follows from the printed total, being a power of ten; None if it does not."""
    counted = _function(before, "1")
    _read_rows(text, header, counted)
    seconds = counted.time_ns / 1_000_000_000
    if counted.total_ns is None or not seconds or not counted.total_ns:
        return None
    ratio = float(counted.total_ns / 1_000_000_000 / seconds)
    power = round(math.log10(ratio))
    return f"1e{power}" if -12 <= power <= 0 and abs(ratio / 10**power - 1) < _ROUNDED else None


def _function(before: str, unit: str) -> Function:
    """Return the function that the lines above a table describe."""
    totals, files, names = _TOTAL.findall(before), _FILE.findall(before), _FUNCTION.findall(before)
    name, first = names[-1] if names else ("", "0")
    total = Fraction(totals[-1]) * 1_000_000_000 if totals else None
    return Function(files[-1] if files else "", name, int(first), unit, total_ns=total)


def _read_rows(text: str, header: re.Match[str], function: Function) -> int:
    """Read a table's rows up to the first line that is not one; return that line's position.

    Columns may be wider than their headings, but a line that did not run is blank up to its source. If the lines' numbers were
    cut, they are counted from the function's first line.
    """
    unit_ns = Fraction(function.unit_s) * 1_000_000_000
    function.counted = header["number"] is None
    starts, measured = (_COUNTED if function.counted else _LINE), _measured(*map(bool, header.group("number", "each", "share")))
    position, counted = header.end(), max(function.first, 1) - 1
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        row = text[position:end].rstrip("\r")
        start = starts.match(row)
        blank = not row[0 if start is None or function.counted else start.end() : len(header["columns"])].strip()
        if start is None and row.strip() and not (function.counted and blank) and starts.match(text, end + 1):
            function.skip(text, position)  # a damaged line: the table goes on
            position, counted = end + 1, counted + 1
            continue
        if start is None and not (function.counted and blank):
            break
        begin, position, counted = position, end + 1, counted + 1
        if blank:
            continue
        match = measured.match(row)
        if match is None:
            function.skip(text, begin)
            continue
        number = counted if function.counted else int(match["line"])
        text_of = (match["text"] or "").strip() or None
        function.lines.append(Line(number, round(Fraction(match["hits"])), Fraction(match["time"]) * unit_ns, text_of))
    return min(position, len(text))


@cache
def _measured(numbered: bool, each: bool, share: bool) -> re.Pattern[str]:
    """Return the pattern of a row that ran, in a table with these columns."""
    number = r"(?P<line>\d{1,9}) +" if numbered else ""
    more = (r" +\S+" if each else "") + (r"(?: +\d+\.\d)?" if share else "")
    return re.compile(rf"[ \t]*{number}(?P<hits>{_NUMBER}) +(?P<time>{_NUMBER}){more}(?:  (?P<text>.*))?$")


def parse_pickle(content: bytes, place: str) -> list[Function]:
    """Return the functions of a .lprof file; raise EvidenceError if it is not one, or if it asks for more than its own data."""
    try:
        stats = pickles.read(content, _CLASSES)
        state = of_kind(of_kind(stats, Stood).state, dict)
        timings, unit = of_kind(state["timings"], dict), state["unit"]
        if not isinstance(unit, int | float) or not 1e-15 <= unit <= 1e6:
            raise ValueError("no timer's unit")
        return list(_stored(timings, str(unit), len(content)))
    except KeyError as error:
        raise EvidenceError(f"{place}: not a .lprof file (no {error}); write it with kernprof -l or dump_stats") from error
    except (ValueError, IndexError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvidenceError(f"{place}: not a .lprof file ({reason}); write it with kernprof -l or dump_stats") from error


def _stored(timings: dict[Any, Any], unit: str, size: int) -> Iterator[Function]:
    """Return the functions of a table (file, line, name) -> [(line, hits, time)]. size: the largest possible number of lines."""
    unit_ns = Fraction(unit) * 1_000_000_000
    for key, rows in timings.items():
        file, first, name = of_kind(key, tuple)
        function = Function(_text(file), _text(name), _natural(first), unit)
        size -= len(of_kind(rows, list))
        if size < 0:
            raise ValueError("more lines than the file has bytes for")
        for row in rows:
            number, hits, time = of_kind(row, tuple)
            if not isinstance(time, int | float) or not 0 <= time < _TOO_MANY:
                raise ValueError("a line's time is not a number of timer units")
            function.lines.append(Line(_natural(number), _natural(hits), Fraction(time) * unit_ns))
        yield function


def _natural(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _TOO_MANY:
        raise ValueError("a line that is not (line, hits, time)")
    return value


def _text(value: Any) -> str:
    """Return a text without lone surrogates, which only pickles can hold."""
    return str(of_kind(value, str)).encode("utf8", errors="replace").decode("utf8")
