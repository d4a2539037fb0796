"""Input pipeline: the step waits while a batch is fetched, decoded or converted, or shares its cores with that work."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion
from kernelscope.analysis.trace import Trace

CAUSE = "input pipeline"
_FULL = 0.65  # of the cores, busy on average: from here on, work beside the step often takes its cores
_MUCH = 0.5  # of the steps' difference: preparing batches beside them must take at least this much more to be the cause
MOST_NAMED = 3  # operators of the input pipeline that a sentence lists
_CALLS_PYTHON = r"(Eager)?PyFunc(Stateless)?"  # operators of TensorFlow
IN_PYTHON = (
    "replace Python code (from_generator, tf.numpy_function, tf.py_function) with TensorFlow's own operators, which run on all "
    "threads at once; or prepare the data once, before training"
)

_TF_DATA = "tf.data: map(..., num_parallel_calls=tf.data.AUTOTUNE), cache() and prefetch(tf.data.AUTOTUNE)"
_REMEDIES = {
    "pytorch": "load ahead of the step: torch.utils.data.DataLoader(num_workers=..., prefetch_factor=...)",
    "tensorflow": _TF_DATA,
    "keras-tensorflow": _TF_DATA,
    "mxnet": "gluon.data.DataLoader(num_workers=..., prefetch=...), or mx.io.PrefetchingIter",
    "cntk": "cntk.io.MinibatchSource, which reads ahead, instead of arrays converted in each step",
}
_AHEAD = "load and convert batches ahead of the step, on other threads"
# A program that already reads ahead has all of these in its source
_READS_AHEAD = {
    "pytorch": (r"num_workers\s*=\s*[1-9]",),
    "tensorflow": ("num_parallel_calls", r"prefetch\("),
    "keras-tensorflow": ("num_parallel_calls", r"prefetch\("),
}
_LESS = "batches are already prepared ahead: do less for each sample, or do once for all epochs what stays the same"


def rows_of_data(case: Case) -> pd.DataFrame:
    """Return the rows in which the batch was prepared: in phase data, or while the host fetched it."""
    rows = case.rows
    mine = (rows["phase"].astype("string") == "data") | rows["cell"].isin([f"(host: {levels.DATA})"])
    # a batch is not made within a layer; its copies to the device are transfers
    mine &= ~rows["cell"].astype("string").str.startswith(f"({levels.DEVICE}")
    return rows[mine.fillna(False).to_numpy(bool)]


def _hidden_behind(case: Case, rows: pd.DataFrame, b: bool) -> dict[str, float]:
    """Return the claims of rows that are shorter on the slow side because other threads prepared batches at the same time.

    The partition divides instants in which both run: what preparing gained there, those rows lost together.
    """
    mine = case.account.of_side("b" if b else "a")
    beside = mine[mine["row"].isin(rows["row"]) & mine["kind"].notna()]
    others = case.rows[~case.rows["row"].isin(rows["row"]).to_numpy(bool)]
    lost = float(others["delta_ns"].sum())
    if beside.empty or not case.same_framework or (lost >= 0) is b:
        return {}
    return evidence.towards(case, lost, others)


def waiting_for_data(case: Case) -> list[Suspicion]:
    """Steps take longer to get their batch on one side, or share cores with the preparation of later batches."""
    rows = rows_of_data(case)
    crowding = _crowding_ns(case)
    amount = evidence.noticed_ns(case, rows)
    amount = amount if abs(amount) >= evidence.worth_ns(case) else crowding
    if abs(amount) < evidence.worth_ns(case):
        return []
    slow = case.b if amount > 0 else case.a
    claimed = {**evidence.claims(rows), **_hidden_behind(case, rows, slow is case.b)}
    slowed = _slowed(case)
    crowded = crowding * amount > 0 and float(slowed["delta_ns"].sum()) * amount > 0
    if crowded:
        claimed = {**evidence.claims(rows), **evidence.towards(case, crowding, slowed)}
    if sum(claimed.values()) * (1 if amount > 0 else -1) < evidence.worth_ns(case):
        return []  # all of it is hidden behind other work
    a_ns, b_ns = int(rows["a_ns"].sum()), int(rows["b_ns"].sum())
    beside = [_beside_ns(side) for side in (case.a, case.b)]
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} prepares its batches on cores that the step needs"
            if crowded
            else f"{slow.name} waits longer for its batches",
            claimed,
            "high" if case.same_framework else "medium",
            [
                f"Getting the batch takes, per step: {evidence.both_times(case, a_ns, b_ns)}.",
                *([f"Other threads prepare batches, per step: {evidence.both_times(case, *beside)}."] if crowded else []),
                *_operators(case, slow is case.b),
                *_python(slow),
                *_workers(case),
            ],
            IN_PYTHON if _python(slow) else _remedy(slow),
        )
    ]


def _remedy(side: Side) -> str:
    """Return how to get batches faster, without what the program's source already does."""
    framework = str(side.framework)
    source = "\n".join(side.sources.values())
    there = _READS_AHEAD.get(framework)
    return _LESS if there and all(re.search(word, source) for word in there) else _REMEDIES.get(framework, _AHEAD)


