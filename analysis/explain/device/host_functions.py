"""The functions, or lines, of the host's program in which the device idles, side by side, where both recordings hold them."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.breakdowns import breakdowns
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import DeviceCase
from kernelscope.analysis.explain.device.side import DeviceSide

_LEAST = 0.1  # of the difference that is told of
_MOST = 3
_KEY = "explain: host functions"


def sentences(case: DeviceCase, delta_ns: float) -> list[str]:
    """Return where the host is while the device idles, by what differs most; nothing where none of it is much of delta_ns."""
    a, b = (_kept(side) for side in (case.a, case.b))
    if a.empty or b.empty:
        return []
    both = pd.DataFrame({"a": a, "b": b}).fillna(0.0)
    change = both["b"] - both["a"]
    told = change[((change > 0) == (delta_ns > 0)) & (change.abs() >= _LEAST * abs(delta_ns))]
    names = told.sort_values(key=lambda ns: -ns.abs(), kind="stable").head(_MOST).index
    parts = [
        f"{name} ({words.duration(both.loc[name, 'a'])} in {case.a.name}, {words.duration(both.loc[name, 'b'])} in {case.b.name})"
        for name in names
    ]
    return [f"Meanwhile the host is in {', '.join(parts)}."] if parts else []


def _kept(side: DeviceSide) -> pd.Series:
    """Return what `_idle` does, made once: several rules ask for it."""
    if _KEY not in side.trace.derived:
        side.trace.derived[_KEY] = _idle(side)
    result: pd.Series = side.trace.derived[_KEY]
    return result


def _idle(side: DeviceSide) -> pd.Series:
    """Return how long the device idles a step while the host is in each function, or line, of the program: ns by its name."""
    if side.trace.host_lines.empty:
        return pd.Series(dtype=float)
    result = breakdowns(side.trace, ("line",))["line"]
    if isinstance(result, str):
        return pd.Series(dtype=float)
    table = result.table[result.table["file"].notna().to_numpy(bool)]
    file = table["file"].astype("string").str.rpartition("/")[2]  # installed elsewhere, it is the same
    return table["idle_ns"].astype(float).groupby(file + " " + table["function"].astype("string")).sum()
