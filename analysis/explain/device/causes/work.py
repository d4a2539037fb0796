"""Work: one side executes more kernels of a kind, or they take longer there, and no other rule has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import COPY
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.explain.device import alignment, calls, counted, equal_steps, operator_hints, same_problems, words
from kernelscope.analysis.explain.device.case import SIDES, SMALL, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.causes import attention, faults, hardware, precision
from kernelscope.analysis.explain.device.causes import copies as copying
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
_COMPARE = "compare sizes first; if they are equal, it is the code, or where its data lies"
_BY_SHAPE = (
    "to see whether {0}'s sizes are larger, record with record_shapes=True, and print key_averages(group_by_input_shape=True); "
    "with equal sizes, compare types, layouts and the code"
)
_LONGER = (
    "to see whether {0}'s problem is larger, record grids on both sides (nsys, or nvprof --print-gpu-trace); with equal grids, "
    "it is the code, or where its data lies"
)
_SAME_DATA = (
    "the data seems to have one size on both sides, as equally many copies take equally long ({0}), so compare how the kernel is "
    "launched (one block, or blocks of few threads, leave most of the device idle), and its code"
)
_SAME_COPIES, _LASTS_NS = 0.05, 100_000  # of their time; shorter copies take about as long whatever their size
_COMPUTES = re.compile(r"(?i)gemm|mat_?mul|mult|conv|attention|norm|softmax")  # and transposes or adds up only besides
# words of a kernel's name; words that say that it is done already; what to do
_HINTS = (
    (
        frozenset(["transpose", "transposed"]),
        frozenset(["shared", "smem", "lds", "tile", "tiled", "coalesced"]),
        "a transposition that reads along rows and writes along columns accesses memory with large strides; in {0}, move tiles "
        "through shared memory (LDS), so that neighbouring threads read and write neighbouring addresses (coalesced)",
    ),
    (
        frozenset(["atomic", "atomics", "histogram"]),
        frozenset(["shared", "smem", "lds", "private", "privatized"]),
        "atomic operations on one address wait for one another; in {0}, use fewer of them: let each block add up in registers or "
        "shared memory, and add its sum or count to the result once",
    ),
)
_ON_CPU = "compare sizes, threads, library versions, and other load on the processors"
_LIKE_OTHER = (
    "let {0} use {1}, as {2} does: compare types, memory layouts (format_tag::any lets oneDNN choose), versions of the "
    "libraries, and whether the model is compiled or frozen"
)
_BACKWARD = "record the backward pass on both sides, or on neither"
_REFERENCE = re.compile(r"\b(?:ref|simple):any\b|\bref\b")
_OPTIMISE = (
    "in {0}, {1} is the library's reference code, for what no optimised code supports: change the type, layout or attributes "
    "(zero points, scales, post-ops) of this primitive, or the library's version"
)
_IN_FULL = (
    "several kernels share names that the table cut: print them in full, key_averages().table(max_name_column_width=200, "
    "row_limit=-1), on both sides, to see which one takes longer or runs more often"
)
_SAME_GRID = "grids are the same: compare code, inputs and the data's location; Nsight Compute shows what a kernel waits for"
_OTHER_GRID = "grids differ: compare sizes, and how the work is divided into blocks"
_MORE_OFTEN = "find out why it is launched more often: a longer loop, smaller pieces, or work that is done again"
_BATCHED = (
    "both run equally many steps ({2}): in {0}, find the loop within a step that calls it, and do in one call, on a larger "
    "batch, what does not depend on the turn before, as {1} may"
)
_ONLY_ONES = (
    "Each is nearly all that its side computes, and the other side does not have it; no name or size tells that they do the same."
)
_IF_THE_SAME = (
    "see whether both do the same; if they do, compare how many bytes each reads and writes (types, texture memory, tiles), "
    "and then the code of {0}"
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
_PUTS, _SORTS = r"index_put_?(?:_?impl_?)?$", r"^aten::(?:arg)?sort$"
_SORTED = "They are called equally often: an index_put that accumulates, as in the gradient of x[index], sorts its indices first."
_INDEXING = (
    "find the lines that index tensors (x[index]); if these are gradients of such: those of torch.index_select and torch.gather "
    "need no sorting"
)
_TINY_NS = 10_000.0  # about as long as it takes to launch it
_FAR_MORE = 2.0  # times as many executions
_GOOD_PART = 0.1  # of the difference
_LITTLE = 0.1  # of the other side's time
_ROUNDED = 100  # times as long: from here on without decimals
_MOSTLY = 0.5  # of a kernel's difference, due to more executions


def by_kind(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each kind of kernel (all convolutions together if they move alike), then for the small ones left."""
    yield from _as_often(case)
    yield from _possibly_same(case)
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


