"""The time of the program's lines in a clean step of one side.

Each instant of the recorded step belongs to one line, so a line's own time does not include functions that it calls. If
recording made the step longer, a line keeps the share that the account keeps of what ran while the host was in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.accounting.levels import KEYS
from kernelscope.analysis.accounting.partition import by_line, partition
from kernelscope.analysis.attribution import host_lines
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.instrumentation import factors
from kernelscope.analysis.explain.model import Side


def times(side: Side) -> pd.DataFrame | None:
    """Return the time of each statement in a step: file, line, last_line, time_ns, profiled_ns; None if lines were not timed.

    profiled_ns: including what the line calls, from the lines pass, whose timing lengthens it. It is scaled to the clean step
    as a whole.
    """
    try:
        table = breakdown(side.trace, "line").table
    except EvidenceError:
        return None
    if not side.trace.host_lines.empty:
        table = table.assign(time_ns=_without_cost(side, table))
    lines_ns = int(side.trace.info.get("lines_step_ns") or 0)
    if "profiled_ns" in table and side.clean_ns is not None and lines_ns > side.clean_ns:
        table["profiled_ns"] = (table["profiled_ns"] * (side.clean_ns / lines_ns)).round().astype("Int64")
    lines = side.trace.lines[["file", "function", "line", "last_line"]].drop_duplicates(["file", "function", "line"])
    return table.merge(lines, on=["file", "function", "line"], how="left")


def _without_cost(side: Side, table: pd.DataFrame) -> pd.Series[Any]:
    """Return the time of each row of a breakdown by line without the cost of recording, if the host itself computes."""
    trace = side.trace
    if side.clean_ns is None or side.by_device or host_lines.computes_behind(trace):
        return table["time_ns"]
    found, (known, crossed) = partition(trace), by_line(trace)
    recorded_ns = found.cells["time_ns"].to_numpy(float)
    kept = factors(found.cells[list(KEYS)], recorded_ns, float(side.clean_ns), side.layers_ns, side.grouped, side.events)
    left_ns = crossed["time_ns"].to_numpy(float) * kept[crossed["cell"].to_numpy()] / max(len(found.steps), 1)
    sums = np.bincount(crossed["code"].to_numpy(), weights=left_ns, minlength=len(known))
    keyed = known.assign(left_ns=sums).astype({name: table[name].dtype for name in host_lines.KEYS})
    left = table[host_lines.KEYS].merge(keyed, on=host_lines.KEYS, how="left")["left_ns"].to_numpy(float)
    return pd.Series(np.where(np.isnan(left), table["time_ns"], left).round().astype(np.int64), index=table.index)


def of_lines(table: pd.DataFrame | None, path: str | None, first: int, count: int, column: str = "time_ns") -> int | None:
    """Return the time of the statements that include one of these lines; 0 for no lines, None if nothing was timed.

    table: from `times`. column: time_ns, or profiled_ns, which includes what they call.
    """
    if not count or path is None:
        return 0
    if table is None:
        return None
    last = table["last_line"].fillna(table["line"])
    mine = (table["file"] == path) & (table["line"] <= first + count - 1) & (last >= first)
    result = table.loc[mine.fillna(False).to_numpy(bool), column] if column in table else pd.Series(dtype="Int64")
    return int(result.sum()) if result.notna().any() or column == "time_ns" else None


def longest(table: pd.DataFrame | None, path: str | None, lines: Sequence[int]) -> int | None:
    """Return which of these lines begins the statement that takes longest; None if none takes any time."""
    if table is None:
        return None
    mine = table[((table["file"] == path) & table["line"].isin(list(lines))).fillna(False).to_numpy(bool)]
    if not len(mine) or not mine["time_ns"].max():
        return None
    return int(mine.sort_values("time_ns", kind="stable")["line"].iloc[-1])
