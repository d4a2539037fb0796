"""The first run of a session, which also does what later runs need not: take memory, choose or compile kernels, copy weights."""

from __future__ import annotations

import numpy as np

from kernelscope.analysis.trace import Trace

RUN, MADE = "model_run", "session_initialization"
SETS_UP = "it also takes memory and chooses or compiles kernels, which later runs need not"
_FAR_LONGER = 2.5  # times the median of the other runs: the same as for first steps of other profilers


def is_profile(trace: Trace) -> bool:
    """Return whether this is ONNX Runtime's own profile, not a recorded run."""
    return bool((trace.info.get("source") or {}).get("format") == "onnxruntime")


def is_first(trace: Trace) -> bool:
    """Return whether the first of the trace's steps is the session's first run: its making is there, and no run lies between."""
    if not is_profile(trace) or trace.steps.empty:
        return False
    ranges, begin = trace.ranges, trace.steps["start_ns"].min()
    made, runs = ((ranges["name"] == name).fillna(False).to_numpy(bool) for name in (MADE, RUN))
    return bool((ranges["end_ns"][made] <= begin).any() and (ranges["start_ns"][runs] >= begin).all())


def is_alone(trace: Trace) -> bool:
    """Return whether the session's first run is the only one that was measured."""
    return len(trace.steps) == 1 and not trace.steps["warmup"].any() and is_first(trace)


def left_out_ns(trace: Trace) -> int | None:
    """Return how long the session's first run took, if it is no measured step because it took far longer than others."""
    if not is_first(trace):
        return None
    first = trace.steps.sort_values("start_ns").iloc[0]
    return int(first["end_ns"] - first["start_ns"]) if first["warmup"] else None


def set_aside(trace: Trace) -> None:
    """Mark the session's first run as warm-up, in place, if it takes far longer than the others, even if there is only one."""
    lengths = (trace.steps["end_ns"] - trace.steps["start_ns"]).to_numpy(np.int64)
    if len(lengths) < 2 or not is_first(trace):
        return
    first = trace.steps["start_ns"] == trace.steps["start_ns"].min()
    mine = first.to_numpy(bool)
    if lengths[mine].max() > _FAR_LONGER * float(np.median(lengths[~mine])):
        trace.steps = trace.steps.assign(warmup=trace.steps["warmup"] | first)
