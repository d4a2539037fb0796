"""Cores that idle while a step runs on a CPU: outside kernels, where one thread works, and inside them.

A step's processor time says how much of its cores a process used; kernels on the timeline say when they ran. A library's own
worker threads are on no timeline, so inside kernels only the sum is known. A thread that spins while it waits counts as busy:
only passive waiting (--steady) shows all idle time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.trace import Trace, intervals


@dataclass(frozen=True)
class Cores:
    """How the mean recorded step uses the cores available to it, in ns; None if unknown.

    step_ns: wall time. serial_ns: the part without a kernel; single_ns: with one thread inside kernels; several_ns: with
    several. busy: cores that the process kept busy on average. idle_ns: core time (not wall time) left idle out of what its
    threads could use; outside_ns, inside_ns: its parts outside kernels (where all threads but one idle) and inside.
    """

    step_ns: int
    serial_ns: int
    single_ns: int
    several_ns: int
    busy: float | None
    idle_ns: int | None
    outside_ns: int | None
    inside_ns: int | None


def cores(side: Side, threads: int | None) -> Cores | None:
    """Return how a side's recorded steps use `threads` cores; None for captures without steps or with a device's kernels."""
    trace = side.trace
    steps = trace.steps[~trace.steps["warmup"]]
    on_cpu = (trace.kernels["device"].astype("string").fillna("cpu") == "cpu").to_numpy(bool)
    if steps.empty or not len(on_cpu) or not on_cpu.all():
        return None
    wall = int((steps["end_ns"] - steps["start_ns"]).sum())
    at_once = _threads_at_once(trace, steps)
    count = len(steps)
    serial, single, several = (round(at_once.get(number, 0) / count) for number in range(3))
    used = (steps["user_ns"] + steps["system_ns"]).astype("Float64")
    busy = None if used.isna().any() or wall <= 0 else float(used.sum()) / wall
    if busy is None or threads is None:
        return Cores(round(wall / count), serial, single, several, busy, None, None, None)
    idle = max(0, round((threads - busy) * wall / count))
    outside = min(idle, (threads - 1) * serial)
    return Cores(round(wall / count), serial, single, several, busy, idle, outside, idle - outside)


def _threads_at_once(trace: Trace, steps: pd.DataFrame) -> dict[int, int]:
    """Return for how many ns of the steps no kernel ran (0), one thread was inside kernels (1), or several were (2)."""
    kernels = trace.kernels[trace.kernels["start_ns"].notna().to_numpy(bool)]
    starts, ends = intervals.edges(kernels)
    # the steps are boundaries: what is outside them has weight 0
    times = np.concatenate([starts, ends, steps["start_ns"], steps["end_ns"]])
    change = np.concatenate([np.ones(len(starts)), -np.ones(len(ends)), np.zeros(2 * len(steps))])
    within = np.concatenate([np.zeros(2 * len(starts)), np.ones(len(steps)), -np.ones(len(steps))])
    order = np.argsort(times, kind="stable")
    running = np.minimum(np.cumsum(change[order])[:-1], 2).astype(np.int64)
    inside = np.cumsum(within[order])[:-1] > 0
    lengths = np.where(inside, np.diff(times[order]), 0)
    result = np.bincount(np.maximum(running, 0), weights=lengths, minlength=3)
    return {number: int(ns) for number, ns in enumerate(result)}
