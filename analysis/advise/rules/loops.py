"""Python loops over the samples of a batch: many small operators outside the model's layers, or many calls of the model."""

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
_MULTIPLE = 0.02  # by how much the number of operators may differ from one for each sample, or two, ...
_MISSED = 0.05  # of the samples, at most: otherwise any large number would be near a multiple
_SMALL_NS = 100_000  # of one call: larger ones gain little from saving the start, some 10 us
_IN_A_LINE = r"^(?!\s*(?:async\s+)?for\b).*\bfor\b.+\bin\b"  # a loop within a statement, which counts as one hit
_WHOLE_BATCH = (
    "do it for the whole batch at once (a leading batch dimension, torch.vmap, jax.vmap, tf.vectorized_map), or before "
    "the step in the loader's workers"
)
_WHOLE_TENSORS = (
    "work on whole tensors instead of single elements, rows or parameters (stack them; torch._foreach_norm "
    "and the like), and copy the result to the host once"
)
_MOST = 0.5  # of the samples: conditional operators, such as random augmentations, do not run for every sample
_EACH = 0.9  # calls of the model for each sample that was loaded, at least
_OF_A_VECTOR = r"\b[mnk][12]\b"  # a product with 1 or 2 as one of its three dimensions
_SUMS = ("aten::add", "aten::add_")  # autograd's sums of gradients, one less than there are gradients
_FIRST = 2  # calls fewer in-place sums: the first two gradients make one sum, out of place


