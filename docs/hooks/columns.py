"""The reference of columns, made from where the code declares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from markup import cell, prose

from kernelscope.analysis import breakdowns, columns, sweeps, trace


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
    """Yield a table of columns; a type and whether a value may be null only where the code declares them."""
    yield from ("| column | unit | meaning |", "|---|---|---|")
    for column in declared:
        yield f"| <code>{cell(column.name, code=True)}</code> | {cell(column.unit)} | {cell(column.meaning)} |"


def _keys() -> Iterator[str]:
    yield from (f"| {by} | {cell(', '.join(keys))} |" for by, keys in breakdowns.BY.items())


def _words() -> Iterator[str]:
    for name, words in (
        ("phase", trace.PHASES),
        ("kind", trace.KINDS),
        ("method, attribution", trace.METHODS),
        ("operation of copies", trace.COPY_OPERATIONS),
        ("status of a cell", sweeps.STATUSES),
    ):
        yield f"| {name} | {cell(', '.join(words))} |"
