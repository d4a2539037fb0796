"""Steps from iterations of the input: each begins when the next batch is requested."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.steps.model import LEAST, DetectedSteps, StreamWork
from kernelscope.analysis.attribution.steps.ranges import labelled, of_rows
from kernelscope.analysis.trace import Trace

INPUT = re.compile(
    r"(?i)DataLoader.*__next__|\bIteratorGetNext|OneShotIterator|Iterator::\w*GetNext|^get_?next|next_?batch|fetch_?batch"
    r"|^(?:data|batch)[ _]?(?:load|fetch|copy)|load[ _]?(?:data|batch)|wait_for_batch"
)


def uses_dali(trace: Trace) -> bool:
    """Return whether NVIDIA's DALI prepares the batches, on the device."""
    return any("dali::" in str(name) for name in trace.kernels["name"].cat.categories)


def find(trace: Trace, work: StreamWork) -> Iterator[DetectedSteps]:
    """Yield the steps that iterations of the input mark."""
    match = [of_rows(work, "input", label, rows) for label, rows in (*labelled(trace), *_operators(trace)) if INPUT.search(label)]
    yield from sorted((steps for steps in match if steps is not None), key=lambda steps: -round(steps.likeness, 2))


def _operators(trace: Trace) -> Iterator[tuple[str, pd.DataFrame]]:
    operators = trace.operators
    names = [str(name) for name in operators["name"].cat.categories if INPUT.search(str(name))] if len(operators) else []
    for name in names:
        mine = operators[(operators["name"] == name).to_numpy(bool) & operators["thread"].notna().to_numpy(bool)]
        if len(mine) > LEAST:
            rows = mine[mine["thread"] == mine["thread"].mode().iloc[0]]
            yield name, rows.astype({"thread": np.int64}).sort_values("start_ns")
