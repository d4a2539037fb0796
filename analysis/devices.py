"""How busy each device of a capture was: its kernels' durations added, and the time in which at least one of them ran."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelscope.analysis import intervals
from kernelscope.analysis.trace import Trace


def busy(trace: Trace) -> list[dict[str, Any]]:
    """Return one row per device that ran kernels: device, name, kernels, kernel_sum_ns and kernel_busy_ns.

    kernel_busy_ns is the length of the union of the kernels' intervals; null where the source gives totals only.
    """
    names = {entry["device"]: entry.get("name") for entry in trace.info.get("devices", [])}
    rows = []
    for device, kernels in trace.kernels.groupby("device", observed=True, sort=True):
        timed = kernels[kernels["start_ns"].notna()]
        start, end = (timed[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
        row = {"device": device, "name": names.get(device), "kernels": int(kernels["count"].sum())}
        row["kernel_sum_ns"] = int(kernels["duration_ns"].sum())
        row["kernel_busy_ns"] = round(float(intervals.shares(start, end).sum())) if len(timed) == len(kernels) else None
        rows.append(row)
    return rows
