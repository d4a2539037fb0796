"""Steps that the profiler marks itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps.model import PROFILER, DetectedSteps
from kernelscope.analysis.trace import Trace, conform

_SLOW, _MOST_SLOW = 2.5, 0.34  # times the usual step, and share of the steps
# Share of the first step that is earlier work; times the usual step that it then lasts; least number of steps left without it
_EARLIER, _LONGER, _LEAST = 0.2, 1.5, 3
# Formats whose files always hold one step
_ONE_STEP = {"tensorflow-timeline": "one session.run"}


_LOOKED = "first steps"  # in a Trace's info: how many of them were set aside


def set_aside_first(trace: Trace) -> None:
    """Mark the profiler's first steps as warm-up, in place, if they are not like the others.

    A few may take many times as long as most, and the first may be longer because of work launched before it. All tables and
    commands then leave them out.
    """
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    slow = _unlike(trace, steps)
    trace.info[_LOOKED] = slow
    if slow:
        trace.steps = trace.steps.assign(warmup=trace.steps["warmup"] | trace.steps.index.isin(steps.index[:slow]))


def find(trace: Trace) -> DetectedSteps | None:
    """Return the steps that the capture marks; None if it marks none that are measured."""
    source = trace.info.get("source") or {}
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    if len(steps):
        slow = _unlike(trace, steps)
        tool, warmup = str(source.get("tool") or PROFILER), int(trace.steps["warmup"].sum()) + slow
        return DetectedSteps("profiler", tool, steps.iloc[slow:], 1.0, "high", warmup)
    what = _ONE_STEP.get(str(source.get("format")))
    return None if what is None else _one(trace, what)


def _unlike(trace: Trace, steps: pd.DataFrame) -> int:
    """Return how many of the first of these sorted steps are unlike the others; 0 if they were set aside already."""
    if steps.empty or _LOOKED in trace.info:
        return 0
    slow = _slow_start(steps)
    return slow + _behind_earlier_work(trace, steps.iloc[slow:])


def _slow_start(steps: pd.DataFrame) -> int:
    """Return how many of the first of these sorted steps are warm-up: a few that take many times as long as most."""
    lengths = (steps["end_ns"] - steps["start_ns"]).to_numpy(dtype=float)
    slow = lengths > _SLOW * float(np.median(lengths))
    count = int(np.argmin(slow)) if not slow.all() else 0
    return count if count <= len(lengths) * _MOST_SLOW else 0


def _behind_earlier_work(trace: Trace, steps: pd.DataFrame) -> int:
    """Return 1 if work launched earlier makes the first of these sorted steps longer, and enough steps remain without it."""
    if len(steps) <= _LEAST or "device_start_ns" not in steps:
        return 0
    starts, ends = device_steps.bounds(steps)
    start, end = int(starts[0]), int(ends[0])
    if end - start < _LONGER * float(np.median((ends - starts)[1:])):
        return 0
    kernels = trace.kernels
    earlier = kernels["launch_ns"].isna() | (kernels["launch_ns"] < start)  # the recording may have begun after the launch
    others = (kernels["step"] != int(steps["step"].iloc[0])).fillna(True)
    inside = others & kernels["start_ns"].between(start, end - 1)
    mine = kernels[(earlier & inside).fillna(False).to_numpy(bool)]
    lasted = (mine["end_ns"] - mine["start_ns"]).groupby(mine["device"], observed=True).sum()
    return int(len(lasted) > 0 and float(lasted.max()) > _EARLIER * (end - start))


def _one(trace: Trace, what: str) -> DetectedSteps | None:
    """Return the whole capture as one step; None if nothing in it has a time."""
    timed = [table[table["start_ns"].notna()] for table in (trace.kernels, trace.copies, trace.operators)]
    timed = [table for table in timed if len(table)]
    if not timed:
        return None
    start, end = min(int(table["start_ns"].min()) for table in timed), max(int(table["end_ns"].max()) for table in timed)
    table = pd.DataFrame({"step": [0], "start_ns": [start], "end_ns": [end], "warmup": [False], "thread": [0]})
    return DetectedSteps("profiler", what, conform("steps", table), 1.0, "high")
