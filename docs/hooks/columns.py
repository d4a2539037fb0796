"""The reference of columns, made from where the code declares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from markup import cell, prose

from kernelscope.analysis import trace
from kernelscope.analysis.accounting import breakdowns
from kernelscope.analysis.comparisons import sweeps
from kernelscope.reports import columns


def page() -> str:
    """Return the page: what results hold, what the Trace holds, what sweeps hold."""
    lines = ["# Columns", "", prose(columns.__doc__ or ""), ""]
    lines += ["## Tables of results", ""]
    for name, table in columns.TABLES.items():
        lines += [f"### {name} {{ #{name.replace(' ', '-')} }}", "", prose(table.what), "", *_rows(table.columns), ""]
        lines += ["| `--by` | a row is one |", "|---|---|", *_keys(), ""] if name == "breakdown" else []
    lines += ["## The Trace", "", prose(trace.__doc__ or ""), ""]
    for name, declared in trace.TABLES.items():
        lines += [f"### trace.{name} {{ #trace-{name} }}", "", *_rows(declared), ""]
    lines += ["## Sweeps: results.parquet", "", prose(sweeps.__doc__ or ""), "", *_rows(sweeps.COLUMNS), ""]
    lines += ["## Fixed words", "", "| word in a column | one of |", "|---|---|", *_words()]
    return "\n".join(lines) + "\n"


def _rows(declared: Iterable[Any]) -> Iterator[str]:
    """Yield a table of columns, with their types where the code declares them."""
    columns = [(column, _type(column)) for column in declared]
    heads = ["column", *(["type"] if any(kind for _, kind in columns) else []), "unit", "meaning"]
    yield from (f"| {' | '.join(heads)} |", "|---" * len(heads) + "|")
    for column, kind in columns:
        name = f"<code>{cell(column.name, code=True)}</code>"
        row = [name, *([cell(kind)] if "type" in heads else []), cell(column.unit), cell(column.meaning)]
        yield f"| {' | '.join(row)} |"


def _type(column: Any) -> str:
    """Return a declared column's type in words and whether it may be null; nothing where none is declared."""
    kind = str(getattr(column, "dtype", getattr(column, "type", "")))
    never = getattr(column, "required", kind in ("int64", "float64", "bool"))
    words = {"category": "text", "string": "text", "double": "float64", "list<item: double>": "list of float64"}
    return kind and words.get(kind, kind.lower()) + ("" if never else ", or null")


def _keys() -> Iterator[str]:
    yield from (f"| {by} | {cell(', '.join(keys))} |" for by, keys in breakdowns.BY.items())


def _words() -> Iterator[str]:
    for name, words in (
        ("phase (PHASES)", trace.PHASES),
        ("kind (KINDS)", trace.KINDS),
        ("method, attribution (METHODS)", trace.METHODS),
        ("operation of copies (COPY_OPERATIONS)", trace.COPY_OPERATIONS),
        ("status of a cell (STATUSES)", sweeps.STATUSES),
    ):
        yield f"| {name} | {cell(', '.join(words))} |"
