"""Blocking calls: the host waits for the device, and then the device for the host."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import launches, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.trace import intervals

_REMEDIES = {
    "pytorch": "read results rarely: no .item(), .cpu(), print(tensor), nonzero() or `if tensor:` in the step; sum losses on the "
    "device and read them every few steps; copies with non_blocking=True",
    "tensorflow": "return tensors from the tf.function and read them every few steps; no .numpy() in the step",
    "tensorflow 1": "fetch losses and metrics every few steps, not in each session.run",
    "mxnet": "no asnumpy(), asscalar() or wait_to_read() in the step; read metrics every few steps",
    "jax": "no float(loss), .item() or block_until_ready() in the step; read results of earlier steps",
    "": "read the device's results rarely, and not in the middle of a step",
}


def waits(subject: Subject) -> list[Advice]:
    """The device runs out of work while the host waits for it."""
    if subject.on_host or not subject.waited_ns:
        return []
    return [
        Advice(
            "synchronisation",
            "the host waits for the device, which then idles until the host has caught up",
            subject.waited_ns,
            "the idle time that begins while the host waits, but no more than the host waits",
            [f"The device idles {words.share(subject, subject.waited_ns)} {subject.per} after such waits.", *_calls(subject)],
            words.text(subject, _REMEDIES),
            "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html" if subject.framework == "pytorch" else "",
        )
    ]


def _calls(subject: Subject) -> list[str]:
    """Name the calls that wait, and the operators and lines that make them."""
    calls = subject.waiting_calls
    mine = calls[(calls["end_ns"] - calls["start_ns"] > 0).to_numpy(bool)]
    if mine.empty:
        return []
    steps = max(subject.count, 1)
    sums = mine.assign(ns=mine["end_ns"] - mine["start_ns"]).groupby("name", observed=True)["ns"].agg(["size", "sum"])
    sums = sums.sort_values("sum", ascending=False).head(3)
    listed = ", ".join(
        f"{words.count(one['size'] / steps)} x {name} ({words.duration(one['sum'] / steps)})" for name, one in sums.iterrows()
    )
    return [f"Calls that wait, {subject.per}: {listed}.", *_operators(subject, mine), *_lines(subject, mine)]


def _operators(subject: Subject, calls: pd.DataFrame) -> list[str]:
    """Name the innermost operators around calls."""
    took = (calls["end_ns"] - calls["start_ns"]).to_numpy(np.int64)
    named = launches.named(launches.operators(subject.trace, calls), took / max(subject.count, 1))
    return [f"Made by {named}."] if named else []


def _lines(subject: Subject, calls: pd.DataFrame) -> list[str]:
    """Name the lines, or functions, of the program that make these calls, for threads with lines on the timeline."""
    lines = subject.trace.host_lines.sort_values("start_ns", ignore_index=True)
    calls = calls[calls["thread"].isin(lines["thread"].unique()).to_numpy(bool)]
    at = intervals.containing(calls["start_ns"].to_numpy(np.int64), *intervals.edges(lines))
    if not (at >= 0).any():
        return []
    took = (calls["end_ns"] - calls["start_ns"]).to_numpy(np.int64)[at >= 0]
    keys = lines[["file", "function", "line", "text"]].astype({"file": "string", "function": "string", "text": "string"})
    sums = keys.take(at[at >= 0]).assign(took=took).groupby([*keys], dropna=False)["took"].sum().reset_index()
    rows = sums.sort_values("took", ascending=False, kind="stable").head(3).to_dict("records")
    shown = (f"{words.place(row)} ({words.duration(row['took'] / max(subject.count, 1))})" for row in rows)
    return [f"Called in {', '.join(shown)}."]


RULES: tuple[Rule, ...] = (waits,)
