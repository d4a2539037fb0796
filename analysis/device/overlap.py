"""Concurrency on a device: streams busy at once, computing during copies and communication, and its copies.

Time is that of the measured steps, or of the whole capture if it has no steps. In each table, the times of a device add up to
that window exactly, in integer ns: every instant is in one row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals

Int = npt.NDArray[np.int64]

COMPUTE, COMMUNICATION, COPY = "compute", "communication", "copy"
ACTIVITIES = (COMPUTE, COMMUNICATION, COPY)
IDLE = "idle"
SIZES = ((4 << 10, "up to 4 KiB"), (64 << 10, "up to 64 KiB"), (1 << 20, "up to 1 MiB"), (16 << 20, "up to 16 MiB"))
LARGER = "above 16 MiB"


def streams(trace: Trace) -> pd.DataFrame:
    """Return rows device, streams (the number with work at once; threads of a processor), time_ns and share of the window.

    Kernels, graphs and copies count as work. Raises EvidenceError if nothing has a time.
    """
    windows, rows = _windows(trace), []
    work = _work(trace)
    for device, mine in work.groupby("device", sort=True):
        pieces = []
        for _, stream in mine.groupby("thread", dropna=False, sort=False):
            pieces.append(_union(*_clipped(stream, windows)))
        start, end = (np.concatenate(edges) for edges in zip(*pieces, strict=True))
        for count, time_ns in _levels(start, end, np.ones(len(start), dtype=np.int64), windows).items():
            rows.append({"device": device, "streams": count, "time_ns": time_ns})
    return _with_share(pd.DataFrame(rows, columns=["device", "streams", "time_ns"]), windows)


def activities(trace: Trace) -> pd.DataFrame:
    """Return rows device, activity (such as compute, compute + copy, communication, idle), time_ns and share of the window.

    Communication without compute is exposed. Raises EvidenceError if nothing has a time.
    """
    windows, rows = _windows(trace), []
    for device, mine in _work(trace).groupby("device", sort=True):
        edges = [_union(*_clipped(mine[mine["activity"] == name], windows)) for name in ACTIVITIES]
        weights = [np.full(len(start), 1 << bit, dtype=np.int64) for bit, (start, _) in enumerate(edges)]
        start, end = (np.concatenate(parts) for parts in zip(*edges, strict=True))
        for mask, time_ns in _levels(start, end, np.concatenate(weights), windows).items():
            names = [name for bit, name in enumerate(ACTIVITIES) if mask >> bit & 1]
            rows.append({"device": device, "activity": " + ".join(names) or IDLE, "time_ns": time_ns})
    table = _with_share(pd.DataFrame(rows, columns=["device", "activity", "time_ns"]), windows)
    return table.sort_values(["device", "time_ns"], ascending=[True, False], kind="stable").reset_index(drop=True)


def copies(trace: Trace) -> pd.DataFrame:
    """Return copies by device, operation, memory and size: count, duration_ns, bytes, gbytes_per_s.

    Durations add up to those of all copies. gbytes_per_s: bytes of the copies whose size is known over their time, counted in one
    direction. size: of one copy.
    """
    table = trace.copies
    each = table["bytes"].astype("Float64") / table["count"].where(table["count"] > 0)
    size = pd.Series(LARGER, index=table.index, dtype="string")
    for limit, name in reversed(SIZES):
        size = size.mask((each <= limit).fillna(False), name)
    rows = table[["device", "operation", "memory", "count", "duration_ns", "bytes"]].assign(size=size.mask(each.isna()))
    rows["known_ns"] = rows["duration_ns"].where(rows["bytes"].notna(), 0)
    keys = ["device", "operation", "memory", "size"]
    group = rows.groupby(keys, dropna=False, observed=True, sort=False)
    sums = group[["count", "duration_ns", "known_ns"]].sum()
    sums["bytes"] = group["bytes"].sum(min_count=1)
    result = sums.reset_index()
    timed = result["known_ns"].where(result["known_ns"] > 0).astype("Float64")
    result["gbytes_per_s"] = result["bytes"].astype("Float64") / timed
    result = result.drop(columns="known_ns").sort_values("duration_ns", ascending=False, kind="stable")
    return result.reset_index(drop=True)


_Windows = tuple[Int, Int]


def _windows(trace: Trace) -> _Windows:
    """Return starts and ends of the measured steps, or of the whole capture if it has none."""
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    if len(steps):
        return intervals.edges(steps)
    tables = (trace.kernels, trace.graphs, trace.copies, trace.syncs, trace.calls, trace.operators, trace.ranges)
    timed = [table for table in tables if table["start_ns"].notna().any()]
    if not timed:
        raise EvidenceError("the capture has no timeline: totals do not show what ran at the same time")
    low, high = min(int(table["start_ns"].min()) for table in timed), max(int(table["end_ns"].max()) for table in timed)
    return np.array([low], dtype=np.int64), np.array([high], dtype=np.int64)


def _work(trace: Trace) -> pd.DataFrame:
    """Return the device work with times, with its activity. Executions of graphs count as compute."""
    parts = []
    for table, name in ((trace.kernels, COMPUTE), (trace.graphs, COMPUTE), (trace.copies, COPY)):
        rows = table.loc[table["start_ns"].notna(), ["device", "thread", "start_ns", "end_ns"]].assign(activity=name)
        if table is trace.kernels:
            communicates = (trace.kernels.loc[rows.index, "kind"] == "communication").fillna(False)
            rows["activity"] = rows["activity"].mask(communicates.to_numpy(dtype=bool), COMMUNICATION)
        parts.append(rows.astype({"device": "string"}))
    return pd.concat(parts, ignore_index=True)


def _clipped(rows: pd.DataFrame, windows: _Windows) -> tuple[Int, Int]:
    """Return the pieces of intervals inside the windows."""
    begun, over = intervals.edges(rows)
    _, _, start, end = intervals.split_at(begun, over, *windows)
    return start, end


def _union(start: Int, end: Int) -> tuple[Int, Int]:
    """Return intervals that do not overlap and cover the same instants."""
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    first = np.append(True, start[1:] > reached[:-1])[: len(start)]
    last = np.append(first[1:], True)[: len(start)]
    return start[first], reached[last]


def _levels(start: Int, end: Int, weight: Int, windows: _Windows) -> dict[int, int]:
    """Return how long each sum of the weights of open intervals lasts, including 0: together the length of the windows."""
    whole = int((windows[1] - windows[0]).sum())
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    level = np.cumsum(np.concatenate([weight, -weight])[order])
    lasted = np.diff(times[order])
    result: dict[int, int] = {}
    for value in np.unique(level[:-1]).tolist():
        if value:
            time_ns = int(lasted[level[:-1] == value].sum())
            result |= {int(value): time_ns} if time_ns else {}
    return {0: whole - sum(result.values()), **result}


def _with_share(table: pd.DataFrame, windows: _Windows) -> pd.DataFrame:
    return table.assign(share=table["time_ns"] / max(int((windows[1] - windows[0]).sum()), 1))
