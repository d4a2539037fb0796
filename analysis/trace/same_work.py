"""Find captures that hold the same work, written differently: together it would count twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals

Named = tuple[Trace, str]

_KERNEL = ["start_ns", "end_ns", "device", "thread", "name"]  # unique on a stream
_IDENTITIES = {"kernels": ["start_ns", "end_ns", "device", "name"], "operators": ["start_ns", "end_ns", "name"]}
_OF_DEVICES = ("kernels", "copies")
_STREAM = ["device", "thread", "process"]
_ROUNDED_NS = 10_000  # tools round times by at most this much, so two records of a short kernel may be that far apart
_TELLING = 20  # kernels: two windows do not by chance agree in as many durations and distances
_WRITTEN_NS = 1_000  # precision of a double that holds microseconds since 1970


def refuse_same_times(one: Named, other: Named) -> None:
    """Refuse two captures if one holds most kernels or operators of the other: a copy or a part of it, written again."""
    for table, columns in _IDENTITIES.items():
        mine, theirs = (getattr(trace, table) for trace, _ in (one, other))
        if not _many(mine["start_ns"].isin(theirs["start_ns"]).sum(), mine, theirs):
            continue  # quick to decide, and the usual case
        mine, theirs = (_distinct(rows, columns) for rows in (mine, theirs))
        both = len(mine.merge(theirs, on=columns))
        if _many(both, mine, theirs):
            what = f"{both:,} of its {table} are also in {one[1]}, at the same times"
            raise EvidenceError(f"{other[1]}: {what}; name one of them")


def refuse_shared(one: Named, other: Named) -> None:
    """Refuse two captures that share kernels of an accelerator, as overlapping windows do: these would count twice."""
    mine, theirs = (trace.kernels[_on_accelerators(trace.kernels)] for trace, _ in (one, other))
    mine = mine[mine["start_ns"].isin(theirs["start_ns"]).to_numpy(bool)]
    theirs = theirs[theirs["start_ns"].isin(mine["start_ns"]).to_numpy(bool)]
    shared = len(_distinct(mine, _KERNEL).merge(_distinct(theirs, _KERNEL), on=_KERNEL)) if len(mine) else 0
    if shared:
        what = f"{shared:,} of its kernels are also in {one[1]}, at the same times"
        raise EvidenceError(f"{other[1]}: {what}; name one of them, or windows that do not overlap")


def _many(count: int, mine: pd.DataFrame, theirs: pd.DataFrame) -> bool:
    return 2 * count > min(len(mine), len(theirs))


def _distinct(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    texts = {name: "str" for name in columns if not name.endswith("_ns")}
    return table[columns].dropna().astype(texts).drop_duplicates()


def refuse_one_stream(one: Named, other: Named) -> None:
    """Refuse two captures whose kernels run on the same streams at the same time: their times were shifted a little or rounded.

    A stream runs one kernel after another, so most kernels of two captures can overlap there only if they are the same.
    """
    mine, theirs = (_on_streams(trace) for trace, _ in (one, other))
    if mine["process"].isna().all() or theirs["process"].isna().all():
        mine, theirs = (table.assign(process=0) for table in (mine, theirs))  # unknown in one: it may be the same
    few, many = sorted((mine, theirs), key=len)
    streams = pd.concat([few, many])[_STREAM].groupby(_STREAM, dropna=False, sort=False).ngroup()
    group: npt.NDArray[np.int64] = np.asarray(streams, dtype=np.int64)
    beside = _beside(few, group[: len(few)], many, group[len(few) :])
    if 2 * beside > len(few):
        what = f"{beside:,} kernels of one run on the same streams as those of the other"
        raise EvidenceError(f"{other[1]}: holds the same work as {one[1]}: {what}, at the same times; name one of them")


def _on_streams(trace: Trace) -> pd.DataFrame:
    kernels = trace.kernels[_on_accelerators(trace.kernels) & trace.kernels["start_ns"].notna().to_numpy(bool)]
    return kernels[["start_ns", "end_ns", *_STREAM]].astype({"device": "string"})


def _beside(few: pd.DataFrame, group: npt.NDArray[np.int64], many: pd.DataFrame, others: npt.NDArray[np.int64]) -> int:
    """Return how many kernels begin or end within _ROUNDED_NS of a time when one of the others in their group runs.

    Groups are placed one after another in time, so that one search covers all.
    """
    if not len(few):
        return 0
    start, end = intervals.edges(few)
    theirs, over = intervals.edges(many)
    first = int(min(start.min(), theirs.min())) - 2 * _ROUNDED_NS
    span = int(max(end.max(), over.max())) - first + 2 * _ROUNDED_NS
    if span > np.iinfo(np.int64).max // (int(max(group.max(), others.max())) + 1):
        return 0  # times of centuries: nothing runs at once
    shift, theirs_shift = group * span - first, others * span - first
    order = np.argsort(theirs + theirs_shift, kind="stable")
    begun, reached = (theirs + theirs_shift)[order], np.maximum.accumulate((over + theirs_shift)[order])
    before = np.searchsorted(begun, end + shift + _ROUNDED_NS, side="right") - 1
    return int(((before >= 0) & (reached[before] >= start + shift - _ROUNDED_NS)).sum())


def refuse_moved(one: Named, other: Named) -> None:
    """Refuse two captures whose kernels have the same durations and distances: one capture with its clock shifted."""
    mine, theirs = (trace.kernels[trace.kernels["start_ns"].notna().to_numpy(bool)] for trace, _ in (one, other))
    if len(mine) != len(theirs) or len(mine) < _TELLING:
        return
    (start, lasted), (begun, took) = course(mine), course(theirs)
    if np.abs(start - begun).max() <= _WRITTEN_NS and np.array_equal(np.sort(lasted), np.sort(took)):
        what = f"its {len(mine):,} kernels have the same durations and distances, at other times"
        raise EvidenceError(f"{other[1]}: holds the same work as {one[1]}: {what}; name one of them")


def course(kernels: pd.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return when kernels begin after the first one, and how long each lasts, sorted by start."""
    start, end = intervals.edges(kernels)
    order = np.lexsort((end, start))
    return start[order] - start.min(), (end - start)[order]


def refuse_totals(captures: Sequence[Named], timed: Sequence[Named]) -> None:
    """Refuse totals of kernels or copies together with a timeline that has them one by one.

    Kernels with metrics are not totals: they are matched with those of the timeline (see `counted`) if there is only one.
    """
    for trace, name in captures:
        if len(trace.metrics) and len(timed) < 2:
            continue
        for table in _OF_DEVICES:
            if _without_times(getattr(trace, table)):
                other = next((file for one, file in timed if _with_times(getattr(one, table))), None)
                if other is not None:
                    raise EvidenceError(f"{name}: has totals of {table}, and {other} has them on a timeline; name one of them")


def _without_times(table: pd.DataFrame) -> bool:
    mine = table.loc[_on_accelerators(table), "start_ns"]
    return len(mine) > 0 and bool(mine.isna().all())


def _with_times(table: pd.DataFrame) -> bool:
    return bool(table.loc[_on_accelerators(table), "start_ns"].notna().any())


def _on_accelerators(table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows are not the CPU's: tables of its libraries hold what no timeline has."""
    return np.asarray((table["device"].astype("string") != "cpu").fillna(True).to_numpy(bool))
