"""The host's functions or lines during which the device is idle, side by side, if both recordings hold them."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.breakdowns import breakdowns
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import DeviceCase
from kernelscope.analysis.explain.device.side import DeviceSide

_LEAST = 0.1  # share of the difference that a function must have to be named
_MOST = 3
_KEY = "explain: host functions"


def sentences(case: DeviceCase, delta_ns: float) -> list[str]:
    """Return a sentence on where the host is while the device is idle, largest difference first; none if all are small.

    delta_ns: the difference in idle time, which a function must be a part of.
    """
    a, b = (_kept(side) for side in (case.a, case.b))
    if a.empty or b.empty:
        return []
    both = pd.DataFrame({"a": a, "b": b}).fillna(0.0)
    change = both["b"] - both["a"]
    large = change[((change > 0) == (delta_ns > 0)) & (change.abs() >= _LEAST * abs(delta_ns))]
    names = large.sort_values(key=lambda ns: -ns.abs(), kind="stable").head(_MOST).index
    parts = [
        f"{name} ({words.duration(both.loc[name, 'a'])} in {case.a.name}, {words.duration(both.loc[name, 'b'])} in {case.b.name})"
        for name in names
    ]
    return [f"Meanwhile the host is in {', '.join(parts)}."] if parts else []


def _kept(side: DeviceSide) -> pd.Series:
    """Return the cached result of `_idle`: several rules ask for it."""
    if _KEY not in side.trace.derived:
        side.trace.derived[_KEY] = _idle(side)
    result: pd.Series = side.trace.derived[_KEY]
    return result


def _idle(side: DeviceSide) -> pd.Series:
    """Return the device's idle time per step in each of the host's functions or lines: ns by name."""
    if side.trace.host_lines.empty:
        return pd.Series(dtype=float)
    result = breakdowns(side.trace, ("line",))["line"]
    if isinstance(result, str):
        return pd.Series(dtype=float)
    table = result.table[result.table["file"].notna().to_numpy(bool)]
    file = table["file"].astype("string").str.rpartition("/")[2]  # the same file may be installed elsewhere on the other side
    return table["idle_ns"].astype(float).groupby(file + " " + table["function"].astype("string")).sum()
