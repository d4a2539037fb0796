"""Notes on ONNX Runtime's own profiles of GPUs, whose nodes are timed on the host, and on the first run of a session."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.formats.onnxruntime import first_run
from kernelscope.analysis.trace import Trace, intervals

_NOTICEABLE = 0.1  # of a step: time outside of nodes
_LONG, _NAMED = 0.05, 3  # of a step: nodes that are named, and so many at most
_EXECUTOR = r"^(?:Sequential|Parallel)Executor::Execute$"


def notes(subject: Subject) -> list[str]:
    """Return what to know of a profile of ONNX Runtime; nothing for other recordings."""
    if not first_run.is_profile(subject.trace):
        return []
    return [*_longest(subject), *_outside(subject), *_first(subject)]


def is_first_run(subject: Subject) -> bool:
    """Return whether the only step is the session's first run, which says nothing about how fast later runs are."""
    return first_run.is_alone(subject.trace)


def _longest(subject: Subject) -> list[str]:
    """Name the nodes that take longest, where nodes are no kernels, so that the parts of a step do not."""
    rows = _in_nodes(subject)
    if rows.empty:
        return []
    layer, operator = rows["layer"].astype("string"), rows["operator"].astype("string")
    known = layer.notna() & ~operator.str.contains("/").fillna(False) & (layer != operator).fillna(True)
    sums = rows.groupby(operator.mask(known, layer + " (" + operator + ")"))["time_ns"].sum().nlargest(_NAMED)
    named = [f"{name} {words.share(subject, float(ns))}" for name, ns in sums.items() if ns >= _LONG * subject.step_ns]
    return [f"nodes that take longest, by the host's time: {', '.join(named)}"] if named else []


def _outside(subject: Subject) -> list[str]:
    """Say how much of a run is outside of nodes, where, and what is done there."""
    ns = words.time_of(outside_of_nodes(subject))
    if ns < _NOTICEABLE * subject.step_ns or subject.rows.empty:
        return []
    ends = _before_and_behind(subject.trace)
    where = ""
    if ends is not None:
        between = max(ns - sum(ends), 0.0)
        before, behind, rest = map(words.duration, (*ends, between))
        where = (
            f": {before} before ONNX Runtime begins to execute nodes, {behind} after it has executed them, {rest} between nodes"
        )
    return [
        f"outside of nodes: {words.share(subject, ns)} {subject.per}{where}. There, inputs are copied to the GPU and results "
        "back, and the host waits for the GPU, which may still compute; how long each takes, the profile does not show",
        "to shorten the time outside of nodes: keep inputs and outputs on the GPU (IO binding: session.io_binding() and "
        "session.run_with_iobinding), and have several runs in flight, such as one on each of two threads (DirectML: each with a "
        "session of its own), so that copies and waits of one overlap the other's work",
    ]


def outside_of_nodes(subject: Subject) -> pd.DataFrame:
    """Return the rows of a step, in a profile without kernels, that are in ONNX Runtime but in no node."""
    rows = _in_runtime(subject)
    return rows[rows["operator"].isna().to_numpy(bool)]


def _in_nodes(subject: Subject) -> pd.DataFrame:
    rows = _in_runtime(subject)
    return rows[rows["operator"].notna().to_numpy(bool)]


def _in_runtime(subject: Subject) -> pd.DataFrame:
    """Return the rows of a step that are in nodes or in ONNX Runtime around them; none if kernels were recorded."""
    rows = subject.idle((idle_causes.OPERATOR,))
    return rows if subject.unrecorded and first_run.is_profile(subject.trace) else rows.iloc[:0]


def _before_and_behind(trace: Trace) -> tuple[float, float] | None:
    """Return how long runs last before the executor begins and after it has ended, in ns a run; None if it was not recorded."""
    steps, ranges = trace.steps[~trace.steps["warmup"]].sort_values("start_ns"), trace.ranges
    if steps.empty:
        return None
    mine = ranges["name"].astype("string").str.match(_EXECUTOR).fillna(False) & ranges["thread"].isin(steps["thread"])
    executed = ranges[mine.to_numpy(bool)]
    begin, end = (steps[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    run = intervals.containing(executed["start_ns"].to_numpy(np.int64), begin, end)
    edges = executed.assign(run=run)[run >= 0].groupby("run").agg({"start_ns": "min", "end_ns": "max"})
    if len(edges) < len(steps):
        return None
    before, behind = edges["start_ns"].to_numpy(np.int64) - begin, end - edges["end_ns"].to_numpy(np.int64)
    return float(before.clip(0).mean()), float(behind.clip(0).mean())


def _first(subject: Subject) -> list[str]:
    """Say that the only run is the session's first, or that the first was left out."""
    if is_first_run(subject):
        return [
            f"the only run is the session's first: {first_run.SETS_UP}, so they may take far less; record several runs (call "
            "session.run again before session.end_profiling())"
        ]
    ns = first_run.left_out_ns(subject.trace)
    return [] if ns is None else [f"left out: the session's first run, which took {words.duration(ns)}; {first_run.SETS_UP}"]
