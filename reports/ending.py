"""What `profile` prints at its end: the answer, the advice, and the longest layers and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kernelscope.reports import advice, text
from kernelscope.reports.trimmed import Trimmed

MOST = 5  # rows of each table

Rows = Sequence[Mapping[str, Any]]


def shown(result: Mapping[str, Any], layers: Rows, kernels: Rows) -> Trimmed:
    """Return the summary of a run.

    result: its advice (analysis.advise). layers, kernels: rows of name, time_ns and count per step, longest first.
    """
    step_ns = int(result["step_ns"])
    named = (("layer", layers), ("kernel", kernels))
    tables: list[RenderableType] = [_table(title, rows, step_ns) for title, rows in named if rows]
    return Trimmed(Group(advice.AdviceText(result), Text(), Columns(tables, padding=(0, 4))))


def _table(title: str, rows: Rows, step_ns: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    counted = "kernels" if title == "layer" else "calls"
    for name, justify in (("ms", "right"), ("share", "right"), (counted, "right"), (title, "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows[:MOST]:
        share = advice.share(row["time_ns"], step_ns)
        calls = f"{row['count']:,.0f}" if row["count"] >= 1 else f"{row['count']:.2g}"
        table.add_row(f"{row['time_ns'] / 1e6:,.3f}", share, calls, text.printable(str(row["name"])))
    return table
