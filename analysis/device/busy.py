"""How busy each device of a capture was: the sum of its kernels' durations, and the time in which at least one of them ran."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelscope.analysis.trace import Trace, intervals


def busy(trace: Trace) -> list[dict[str, Any]]:
    """Return one row per device that ran kernels: device, name, kernels, kernel_sum_ns and kernel_busy_ns.

    kernel_busy_ns is the length of the union of the kernels' intervals; null if the source gives only totals.
    """
    names = {entry["device"]: entry.get("name") for entry in trace.info.get("devices", [])}
    rows = []
    kernels = trace.kernels[["device", "start_ns", "end_ns", "count", "duration_ns"]]
    codes = kernels["device"].cat.codes.to_numpy()
    for code, device in enumerate(kernels["device"].cat.categories):
        mine = kernels[codes == code]
        if mine.empty:
            continue
        timed = mine[mine["start_ns"].notna()]
        start, end = (timed[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
        row = {"device": device, "name": names.get(device), "kernels": int(mine["count"].sum())}
        row["kernel_sum_ns"] = int(mine["duration_ns"].sum())
        row["kernel_busy_ns"] = round(float(intervals.shares(start, end).sum())) if len(timed) == len(mine) else None
        rows.append(row)
    return rows
