"""Tables and breakdowns as CSV, Markdown and JSON: for spreadsheets, pull requests and programs.

CSV and JSON hold the numbers as they are (ns, bytes, shares of 1; unknown is empty or null); Markdown is for reading. What takes
long to be imported is not: a stored breakdown is shown in less time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernelscope.reports import units
from kernelscope.reports.renderers import to_markdown
from kernelscope.reports.table import Table, of_rows


def breakdown_table(breakdown: Mapping[str, Any]) -> Table:
    """Return the rows of a breakdown's envelope with all their columns."""
    rows = breakdown["rows"]
    columns = tuple(rows[0]) if rows else ("count", "duration_ns", "time_ns", "share", "method")
    return of_rows(str(breakdown["by"]), rows, columns)


def to_json(result: Mapping[str, Any]) -> str:
    """Return a comparison or a breakdown's envelope as JSON; what is no finite number must be null already."""
    return json.dumps(result, indent=1, allow_nan=False) + "\n"


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
