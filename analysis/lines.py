"""Host lines of the lines pass at the level of statements.

Which line of a statement that spans several gets a call's time depends on the interpreter: older ones trace its last line,
newer ones its first, some both in turn. So lines are gathered into statements: time adds up; executions are those of the
line that ran most.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import conform

FILE = "lines.json"
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_TOTALS = {
    "file": "string",
    "function": "string",
    "line": "int64",
    "last_line": "Int64",
    "calls": "int64",
    "time_ns": "int64",
    "text": "string",
}


@dataclass(frozen=True)
class _Statement:
    """Lines of one simple statement or of one compound statement's header, counted within the function from 1."""

    first: int
    last: int


def statements(folder: Path) -> pd.DataFrame:
    """Return the table `lines` of analysis.trace from the lines.json in a pass's folder: one row a statement that ran.

    Raises EvidenceError when the file is missing or is not what the lines pass writes.
    """
    record = _load(folder)
    unit = _unit_ns(record)
    rows = [row for function in record["functions"] for row in _function_rows(function, unit)]
    return conform("lines", pd.DataFrame(rows, columns=["file", "function", "line", "last_line", "text", "hits", "time_ns"]))


def function_totals(folder: Path) -> pd.DataFrame:
    """Return one row a profiled function: file, function, line (of its def), last_line, calls, time_ns and text (its def).

    calls: how often the first line that ran did. time_ns: the sum over its lines, so that time in a profiled function that
    another profiled one calls counts in both. last_line is null where the source could not be read.
    """
    record = _load(folder)
    unit = _unit_ns(record)
    rows = []
    for function in record["functions"]:
        source = function["source"]
        start = int(function["first_line"])
        definition = _definition_line(source)
        timings = sorted(function["timings"])
        rows.append(
            {
                "file": function["file"],
                "function": function["function"],
                "line": start + definition,
                "last_line": start + len(source) - 1 if source else None,
                "calls": int(timings[0][1]) if timings else 0,
                "time_ns": round(sum(int(time) for _, _, time in timings) * unit),
                "text": source[definition].strip() if source else function["function"],
            }
        )
    return pd.DataFrame(rows, columns=list(_TOTALS)).astype(_TOTALS)


def _load(folder: Path) -> dict[str, Any]:
    path = Path(folder) / FILE
    try:
        record = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: cannot be read as host lines: {error}") from error
    if not isinstance(record, dict) or "unit_s" not in record or not isinstance(record.get("functions"), list):
        raise EvidenceError(f"{path}: not what the lines pass writes (no unit_s or functions)")
    return record


def _unit_ns(record: dict[str, Any]) -> Fraction:
    """Return the length of the profiler's unit in ns as an exact number: 1e-06 s is 1000 ns and nothing beside it."""
    return Fraction(str(record["unit_s"])) * 1_000_000_000


def _function_rows(function: dict[str, Any], unit: Fraction) -> Iterator[dict[str, Any]]:
    source: Sequence[str] = function["source"]
    offset = int(function["first_line"]) - 1
    owners = _owners(source)
    gathered: dict[_Statement, list[tuple[int, int]]] = {}
    for line, hits, time in function["timings"]:
        within = int(line) - offset
        statement = owners.get(within, _Statement(within, within))
        gathered.setdefault(statement, []).append((int(hits), int(time)))
    for statement, counts in sorted(gathered.items(), key=lambda item: (item[0].first, item[0].last)):
        lines = source[statement.first - 1 : statement.last] if statement.first >= 1 else []
        yield {
            "file": function["file"],
            "function": function["function"],
            "line": offset + statement.first,
            "last_line": offset + statement.last,
            "text": _one_line(lines),
            "hits": max(hits for hits, _ in counts),
            "time_ns": round(sum(time for _, time in counts) * unit),
        }


def _owners(source: Sequence[str]) -> dict[int, _Statement]:
    """Return the statement that owns each line of a function's source; empty where the source is missing or does not parse.

    Of several statements on one line the first owns it: line by line their times cannot be told apart.
    """
    try:
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (SyntaxError, ValueError):
        return {}
    owners: dict[int, _Statement] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            statement = _extent(node)
            for line in range(statement.first, statement.last + 1):
                owners.setdefault(line, statement)
    return owners


def _extent(node: ast.stmt | ast.ExceptHandler | ast.match_case) -> _Statement:
    """Return the lines of a simple statement, or of a compound statement's header, decorators included."""
    if isinstance(node, ast.match_case):
        first, end = node.pattern.lineno, (node.guard or node.pattern).end_lineno
        return _Statement(first, end or first)
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    inner = [child for name in _BODIES for child in getattr(node, name, []) or []]
    if not inner:
        return _Statement(first, node.end_lineno or first)
    header = [child for child in ast.iter_child_nodes(node) if child not in inner]
    ends = [_end(child) for child in header]
    return _Statement(first, max([first, node.lineno, *ends]))


def _end(node: ast.AST) -> int:
    """Return the last line of an expression or of what holds expressions, such as arguments or a with item."""
    own = getattr(node, "end_lineno", None)
    return int(own) if own else max((_end(child) for child in ast.iter_child_nodes(node)), default=0)


def _definition_line(source: Sequence[str]) -> int:
    """Return how many lines of decorators stand before the def."""
    try:
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (SyntaxError, ValueError):
        return 0
    return tree.body[0].lineno - 1 if tree.body else 0


def _one_line(lines: Sequence[str]) -> str:
    return " ".join(part for part in (line.strip() for line in lines) if part)
