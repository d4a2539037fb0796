"""Python loops over the samples of a batch: many small operators outside of the model's layers, or calls of the model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import parameters
from kernelscope.analysis.advise.subject import Subject

_MANY = 100  # operators a step, outside of layers and of the optimizer
_BATCH = 8  # smaller batches have little to gain
_MULTIPLE = 0.02  # by which a number of operators may miss being one for each sample, or two, ...
_MISSED = 0.05  # of the samples, at most: of many for each sample a share would be any number
_SMALL_NS = 100_000  # of one call: what starting it costs, some 10 us, is no great part of larger ones
_IN_A_LINE = r"^(?!\s*(?:async\s+)?for\b).*\bfor\b.+\bin\b"  # a loop within a statement, which counts once
_WHOLE_BATCH = (
    "do it for the whole batch at once (a leading batch dimension, torch.vmap, jax.vmap, tf.vectorized_map), or ahead of "
    "the step in the loader's workers"
)
_WHOLE_TENSORS = (
    "work on whole tensors instead of one element, row or parameter after the other (stack them; torch._foreach_norm "
    "and the like), and copy the result to the host once"
)
_MOST = 0.5  # of the samples: operators under a condition, such as an augmentation by chance, do not run for each
_EACH = 0.9  # calls of the model for each sample that was loaded, at least
_OF_A_VECTOR = r"\b[mnk][12]\b"  # a product one of whose three dimensions is 1 or 2
_SUMS = ("aten::add", "aten::add_")  # with which autograd adds gradients up,
_FIRST = 2  # but for the first two: these are one sum, out of place


def over_samples(subject: Subject) -> list[Advice]:
    """Operators run once per sample, outside of the layers."""
    if not subject.on_host or subject.program:  # of which no layers are known, and what loops may be the network itself
        return []
    rows = parameters.outside(subject)
    others = parameters.loops(subject)
    rows = rows if others is None else rows.drop(others.rows.index)
    computing = rows[(rows["part"] == COMPUTE).to_numpy(bool)]
    known = int((subject.facts.get("options") or {}).get("batch") or 0)
    batch = known or _turns(computing)
    least = max(_MANY, 2 * known)
    if float(computing["count"].sum()) < least or batch < _BATCH:
        return []
    often = rows[(rows["count"] >= batch).to_numpy(bool)]
    by_sample = bool(len(often)) and bool(known) and _of_samples(often, batch) >= words.time_of(often) / 2
    often = rows[(rows["count"] >= _MOST * batch).to_numpy(bool)] if by_sample else _small(often)
    kernels = (often["part"] == COMPUTE).to_numpy(bool)
    if not by_sample and float(often.loc[kernels, "count"].sum()) < least:
        return []
    return [_in_loops(subject, computing if by_sample else often[kernels], often, batch, by_sample)]


def _in_loops(subject: Subject, computing: pd.DataFrame, often: pd.DataFrame, batch: int, by_sample: bool) -> Advice:
    """Return what is said of operators that run often, of which some compute; once for each sample, or by whatever loop."""
    python_ns = words.python_in(subject, words.own_lines(subject, often))
    ns = words.time_of(often) + python_ns
    lines = words.lines_of(subject, often) or words.lines(subject, 0.1 * ns, words.SLOWED * ns, hits=_MOST * batch)
    lines = lines or words.lines(subject, 0.1 * ns, words.SLOWED * ns, names=_IN_A_LINE)
    if by_sample:
        topic, which = "loop over samples", "for each sample, or for most of them,"
        estimate, remedy = f"one operator on the whole batch instead of one for each of its {batch} samples", _WHOLE_BATCH
    else:
        topic, which = "small operators", f"{batch} times or more"
        estimate, remedy = "one operator instead of many", _WHOLE_TENSORS
    return Advice(
        topic,
        f"{words.count(float(computing['count'].sum()))} small operators run {subject.in_each} outside of the model's layers",
        ns * (1 - 1 / batch),
        estimate,
        [
            f"Operators that run {which} take {words.share(subject, ns)} {subject.per}{_with_python(python_ns)}: "
            f"{words.largest(often, 'operator')}.",
            *lines,
        ],
        remedy,
        "",
        words.ids(often),
    )


def _with_python(ns: int) -> str:
    return f", with {words.duration(ns)} of Python in their lines" if ns else ""


def one_by_one_read(subject: Subject) -> list[Advice]:
    """Values are read out of tensors one after the other."""
    rows, count = reading_out(subject)
    if rows.empty or parameters.reads(subject):  # one for each parameter: that loop is told
        return []
    ns = words.time_of(rows)
    return [
        Advice(
            "small operators",
            f"{words.count(count)} values are read out of tensors one after the other {subject.in_each}",
            float(ns),
            "one copy of a whole tensor instead of one call for each value",
            [
                f"What runs for each of them takes {words.share(subject, ns)} {subject.per}: {words.largest(rows, 'detail')}.",
                *words.lines(subject, 0.1 * ns, words.SLOWED * ns, hits=_MOST * count),
            ],
            "read a whole tensor at once (tensor.tolist(), tensor.cpu().numpy()), or compute before it is read (sum(), max())",
            "",
            words.ids(rows),
        )
    ]


def reading_out(subject: Subject) -> tuple[pd.DataFrame, float]:
    """Return the rows of what runs for each value that is read out of a tensor by itself, and how many are; else no rows, 0."""
    none = subject.rows.iloc[:0], 0.0
    if not subject.on_host:
        return none
    loose = subject.rows["layer"].isna() & (subject.rows["phase"] != "optimizer").fillna(True)
    rows = subject.rows[((subject.rows["part"] == IDLE) & loose).to_numpy(bool)]
    count = float(rows.loc[rows["operator"].isin(parameters.READS).to_numpy(bool), "count"].max()) if len(rows) else 0.0
    if not count >= _MANY:
        return none
    return rows[((rows["count"] >= _MOST * count) & (rows["cause"] == idle_causes.OPERATOR)).to_numpy(bool)], count


def _small(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of operators of which a call is short."""
    computing = rows[(rows["part"] == COMPUTE).to_numpy(bool)].groupby("operator")[["time_ns", "count"]].sum()
    large = computing.index[(computing["time_ns"] >= _SMALL_NS * computing["count"]).to_numpy(bool)]
    return rows[~rows["operator"].isin(large).to_numpy(bool)]


