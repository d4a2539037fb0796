"""Renderers of tables: `render` returns text, or for a terminal what rich prints. RENDERERS has them by the names of options.

CSV and JSON keep the exact numbers, and unknown is empty or null; the others are for reading, and unknown is "-".
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rich.console import RenderableType

from kernelscope.reports import text
from kernelscope.reports.fitted import Fitted, heading, shown
from kernelscope.reports.table import Table


class Renderer(Protocol):
    """Renders a table in one format."""

    def render(self, table: Table) -> RenderableType:
        """Return the table: text that ends with a newline, or what rich prints."""


class Csv:
    """Comma-separated values; spreadsheets take no cell for a formula (see text.spreadsheet)."""

    def render(self, table: Table) -> str:
        """See Renderer."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([text.spreadsheet(column) for column in table.columns])
        writer.writerows([text.spreadsheet(_plain(value)) for value in row] for row in table.rows)
        return buffer.getvalue()


class Json:
    """An envelope {"schema": "kernelscope/<name>/1", "rows": [...]}."""

    def render(self, table: Table) -> str:
        """See Renderer."""
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        return json.dumps({"schema": f"kernelscope/{table.name}/1", "rows": rows}, indent=1) + "\n"


class Markdown:
    """A section with a table, as code hosts show it."""

    def render(self, table: Table) -> str:
        """See Renderer."""
        title = f"### {text.markdown(table.title or table.name)}\n\n"
        rows = ([shown(value) for value in row] for row in table.rows)
        return title + (to_markdown([heading(name) for name in table.columns], rows) if table.rows else "(none)\n")


class Terminal:
    """A table that fits a terminal of any width."""

    def render(self, table: Table) -> Fitted:
        """See Renderer."""
        return Fitted(table)


RENDERERS: Mapping[str, Renderer] = {"table": Terminal(), "csv": Csv(), "json": Json(), "markdown": Markdown()}


def to_csv(table: Table) -> str:
    """Return a table as CSV."""
    return Csv().render(table)


def to_markdown(columns: Sequence[str], rows: Iterable[Sequence[object]], numeric: int = 0) -> str:
    """Return a Markdown table; columns from number `numeric` on are aligned to the right (0: none)."""
    heads = [text.markdown(column) for column in columns]
    right = range(numeric, len(heads)) if numeric else ()
    return markdown_table(heads, ([text.markdown(value) for value in row] for row in rows), right)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> str:
    """Return a Markdown table of cells that already are Markdown; columns in `right` are aligned to the right."""
    marks = ["---:" if number in right else "---" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, marks, *rows]) + "\n"


def _plain(value: Any) -> Any:
    """Return lists and mappings as compact JSON text: a cell holds one value."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
