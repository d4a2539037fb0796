"""Show what a kernel's name and its operator reveal: kind, library, algorithm, type, tensor cores."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from kernelscope.analysis.kernels.names import describe
from kernelscope.cli.output import FORMATS, write_rows
from kernelscope.reports.text import printable

PHASES = ("forward", "backward", "optimizer", "data", "other")

Row = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="a kernel's name, mangled or not; - reads names from stdin")
    parser.add_argument("--operator", metavar="OP", help="the operator that launched it, such as aten::convolution_backward")
    parser.add_argument("--phase", choices=PHASES, help="the phase of the step in which it ran")
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print what each name reveals; a name that no rule matches is no error."""
    rows = [_row(name, arguments.operator, arguments.phase) for name in _names(arguments.names)]
    if arguments.format in ("table", "markdown"):
        rows = _readable(rows)
    write_rows(rows, arguments.format, "What the names reveal", "classify")
    return 0


def _names(given: Sequence[str]) -> Iterator[str]:
    """Yield the names; "-" stands for those on stdin, one a line."""
    for name in given:
        if name != "-":
            yield name
            continue
        for line in sys.stdin.buffer:
            if text := line.decode("utf8", errors="replace").strip():
                yield text


def _row(name: str, operator: str | None, phase: str | None) -> Row:
    found = describe(name, operator, phase)
    return {
        "name": name,
        "kind": found.kind,
        "library": found.library,
        "algorithm": found.algorithm,
        "dtype": found.dtype,
        "transpose": found.transpose,
        "tensor_core": found.tensor_core,
        "tile": found.tile,
        "decided_by": found.decided_by,
        "rule": None if found.position is None else found.position + 1,
        "pattern": found.rule.pattern if found.rule else None,
        "example": found.rule.example if found.rule else None,
        "explanation": _explanation(found, operator),
    }


def _explanation(found: Any, operator: str | None) -> str:
    """Say which rules the name and the operator match."""
    if found.rule is None:
        words = "no rule matches the name"
    elif found.rule.kind is None:
        words = f"rule {found.position + 1} knows the library only"
    else:
        words = f"rule {found.position + 1} says that it is {found.rule.kind}"
    if operator is None:
        return words
    known = found.operator_kind != "unknown"
    return f"{words}; the operator is {found.operator_kind}" if known else f"{words}; no rule matches the operator"


def _readable(rows: list[Row]) -> list[Row]:
    """Return the rows for reading: one name as a list of its properties, several names as a line each."""
    shown = [{key: printable(value, None) if isinstance(value, str) else value for key, value in row.items()} for row in rows]
    if len(shown) != 1:
        return [{key: value for key, value in row.items() if key not in ("pattern", "example", "explanation")} for row in shown]
    return [{"": key.replace("_", " "), "what": value} for key, value in shown[0].items()]
