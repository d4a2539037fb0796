"""Work: kinds of kernels that one side executes more of, or that take longer there, for which no other rule has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, SMALL, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.causes import hardware, precision
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_LEAVE = "leave out what the step does not need"
_MORE = f"{_LEAVE}; see which operators they are of with `breakdown --by operator`"
_NO_OPERATORS = "`breakdown --by kernel` of both says which kernels they are; the capture tells no operators of theirs"
_OF_FASTER = "they are of the faster side, and may be why it is"
_FASTER = f"{_OF_FASTER}: `breakdown --by operator` says which operators they are of"
_OTHERWISE = "see by which kernels {fast} computes that, with `breakdown --by kernel` of both"
_INPUT = (
    "keep them where they take less than the device waits for input without them; else leave more of the decoding to the host"
)
_MOST = 0.8  # of the time, that kernels of the same names have
_EACH = 2  # kernels whose single executions are told
INPUT = "input"  # no kind of kernel, but a use of it
_OF_INPUT = re.compile(r"^(?:void )?(?:dali|nvjpeg|nvimgcodec)::")
_LONGER = "see their shapes and grids with `breakdown --by kernel`: larger problems, or another implementation"


def by_kind(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each kind of kernel, for all convolutions where they move alike, and for what is left of small ones."""
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


def _in_place_of(case: DeviceCase) -> dict[str, str]:
    """Return the kind of kernels that took another's place one for one: another name may give another kind."""
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
    named = words.kernel(mine.sort_values("delta_ns", key=lambda delta: -delta.abs())["name"].iloc[0])
    if counts[fast]:
        both = f"{words.of_rows(case, mine)}, {words.count(counts['a'])} and {words.count(counts['b'])} {case.per}"
        verb = "run more often" if more and each else "take longer"
        title = f"{name} ({named}) {verb} in {slower} than in {faster}: {both}"
    else:
        time = words.duration(float(mine[f"{slow}_ns"].sum()))
        only = f"only {slower} {'prints' if case.unlisted_ns(fast) else 'has'}"
        title = f"{only} {name} ({named}): {time}, {words.count(counts[slow])} {case.per}"
    cause = f"more {name}" if more else f"slower {name}"
    sentences = [*each, *words.both(case, mine)]
    if kind == "unknown" and precision.narrower(mine) is not None:
        sentences.append(f"{precision.types(case, mine)}.")
    if not more and counts[slow] and not case.same_device:  # as many kernels on another device are no work to leave out
        return DeviceFinding(
            "other hardware", f"other hardware: {title}", mine["row"].tolist(), "medium", sentences, hardware.REMEDY
        )
    remedy = _INPUT if kind == INPUT else _LONGER if not more else _FASTER if case.faster == slow else _MORE
    if kind in MAIN and not counts[fast]:
        remedy = _OTHERWISE.format(fast=faster)
    elif remedy in (_FASTER, _MORE) and not _have_operators(case, slow, mine):
        remedy = f"{_OF_FASTER if remedy == _FASTER else _LEAVE}: {_NO_OPERATORS}"
    return DeviceFinding(cause, title, mine["row"].tolist(), "medium", sentences, remedy)


def _each_takes_longer(rows: pd.DataFrame, slow: str, fast: str) -> bool:
    """Return whether kernels of the same names are slower by how long each takes rather than by how many there are."""
    sums = _by_name(rows)
    both = sums[((sums["a_count"] > 0) & (sums["b_count"] > 0)).to_numpy(bool)]
    if any(both[f"{key}_ns"].sum() < _MOST * sums[f"{key}_ns"].sum() for key in SIDES):
        return False
    counts, times = ([float(both[f"{key}_{what}"].sum()) for key in (slow, fast)] for what in ("count", "ns"))
    if min(*counts, *times) <= 0:
        return False
    often = counts[0] / counts[1]
    return times[0] / times[1] / often > max(often, 1.0)


def _by_name(rows: pd.DataFrame) -> pd.DataFrame:
    """Return counts and times by short names: arguments of a kernel may change with its program."""
    return rows.groupby(rows["name"].map(words.kernel))[["a_count", "b_count", "a_ns", "b_ns", "delta_ns"]].sum()


def _each(case: DeviceCase, rows: pd.DataFrame) -> list[str]:
    """Return a sentence on kernels that both sides execute, not equally often: how long each of their executions takes."""
    sums = _by_name(rows)
    sums = sums[((sums["a_count"] > 0) & (sums["b_count"] > 0) & (sums["a_count"] != sums["b_count"])).to_numpy(bool)]
    largest = sums.loc[sums["delta_ns"].abs().sort_values(ascending=False).index[:_EACH]]
    texts = [
        f"{name} {words.duration(one['a_ns'] / one['a_count'])} in {case.a.name}, "
        f"{words.duration(one['b_ns'] / one['b_count'])} in {case.b.name}"
        for name, one in largest.iterrows()
    ]
    return [f"One execution takes on average: {'; '.join(texts)}."] if texts else []


def _have_operators(case: DeviceCase, side: str, rows: pd.DataFrame) -> bool:
    """Return whether a side's capture knows operators of these kernels; of those in CUDA graphs it mostly knows none."""
    kernels = case.side(side).trace.kernels
    return bool(kernels.loc[kernels["name"].isin(rows["name"]).to_numpy(bool), "operator"].notna().any())


def _prepares_input(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which kernels are of a library that decodes and augments batches on the device."""
    return rows["name"].fillna("").str.contains(_OF_INPUT).astype(bool)


RULES = (by_kind,)
