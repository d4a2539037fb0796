"""Page faults of unified memory: kernels wait while pages that they touch are moved to their device or mapped there."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import Trace, page_faults
from kernelscope.analysis.trace.page_faults import PageFaults

_SHARE = 0.5  # of what kernels' time differs by: by so much the time of page faults must differ
_AS_OFTEN = 0.02  # by which counts of the same kernels differ
_PREFETCH = "cudaMemPrefetchAsync"
_REMEDY = f"{_PREFETCH} before the kernel (and after it for the host), cudaMemAdvise, or cudaMalloc with explicit copies"
_REST = f"{_PREFETCH} of all that the kernel touches, its results too; cudaMemAdvise, or cudaMalloc with explicit copies"


def longer_waits(case: DeviceCase) -> Iterator[DeviceFinding]:
    """The same kernels take longer, by much of which page faults of unified memory take longer."""
    found = {key: page_faults.of_device(case.side(key).trace, case.side(key).account.device) for key in SIDES}
    a, b = found["a"], found["b"]
    if a is None or b is None or a.ns == b.ns:
        return
    more = b.ns - a.ns
    rows = _moved(case.kernels(), 1 if more > 0 else -1)
    if rows.empty or abs(more) < _SHARE * abs(int(rows["delta_ns"].sum())):
        return
    slow, slower, _, faster = words.slower(case, rows)
    title = f"kernels wait longer for page faults of unified memory in {slower} than in {faster}: {_both(case, a, b)}"
    sentences = ["A kernel waits while page faults are served: that is part of its time.", *words.both(case, rows)]
    if a.of_cpu or b.of_cpu:
        sentences.append(f"Page faults of the CPU: {a.of_cpu:,} in {case.a.name}, {b.of_cpu:,} in {case.b.name}.")
    yield DeviceFinding(
        "page faults of unified memory", title, rows["row"].tolist(), "medium", sentences, remedy(case.side(slow).trace)
    )


def remedy(trace: Trace) -> str:
    """Return what to do, which is not to begin with prefetching where the program does that already."""
    names = pd.concat([trace.calls["name"].astype("string"), trace.totals["name"].astype("string")])
    return _REST if names.str.startswith(_PREFETCH).fillna(False).any() else _REMEDY


def groups(one: PageFaults) -> str:
    """Return how long groups of page faults took, and how many they are: 1.61 ms in 12 groups."""
    return f"{words.duration(one.ns)} in {one.groups:,} group{'' if one.groups == 1 else 's'}"


def _both(case: DeviceCase, a: PageFaults, b: PageFaults) -> str:
    said = [f"{groups(one) if one.ns else 'none'} in {side.name}" for one, side in ((a, case.a), (b, case.b))]
    return ", ".join(said)


def _moved(rows: pd.DataFrame, direction: int) -> pd.DataFrame:
    """Return the kernels whose time moves in a direction: those that both sides execute as often, and others as a whole.

    Others, which one side has, are the same work under other names where there are as many on both sides.
    """
    one_sided = ((rows["a_count"] <= 0) != (rows["b_count"] <= 0)).to_numpy(bool)
    same, others = rows[~one_sided], rows[one_sided]
    often = (same["b_count"] - same["a_count"]).abs() <= _AS_OFTEN * same["a_count"]
    same = same[(often & (direction * same["delta_ns"] > 0)).to_numpy(bool)]
    before, after = float(others["a_count"].sum()), float(others["b_count"].sum())
    as_many = abs(after - before) <= _AS_OFTEN * before and direction * int(others["delta_ns"].sum()) > 0
    return pd.concat([same, others]) if as_many else same


RULES = (longer_waits,)
