"""Tables and breakdowns as CSV, Markdown and JSON: for spreadsheets, pull requests and programs.

CSV and JSON keep the exact numbers (ns, bytes, shares of 1; unknown is empty or null); Markdown is for reading. This module
imports nothing slow, so a stored breakdown is shown quickly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernelscope.reports import breakdown_grid, breakdown_words, text, units
from kernelscope.reports.renderers import markdown_table
from kernelscope.reports.table import Table, of_rows

_NOTHING = (None, "none")  # columns with only these values are left out for reading


def breakdown_table(breakdown: Mapping[str, Any]) -> Table:
    """Return the rows of a breakdown's envelope with all their columns."""
    rows = breakdown["rows"]
    columns = tuple(rows[0]) if rows else ("count", "duration_ns", "time_ns", "share", "method")
    return of_rows(str(breakdown["by"]), rows, columns)


def to_json(result: Mapping[str, Any]) -> str:
    """Return a comparison or a breakdown's envelope as JSON; infinite numbers and NaN must already be null."""
    return json.dumps(result, indent=1, allow_nan=False) + "\n"


def breakdown_markdown(breakdown: Mapping[str, Any]) -> str:
    """Return a breakdown for reading, with its total and coverage."""
    rows = breakdown["rows"]
    unit = units.common_unit([breakdown_words.whole_ns(breakdown)])
    numbered = ("count", "duration_ns", "time_ns", "share", *breakdown_words.EXECUTIONS)
    keys = [name for name in breakdown_table(breakdown).columns if name not in (*numbered, "std_ns")]
    keys = [name for place, name in enumerate(keys) if not place or any(row.get(name) not in _NOTHING for row in rows)]
    apart = breakdown_words.kernels_apart(rows) if keys[:1] == ["kernel"] else {}
    single = breakdown_words.executions(rows)
    heads = [*keys[:1], f"{unit} per {breakdown_words.whole(breakdown)}", "share", "calls", *single.values(), *keys[1:]]
    times = [_own(breakdown, row) for row in rows]
    cells = [
        [
            " · ".join(filter(None, (breakdown_grid.named(row, keys[0]), apart.get(str(row.get("kernel")))))),
            units.in_unit(time, unit, 3),
            units.percent(share),
            breakdown_grid.called(breakdown, row),
            *(breakdown_words.execution(row, key) for key in single),
            *(row.get(name) for name in keys[1:]),
        ]
        for row, (time, share) in zip(rows, times, strict=True)
    ]
    right = range(1, 4 + len(single))
    whole = [
        "**mean**" if breakdown["by"] == "step" else "**total**",
        units.in_unit(breakdown_words.whole_ns(breakdown), unit, 3),
        "100.0%",
        *[""] * (len(heads) - 3),
    ]
    escaped = [[text.markdown(cell) for cell in row] for row in cells]
    table = markdown_table([text.markdown(head) for head in heads], [*escaped, whole], right)
    known = breakdown_words.known(breakdown) + (f", {units.counted(breakdown['steps'], 'step')}" if breakdown["steps"] else "")
    return f"### {breakdown_words.whole(breakdown).capitalize()} {breakdown_words.by(breakdown)}\n\n{table}\n{known}\n"


def _own(breakdown: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[int, float]:
    """Return a row's time in ns and its share of the whole; for a step its own time and the ratio to the mean step."""
    if breakdown["by"] == "step":
        return int(row["duration_ns"]), int(row["duration_ns"]) / max(breakdown_words.whole_ns(breakdown), 1)
    return breakdown_words.row_ns(row), float(row["share"])
