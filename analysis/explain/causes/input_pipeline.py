"""Input pipeline: the step waits while a batch is fetched, decoded or converted."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis import partition as parts
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Suspicion

CAUSE = "input pipeline"
MOST_NAMED = 3  # operators of the input pipeline that a sentence lists

_REMEDIES = {
    "pytorch": "load ahead of the step: torch.utils.data.DataLoader(num_workers=..., prefetch_factor=...)",
    "tensorflow": "tf.data: map(..., num_parallel_calls=tf.data.AUTOTUNE), cache() and prefetch(tf.data.AUTOTUNE)",
    "mxnet": "gluon.data.DataLoader(num_workers=..., prefetch=...), or mx.io.PrefetchingIter",
    "cntk": "cntk.io.MinibatchSource, which reads ahead, in place of arrays converted in each step",
}


def rows_of_data(case: Case) -> pd.DataFrame:
    """Return the rows in which the batch was made ready: in phase data, or the host fetching it."""
    rows = case.rows
    mine = (rows["phase"].astype("string") == "data") | rows["cell"].isin([f"(host: {parts.DATA})"])
    # what makes a batch cannot be within a layer; copies of it to the device are transfers
    mine &= ~rows["cell"].astype("string").str.startswith(f"({parts.DEVICE}")
    return rows[mine.fillna(False).to_numpy(bool)]


def waiting_for_data(case: Case) -> list[Suspicion]:
    """Steps spend more time on getting their batch on one side."""
    rows = rows_of_data(case)
    amount = float(rows["delta_ns"].sum())
    if abs(float(evidence.noticed(rows)["delta_ns"].sum())) < evidence.worth_ns(case):
        return []
    slow = case.b if amount > 0 else case.a
    a_ns, b_ns = int(rows["a_ns"].sum()), int(rows["b_ns"].sum())
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} waits longer for its batches",
            evidence.claims(rows),
            "high" if case.same_framework else "medium",
            [
                f"Getting the batch takes, per step: {evidence.both_ms(case, a_ns, b_ns)}.",
                *_operators(case, slow is case.b),
            ],
            _REMEDIES.get(str(slow.framework), "load and convert batches ahead of the step, on other threads"),
        )
    ]


def _operators(case: Case, b: bool) -> list[str]:
    """Return a sentence on what the slow side does to get its batch, where operators were recorded for it."""
    cells = case.account.of_side("b" if b else "a")
    rows = rows_of_data(case)
    mine = cells[cells["row"].isin(rows["row"]) & cells["operator"].notna()]
    if mine.empty:
        return []
    if mine["time_ns"].sum() < cells.loc[cells["row"].isin(rows["row"]), "time_ns"].sum() / 2:
        return []  # most of it is in no operator
    times = mine.groupby(mine["operator"].astype("string"))["time_ns"].sum().nlargest(MOST_NAMED)
    return [f"Most of it in {', '.join(f'{operator} ({evidence.ms(ns)})' for operator, ns in times.items())}."]


RULES: tuple[Rule, ...] = (waiting_for_data,)
