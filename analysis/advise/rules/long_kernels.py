"""Notes on single kernels: one of the program's own that takes most of the time, and one execution far longer than the others."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import ALL
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import page_faults
from kernelscope.analysis.advise.subject import Subject

_GPUS = ("cuda", "rocm", ALL)  # whose programs bring kernels of their own
_MOST = 0.5  # of the step
_LEAST_NS = 100_000  # of a kernel in all: less is hardly worth a profiler
# A function in no namespace, as a program's own kernels are; libraries and compilers put theirs in one, or begin like this
_OWN = (
    r"^(?:void )?(?!triton_|sm\d+_|(?:maxwell|pascal|volta|turing|ampere|hopper)_|__)[A-Za-z_]\w*(?:<.*>)?(?:\(.*\))?"
    r"(?: \[clone .*\])?(?:\.kd)?$"
)
_NO_KERNELS = ("communication", "copy", "set", "idle")
_COMPARE = {
    "attention": "compare it with a library's fused attention, which uses tensor cores (FlashAttention, cuDNN)",
    "gemm": "compare it with the vendor's library of products (cuBLAS, hipBLAS)",
    "convolution": "compare it with the vendor's library of convolutions (cuDNN, MIOpen)",
}
_COUNTERS = {
    "on an AMD GPU": "rocprof-compute shows what it waits for",
    "": "Nsight Compute shows what it waits for (ncu --set full --kernel-name {})",
}
_OF_RANKS = "as when it waits for another rank"
_SEVERAL = 3  # executions
_TIMES = 5.0  # as long as the others on average
_PART = 0.1  # of the step: what one execution takes longer
_FIRST, _WHY = "its first use, ", "page faults, or another program on the device"


def notes(subject: Subject, kept: Collection[Advice]) -> list[str]:
    """Return both notes; kept: the advice that is given, which tells more of its kernels."""
    return [*_own(subject, kept), *_outliers(subject, kept)]


def _own(subject: Subject, kept: Collection[Advice]) -> list[str]:
    """Say where to look if a kernel of the program's own takes most of the time, and no advice is on it."""
    rows = subject.kernels()
    if not subject.device.startswith(_GPUS) or subject.unrecorded or len(subject.trace.metrics) or rows.empty:
        return []
    name = rows.groupby(rows["name"].astype("string"))["time_ns"].sum().sort_values(ascending=False, kind="stable").index[:1]
    mine = rows[rows["name"].isin(name).fillna(False).to_numpy(bool)]
    ns, told = words.time_of(mine), frozenset[int]().union(*(one.rows for one in kept))
    if mine.empty or ns < max(_MOST * subject.step_ns, _LEAST_NS) or told & words.ids(mine) or not is_own(mine):
        return []
    if any(one.saves_ns >= ns for one in kept):
        return []
    short = words.kernel(str(name[0]))
    count = float(mine["count"].sum())
    each = f", {words.duration(ns / count)} in each of {words.count(count)} executions" if count > 1 else ""
    compare = _COMPARE.get(str(mine["kind"].iloc[0]))
    look = words.text(subject, _COUNTERS).format(short)
    return [
        f"{short} takes {words.share(subject, ns)}{each}, and is a kernel of no known library; the recording does not tell how "
        f"fast it could be: {'; '.join(filter(None, [compare, look]))}"
    ]


def is_own(rows: pd.DataFrame) -> bool:
    """Return whether these rows of one kernel are of no library, framework or compiler."""
    known = rows["library"].notna() | rows["operator"].notna() | rows["kind"].isin(_NO_KERNELS)
    return bool(rows["name"].astype("string").str.contains(_OWN).fillna(False).all() and not known.any())


def _outliers(subject: Subject, kept: Collection[Advice]) -> list[str]:
    """Say which kernel of totals takes much of its time in one execution, far longer than its others."""
    if subject.timeline or subject.recorded_ns or subject.on_host or page_faults.TOPIC in [one.topic for one in kept]:
        return []
    return [
        _outlier(row) for row in _executions(subject).to_dict("records")
        if row["count"] >= _SEVERAL and row["longest"] >= _TIMES * row["others"]
        and row["longest"] - row["others"] >= _PART * subject.step_ns
    ]  # fmt: skip


def _executions(subject: Subject) -> pd.DataFrame:
    """Return by name, where known: count, longest, others (their mean, ns), kind, same (whether all have one grid) and later
    (whether the longest is known not to be the first).
    """
    kernels = subject.trace.kernels
    ns, longest = kernels["duration_ns"].astype("Float64"), kernels["max_ns"].astype("Float64")
    longest = longest.where(kernels["count"] > 1, ns)  # of one execution no minimum and maximum is told
    table = pd.DataFrame({"name": kernels["name"].astype("string"), "count": kernels["count"], "ns": ns, "longest": longest})
    table["grid"], table["kind"] = kernels["grid"].astype("string"), kernels["kind"].astype("string")
    groups = table.groupby("name", sort=False)
    sums = groups.agg(
        count=("count", "sum"), ns=("ns", "sum"), longest=("longest", "max"), kind=("kind", "first"), grids=("grid", "nunique")
    )
    sums["same"] = (sums["grids"] == 1) & (groups["grid"].count() == groups.size())
    later = groups["longest"].agg(lambda one: bool(one.to_numpy(float, na_value=0).argmax() > 0))
    sums["later"] = later & (sums["count"] == groups.size())
    sums["others"] = (sums["ns"] - sums["longest"]) / np.maximum(sums["count"] - 1, 1)
    return sums[(groups["longest"].count() == groups.size()).to_numpy(bool)].reset_index()


def _outlier(row: Mapping[Hashable, Any]) -> str:
    longest, others = (words.duration(float(row[key])) for key in ("longest", "others"))
    other = f"{'' if row['later'] else _FIRST}{_WHY}"
    why = f"with the same grid: as for {other}" if row["same"] else f"as with more data, or for {other}"
    why = _OF_RANKS if row["kind"] == "communication" else why
    return (
        f"the longest of {words.count(float(row['count']))} executions of {words.kernel(row['name'])} takes {longest}, "
        f"the others {others} on average, {why}"
    )


RULES: tuple[Rule, ...] = ()
