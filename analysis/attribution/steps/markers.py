"""Steps that the profiler marks itself."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.attribution.steps.model import Found
from kernelscope.analysis.trace import Trace, conform

# Formats of which a file is one step by its nature
_ONE_STEP = {"tensorflow-timeline": "one session.run"}


def find(trace: Trace) -> Found | None:
    """Return the steps that the capture names; None where it names none that are measured."""
    source = trace.info.get("source") or {}
    steps = trace.steps[~trace.steps["warmup"]]
    if len(steps):
        return Found("profiler", str(source.get("tool") or "the profiler"), steps, 1.0, "high", int(trace.steps["warmup"].sum()))
    what = _ONE_STEP.get(str(source.get("format")))
    return None if what is None else _one(trace, what)


def _one(trace: Trace, what: str) -> Found | None:
    """Return all of the capture as one step."""
    timed = [table[table["start_ns"].notna()] for table in (trace.kernels, trace.copies, trace.operators)]
    timed = [table for table in timed if len(table)]
    if not timed:
        return None
    start, end = min(int(table["start_ns"].min()) for table in timed), max(int(table["end_ns"].max()) for table in timed)
    table = pd.DataFrame({"step": [0], "start_ns": [start], "end_ns": [end], "warmup": [False], "thread": [0]})
    return Found("profiler", what, conform("steps", table), 1.0, "high")
