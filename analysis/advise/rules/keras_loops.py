"""Whole loops of Keras in each step: predict, evaluate or fit for a batch or two, each with a new pipeline and callbacks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import IDLE
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.attribution.frameworks import keras_loops
from kernelscope.analysis.trace import intervals

TOPIC = "whole loops in each step"
_IN_EACH = 0.75  # of the steps call it: if fewer do, these steps are unlike the others
_LEAST = 0.1  # of a step
_SMALL = 2.0  # batches in a call: fewer need no loop
_CALL, _BATCH = "call", "callbacks"  # ranges: the work on a batch, and what Keras does once after each
_LINES = 3  # lines that are named
_WHOLE = "{} is for whole data sets: each call makes a new pipeline, iterator and callbacks"
_DIRECTLY = {
    "tensorflow": "model(x, training=False), in a tf.function that is made once",
    "jax": "model(x, training=False), or jax.jit of model.stateless_call, once made",
    "torch": "model(x, training=False) within torch.no_grad()",
    "": "model(x, training=False)",
}
_IN_PLACE = {  # of a loop over a batch or two
    "predict": "call the model itself, {0}, or model.{1}(x)",
    "evaluate": "call model.{1}(x, y), or the model itself, {0}, and the loss; or evaluate in few steps only",
    "fit": "call model.{1}(x, y), or fit once, with all data or a generator",
}
_SELDOM = "call {} once in many steps, or for fewer samples"
_LINK = "https://keras.io/api/models/model_training_apis/#{}-method"
_OF_HOST = (  # why a device idles while the host is in such a call
    idle_causes.FETCHING, idle_causes.LAUNCHING, idle_causes.OPERATOR, idle_causes.RANGE, idle_causes.PROGRAM,
)  # fmt: skip


def called(subject: Subject) -> list[Advice]:
    """A step calls Keras' predict, evaluate or fit."""
    if subject.per != STEPS:
        return []
    loops = keras_loops.among(subject.inside_steps(subject.trace.ranges))
    found = [_advice(subject, layer, loops[(loops["layer"] == layer).to_numpy(bool)]) for layer in keras_loops.LOOPS]
    return [one for one in found if one is not None]


def _advice(subject: Subject, layer: str, parts: pd.DataFrame) -> Advice | None:
    """Return the advice on the calls of one loop. parts: the ranges of these calls, and of their ends in the next step."""
    name = keras_loops.LOOPS[layer]
    calls = parts[(parts["name"] == name).to_numpy(bool)]
    steps = subject.trace.steps[~subject.trace.steps["warmup"]].sort_values("start_ns")
    within = intervals.containing(calls["start_ns"].to_numpy(np.int64), *intervals.edges(steps))
    if len(np.unique(within)) < _IN_EACH * max(len(steps), 1):
        return None
    rows, ns = _on_host(subject, layer) if subject.on_host else _on_device(subject, parts)
    if ns < _LEAST * subject.step_ns:
        return None
    times, batches = len(calls) / len(steps), _batches(subject, calls)
    small = batches < _SMALL
    often = "once" if round(times, 1) == 1 else f"{words.count(times)} times"
    of = "for small batches" if small else f"for {words.count(batches)} batches each"
    inside = rows[(rows["detail"].notna() & (rows["detail"] != name)).to_numpy(bool)]
    saves = ns * _beside_batches(subject, parts) if small else float(ns)
    return Advice(
        TOPIC,
        f"Keras' {name} is called {often} in each step, {of}",
        saves,
        "all but the work on the batches themselves" if small else "all of it, in steps that no longer call it",
        [
            f"In {name}, while nothing computes: {words.share(subject, ns)} {subject.per}.",
            *(words.where(inside, "detail") if 2 * words.time_of(inside) > ns else []),
            *_lines(subject, parts, ns),
        ],
        _remedy(subject, name, small),
        _LINK.format(name),
        words.ids(rows),
    )


def _on_host(subject: Subject, layer: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of such calls in which nothing computes, and their time."""
    rows = subject.part(IDLE)
    rows = rows[(rows["layer"] == layer).fillna(False).to_numpy(bool)]
    return rows, words.time_of(rows)


def _on_device(subject: Subject, calls: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the rows in which the device idles for the host, and how much of that is within such calls.

    The device's account has no rows for these calls: if they are most of its idle time, all of that counts as theirs.
    """
    rows = subject.idle(_OF_HOST)
    trace, idle_ns = subject.trace, words.time_of(rows)
    work = [intervals.edges(table[table["start_ns"].notna()]) for table in (trace.kernels, trace.graphs, trace.copies)]
    start, end = (np.concatenate(side) for side in zip(*work, strict=True))
    free = intervals.uncovered(start, end, *intervals.edges(calls.sort_values("start_ns")))
    ns = min(round(float((free[1] - free[0]).sum()) / max(subject.count, 1)), idle_ns)
    return (rows if 2 * ns > idle_ns else rows[:0]), ns


def _batches(subject: Subject, calls: pd.DataFrame) -> float:
    """Return how many batches each call processes."""
    ranges = subject.trace.ranges
    ended = ranges[((ranges["category"] == "phase") & (ranges["name"] == _BATCH)).fillna(False).to_numpy(bool)]
    inside = intervals.innermost(*intervals.spans(calls), *intervals.spans(ended)[:2]) >= 0
    return float(inside.sum()) / len(calls)


def _beside_batches(subject: Subject, calls: pd.DataFrame) -> float:
    """Return the share of the calls' time outside layers that is not work on a batch; a direct call needs that work, too."""
    ranges = subject.trace.ranges
    ranges = ranges[(ranges["nested"] & (ranges["category"] != "step")).to_numpy(bool)]
    inside = intervals.innermost(*intervals.spans(calls), *intervals.spans(ranges)[:2]) >= 0
    ranges = ranges[inside]
    row, start, end = intervals.leaves(*intervals.spans(ranges))
    direct = (ranges["name"] == _CALL).fillna(False).to_numpy(bool)[row]
    outside = (ranges["layer"].isna() | ranges["layer"].isin(list(keras_loops.LOOPS))).to_numpy(bool)[row]
    lasted = (end - start).astype(float)
    return float(lasted[outside & ~direct].sum()) / max(float(lasted[outside].sum()), 1.0)


def _lines(subject: Subject, calls: pd.DataFrame, ns: int) -> list[str]:
    """Name the program's lines that make the calls, with their shares of that time."""
    lines = subject.trace.host_lines
    row = intervals.innermost(*intervals.spans(lines), *intervals.spans(calls)[:2])
    took = (calls["end_ns"] - calls["start_ns"]).to_numpy(float)[row >= 0]
    if not took.sum():
        return []
    places = pd.Series([words.place(one) for one in lines.iloc[row[row >= 0]].to_dict("records")], dtype="string")
    sums = pd.Series(took).groupby(places).sum().sort_values(ascending=False) * (ns / took.sum())
    named = "; ".join(f"{place} ({words.duration(float(part))})" for place, part in sums.head(_LINES).items())
    return [f"Called in {named}."]


def _remedy(subject: Subject, name: str, small: bool) -> str:
    """Return what to do instead of calls for small batches, or for many batches."""
    if not small:
        return _SELDOM.format(name)
    directly = words.text(subject, _DIRECTLY)
    return f"{_IN_PLACE[name].format(directly, keras_loops.ON_BATCH[name])}; {_WHOLE.format(name)}"


RULES: tuple[Rule, ...] = (called,)
