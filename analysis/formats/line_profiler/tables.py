"""Reader of line_profiler's results: the text that kernprof -lv, %lprun and print_stats write, and its .lprof files.

Both give functions with the lines that ran. Times are exact: what is printed or stored, times the timer's unit.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kernelscope.analysis.errors import EvidenceError

# Numbers as the tool prints them; longer ones are no numbers of its, and could be made to fill the memory.
_NUMBER = r"\d{1,19}(?:\.\d{0,12})?(?:e[+-]?\d{1,2})?"
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,32}m|\x1b\]8;[^\x1b\x07\n]{0,4096}(?:\x1b\\|\x07)")
_INDENT = r"^[ \t]{0,80}"  # of a report quoted in a notebook or a document
_UNIT = re.compile(rf"{_INDENT}Timer unit: ({_NUMBER}) s[ \r]*$", re.MULTILINE)
_TOTAL = re.compile(rf"{_INDENT}Total time: ({_NUMBER}) s[ \r]*$", re.MULTILINE)
_FILE = re.compile(rf"{_INDENT}(?:File: |Could not find file )(.+?)[ \r]*$", re.MULTILINE)
_FUNCTION = re.compile(rf"{_INDENT}Function: (.*) at line (\d{{1,9}})[ \r]*$", re.MULTILINE)
_HEADER = re.compile(
    rf"({_INDENT}Line # +Hits +Time +Per Hit +% Time  )Line Contents[ \r]*\n[ \t]{{0,80}}=+[ \r]*\n", re.MULTILINE
)
_LINE = re.compile(r"[ \t]*(\d{1,9})\b")
_MEASURED = re.compile(rf"[ \t]*(\d{{1,9}}) +({_NUMBER}) +({_NUMBER}) +(\S+)(?: +(\d+\.\d))?(?:  (.*))?$")

# The modules in which line_profiler kept its class: up to 3, 4, and from 5 on
_CLASSES = frozenset(
    ("_line_profiler LineStats", "line_profiler._line_profiler LineStats", "line_profiler.line_profiler LineStats")
)
_TOO_MANY = 2**63
_OPERATIONS = 3_000_000  # some seconds of reading; a line takes six


@dataclass
class Line:
    """One line that ran. time_ns: exact, not rounded to whole ns. text: the source, None where unknown."""

    number: int
    hits: int
    time_ns: Fraction
    text: str | None = None


@dataclass
class Function:
    """One profiled function: its file, name and first line (0 where unknown), and the lines of it that ran.

    total_ns: as printed, None where it is not. name: empty where the source was not found.
    """

    file: str
    name: str
    first: int
    unit_s: str
    lines: list[Line] = field(default_factory=list)
    total_ns: Fraction | None = None
    unreadable: int = 0

    @property
    def time_ns(self) -> Fraction:
        """The sum over the lines."""
        return sum((line.time_ns for line in self.lines), Fraction(0))


def is_report(text: str) -> bool:
    """Return whether a text has the line of the timer's unit or the header of a table, wherever they stand."""
    return _UNIT.search(text) is not None or _HEADER.search(text) is not None


def parse_text(text: str, place: str) -> list[Function]:
    """Return the functions of a report, of any version, in colour or not, indented or not, with other output around its tables.

    Raises EvidenceError when there is no table or a table comes before the timer's unit.
    """
    text = _COLOURS.sub("", text) if "\x1b" in text else text
    functions = []
    unit = None
    end = 0
    for header in _HEADER.finditer(text):
        before = text[end : header.start()]
        units = _UNIT.findall(before)
        unit = units[-1] if units else unit
        if unit is None:
            raise EvidenceError(f"{place}: a table without the line 'Timer unit: ... s' before it; keep the report whole")
        function = _function(before, unit)
        end = _read_rows(text, header, function)
        functions.append(function)
    if not functions:
        raise EvidenceError(f"{place}: no table of line_profiler; write one with python -m line_profiler FILE.lprof")
    return functions


def _function(before: str, unit: str) -> Function:
    """Return the function that the lines above a table describe."""
    totals, files, names = _TOTAL.findall(before), _FILE.findall(before), _FUNCTION.findall(before)
    name, first = names[-1] if names else ("", "0")
    total = Fraction(totals[-1]) * 1_000_000_000 if totals else None
    return Function(files[-1] if files else "", name, int(first), unit, total_ns=total)


