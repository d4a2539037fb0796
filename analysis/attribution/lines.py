"""Host lines of the lines pass, summed to statements.

How a profiler sees a statement of several lines depends on the interpreter. Python 3.6 charges a call to the line of its last
argument; 3.8 and later come back to the first line and count it again. So a statement's time is the sum over its lines, and its
executions are those of the line that ran least among the lines that always run.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.trace import conform

FILE = "lines.json"
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class _Statement(NamedTuple):
    """The lines of a simple statement or of a compound statement's header, counted from 1 within the function.

    maybe: lines that may not run when the statement does, such as the second operand of an "and". counted: whether it is the
    header of a for loop, which runs again for each item. outermost: whether it is in the function's own body and is not a loop.
    """

    first: int
    last: int
    maybe: frozenset[int] = frozenset()
    counted: bool = False
    outermost: bool = False

    def executions(self, hits: dict[int, int]) -> int:
        """Return how often the statement ran, from the hits of its lines."""
        if self.counted:
            return max(hits.values())
        return min((count for line, count in hits.items() if line not in self.maybe), default=max(hits.values()))


def statements(folder: Path) -> pd.DataFrame:
    """Return the table `lines` of analysis.trace from a pass's lines.json: one row for each statement that ran.

    Raises EvidenceError when the file is missing or is not what the lines pass writes.
    """
    record = _load(folder)
    columns = ["file", "function", "line", "last_line", "text", "hits", "time_ns"]
    try:
        unit = _unit_ns(record)
        rows = [row for function in record["functions"] for row in _function_rows(function, unit)]
        return conform("lines", pd.DataFrame(rows, columns=columns))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        path = Path(folder) / FILE
        raise EvidenceError(f"{path}: not what the lines pass writes ({error}); record the run again") from error


def extents(source: Sequence[str], first_line: int) -> dict[int, tuple[int, int | None, str]]:
    """Return the statement that owns each line of a function: its first line, last line and text.

    source: the function's lines. first_line: the number of the first one in its file. Empty if the source does not parse.
    """
    offset = first_line - 1
    return {
        line + offset: (owner.first + offset, owner.last + offset, _one_line(source[owner.first - 1 : owner.last]))
        for line, owner in _owners(source).items()
    }


def _load(folder: Path) -> dict[str, Any]:
    path = Path(folder) / FILE
    try:
        record = json_text.parsed(path.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: cannot be read as host lines: {error}") from error
    if not isinstance(record, dict) or "unit_s" not in record or not isinstance(record.get("functions"), list):
        raise EvidenceError(f"{path}: not what the lines pass writes (no unit_s or functions)")
    return record


def _unit_ns(record: dict[str, Any]) -> Fraction:
    """Return the length of the profiler's unit in ns as an exact number: 1e-06 s is exactly 1000 ns."""
    return Fraction(str(record["unit_s"])) * 1_000_000_000


def _function_rows(function: dict[str, Any], unit: Fraction) -> Iterator[dict[str, Any]]:
    source: Sequence[str] = function["source"]
    offset = int(function["first_line"]) - 1
    for statement, hits, time in _gather(function):
        yield {
            "file": function["file"],
            "function": function["function"],
            "line": offset + statement.first,
            "last_line": offset + statement.last,
            "text": _one_line(source[statement.first - 1 : statement.last]) if source else "",
            "hits": hits,
            "time_ns": round(time * unit),
        }


def _gather(function: dict[str, Any]) -> list[tuple[_Statement, int, int]]:
    """Return the statements that ran, in source order, with their executions and their time in the profiler's unit."""
    offset = int(function["first_line"]) - 1
    owners = _owners(function["source"])
    hits: dict[_Statement, dict[int, int]] = {}
    times: dict[_Statement, int] = {}
    for line, count, time in function["timings"]:
        within = int(line) - offset
        statement = owners.get(within, _Statement(within, within))
        hits.setdefault(statement, {})[within] = int(count)
        times[statement] = times.get(statement, 0) + int(time)
    ordered = sorted(hits, key=lambda statement: (statement.first, statement.last))
    return [(statement, statement.executions(hits[statement]), times[statement]) for statement in ordered]


def _owners(source: Sequence[str]) -> dict[int, _Statement]:
    """Return the statement that owns each line of a function's source; empty if the source is missing or does not parse.

    If several statements share a line, the first owns it: times by line cannot separate them.
    """
    tree = _parse(source)
    if tree is None or not tree.body:
        return {}
    owners: dict[int, _Statement] = {}
    body = getattr(tree.body[0], "body", [])
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            statement = _extent(node, outermost=node in body and not isinstance(node, _LOOPS))
            for line in range(statement.first, statement.last + 1):
                owners.setdefault(line, statement)
    return owners


def _parse(source: Sequence[str]) -> ast.Module | None:
    try:
        return ast.parse(textwrap.dedent("".join(source)))
    except (SyntaxError, ValueError):
        return None


def _extent(node: ast.stmt | ast.ExceptHandler | ast.match_case, outermost: bool) -> _Statement:
    """Return the lines of a simple statement or of a compound statement's header, including decorators."""
    inner = [child for name in _BODIES for child in getattr(node, name, []) or []]
    header = [child for child in ast.iter_child_nodes(node) if child not in inner]
    first = min((line for line in map(_start, [node, *header]) if line), default=1)
    own_end = 0 if inner else _end(node)
    last = max([first, own_end, getattr(node, "lineno", first), *map(_end, header)])
    maybe = frozenset(line for child in header for line in _maybe(child)) - {first}
    return _Statement(first, last, maybe, isinstance(node, ast.For | ast.AsyncFor), outermost)


def _maybe(node: ast.AST) -> Iterator[int]:
    """Yield the lines of those parts of an expression that may not run, or may run more than once, when it is evaluated."""
    for part in ast.walk(node):
        optional: list[ast.expr] = []
        if isinstance(part, ast.BoolOp):
            optional = part.values[1:]
        elif isinstance(part, ast.IfExp):
            optional = [part.body, part.orelse]
        elif isinstance(part, ast.Compare):
            optional = part.comparators[1:]
        elif isinstance(part, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp | ast.Lambda):
            optional = [part]
        for child in optional:
            yield from range(child.lineno, _end(child) + 1)


def _start(node: ast.AST) -> int:
    """Return the first line of a node; 0 for a node without a position, such as an operator."""
    own = getattr(node, "lineno", None)
    return int(own) if own else min((line for line in map(_start, ast.iter_child_nodes(node)) if line), default=0)


def _end(node: ast.AST) -> int:
    """Return the last line of an expression or of a node that contains expressions, such as arguments or a with item."""
    own = getattr(node, "end_lineno", None)
    return int(own) if own else max((_end(child) for child in ast.iter_child_nodes(node)), default=0)


def _one_line(lines: Sequence[str]) -> str:
    return " ".join(part for part in (line.strip() for line in lines) if part)
