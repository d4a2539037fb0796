"""Tables and breakdowns as CSV, Markdown and JSON: for spreadsheets, pull requests and programs.

CSV and JSON hold the numbers as they are (ns, bytes, shares of 1; unknown is empty or null); Markdown is for reading. What takes
long to be imported is not: a stored breakdown is shown in less time.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kernelscope.reports import text, units


class Table(NamedTuple):
    """A table of plain values: null, text and numbers."""

    name: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


def breakdown_table(breakdown: Mapping[str, Any]) -> Table:
    """Return the rows of a breakdown's envelope with all their columns."""
    rows = breakdown["rows"]
    columns = tuple(rows[0]) if rows else ("count", "duration_ns", "time_ns", "share", "method")
    return of_rows(str(breakdown["by"]), columns, rows)


def to_csv(table: Table) -> str:
    """Return a table as CSV; no cell of it is taken for a formula by a spreadsheet (see text.spreadsheet)."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([text.spreadsheet(column) for column in table.columns])
    writer.writerows([text.spreadsheet(_plain(value)) for value in row] for row in table.rows)
    return buffer.getvalue()


def to_markdown(columns: Sequence[str], rows: Iterable[Sequence[object]], numeric: int = 0) -> str:
    """Return a Markdown table; columns from number `numeric` on are aligned to the right (0: none)."""
    heads = [text.markdown(column) for column in columns]
    right = range(numeric, len(heads)) if numeric else ()
    return markdown_table(heads, ([text.markdown(value) for value in row] for row in rows), right)


def to_json(result: Mapping[str, Any]) -> str:
    """Return a comparison or a breakdown's envelope as JSON; what is no finite number must be null already."""
    return json.dumps(result, indent=1, allow_nan=False) + "\n"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]) -> str:
    """Return a Markdown table of cells that are Markdown already; columns in `right` are aligned to the right."""
    marks = ["---:" if number in right else "---" for number in range(len(heads))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, marks, *rows]) + "\n"


def breakdown_markdown(breakdown: Mapping[str, Any]) -> str:
    """Return a breakdown for reading, with its total and coverage."""
    table = breakdown_table(breakdown)
    shown = [name for name in table.columns if name not in ("duration_ns", "time_ns", "share", "count")]
    unit = units.common_unit([breakdown["step_ns"]])
    rows = [[*(row.get(name) for name in shown), *_numbers(row, unit)] for row in breakdown["rows"]]
    total = ["**total**", *[""] * (len(shown) - 1), units.in_unit(breakdown["step_ns"], unit, 3), "100.0%", ""]
    heads = [*shown, f"{unit} per step", "share", "count"]
    lines = to_markdown(heads, rows, len(shown)).splitlines()
    lines.append(f"| {' | '.join(total)} |")
    known = units.percent(breakdown["coverage"])
    return "\n".join([f"### Step by {breakdown['by']}\n", *lines, f"\ncoverage {known}, {breakdown['steps']} steps\n"])


def _numbers(row: Mapping[str, Any], unit: str) -> list[str]:
    return [units.in_unit(row["time_ns"], unit, 3), units.percent(row["share"]), units.count(row["count"])]


def of_rows(name: str, columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table of some columns of rows, null where a row has none."""
    return Table(name, columns, [[row.get(column) for column in columns] for row in rows])


def _plain(value: Any) -> Any:
    """Return lists and the like as compact JSON text: a cell holds one value."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
