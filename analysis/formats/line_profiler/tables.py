"""Reader of line_profiler's results: the text that kernprof -lv, %lprun and print_stats write, and its .lprof files.

Both give functions with the lines that ran. Times are exact: the printed or stored number times the timer's unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
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
_HEADER = re.compile(
    rf"({_INDENT}Line # +Hits +Time +Per Hit +% Time  )Line Contents[ \r]*\n[ \t]{{0,80}}=+[ \r]*\n", re.MULTILINE
)
_LINE = re.compile(r"[ \t]*(\d{1,9})\b")
_MEASURED = re.compile(rf"[ \t]*(\d{{1,9}}) +({_NUMBER}) +({_NUMBER}) +(\S+)(?: +(\d+\.\d))?(?:  (.*))?$")

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
    follows from the total.
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
    return _UNIT.search(text) is not None or _HEADER.search(text) is not None


def parse_text(text: str, place: str) -> list[Function]:
    """Return the functions of a report of any version, coloured or not, indented or not, with other output around its tables.

    Raise EvidenceError if there is no table, or if a table precedes the timer's unit.
    """
    text = _COLOURS.sub("", text) if "\x1b" in text else text
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

    Columns may be wider than their headings, but a line that did not run is blank up to its source.
    """
    unit_ns = Fraction(function.unit_s) * 1_000_000_000
    contents = len(header[1])
    position = header.end()
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        row = text[position:end].rstrip("\r")
        number = _LINE.match(row)
        if number is None and row.strip() and _LINE.match(text, end + 1):  # a damaged line: the table goes on
            function.skip(text, position)
            position = end + 1
            continue
        if number is None:
            break
        begin, position = position, end + 1
        if not row[number.end() : contents].strip():
            continue
        match = _MEASURED.match(row)
        if match is None:
            function.skip(text, begin)
            continue
        hits, time = Fraction(match[2]), Fraction(match[3])
        function.lines.append(Line(int(match[1]), round(hits), time * unit_ns, (match[6] or "").strip() or None))
    return position


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
