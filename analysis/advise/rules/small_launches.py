"""Totals in which one small kernel of the program's own is launched many times for each run of the others, as in a loop."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules.long_kernels import is_own
from kernelscope.analysis.advise.subject import Subject

_MANY, _SHORT_NS = 500, 10_000  # executions, and the time of each: hardly longer than a launch
_PART = 0.1  # of the time
_FEWER = (
    "let one launch do the work of many: a loop within the kernel, more blocks, or all stages of a reduction in one or two "
    "launches; if each launch needs the one before, launch them as a graph (CUDA graph, HIP graph)"
)
_AS_OFTEN = 50  # executions for each one of any other kernel


def in_a_loop(subject: Subject) -> list[Advice]:
    """A kernel hardly longer than a launch runs many times for each execution of the kernels around it."""
    if subject.timeline or subject.on_host or subject.recorded_ns or len(subject.trace.metrics):
        return []
    rows = subject.kernels()
    mine = rows.nlargest(1, "count")
    count, ns = float(mine["count"].sum()), words.time_of(mine)
    if len(rows) < 2 or not is_own(mine) or count < _MANY or ns > _SHORT_NS * count or ns < _PART * subject.step_ns:
        return []
    around = _around(rows.drop(index=mine.index), count)
    if around is None:
        return []
    runs = float(around["count"])
    longest = _longest(subject, str(mine["name"].iloc[0]), ns / count)
    name, each = words.kernel(mine["name"].iloc[0]), f"{words.duration(ns / count)} in each of {count:,.0f} executions"
    return [
        Advice(
            "small kernels",
            f"{name} is launched {count / runs:,.0f} times for each run of {words.kernel(around['name'])}, hardly longer than a "
            "launch each",
            ns - runs * longest,
            "all but one launch of each loop, if one launch does the work of many in the time of the longest, "
            f"{words.duration(longest)}",
            [f"It takes {words.share(subject, ns)} {subject.per}, {each}."],
            _FEWER,
            "",
            words.ids(mine),
        )
    ]


def _around(others: pd.DataFrame, count: float) -> pd.Series | None:
    """Return the kernel with most time that has a whole number of these executions for each of its own; None if there is none, or
    if any kernel runs too often to be around them.
    """
    counts = others["count"].to_numpy(float)
    if (_AS_OFTEN * counts > count).any():
        return None
    whole = others[(counts > 1) & (count % counts.clip(min=1) == 0)]
    return None if whole.empty else whole.loc[whole["time_ns"].idxmax()]


def _longest(subject: Subject, name: str, mean: float) -> float:
    """Return the time of a kernel's longest execution in ns; its mean, if that is not known."""
    kernels = subject.trace.kernels
    longest = kernels["max_ns"][(kernels["name"] == name).fillna(False).to_numpy(bool)].dropna()
    return float(longest.max()) if len(longest) else mean


RULES: tuple[Rule, ...] = (in_a_loop,)
