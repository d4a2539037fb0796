"""Tables of torch.profiler that count in two ways: where both tell operators' own time on the device, both count by operators."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from kernelscope.analysis.explain.device.side import CaptureSide
from kernelscope.analysis.kernels import classify
from kernelscope.analysis.trace import UNLISTED, Trace, conform

_OPERATORS, _KERNELS = "operators", "kernels"
_LEAST = 0.2  # of the time of a table's kernels that its operators must tell; less says little


def alike(a: CaptureSide, b: CaptureSide) -> tuple[CaptureSide, CaptureSide]:
    """Return both sides counted by operators, if the one counted by kernels tells its operators' own times; else as they are."""
    sides = a, b
    if {side.trace.info.get("counted") for side in sides} != {_OPERATORS, _KERNELS}:
        return a, b
    if any(not side.trace.info.get("device_own") for side in sides):
        return a, b
    found = [side.trace if side.trace.info["counted"] == _OPERATORS else _by_operators(side.trace) for side in sides]
    if None in found:
        return a, b
    first, second = (replace(side, trace=trace) for side, trace in zip(sides, found, strict=True) if trace is not None)
    return first, second


def _by_operators(trace: Trace) -> Trace | None:
    """Return a table of kernels by operators; the time that these lack is in rows that were not printed. None if unlike."""
    own = {name: one for name, one in trace.info["device_own"].items() if one["ns"] > 0}
    whole = int(trace.kernels["duration_ns"].sum()) + int(trace.copies["duration_ns"].sum())
    told = sum(int(one["ns"]) for one in own.values())
    if not _LEAST * whole <= told <= whole:
        return None  # more than all of it: other times than the kernels'
    rows = [
        {"name": name, "operator": name, "kind": classify.operator_kind(name), "count": one["calls"], "duration_ns": one["ns"]}
        for name, one in own.items()
    ]
    if told < whole:
        rows.append({"name": UNLISTED, "kind": classify.UNKNOWN, "count": 0, "duration_ns": whole - told})
    device = trace.kernels["device"].dropna()
    frame = pd.DataFrame(rows).assign(device=device.iloc[0] if len(device) else None, attribution="none")
    info = {**trace.info, "counted": _OPERATORS}
    return Trace(
        kernels=conform("kernels", frame), totals=trace.totals, metrics=trace.metrics, info=info, diagnostics=trace.diagnostics
    )
