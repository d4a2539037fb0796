"""Work: one side executes more kernels of a kind, or they take longer there, and no other rule has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, SMALL, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.causes import hardware, precision
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_LEAVE = "leave out work that the step does not need"
_MORE = f"{_LEAVE}; `breakdown --by operator` shows which operators launch these kernels"
_NO_OPERATORS = "`breakdown --by kernel` of both shows which kernels they are; the capture has no operators for them"
_OF_FASTER = "they are on the faster side, and may be why it is faster"
_FASTER = f"{_OF_FASTER}: `breakdown --by operator` shows which operators launch them"
_OTHERWISE = "`breakdown --by kernel` of both shows with which kernels {fast} computes this"
_INPUT = "keep them if they take less time than the device waits for input without them; else decode more on the host"
_MOST = 0.8  # of the time, in kernels of the same names
_EACH = 2  # kernels whose mean execution is given
INPUT = "input"  # not a kind of kernel, but a use of it
_OF_INPUT = re.compile(r"^(?:void )?(?:dali|nvjpeg|nvimgcodec)::")
_LONGER = "compare sizes, code and inputs; a trace with grids (nsys, nvprof --print-gpu-trace) shows whether problems are larger"
_ON_CPU = "compare sizes, threads, library versions, and other load on the processors"
_SAME_GRID = "grids are the same: compare code, inputs and the data's location; Nsight Compute shows what a kernel waits for"
_COUNTED = "compare sizes and code; `kernelscope advise` of {0}'s recording says what limits this kernel"
_OTHER_GRID = "grids differ: compare sizes, and how the work is divided into blocks"
_MORE_OFTEN = "find out why it is launched more often: a longer loop, smaller pieces, or work that is done again"
_SPLIT = "let one launch do the work of many: in {0}, an execution is about as short as the launch itself"
_TINY_NS = 10_000.0  # about as long as it takes to launch it
_GOOD_PART = 0.1  # of the difference
_ROUNDED = 100  # times as long: from here on without decimals
_MOSTLY = 0.5  # of a kernel's difference, due to more executions


def by_kind(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each kind of kernel (all convolutions together if they move alike), then for the small ones left."""
    for name in _own(case.kernels()):
        rows = case.kernels()
        yield _of_one(case, rows[(rows["name"].map(words.kernel) == name).to_numpy(bool)])
    rows = case.kernels()
    sums = rows.groupby("kind")["delta_ns"].sum()
    moved = sums.reindex(CONVOLUTIONS).fillna(0)
    given = rows["kind"].where(~_prepares_input(rows), INPUT)
    families = rows["name"].map(_in_place_of(case)).astype("string").where(~_prepares_input(rows)).fillna(given).fillna("unknown")
    if (moved >= 0).all() or (moved <= 0).all():
        families = families.replace(dict.fromkeys(CONVOLUTIONS, "convolution"))
    kinds = rows.groupby(families)["delta_ns"].sum().abs().sort_values(ascending=False)
    for kind in kinds.index:
        yield _finding(case, str(kind), rows[(families == kind).to_numpy(bool)])
    small = case.kernels(SMALL)
    if len(small):
        yield _finding(case, "small", small)


def _own(rows: pd.DataFrame) -> list[str]:
    """Return the program's own kernels (of no library) that both sides execute and that make a good part of the difference."""
    rows = rows[(rows["a_library"].isna() & rows["b_library"].isna() & ~_prepares_input(rows)).to_numpy(bool)]
    both = words.of_both(rows)["delta_ns"].abs()
    return [str(name) for name in both[both >= _GOOD_PART * max(both.sum(), 1)].sort_values(ascending=False, kind="stable").index]


def _of_one(case: DeviceCase, mine: pd.DataFrame) -> DeviceFinding:
    """Return the finding on one of the program's own kernels, which both sides execute."""
    slow, slower, fast, faster = words.slower(case, mine)
    counts, times = ([float(mine[f"{key}_{what}"].sum()) for key in (slow, fast)] for what in ("count", "ns"))
    name, number = words.kernel(mine["name"].iloc[0]), words.executions_of(case, mine)
    more = float(words.more_often(words.by_name(mine)).sum()) / float(mine["delta_ns"].sum()) > _MOSTLY
    ratio = times[0] / times[1] if times[1] > 0 else 0.0
    times_as_long = f"{ratio:,.0f}" if ratio >= _ROUNDED else f"{ratio:.3g}"
    longer = f"takes {times_as_long} times as long in {slower} as in" if ratio else f"takes longer in {slower} than in"
    verb = f"runs more often in {slower} than in" if more else longer
    title = f"{name} {verb} {faster}: {words.of_rows(case, mine)}, {number}"
    split = words.by_number(mine)
    remedy = _SPLIT.format(slower) if more and times[0] / counts[0] < _TINY_NS else _MORE_OFTEN if more else _longer(case, mine)
    cause = "more executions" if more else "slower kernels"
    sure = "high" if more else "medium"  # numbers of executions are no noise
    return DeviceFinding(cause, title, mine["row"].tolist(), sure, [*_each(case, mine), *split], remedy)


