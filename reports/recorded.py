"""The remark before a breakdown: how much longer the recorded step is than the clean one, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelscope.reports import breakdown_grid, units
from kernelscope.reports.text import printable

if TYPE_CHECKING:
    from kernelscope.analysis.explain.recording_cost import Cost


def sentence(cost: Cost) -> str:
    """Return one line with both steps, the rows that recording made longer, and how that is known."""
    both = f"times below are of the recorded step, {units.duration(cost.recorded_ns)}, which takes"
    line = f"{both} {units.ratio(cost.recorded_ns / cost.clean_ns)} the clean one, {units.duration(cost.clean_ns)}"
    if cost.recorded_ns < cost.clean_ns:
        return f"{line}: the steps do different work, or the machine was busy"
    if cost.growth is not None:
        grown = f"from {units.duration(cost.growth.first_ns)} to {units.duration(cost.growth.last_ns)}"
        return f"{line}: steps get longer as the program runs, {grown}, and the recorded ones came later"
    if not cost.rows:
        return line
    named = ", ".join(
        f"{_name(cost.by, row)} ({units.duration(row['cost_ns'])} of {units.duration(row['time_ns'])})" for row in cost.rows
    )
    how = "as the layers pass shows" if cost.from_layers else "judged by the number of events recorded there"
    return f"{line}; recording cost most in {named}, {how}"


def _name(by: str, row: dict[str, object]) -> str:
    names, _ = breakdown_grid.keys({"by": by})
    named = dict.fromkeys([*names, "layer", "phase"])
    return " ".join(printable(row[key]) for key in named if row.get(key) is not None)