def _turns(computing: pd.DataFrame) -> int:
    """Return how often a loop runs where no batch is known: as often as most of what runs many times; 0 where nothing does."""
    many = computing[(computing["count"] >= _BATCH).to_numpy(bool)]
    if many.empty:
        return 0
    times = many.groupby(many["count"].round())["time_ns"].sum()
    return int(times.index.to_numpy(np.int64)[int(times.to_numpy().argmax())])


def _of_samples(rows: pd.DataFrame, batch: int) -> int:
    """Return the time of operators that run once for each sample of a batch, or twice, ..., as their number tells."""
    counts = rows.groupby("operator")["count"].transform("sum") / batch
    times = counts.round()
    near = (counts - times).abs() <= np.minimum(_MULTIPLE * times, _MISSED)
    return words.time_of(rows[((times >= 1) & near).to_numpy(bool)])


def of_the_model(subject: Subject) -> list[Advice]:
    """The model is called once for each sample of a batch that was loaded as one."""
    batch = (subject.facts.get("options") or {}).get("batch") or 0
    steps = max(int((~subject.trace.steps["warmup"]).sum()), 1)
    ranges = subject.inside_steps(subject.trace.ranges)
    model = _outermost(ranges)
    if not subject.on_host or batch < _BATCH or model is None:
        return []
    name, calls = model
    batches = max(int((ranges["category"] == "data").sum()), steps)  # several a step where gradients are accumulated
    if calls < _EACH * batch * batches:
        return []
    host = subject.idle((idle_causes.OPERATOR, idle_causes.RANGE))
    host = host[host["layer"].notna().to_numpy(bool)]
    host_ns, weights = words.time_of(host), _of_weights(subject, calls / steps)
    saved = "what the host does in layers between kernels" + (" and these kernels" if len(weights) else "")
    return [
        Advice(
            "loop over samples",
            f"{name} is called {words.count(calls / steps)} times in each step, once for each sample of a batch of {batch}",
            (host_ns + words.time_of(weights)) * (1 - 1 / batch),
            f"{saved}, once in place of {batch} times; other kernels are quicker, too",
            [
                f"In layers and outside of kernels: {words.share(subject, host_ns)} {subject.per}.",
                *_for_each(subject, weights),
            ],
            "call the model once with the whole batch; where samples need treatment of their own, torch.vmap, jax.vmap or "
            "tf.vectorized_map",
            "",
            words.ids(pd.concat([host, weights])),
        )
    ]


def _of_weights(subject: Subject, calls: float) -> pd.DataFrame:
    """Return the kernels in layers that run for each of so many calls and take their time for weights, not for samples.

    Those are products of a matrix and a vector, which read or write the matrix once for few operations on it, and sums of
    gradients: those of each call are added to those of the ones before.
    """
    rows = subject.rows[((subject.rows["part"] == COMPUTE) & subject.rows["layer"].notna()).to_numpy(bool)]
    rows = rows[(rows["count"] >= _EACH * calls - _FIRST).to_numpy(bool)]
    vectors = (rows["kind"] == "gemm") & rows["problem"].str.contains(_OF_A_VECTOR)
    sums = (rows["phase"] == "backward") & rows["operator"].isin(_SUMS)
    return rows[(vectors | sums).fillna(False).to_numpy(bool)]


def _for_each(subject: Subject, weights: pd.DataFrame) -> list[str]:
    """Return what these kernels take, in words."""
    if weights.empty:
        return []
    told = f"{words.share(subject, words.time_of(weights))} {subject.per}: {words.largest(weights, 'operator')}"
    return [f"Kernels that read or write the weights, or their gradients, for one sample each: {told}."]


def one_by_one(subject: Subject) -> list[Advice]:
    """Inference of one sample a call: what the host does around kernels is done for each."""
    options = subject.facts.get("options") or {}
    if not subject.on_host or options.get("mode") != "infer" or options.get("batch") != 1:
        return []
    rows = subject.idle((idle_causes.OPERATOR, idle_causes.RANGE, idle_causes.PROGRAM))
    ns = words.time_of(rows)
    return [
        Advice(
            "small batch",
            "the model gets one sample a call",
            ns * (1 - 1 / _BATCH),
            f"what the host does outside of kernels, once in place of {_BATCH} times; larger kernels are quicker, too",
            [f"Outside of kernels: {words.share(subject, ns)} {subject.per}, of one sample."],
            "where samples need not be answered one by one, give the model many at once (a leading batch dimension)",
            "",
            words.ids(rows),
        )
    ]


def _outermost(ranges: pd.DataFrame) -> tuple[str, int] | None:
    """Return the layer whose forward ranges last longest in all, which holds the others, and how many these are."""
    mine = ranges[((ranges["category"] == "layer") & (ranges["phase"] == "forward")).fillna(False).to_numpy(bool)]
    if mine.empty:
        return None
    names = mine["layer"].astype("string")
    name = str((mine["end_ns"] - mine["start_ns"]).groupby(names).sum().idxmax())
    return name, int((names == name).sum())


RULES: tuple[Rule, ...] = (over_samples, one_by_one_read, of_the_model, one_by_one)