def _longer(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return the remedy for kernels that take longer, depending on their grids if the captures have them."""
    if case.on_cpus:
        return _ON_CPU
    slow, slower, _, _ = words.slower(case, rows)
    if len(case.side(slow).trace.metrics):
        return _COUNTED.format(slower)
    grids = [rows[f"{key}_grid"] for key in SIDES]
    if any(grid.isna().any() for grid in grids):
        return _LONGER
    return _SAME_GRID if (grids[0] == grids[1]).all() else _OTHER_GRID


def _in_place_of(case: DeviceCase) -> dict[str, str]:
    """Return the old kind of kernels that replace another one for one: a new name may lead to another kind."""
    kinds = case.rows.dropna(subset=["name", "kind"]).drop_duplicates("name").set_index("name")["kind"]
    result = {}
    for one in case.replaced:
        if len(one.a) == len(one.b) == 1 and one.a_count == one.b_count:
            (before,), (after,) = one.a, one.b
            if before in kinds.index and after in kinds.index and kinds[before] != kinds[after]:
                result[str(after)] = str(kinds[before])
    return result


def _finding(case: DeviceCase, kind: str, mine: pd.DataFrame) -> DeviceFinding:
    """Return the finding that these kernels take longer."""
    counts = {key: float(mine[f"{key}_count"].sum()) for key in SIDES}
    slow, slower, fast, faster = words.slower(case, mine)
    more = counts[slow] > 1.02 * counts[fast] + 0.5 and not _each_takes_longer(mine, slow, fast)
    each = _each(case, mine)
    name = {
        "unknown": "kernels",
        "small": "elementwise and other small kernels",
        INPUT: "kernels that prepare input on the device",
    }.get(kind, f"{kind} kernels")
    named = _named(mine)
    if counts[fast]:
        both = f"{words.of_rows(case, mine)}, {words.executions_of(case, mine)}"
        title = f"{name} ({named}) {'run more often' if more else 'take longer'} in {slower} than in {faster}: {both}"
    else:
        time = words.duration(float(mine[f"{slow}_ns"].sum()))
        only = f"only {slower} {'prints' if case.unlisted_ns(fast) else 'has'}"
        title = f"{only} {name} ({named}): {time}, {words.count(counts[slow])} {case.per}"
    cause = f"more {name}" if more else f"slower {name}"
    sentences = [*each, *words.both(case, mine), *words.by_number(mine)]
    if kind == "unknown" and precision.narrower(mine) is not None:
        sentences.append(f"{precision.types(case, mine)}.")
    if not more and counts[slow] and not case.same_device:  # the same number of kernels on another device: no work to leave out
        return DeviceFinding(
            "other hardware", f"other hardware: {title}", mine["row"].tolist(), "medium", sentences, hardware.REMEDY
        )
    tiny = more and 0 < float(mine[f"{slow}_ns"].sum()) < _TINY_NS * counts[slow] and counts[fast] > 0
    remedy = _INPUT if kind == INPUT else _longer(case, mine) if not more else _FASTER if case.faster == slow else _MORE
    if tiny and remedy == _MORE and kind == "unknown":
        remedy = _SPLIT.format(slower)
    if kind in MAIN and not counts[fast]:
        remedy = _OTHERWISE.format(fast=faster)
    elif remedy in (_FASTER, _MORE) and not _have_operators(case, slow, mine):
        remedy = f"{_OF_FASTER if remedy == _FASTER else _LEAVE}: {_NO_OPERATORS}"
    return DeviceFinding(cause, title, mine["row"].tolist(), "medium", sentences, remedy)


def _named(rows: pd.DataFrame) -> str:
    """Return the kernel whose time differs most, with its own difference if there are others."""
    deltas = words.by_name(rows)["delta_ns"]
    first = str(deltas.abs().idxmax())
    return first if len(deltas) == 1 else f"{first} {words.signed(float(deltas[first]))}"


def _each_takes_longer(rows: pd.DataFrame, slow: str, fast: str) -> bool:
    """Return whether kernels of the same names take more time because each takes longer, rather than because there are more."""
    sums, both = words.by_name(rows), words.of_both(rows)
    if any(both[f"{key}_ns"].sum() < _MOST * sums[f"{key}_ns"].sum() for key in SIDES):
        return False
    counts, times = ([float(both[f"{key}_{what}"].sum()) for key in (slow, fast)] for what in ("count", "ns"))
    if min(*counts, *times) <= 0:
        return False
    often = counts[0] / counts[1]
    return times[0] / times[1] / often > max(often, 1.0)


def _each(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence on kernels that the sides do not execute equally often: how long an execution takes."""
    sums = words.of_both(rows)
    sums = sums[(sums["a_count"] != sums["b_count"]).to_numpy(bool)]
    largest = sums.loc[sums["delta_ns"].abs().sort_values(ascending=False).index[:_EACH]]
    texts = [
        f"{name} {words.duration(one['a_ns'] / one['a_count'])} in {case.a.name}, "
        f"{words.duration(one['b_ns'] / one['b_count'])} in {case.b.name}"
        for name, one in largest.iterrows()
    ]
    return [f"One execution takes on average: {'; '.join(texts)}."] if texts else []


def _have_operators(case: DeviceCase, side: str, rows: pd.DataFrame) -> bool:
    """Return whether a side's capture has operators for these kernels; it mostly has none for those in CUDA graphs."""
    kernels = case.side(side).trace.kernels
    return bool(kernels.loc[kernels["name"].isin(rows["name"]).to_numpy(bool), "operator"].notna().any())


def _prepares_input(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which kernels belong to a library that decodes and augments batches on the device."""
    return rows["name"].fillna("").str.contains(_OF_INPUT).astype(bool)


RULES = (by_kind,)