def _read_rows(text: str, header: re.Match[str], function: Function) -> int:
    """Read a table's rows up to the first line that is none; return where it stands.

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
        if number is None:
            break
        position = end + 1
        if not row[number.end() : contents].strip():
            continue
        match = _MEASURED.match(row)
        if match is None:
            function.unreadable += 1
            continue
        hits, time = Fraction(match[2]), Fraction(match[3])
        function.lines.append(Line(int(match[1]), round(hits), time * unit_ns, (match[6] or "").strip() or None))
    return position


class _Mark:
    """What MARK puts on the stack."""


class _LineStats:
    """Stands for LineStats, whichever module it was in. It holds what it is given and does nothing."""

    def __init__(self) -> None:
        self.state: Any = None


class _Machine:
    """Executes the few operations that a pickle of LineStats consists of, and no other.

    It imports nothing and calls nothing: the only class there is stands for LineStats. Keys are looked at before they are
    hashed, sizes are bounded by the file's, and nothing is copied, so a hostile file can only be refused.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """Return what a pickle builds; raise ValueError, IndexError or KeyError where it is none of LineStats."""
        for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
            if count >= _OPERATIONS:
                raise ValueError(f"more than {_OPERATIONS} operations")
            if operation.name == "STOP":
                return self.stack.pop()
            self._step(operation.name, argument)
        raise ValueError("no end")

    def _step(self, name: str, argument: Any) -> None:
        if name in ("PROTO", "FRAME"):
            return
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name in _TUPLES:
            size = _TUPLES[name]
            self.stack[-size:] = [tuple(self.stack[-size:])]
        else:
            self._build(name, argument)

    def _build(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name == "TUPLE":
            stack.append(tuple(self._marked()))
        elif name in ("APPEND", "APPENDS"):
            values = self._marked() if name == "APPENDS" else [stack.pop()]
            _of(stack[-1], list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self._marked() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            target = _of(stack[-1], dict)
            target.update({_key(key): value for key, value in zip(values[::2], values[1::2], strict=True)})
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            function = stack.pop() if name == "STACK_GLOBAL" else ""
            wanted = argument if name == "GLOBAL" else f"{_of(stack.pop(), str)} {_of(function, str)}"
            if wanted not in _CLASSES:
                raise ValueError(f"wants {wanted[:100]!r}, which is not line_profiler's")
            stack.append(_LineStats)
        elif name in ("NEWOBJ", "REDUCE"):
            if stack.pop() != () or stack.pop() is not _LineStats:
                raise ValueError(f"{name} of something else than LineStats")
            stack.append(_LineStats())
        elif name == "BUILD":
            state = stack.pop()
            _of(stack[-1], _LineStats).state = state
        else:
            raise ValueError(f"operation {name}, which line_profiler's files do not have")

    def _marked(self) -> list[Any]:
        """Take what lies above the last mark off the stack, and the mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[place], _Mark):
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise ValueError("no mark")


_VALUES = frozenset(
    (
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    )
)  # fmt: skip
_CONSTANTS: dict[str, Any] = {
    "MARK": _Mark, "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_DICT": dict,
    "EMPTY_LIST": list, "EMPTY_TUPLE": tuple,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__} where a {kind.__name__} is needed")
    return value


def _key(value: Any) -> Any:
    """Return a key that can be hashed at no cost: a text, or a tuple of texts and numbers."""
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) > 3 or not all(isinstance(part, str | int) for part in parts):
        raise ValueError("a key that is neither a text nor a function's (file, line, name)")
    return value


def parse_pickle(content: bytes, place: str) -> list[Function]:
    """Return the functions of a .lprof file; raise EvidenceError when it is none, or asks for anything else than its data."""
    try:
        stats = _Machine().run(content)
        state = _of(_of(stats, _LineStats).state, dict)
        timings, unit = _of(state["timings"], dict), state["unit"]
        if not isinstance(unit, int | float) or not 1e-15 <= unit <= 1e6:
            raise ValueError("no timer's unit")
        return list(_stored(timings, str(unit), len(content)))
    except KeyError as error:
        raise EvidenceError(f"{place}: no .lprof file (no {error}); write it with kernprof -l or dump_stats") from error
    except (ValueError, IndexError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvidenceError(f"{place}: no .lprof file ({reason}); write it with kernprof -l or dump_stats") from error


def _stored(timings: dict[Any, Any], unit: str, size: int) -> Iterator[Function]:
    """Return the functions of a table (file, line, name) -> [(line, hits, time)]. size: more lines there cannot be."""
    unit_ns = Fraction(unit) * 1_000_000_000
    for key, rows in timings.items():
        file, first, name = _of(key, tuple)
        function = Function(_text(file), _text(name), _natural(first), unit)
        size -= len(_of(rows, list))
        if size < 0:
            raise ValueError("more lines than the file has bytes for")
        for row in rows:
            number, hits, time = _of(row, tuple)
            if not isinstance(time, int | float) or not 0 <= time < _TOO_MANY:
                raise ValueError("a line's time that is no number of the timer's units")
            function.lines.append(Line(_natural(number), _natural(hits), Fraction(time) * unit_ns))
        yield function


def _natural(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _TOO_MANY:
        raise ValueError("a line that is not (line, hits, time)")
    return value


def _text(value: Any) -> str:
    """Return a text without halves of characters, which pickles can hold and nothing else."""
    return str(_of(value, str)).encode("utf8", errors="replace").decode("utf8")