def over_samples(subject: Subject) -> list[Advice]:
    """Operators run once per sample, outside the layers."""
    if not subject.on_host or subject.program:  # a whole program has no known layers: the network itself may loop
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
    """Return the advice on operators that run often, some of which compute; once for each sample, or in any other loop."""
    python_ns = words.python_in(subject, words.own_lines(subject, often))
    ns = words.time_of(often) + python_ns
    lines = words.lines_of(subject, often) or words.lines(subject, 0.1 * ns, words.SLOWED * ns, hits=_MOST * batch)
    lines = lines or words.lines(subject, 0.1 * ns, words.SLOWED * ns, names=_IN_A_LINE)
    if by_sample:
        topic, which = "loop over samples", "for each sample, or for most samples,"
        estimate, remedy = f"one operator on the whole batch instead of one for each of its {batch} samples", _WHOLE_BATCH
    else:
        topic, which = "small operators", f"{batch} times or more"
        estimate, remedy = "one operator instead of many", _WHOLE_TENSORS
    return Advice(
        topic,
        f"{words.count(float(computing['count'].sum()))} small operators run {subject.in_each} outside the model's layers",
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
    return f", including {words.duration(ns)} of Python in their lines" if ns else ""


def one_by_one_read(subject: Subject) -> list[Advice]:
    """Values are read out of tensors one by one."""
    rows, count = reading_out(subject)
    if rows.empty or parameters.reads(subject):  # one for each parameter: rules.parameters reports that loop
        return []
    ns = words.time_of(rows)
    return [
        Advice(
            "small operators",
            f"{words.count(count)} values are read out of tensors one by one {subject.in_each}",
            float(ns),
            "one copy of a whole tensor instead of one call for each value",
            [
                f"The calls for each value take {words.share(subject, ns)} {subject.per}: {words.largest(rows, 'detail')}.",
                *words.lines(subject, 0.1 * ns, words.SLOWED * ns, hits=_MOST * count),
            ],
            "read a whole tensor at once (tensor.tolist(), tensor.cpu().numpy()), or reduce it before reading (sum(), max())",
            "",
            words.ids(rows),
        )
    ]


def reading_out(subject: Subject) -> tuple[pd.DataFrame, float]:
    """Return the rows of what runs for each value that is read out of a tensor, and how many values are; else no rows and 0."""
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
    """Return the rows of operators whose calls are short."""
    computing = rows[(rows["part"] == COMPUTE).to_numpy(bool)].groupby("operator")[["time_ns", "count"]].sum()
    large = computing.index[(computing["time_ns"] >= _SMALL_NS * computing["count"]).to_numpy(bool)]
    return rows[~rows["operator"].isin(large).to_numpy(bool)]


def _turns(computing: pd.DataFrame) -> int:
    """Return how often a loop runs if the batch is unknown: the count that takes most time among many executions; 0 if none."""
    many = computing[(computing["count"] >= _BATCH).to_numpy(bool)]
    if many.empty:
        return 0
    times = many.groupby(many["count"].round())["time_ns"].sum()
    return int(times.index.to_numpy(np.int64)[int(times.to_numpy().argmax())])


def _of_samples(rows: pd.DataFrame, batch: int) -> int:
    """Return the time of operators that run once for each sample of a batch, or twice, ..., judging by their number."""
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
    saved = "the host's time in layers between kernels" + (" and these kernels" if len(weights) else "")
    return [
        Advice(
            "loop over samples",
            f"{name} is called {words.count(calls / steps)} times in each step, once for each sample of a batch of {batch}",
            (host_ns + words.time_of(weights)) * (1 - 1 / batch),
            f"{saved}, once instead of {batch} times; other kernels get quicker, too",
            [
                f"In layers, outside kernels: {words.share(subject, host_ns)} {subject.per}.",
                *_for_each(subject, weights),
            ],
            "call the model once with the whole batch; if samples need individual treatment, use torch.vmap, jax.vmap or "
            "tf.vectorized_map",
            "",
            words.ids(pd.concat([host, weights])),
        )
    ]


def _of_weights(subject: Subject, calls: float) -> pd.DataFrame:
    """Return the kernels in layers that run for each of so many calls and whose time depends on weights, not on samples.

    Those are products of a matrix and a vector, which read or write the matrix for few operations on it, and sums of gradients:
    each call's gradients are added to the earlier ones.
    """
    rows = subject.rows[((subject.rows["part"] == COMPUTE) & subject.rows["layer"].notna()).to_numpy(bool)]
    rows = rows[(rows["count"] >= _EACH * calls - _FIRST).to_numpy(bool)]
    vectors = (rows["kind"] == "gemm") & rows["problem"].str.contains(_OF_A_VECTOR)
    sums = (rows["phase"] == "backward") & rows["operator"].isin(_SUMS)
    return rows[(vectors | sums).fillna(False).to_numpy(bool)]


def _for_each(subject: Subject, weights: pd.DataFrame) -> list[str]:
    """Say how long these kernels take."""
    if weights.empty:
        return []
    took = f"{words.share(subject, words.time_of(weights))} {subject.per}: {words.largest(weights, 'operator')}"
    return [f"Kernels that read or write the weights, or their gradients, for one sample each: {took}."]


def one_by_one(subject: Subject) -> list[Advice]:
    """Inference with one sample a call: the host's work around kernels is done for each sample."""
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
            f"the host's time outside kernels, once instead of {_BATCH} times; larger kernels are quicker, too",
            [f"Outside kernels: {words.share(subject, ns)} {subject.per}, for one sample."],
            "if samples need not be answered one by one, give the model many at once (a leading batch dimension)",
            "",
            words.ids(rows),
        )
    ]


def _outermost(ranges: pd.DataFrame) -> tuple[str, int] | None:
    """Return the layer whose forward ranges take longest in all, which holds the others, and how many ranges it has."""
    mine = ranges[((ranges["category"] == "layer") & (ranges["phase"] == "forward")).fillna(False).to_numpy(bool)]
    if mine.empty:
        return None
    names = mine["layer"].astype("string")
    name = str((mine["end_ns"] - mine["start_ns"]).groupby(names).sum().idxmax())
    return name, int((names == name).sum())


RULES: tuple[Rule, ...] = (over_samples, one_by_one_read, of_the_model, one_by_one)
