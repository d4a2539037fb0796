"""MXNet's copies between arrays of the device, which its profiler counts among the operators: many small ones."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.device_account import COPY
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import LEAST_ON_DEVICE, Advice, Rule
from kernelscope.analysis.advise.subject import Subject

COPIES = r"^_?(?:[Ss]ync)?_?[Cc]opy(?:to)?_?(?:CPU|GPU)2(?:CPU|GPU)$"  # operators that only copy an array, in any direction
_WITHIN = r"GPU2GPU$"
_MANY = 100  # copies: fewer may be start-up
_TIMES = 10  # as often as the other operators: many arrays for each of their executions
_ONE = 0.5  # of the operators that compute: as many run equally often
_REMEDY = (
    "gather what is sent: one large array, or slices of it, in place of many small ones; keep parameters and results on the "
    "device that uses them (ctx, as_in_context and copyto copy); with several devices, kvstore='device' or 'nccl', with "
    "MXNET_KVSTORE_BIGARRAY_BOUND and MXNET_UPDATE_AGGREGATION_SIZE"
)
_LINK = "https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training"


def many(subject: Subject) -> list[Advice]:
    """Arrays are copied on the device one by one, far more often than anything else runs."""
    rows = subject.kernels()
    names = rows["name"].astype("string").fillna("")
    copies = names.str.contains(COPIES).to_numpy(bool)
    mine, others = rows[copies & names.str.contains(_WITHIN).to_numpy(bool)], rows[~copies]
    number, ns = float(mine["count"].sum()), words.time_of(mine)
    if subject.framework != "mxnet" or number < _MANY or not ns:
        return []
    return [
        Advice(
            "copies",
            "many arrays are copied on the device, one by one",
            ns,
            "nearly all of it, if few large arrays are copied, or none",
            [
                f"Copies on the device, or between devices, take {words.share(subject, ns)} {subject.per}: "
                f"{words.kernels(mine)}, {words.duration(ns / number)} each{_beside(number, others)}.",
                *_on_host(subject),
            ],
            _REMEDY,
            _LINK,
            words.ids(mine),
        )
    ]


def _beside(number: float, others: pd.DataFrame) -> str:
    """Say how many copies there are for each execution of the other operators, if most of these run equally often."""
    counts = others["count"].astype(float)
    often = counts.mode()
    if often.empty or not often.iloc[0] or number < _TIMES * often.iloc[0] or (counts == often.iloc[0]).mean() < _ONE:
        return ""
    each, runs = words.count(number / often.iloc[0]), words.count(often.iloc[0])
    return f"; {each} for each of the {runs} executions of most other operators"


def _on_host(subject: Subject) -> list[str]:
    """Say how long copies from host memory to host memory take, if that is noticeable."""
    moves = subject.part(COPY)
    ns = words.time_of(moves[(moves["kind"] == "host to host").fillna(False).to_numpy(bool)])
    noticed = ns > LEAST_ON_DEVICE * subject.step_ns
    return [f"Copies within the host's memory take another {words.share(subject, ns)}."] if noticed else []


RULES: tuple[Rule, ...] = (many,)
