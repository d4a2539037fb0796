"""Steps from events that occur once a step: an optimizer's step, the launch of a CUDA graph, a wait for the device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from kernelscope.analysis.attribution.steps.judging import judged
from kernelscope.analysis.attribution.steps.model import LEAST, DetectedSteps, StreamWork
from kernelscope.analysis.attribution.steps.ranges import labelled, of_rows
from kernelscope.analysis.trace import Trace

_ONCE = re.compile(r"(?i)optimi[sz]er.*step|zero_grad|ApplyGradient")
_CALLS = re.compile(r"GraphLaunch|DeviceSynchronize|CtxSynchronize|StreamSynchronize")


def find(trace: Trace, work: StreamWork) -> Iterator[DetectedSteps]:
    """Yield the steps that ranges of the optimizer mark, then those that calls mark."""
    for label, rows in labelled(trace):
        if _ONCE.search(label):
            result = of_rows(work, "call", label, rows)
            if result is not None:
                yield result
    if not work.by_launch:
        return
    calls = trace.calls
    for name in [str(name) for name in calls["name"].cat.categories if _CALLS.search(str(name))]:
        mine = calls[(calls["name"] == name).to_numpy(bool)]
        mine = mine[(mine["thread"] == work.thread).to_numpy(bool)]
        if len(mine) <= LEAST:
            continue
        edge = "start_ns" if "Graph" in name else "end_ns"  # a step begins with a launch, but after a wait
        result = judged(work, "call", name, np.unique(mine[edge].to_numpy(np.int64)))
        if result is not None and result.confidence != "low":
            yield result