def _as_often(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for the operators that sort indices and put values at them, if one side alone has both, called as often.

    An accumulating index_put sorts its indices first, as gradients of indexing do: the sort is no work of its own.
    """
    if not case.by_operators or not case.counts:
        return
    rows = case.kernels()
    names = rows["name"].astype("string")
    for key, other in (SIDES, SIDES[::-1]):
        alone = ((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)
        puts, sorts = (rows[alone & names.str.contains(pattern).fillna(False).to_numpy(bool)] for pattern in (_PUTS, _SORTS))
        if len(puts) == len(sorts) == 1 and puts[f"{key}_count"].iloc[0] == sorts[f"{key}_count"].iloc[0]:
            side, mine = case.side(key).name, pd.concat([puts, sorts])
            number, took = words.count(float(puts[f"{key}_count"].iloc[0])), words.duration(float(mine[f"{key}_ns"].sum()))
            only = f"only {side} {'prints' if case.is_cut(other) else 'has'}"
            title = f"{only} {puts['name'].iloc[0]} and {sorts['name'].iloc[0]}, called {number} times each: {took}"
            here = mine["row"].tolist()
            yield DeviceFinding("indexing", title, here, "medium", [_SORTED, *words.both(case, mine)], _INDEXING)


def _possibly_same(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding if each side computes mostly in one kernel that the other lacks, executed as often, besides fills.

    Its kind may tell that it is other work: a product is no sum.
    """
    if not case.totals or not case.counts or case.by_operators or case.of_functions or any(map(case.is_cut, SIDES)):
        return
    rows = case.kernels()
    fills = np.array([_fills(name) for name in rows["name"]], dtype=bool)
    rows = rows[~((rows["kind"] == "copy").fillna(False).to_numpy(bool) | fills)]
    alone = [rows[((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)]
             for key, other in (SIDES, SIDES[::-1])]  # fmt: skip
    if [len(part) for part in alone] != [1, 1] or any(part["kind"].isin(MAIN).any() for part in alone):
        return
    if alignment.like_named(*alone):
        return  # names tell more
    pair, whole = pd.concat(alone), case.all_kernels()
    named = {name for one in case.replaced for name in one.a | one.b}
    mostly = all(float(pair[f"{key}_ns"].sum()) >= _MOST * float(whole[f"{key}_ns"].sum()) for key in SIDES)
    if pair["a_count"].sum() != pair["b_count"].sum() or not mostly or pair["name"].isin(named).any():
        return
    _, slower, _, _ = words.slower(case, pair)
    names = [f"{words.kernel(part['name'].iloc[0])} in {case.side(key).name}" for key, part in zip(SIDES, alone, strict=True)]
    title = (
        f"possibly the same work by another kernel ({', '.join(names)}): {words.of_rows(case, pair)}, "
        f"{words.executions_of(case, pair)}"
    )
    remedy = _IF_THE_SAME.format(slower)
    yield DeviceFinding("possibly the same work", title, pair["row"].tolist(), "low", [_ONLY_ONES], remedy)


def _fills(name: object) -> bool:
    """Return whether a kernel's name tells that it only sets memory."""
    return bool(alignment.words_of(name) & {"fill", "memset"})


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
    remedy = _more_often(case, mine, times[0] / counts[0]) if more else _longer(case, mine)
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


def _longer(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return the remedy for kernels that take longer, depending on their grids if the captures have them."""
    slow, slower, fast, faster = words.slower(case, rows)
    if _REFERENCE.search(longest := _longest(rows, slow)) and (rows[f"{slow}_library"] == "onednn").fillna(False).any():
        return _OPTIMISE.format(slower, longest)
    if case.on_cpus:
        pair = _one_each(rows, slow, fast)
        if pair is None and (others := operator_hints.others_as_long(case, rows)) is not None:
            return operator_hints.PRODUCTS_ALONE.format(others)
        return _ON_CPU if pair is None else _LIKE_OTHER.format(slower, pair[1], faster)
    if (measured := counted.remedy(case, rows)) is not None:
        return measured
    if words.are_several(rows).any():
        return _IN_FULL
    each = _of_one_execution(case, rows)
    if hint := _by_its_name(rows, slow):
        return f"{each}{hint.format(slower)}"
    grids = [rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), f"{key}_grid"] for key in SIDES]
    if all(len(grid) and grid.notna().all() for grid in grids):
        return _SAME_GRID if set(grids[0]) == set(grids[1]) else _OTHER_GRID
    if copied := _of_equal_copies(case):
        return f"{each}{copied}"
    how = _LONGER if all(side.makes <= {"cuda"} for side in (case.a, case.b)) else _COMPARE
    return f"{each}{(_BY_SHAPE if case.by_operators else how).format(slower)}"


def _by_its_name(rows: pd.DataFrame, slow: str) -> str | None:
    """Return what mostly slows down kernels of the program's own that do what this one's name says; None if it says nothing."""
    longest = rows.iloc[int(rows[f"{slow}_ns"].to_numpy(float).argmax())]
    computes = longest["kind"] in MAIN or _COMPUTES.search(words.kernel(longest["name"]))
    if computes or pd.notna(longest[f"{slow}_library"]):
        return None
    said = alignment.words_of(longest["name"])
    return next((hint for told, done, hint in _HINTS if said & told and not said & done), None)


def _of_equal_copies(case: DeviceCase) -> str | None:
    """Return that the data seems to have one size on both sides, as equally many copies of it take equally long; else None."""
    copies = case.rows[((case.rows["part"] == COPY) & case.rows["kind"].isin(copying.BETWEEN)).to_numpy(bool)]
    if not case.totals or copies.empty or (copies["a_count"] != copies["b_count"]).any() or any(map(case.is_cut, SIDES)):
        return None
    times = copies[["a_ns", "b_ns"]]
    near = times.max(axis=1) <= (1 + _SAME_COPIES) * times.min(axis=1)
    if not near.all() or float(times.min().min()) < _LASTS_NS:
        return None
    return _SAME_DATA.format(words.of_rows(case, copies))


def _of_one_execution(case: DeviceCase, rows: pd.DataFrame) -> str:
    """Return how long one execution takes on each side, as the beginning of a sentence; "" if it is unknown."""
    computing = case.without_wrappers(rows)
    counts, times = ([float(computing[f"{key}_{what}"].sum()) for key in SIDES] for what in ("count", "ns"))
    if not case.counts or not all(counts) or not all(times):
        return ""
    return f"one execution takes {words.change(case, times[0] / counts[0], times[1] / counts[1])}; "


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
    if _is_own(case, _longest(mine, slow)):
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
    pair = None if more else _one_each(mine, slow, fast)
    if pair is not None:
        times = _as_long(float(mine[f"{slow}_ns"].sum()) / float(mine[f"{fast}_ns"].sum()))
        return f"{pair[0]} in {slower} takes {times} times as long as {pair[1]} in {faster}: {both}"
    longer = "take more time" if words.are_several(mine).any() else "take longer"
    return f"{name} ({_named(mine)}) {'run more often' if more else longer} in {slower} than in {faster}: {both}"


def _remedy(case: DeviceCase, kind: str, mine: pd.DataFrame, counts: dict[str, float], more: bool) -> str:
    """Return what to do about kernels of a kind that take longer, or of which there are more."""
    slow, slower, fast, faster = words.slower(case, mine)
    remedy = _INPUT if kind == INPUT else _longer(case, mine) if not more else None
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


def _one_each(rows: pd.DataFrame, slow: str, fast: str) -> tuple[str, str] | None:
    """Return the kernels of both sides if each has one, and another one than the other side; None if not."""
    names = [set(rows.loc[(rows[f"{key}_count"] > 0).to_numpy(bool), "name"].dropna().map(words.kernel)) for key in (slow, fast)]
    if [len(one) for one in names] != [1, 1] or names[0] == names[1] or not (rows[f"{fast}_ns"].sum() > 0):
        return None
    return names[0].pop(), names[1].pop()


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


def _longest(rows: pd.DataFrame, key: str) -> str:
    """Return the kernel that takes a side longest in these rows."""
    return str(words.by_name(rows)[f"{key}_ns"].idxmax())


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
