"""Work: one side executes more kernels of a kind, or they take longer there, and no other rule has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.explain.device import calls, equal_steps, longer_kernels, operator_hints, same_problems, words
from kernelscope.analysis.explain.device.case import SIDES, SMALL, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.causes import attention, faults, hardware, precision
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_WHY = "find out why {slower} runs more of them than {faster}"
_INSTEAD = "see whether {faster} does this work in other {what}, or does without it"
_OF_FASTER = "{slower} is the faster side, and these may be why: see what they replace before you change them"
_BY_OPERATOR = "`breakdown --by operator` of both shows which operators launch them"
_BY_KERNEL = "`breakdown --by kernel` of both lists all {what}"
_OTHERWISE = "`breakdown --by kernel` of both shows with which kernels {fast} computes this"
_INPUT = "keep them if they take less time than the device waits for input without them; else decode more on the host"
_MOST = 0.8  # of the time, in kernels of the same names
_EACH = 2  # kernels whose mean execution is given
INPUT = "input"  # not a kind of kernel, but a use of it
_OF_INPUT = re.compile(r"^(?:void )?(?:dali|nvjpeg|nvimgcodec)::")
_BACKWARD = "record the backward pass on both sides, or on neither"
_MORE_OFTEN = "find out why it is launched more often: a longer loop, smaller pieces, or work that is done again"
_BATCHED = (
    "both run equally many steps ({2}): in {0}, find the loop within a step that calls it, and do in one call, on a larger "
    "batch, what does not depend on the turn before, as {1} may"
)
_OPERATOR = re.compile(r"::|^(?:cuda|hip|cu)[A-Z]|^Mem(?:cpy|set)|Backward\d*$|[#\[(]|^(?:Torch-)?Compiled")
_OWN_TIME = (
    "It is a range or function of the program's own. This is its time outside of operators: Python, NumPy, loading, compiling."
)
_LOOK_INSIDE = "look at what the program does there besides PyTorch's operators, and warm up before recording what happens once"
_WAITS = re.compile(r"^(?:cuda|hip)\w*Synchronize$")
_WAITED = "The host waits for the device in this call: it is the device's work that takes longer, not the processor's."
_SHOW_DEVICE = "print the table with the device's times (ProfilerActivity.CUDA), which shows what takes longer there"
_CALLERS = "key_averages(group_by_stack_n=5), recorded with_stack=True, shows which lines call these operators"
_WRITE_IN_PLACE = "write results in place, where no gradient needs what was there: operators whose names end in _, or out=..."
_SPLIT = "let one launch do the work of many: in {0}, an execution is about as short as the launch itself"
_TINY_NS = 10_000.0  # about as long as it takes to launch it
_FAR_MORE = 2.0  # times as many executions
_GOOD_PART = 0.1  # of the difference
_LITTLE = 0.1  # of the other side's time
_ROUNDED = 100  # times as long: from here on without decimals
_MOSTLY = 0.5  # of a kernel's difference, due to more executions


def by_kind(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each kind of kernel (all convolutions together if they move alike), then for the small ones left."""
    for name in _own(case.kernels()):
        rows = case.kernels()
        yield _of_one(case, rows[(rows["name"].map(words.kernel) == name).to_numpy(bool)])
    yield from _one_for_one(case)
    rows = case.kernels()
    sums = rows.groupby("kind")["delta_ns"].sum()
    moved = sums.reindex(CONVOLUTIONS).fillna(0)
    given = rows["kind"].where(~_prepares_input(rows), INPUT)
    families = rows["name"].map(_in_place_of(case)).astype("string").where(~_prepares_input(rows)).fillna(given).fillna("unknown")
    if (moved >= 0).all() or (moved <= 0).all():
        families = families.replace(dict.fromkeys(CONVOLUTIONS, "convolution"))
    kinds = rows.groupby(families)["delta_ns"].sum().abs().sort_values(ascending=False)
    for kind in kinds.index:
        mine = rows[(families == kind).to_numpy(bool)]
        yield from _of_unknown(case, mine) if kind == "unknown" else [_finding(case, str(kind), mine)]
    small = case.kernels(SMALL)
    small = small[~small["name"].isin(_halves(case, small)).to_numpy(bool)]
    if len(small):
        yield _finding(case, "small", small)


def _halves(case: DeviceCase, rows: pd.DataFrame) -> set[str]:
    """Return the kernels among these rows whose counterpart, under another name, is not: alone they are no difference."""
    names = set(rows["name"].dropna())
    pairs = [(one.a | one.b) & names for one in case.replaced if len(one.a) == len(one.b) == 1]
    return {str(name) for pair in pairs if len(pair) == 1 for name in pair}