def _crowding_ns(case: Case) -> float:
    """Return how much more processor time preparing batches beside the step takes in B, if no core is left for it.

    0 if the difference is too small to matter for a step, or if cores idle: then it costs nothing.
    """
    used, slow = case.account.processor, evidence.slower(case)[0]
    busy, allowed = evidence.busy_cores(slow), (slow.facts.get("machine") or {}).get("allowed_threads")
    if not case.same_framework or used is None or busy is None or not allowed or busy < _FULL * allowed:
        return 0.0
    more = _beside_ns(case.b) - _beside_ns(case.a)
    delta = case.account.wall.delta_ns
    if not (more * delta > 0 and used.significant and used.delta_ns * more > 0):
        return 0.0
    if python_calls(slow.trace)[1] > abs(more) / 2:  # they wait for one another, which takes no processor time
        more = float(np.copysign(min(abs(more), abs(used.delta_ns)), more))
    return more if abs(used.delta_ns) > abs(more) / 2 and abs(more) > _MUCH * abs(delta) else 0.0


def _beside_ns(side: Side) -> float:
    """Return the time per step of operators that prepare batches, over all threads, without nested ones."""
    table = side.trace.operators
    mine = table[(table["phase"].astype("string") == "data").fillna(False).to_numpy(bool)].sort_values(["thread", "start_ns"])
    ended = mine.groupby("thread", sort=False)["end_ns"].cummax().groupby(mine["thread"], sort=False).shift()
    outer = mine[(ended.isna() | (mine["start_ns"] >= ended)).to_numpy(bool)]
    return evidence.per_step(side.trace, outer) * float((outer["end_ns"] - outer["start_ns"]).mean()) if len(outer) else 0.0


def _slowed(case: Case) -> pd.DataFrame:
    """Return the rows of kernels that both sides execute alike, so that only the available cores can make a difference."""
    alike = case.rows.index.isin(ev.alike(case)) & ~case.rows["row"].isin(rows_of_data(case)["row"]).to_numpy(bool)
    return case.rows[alike]


def _operators(case: Case, b: bool) -> list[str]:
    """Name the operators with which the slow side gets its batch, if recorded."""
    cells = case.account.of_side("b" if b else "a")
    rows = rows_of_data(case)
    mine = cells[cells["row"].isin(rows["row"]) & cells["operator"].notna()]
    if mine.empty:
        return []
    if mine["time_ns"].sum() < cells.loc[cells["row"].isin(rows["row"]), "time_ns"].sum() / 2:
        return []  # most of it is in no operator
    times = mine.groupby(mine["operator"].astype("string"))["time_ns"].sum().nlargest(MOST_NAMED)
    named = "Most of it in" if times.sum() > mine["time_ns"].sum() / 2 else "The largest parts are in"
    return [f"{named} {', '.join(f'{operator} ({evidence.duration(ns)})' for operator, ns in times.items())}."]


def _python(side: Side) -> list[str]:
    """Say how often and how long a TensorFlow pipeline calls Python functions, if its operators were recorded."""
    each, took = python_calls(side.trace)
    if not each:
        return []
    often = "once" if each == 1 else f"{each:,.3g} times"
    return [
        f"{side.name}'s pipeline calls Python {often} a step (tf.py_function, tf.numpy_function), {evidence.duration(took)}: "
        "only one of these calls runs at a time; TensorFlow's own operators run on all threads."
    ]


def python_calls(trace: Trace) -> tuple[float, float]:
    """Return how often per step a TensorFlow pipeline calls Python, and for how long in ns."""
    operators = trace.operators
    calls = operators[operators["name"].astype("string").str.fullmatch(_CALLS_PYTHON).fillna(False).to_numpy(bool)]
    if calls.empty:
        return 0.0, 0.0
    each = evidence.per_step(trace, calls)
    return each, each * float((calls["end_ns"] - calls["start_ns"]).mean())


def _workers(case: Case) -> list[str]:
    """Name the sides whose batches are made by workers that are not recorded."""
    names = " and ".join(side.name for side in (case.a, case.b) if side.facts.get("batches_by_workers"))
    return [f"Workers make the batches of {names}: their own time is not recorded, only the wait for them."] if names else []


RULES: tuple[Rule, ...] = (waiting_for_data,)
