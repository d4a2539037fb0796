"""The longest gaps between work that was launched in time: how many hold most of that time, and what runs around them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import on_device
from kernelscope.analysis.accounting.next_work import NextWork
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.trace import Trace, intervals

_NAMED = 3  # pairs of kernels around gaps
_MOST = 0.9  # of the time, whose gaps are counted
_FEW = 0.2  # of the gaps: if more hold most of the time, none stands out
_LEAST = 0.05  # of the time: pairs with less are not named
_OF_AUTOGRAD = "autograd::engine::evaluate_function: "
_HOLE = 0.2  # of what was recorded: a gap on processors that is told
_MUCH = 0.4  # of the time, that the named pairs hold together


def sentences(subject: Subject) -> list[str]:
    """Return how few gaps hold most of the time, and the work around those that do; nothing if the time is spread evenly."""
    gaps = _queued(_on_device(subject.trace, subject.device))
    lengths = np.sort(gaps["ns"].to_numpy(np.int64))[::-1]
    if not lengths.sum():
        return []
    held = int(np.searchsorted(np.cumsum(lengths), _MOST * lengths.sum())) + 1
    pairs = gaps.groupby(["before", "after"])["ns"].agg(["sum", "size"]).sort_values("sum", ascending=False, kind="stable")
    pairs = pairs[(pairs["sum"] > _LEAST * lengths.sum()).to_numpy(bool)][:_NAMED]
    few = [f"{held:,} of {len(lengths):,} gaps hold {_MOST:.0%} of this time."] if held <= _FEW * len(lengths) else []
    if pairs["sum"].sum() < _MUCH * lengths.sum():
        return few
    per = max(subject.count, 1)
    named = "; ".join(
        f"{words.duration(ns / per)} between {before} and {after} ({int(number):,} gap{'' if number == 1 else 's'})"
        for (before, after), ns, number in zip(pairs.index, pairs["sum"].tolist(), pairs["size"].tolist(), strict=True)
    )
    return [*few, f"The longest, {subject.per}: {named}."]


def on_host(subject: Subject) -> list[str]:
    """Say between which two operators of processors nothing was recorded, if that is one long gap; nothing otherwise."""
    operators = subject.inside_steps(subject.trace.operators)
    if not subject.on_host or not subject.timeline or subject.facts or len(operators) < 2:
        return []
    work = operators.sort_values("start_ns", kind="stable", ignore_index=True)
    start, end = intervals.edges(work)
    until = np.maximum.accumulate(end)[:-1]
    gap = start[1:] - until
    at = int(gap.argmax())
    if gap[at] < _HOLE * subject.step_ns * max(subject.count, 1):
        return []
    ended = int(np.flatnonzero(end[: at + 1] == until[at])[0])  # the outermost that ends there
    names = work["name"].astype("string").str.removeprefix(_OF_AUTOGRAD)
    return [
        f"nothing was recorded for {words.duration(float(gap[at]))} between the operators {names[ended]} and {names[at + 1]}: "
        "the program's own code, waiting, or a slow first call"
    ]


def _on_device(trace: Trace, device: str) -> Trace:
    """Return the trace with this device's work only; work of an unknown device is taken for its own."""
    tables = {name: getattr(trace, name) for name in device_steps.DEVICE_TABLES}
    return replace(trace, **{name: table[on_device(table, device)] for name, table in tables.items()})


def _queued(trace: Trace) -> pd.DataFrame:
    """Return the gaps within measured steps whose next work was launched before they began: before, after, ns."""
    names = {
        "kernels": trace.kernels["name"].map(words.kernel),
        "copies": ("Memcpy " + trace.copies["operation"].astype("string")).replace("Memcpy set", "Memset"),
        "graphs": pd.Series("CUDA graph", index=trace.graphs.index, dtype="string"),
    }
    tables = [getattr(trace, name)[["start_ns", "end_ns"]].assign(name=names[name].astype("string")) for name in names]
    work = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True).dropna(subset=["start_ns"])
    work = work.sort_values("start_ns", kind="stable", ignore_index=True)
    start, end = intervals.edges(work)
    until = np.maximum.accumulate(end)
    gap = np.flatnonzero(start[1:] > until[:-1])
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    if len(steps):
        gap = gap[intervals.containing(until[:-1][gap], *device_steps.bounds(steps)) >= 0]
    begun, over = until[:-1][gap], start[1:][gap]
    queued = NextWork.of(trace, over).launched_before(begun)
    last = pd.Series(np.where(end == until, np.arange(len(end)), -1)).cummax().to_numpy()  # the work that ended last so far
    called = work["name"].to_numpy(object)
    return pd.DataFrame({"before": called[last[gap]], "after": called[gap + 1], "ns": over - begun})[queued]