def _one_for_one(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each kind of main kernels whose largest kernel is another one on each side, executed as often."""
    if not case.totals:
        return
    for kind, rows in case.kernels(MAIN).groupby("kind"):
        alone = [rows[((rows[f"{key}_count"] > 1) & (rows[f"{other}_count"] == 0)).to_numpy(bool)]
                 for key, other in (SIDES, SIDES[::-1])]  # fmt: skip
        if any(part.empty for part in alone):
            continue
        pair = [part.sort_values(f"{key}_ns").iloc[-1:] for key, part in zip(SIDES, alone, strict=True)]
        counts = {float(part[f"{key}_count"].iloc[0]) for key, part in zip(SIDES, pair, strict=True)}
        shares = [
            float(part[f"{key}_ns"].iloc[0]) / float(rows[f"{key}_ns"].sum()) for key, part in zip(SIDES, pair, strict=True)
        ]
        if len(counts) == 1 and min(shares) >= _MOST and sum(map(len, alone)) > len(pair):
            yield _finding(case, str(kind), pd.concat(pair))


def _of_unknown(case: DeviceCase, rows: pd.DataFrame) -> Iterator[DeviceFinding]:
    """Yield findings on kernels of unknown kind: those that replace one another, each large one of both sides, then the others.

    Those that only one side has may be the same work under other names, so they are one finding; not operators, of which one side
    has nearly all.
    """
    for one in case.replaced:
        pair = rows[rows["name"].isin(one.a | one.b).to_numpy(bool)]
        if len(one.a) == len(one.b) == 1 and len(pair) > 1:
            yield _finding(case, "unknown", pair)
            rows = rows[~rows["name"].isin(one.a | one.b).to_numpy(bool)]
    names = rows["name"].map(words.kernel)
    large = _large(rows)
    for name in large:
        yield _of_one(case, rows[(names == name).to_numpy(bool)])
    there = ((rows["a_count"] > 0) & (rows["b_count"] > 0)).to_numpy(bool)
    alone, rest = rows[~there], rows[there & ~names.isin(large).to_numpy(bool)]
    sums = alone[["a_ns", "b_ns"]].sum()
    one_sided = case.by_operators and sums.min() < _LITTLE * sums.max()
    parts = [alone[(alone[f"{key}_count"] > 0).to_numpy(bool)] for key in SIDES] if one_sided else [alone]
    for part in (*parts, rest):
        if len(part):
            yield _finding(case, "unknown", part)


def _own(rows: pd.DataFrame) -> list[str]:
    """Return the program's own kernels (of no library) that both sides execute and that make a good part of the difference."""
    return _large(rows[(rows["a_library"].isna() & rows["b_library"].isna() & ~_prepares_input(rows)).to_numpy(bool)])


def _large(rows: pd.DataFrame) -> list[str]:
    """Return the kernels that both sides execute and that make a good part of the difference, largest first."""
    both = words.of_both(rows)["delta_ns"].abs()
    return [str(name) for name in both[both >= _GOOD_PART * max(both.sum(), 1)].sort_values(ascending=False, kind="stable").index]


def _of_one(case: DeviceCase, mine: pd.DataFrame) -> DeviceFinding:
    """Return the finding on one kernel that both sides execute: of the program's own, or of unknown kind."""
    slow, slower, fast, faster = words.slower(case, mine)
    counts, times = ([float(mine[f"{key}_{what}"].sum()) for key in (slow, fast)] for what in ("count", "ns"))
    name, number = words.kernel(mine["name"].iloc[0]), words.executions_of(case, mine)
    several = bool(words.are_several(mine).any())
    more = float(words.more_often(words.by_name(mine)).sum()) / float(mine["delta_ns"].sum()) > _MOSTLY and not several
    ratio = times[0] / times[1] if times[1] > 0 else 0.0
    longer = f"takes {_as_long(ratio)} times as long in {slower} as in" if ratio else f"takes longer in {slower} than in"
    longer = f"takes more time in {slower} than in" if several else longer
    verb = f"runs more often in {slower} than in" if more else longer
    title = f"{name} {verb} {faster}: {words.of_rows(case, mine)}, {number}"
    split = words.by_number(case, mine)
    if more and split and _both_count(mine):
        title, split = f"{title}; {split[0][:-1]}", []
    remedy = _more_often(case, mine, times[0] / counts[0]) if more else longer_kernels.remedy(case, mine)
    cause = "more executions" if more else f"slower {case.what}"
    if _WAITS.search(name):
        return DeviceFinding(cause, title, mine["row"].tolist(), "medium", [_WAITED, *_each(case, mine)], _SHOW_DEVICE)
    if _is_own(case, name):
        return DeviceFinding(cause, title, mine["row"].tolist(), "medium", [_OWN_TIME, *_each(case, mine)], _LOOK_INSIDE)
    if not more and (waits := faults.within(case, mine)) is not None:
        title = title.replace(f"{name} {verb}", f"{name}, which mostly waits for page faults of unified memory, {verb}", 1)
        return DeviceFinding(cause, title, mine["row"].tolist(), "medium", [waits[0], *_each(case, mine), *split], waits[1])
    sure = "high" if more else "medium"  # numbers of executions are no noise
    return DeviceFinding(cause, title, mine["row"].tolist(), sure, [*_each(case, mine), *split], remedy)


def _more_often(case: DeviceCase, mine: pd.DataFrame, mean_ns: float) -> str:
    """Return the remedy for a kernel that a side runs more often. mean_ns: of one execution there."""
    steps = equal_steps.told(case)
    slow, slower, _, faster = words.slower(case, mine)
    if steps is not None:
        return _BATCHED.format(slower, faster, steps)
    short = mean_ns < _TINY_NS and calls.faster(case) != slow and not calls.leads(case)
    return _SPLIT.format(slower) if short else _MORE_OFTEN


def _both_count(rows: pd.DataFrame) -> bool:
    """Return whether more executions and longer ones both add a good part to a kernel's difference."""
    sums = words.by_name(rows)
    more, longer = float(words.more_often(sums).sum()), float(words.longer_each(sums).sum())
    return more * longer > 0 and min(abs(more), abs(longer)) >= _GOOD_PART * abs(more + longer)


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
    counts = {key: float(case.without_wrappers(mine)[f"{key}_count"].sum()) for key in SIDES}
    slow, _, fast, _ = words.slower(case, mine)
    more = counts[slow] > 1.02 * counts[fast] + 0.5 and not _each_takes_longer(mine, slow, fast) and not _launch_as_many(case)
    more &= not words.are_several(mine).any() or not counts[fast]
    name = {
        "unknown": case.what,
        "small": f"elementwise and other small {case.what}",
        INPUT: f"{case.what} that prepare input on the device",
    }.get(kind, f"{kind} {case.what}")
    title, held = _title(case, mine, name, counts, more), None if counts[fast] else operator_hints.held(case, fast, kind)
    title = f"{title}; {held}" if held else title
    cause = f"more {name}" if more else f"slower {name}"
    in_place = _in_place(case, mine)
    alike = None if more else same_problems.largest(case, mine)
    if alike is not None:
        title = title.replace(f"({_named(mine)})", f"({_named(mine)}, {alike.problem})", 1)
    told = [alike.sentence(case, float(mine["delta_ns"].sum()))] if alike else []
    sentences = [
        *told,
        *([in_place[1]] if in_place else []),
        *_each(case, mine),
        *words.both(case, mine),
        *words.by_number(case, mine),
    ]
    if kind == "unknown" and precision.narrower(mine) is not None:
        sentences.append(f"{precision.types(case, mine)}.")
    if not more and counts[slow] and not case.same_device:  # the same number of kernels on another device: no work to leave out
        return DeviceFinding(
            "other hardware", f"other hardware: {title}", mine["row"].tolist(), "medium", sentences, hardware.REMEDY
        )
    if _is_own(case, words.longest(mine, slow)):
        sentences, remedy = [_OWN_TIME, *sentences], _LOOK_INSIDE
    elif in_place and in_place[0] == fast:
        remedy = _WRITE_IN_PLACE
    elif operator_hints.converts(case, mine, slow, fast):
        sentences, remedy = [operator_hints.CONVERTED, *sentences], operator_hints.CONVERT_ONCE
    elif held:
        remedy = operator_hints.ALL_ROWS
    else:
        remedy = same_problems.REMEDY if alike and case.on_cpus else _remedy(case, kind, mine, counts, more)
    return DeviceFinding(cause, title, mine["row"].tolist(), "medium", sentences, remedy)


def _title(case: DeviceCase, mine: pd.DataFrame, name: str, counts: dict[str, float], more: bool) -> str:
    """Return the difference in one sentence. name: what the kernels are; more: whether there are more of them on one side."""
    slow, slower, fast, faster = words.slower(case, mine)
    if not counts[fast]:
        time = words.duration(float(mine[f"{slow}_ns"].sum()))
        only = f"only {slower} {'prints' if case.is_cut(fast) else 'has'}"
        number = f", {words.count(counts[slow])} {case.per}" if case.counts else ""
        return f"{only} {name} ({_named(mine)}): {time}{number}"
    both = f"{words.of_rows(case, mine)}, {words.executions_of(case, case.without_wrappers(mine))}"
    pair = None if more else words.one_each(mine, slow, fast)
    if pair is not None:
        times = _as_long(float(mine[f"{slow}_ns"].sum()) / float(mine[f"{fast}_ns"].sum()))
        return f"{pair[0]} in {slower} takes {times} times as long as {pair[1]} in {faster}: {both}"
    longer = "take more time" if words.are_several(mine).any() else "take longer"
    return f"{name} ({_named(mine)}) {'run more often' if more else longer} in {slower} than in {faster}: {both}"


def _remedy(case: DeviceCase, kind: str, mine: pd.DataFrame, counts: dict[str, float], more: bool) -> str:
    """Return what to do about kernels of a kind that take longer, or of which there are more."""
    slow, slower, fast, faster = words.slower(case, mine)
    remedy = _INPUT if kind == INPUT else longer_kernels.remedy(case, mine) if not more else None
    tiny = more and 0 < float(mine[f"{slow}_ns"].sum()) < _TINY_NS * counts[slow] and counts[fast] > 0
    own = kind not in MAIN and mine[["a_library", "b_library"]].isna().all(axis=None) and counts[slow] > _FAR_MORE * counts[fast]
    if tiny and calls.faster(case) != slow and (kind == "unknown" or own):
        return _SPLIT.format(slower)
    if kind == "softmax" and not counts[fast]:
        return f"if it is part of attention: {attention.remedy(case)}"
    if _only_gradients(case, mine, fast):
        return _BACKWARD
    if kind in MAIN and not counts[fast]:
        return _OTHERWISE.format(fast=faster)
    if remedy is not None:
        return remedy
    what = _OF_FASTER if calls.faster(case) == slow else _WHY if counts[fast] else _INSTEAD
    how = _CALLERS if case.by_operators else _BY_OPERATOR if _have_operators(case, slow, mine) else _BY_KERNEL
    return f"{what}; {how}".format(slower=slower, faster=faster, what=case.what)


def _launch_as_many(case: DeviceCase) -> bool:
    """Return whether both tables of operators count as many launches: then an operator more is one that calls another."""
    launches = [call_totals.named(call_totals.sums(case.side(key).trace), call_totals.LAUNCHES)["count"].sum() for key in SIDES]
    return bool(case.by_operators and launches[0] and launches[0] == launches[1])


def _only_gradients(case: DeviceCase, rows: pd.DataFrame, fast: str) -> bool:
    """Return whether the rows differ by kernels for gradients, of which the faster side has none."""
    alone = rows[(rows[f"{fast}_count"] == 0).to_numpy(bool)]
    gradients = alone["kind"].astype("string").str.contains("gradient").fillna(False).to_numpy(bool)
    if not gradients.any() or not gradients.all() or case.is_cut(fast):
        return False
    return abs(float(alone["delta_ns"].sum())) > _MOST * abs(float(rows["delta_ns"].sum()))


def _as_long(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= _ROUNDED else f"{ratio:.3g}"


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


def _is_own(case: DeviceCase, name: str) -> bool:
    """Return whether a row of a table of operators is a range or function of the program's own.

    Its name has no namespace, as those of operators do since PyTorch 1.8, and is no call of a device's API. Its time on a
    device is that of kernels, and not of Python.
    """
    modern = case.rows["name"].astype("string").str.startswith("aten::").fillna(False).any()
    return bool(case.by_operators and case.on_cpus and modern and not _OPERATOR.search(name))


def _in_place(case: DeviceCase, rows: pd.DataFrame) -> tuple[str, str] | None:
    """Return the side that writes results in place, as operators whose names end in "_" do, and a sentence; None if none does."""
    names = {key: set(rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "name"].dropna()) for key in SIDES}
    for key, other in (SIDES, SIDES[::-1]):
        mine, its = names[key] - names[other], names[other] - names[key]
        found = sorted(name for name in mine if name.endswith("_") and name[:-1] in its)
        if found:
            sides = case.side(key).name, case.side(other).name
            return key, f"{found[0]} writes its result in place in {sides[0]}; {found[0][:-1]} in {sides[1]} does not."
    return None


def _have_operators(case: DeviceCase, side: str, rows: pd.DataFrame) -> bool:
    """Return whether a side's capture has operators for these kernels; it mostly has none for those in CUDA graphs."""
    kernels = case.side(side).trace.kernels
    return bool(kernels.loc[kernels["name"].isin(rows["name"]).to_numpy(bool), "operator"].notna().any())


def _prepares_input(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which kernels belong to a library that decodes and augments batches on the device."""
    return rows["name"].fillna("").str.contains(_OF_INPUT).astype(bool)


RULES = (by_kind,)
