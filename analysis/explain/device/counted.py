"""What hardware counters say of kernels that differ: how busy each unit of the device was, occupancy, bytes and clocks."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kernelscope.analysis.device import counters, limits
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase

_CLOCKS = 0.05  # of the faster clock: a larger difference is told
_BYTES = 0.1  # of the larger traffic: likewise
_KEY = "explain: hardware counters"


def sentences(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return sentences on each side's longest kernel among these rows; none without counters."""
    measured = {key: _longest(case, key, rows) for key in SIDES}
    known = {key: row for key, row in measured.items() if row is not None}
    result = []
    for key, row in known.items():
        limit = limits.of(case.side(key).trace, row)
        result += [f"In {case.side(key).name}, {limit.title}."] if limit is not None else []
    result += [f"Of their peaks {words.kernel(row['kernel'])} uses in {case.side(key).name}: {counters.shares(row)}."
              for key, row in known.items() if counters.shares(row)]  # fmt: skip
    if len(known) < len(SIDES):
        return result
    return [*_clocks(case, known), *result, *_bytes(case, known)]


def remedy(case: DeviceCase, rows: pd.DataFrame) -> str | None:
    """Return what to do about what limits the slower side's longest kernel among these rows; None if its counters do not tell."""
    slow, slower, _, _ = words.slower(case, rows)
    row = _longest(case, slow, rows)
    limit = None if row is None else limits.of(case.side(slow).trace, row)
    return f"in {slower}: {limit.remedy}" if limit is not None else None


def _longest(case: DeviceCase, key: str, rows: pd.DataFrame) -> dict[str, Any] | None:
    """Return the counters of the kernel that takes a side longest in these rows; None if there are none."""
    times = rows.groupby("name")[f"{key}_ns"].sum()
    table = _table(case, key)
    if times.empty or table.empty or times.max() <= 0:
        return None
    mine = table[(table["kernel"] == times.idxmax()).fillna(False).to_numpy(bool)]
    return {str(name): value for name, value in mine.iloc[0].items()} if len(mine) else None


def _table(case: DeviceCase, key: str) -> pd.DataFrame:
    """Return a side's counters by kernel, computed once."""
    derived = case.side(key).trace.derived
    if _KEY not in derived:
        derived[_KEY] = counters.table(case.side(key).trace)
    result: pd.DataFrame = derived[_KEY]
    return result


def _clocks(case: DeviceCase, known: dict[str, dict[str, Any]]) -> list[str]:
    """Return a sentence if the multiprocessors' clocks differ: then so do times of equal work."""
    a, b = (counters.clock_hz(case.side(key).trace, str(known[key]["kernel"])) for key in SIDES)
    if not a or not b or abs(a - b) <= _CLOCKS * max(a, b):
        return []
    return [f"The clocks differ: {a / 1e6:,.0f} MHz in {case.a.name}, {b / 1e6:,.0f} MHz in {case.b.name}."]


def _bytes(case: DeviceCase, known: dict[str, dict[str, Any]]) -> list[str]:
    """Return a sentence if one side moves more data between the device's memory and its cache."""
    a, b = (known[key]["dram_bytes"] for key in SIDES)
    if pd.isna(a) or pd.isna(b) or abs(a - b) <= _BYTES * max(a, b):
        return []
    moved = [f"{words.size(float(count))} in {side.name}" for count, side in ((a, case.a), (b, case.b))]
    return [f"Data moved to and from the device's memory: {', '.join(moved)}."]
