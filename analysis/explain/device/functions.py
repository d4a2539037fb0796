"""Causes of a difference between two profiles of functions of Python (cProfile's): each function is a cause of its own.

Times are functions' own: what a function calls is in other rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.explain import function_kinds
from kernelscope.analysis.explain.device import alignment, words
from kernelscope.analysis.explain.device.alignment import Replacement
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.trace import Trace

_MOSTLY = 0.5  # of a function's difference, due to more calls
_PART = 0.1  # of a whole: samples, and waits for others, that take less say nothing about where samples are made
_FEW, _SHARED = 50, 2  # functions that only one side has; words that names of functions must have in common
_LINE = re.compile(r" at line \d+$")
_CALLERS = "see who calls it there: stats.print_callers(...) of pstats"
_INSIDE = "compare its code and what it is given; line_profiler's @profile shows which of its lines take the time"
_BUILT_IN = "compare what it is given (sizes, types), versions, and other load on the processors"
_DEVICE = "compare sizes, threads and versions; torch.profiler on both sides shows what its libraries and a device do meanwhile"


def each(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Yield a finding for each function, largest difference first: called more often, slower, new or gone."""
    rows = case.kernels()
    other = {name: min(one.a) for one in case.replaced for name in one.a | one.b}
    names = rows["name"].map(lambda name: other.get(name, name))
    sums = rows["delta_ns"].groupby(names).sum()
    for name in sums.abs().sort_values(ascending=False, kind="stable").index:
        if sums[name]:
            yield _of_one(case, rows[(names == name).to_numpy(bool)])


def moved(case: DeviceCase) -> list[Replacement]:
    """Return functions that took another's place: in another file, or else under a name of mostly the same words."""
    found = _in_another_file(case)
    known = {name for one in found for name in one.a | one.b}
    rows = case.all_kernels()
    named = rows["name"].str.contains(": ", regex=False).fillna(False).to_numpy(bool)
    left = rows[named & ~rows["name"].isin(known).to_numpy(bool)]
    alone = [left[((left[f"{key}_count"] > 0) & (left[f"{other}_count"] <= 0)).to_numpy(bool)]
             for key, other in (SIDES, SIDES[::-1])]  # fmt: skip
    if not all(0 < len(one) <= _FEW for one in alone):
        return found
    tails = {str(name): _LINE.sub("", str(name).rpartition(": ")[2]) for one in alone for name in one["name"]}
    likely = alignment.like_named(*(one.assign(said=one["name"].map(tails)) for one in alone))
    return found + [one for one in likely if len(_said(tails, one.a) & _said(tails, one.b)) >= _SHARED]


def _said(tails: dict[str, str], names: frozenset[str]) -> frozenset[str]:
    """Return the words of a function's name, without its file's."""
    return alignment.words_of(tails[min(names)])


def _in_another_file(case: DeviceCase) -> list[Replacement]:
    """Return functions that only changed their file: of one name, each the only one that its side alone has, called as often."""
    rows = case.all_kernels()
    alone = []
    for key, other in (SIDES, SIDES[::-1]):
        mine = rows[((rows[f"{key}_count"] > 0) & (rows[f"{other}_count"] <= 0)).to_numpy(bool)]
        mine = mine[mine["name"].str.contains(": ", regex=False).to_numpy(bool)]
        tails = mine["name"].map(lambda name: _LINE.sub("", str(name).rpartition(": ")[2]))
        alone.append(mine.assign(tail=tails)[~tails.duplicated(keep=False).to_numpy(bool)].set_index("tail"))
    both = alone[0].add_suffix("_of_a").join(alone[1].add_suffix("_of_b"), how="inner")
    return [
        Replacement(
            frozenset([one["name_of_a"]]), frozenset([one["name_of_b"]]), 1, int(one["a_count_of_a"]), int(one["b_count_of_b"]),
            int(one["a_ns_of_a"]), int(one["b_ns_of_b"]),
        )
        for one in both.to_dict("records") if one["a_count_of_a"] == one["b_count_of_b"]
    ]  # fmt: skip


def _of_one(case: DeviceCase, mine: pd.DataFrame) -> DeviceFinding:
    """Return the finding on one function. mine: its row, or its rows if it has another name on the other side."""
    slow, slower, fast, faster = words.slower(case, mine)
    counts, times = ({key: float(mine[f"{key}_{what}"].sum()) for key in SIDES} for what in ("count", "ns"))
    full = str(mine["name"].iloc[int(mine[f"{slow}_ns"].to_numpy().argmax())])
    name, here = words.kernel(full), mine["row"].tolist()
    kind = function_kinds.wait_of(full, counts[slow], times[slow])
    evidence = [*words.by_number(case, mine), *_of_workers(case, full)]
    if not counts[fast]:
        only = f"only {slower} {'prints' if case.is_cut(fast) else 'calls'}"
        number = f"{words.count(counts[slow])} call{'' if counts[slow] == 1 else 's'}"
        remedy = kind.remedy if kind else f"see what {faster} does instead, or does without; {_CALLERS}"
        title = f"{only} {name}: {words.duration(times[slow])} of its own, {number}"
        return DeviceFinding("other functions", title, here, "medium", evidence, remedy)
    less = times[fast] * counts[slow] / counts[fast] - times[fast]  # due to more calls
    often = counts[slow] > counts[fast] and less > _MOSTLY * (times[slow] - times[fast])
    numbers = words.executions_of(case, mine).replace("execution", "call")
    also = [words.kernel(one) for one in mine["name"] if one != full]
    there = f" (there {also[0]})" if also else ""
    ratio = f"takes {times[slow] / times[fast]:,.3g} times as long" if times[fast] else "takes longer"
    verb = f"is called more often in {slower} than in" if often else f"{ratio} in {slower} {'as' if times[fast] else 'than'} in"
    title = f"{name} {verb} {faster}{there}: {words.of_rows(case, mine)}, {numbers}"
    remedy = kind.remedy if kind else f"{slower} calls it more often: {_CALLERS}" if often else _slower(full)
    cause = "more calls" if often else "slower function"
    return DeviceFinding(cause, title, here, "high" if often else "medium", evidence, remedy)


def _slower(name: str) -> str:
    """Return the remedy for a function whose calls take longer."""
    if re.search(function_kinds.FRAMEWORK, name):
        return _DEVICE
    return _INSIDE if ": " in name else _BUILT_IN


def _of_workers(case: DeviceCase, name: str) -> list[str]:
    """Say that one side makes its samples in other processes, if this function waits for these, or is of the samples' file.

    That is certain if one side makes samples for a good part of its time, the other prints none, has no room for them in rows
    that were not printed, and waits for others as the first does not.
    """
    result = []
    for key, other in (SIDES, SIDES[::-1]):
        mine, its = case.side(key), case.side(other)
        sample, ns = _samples(mine.trace)
        if ns < _PART * mine.account.step_ns or _samples(its.trace)[1] or case.unlisted_ns(other) >= ns / 2:
            continue
        waits, before = _waits(its.trace), _waits(mine.trace)
        of_file = name.rpartition(": ")[0] == sample.rpartition(": ")[0] or re.search(function_kinds.OTHERS.pattern, name)
        if of_file and waits >= _PART * its.account.step_ns and before < _PART * waits:
            result.append(
                f"{words.kernel(sample)} with what it calls took {words.duration(ns)} in {mine.name}, and is not in {its.name}, "
                "which waits for other processes: workers of its data loader make the samples, which cProfile does not see."
            )
    return result


def _samples(trace: Trace) -> tuple[str, int]:
    """Return the function that makes samples, and its cumulative time in ns; 0 if there is none."""
    names = trace.totals["name"].astype("string")
    own = names.str.contains(function_kinds.SAMPLE) & ~names.str.contains(function_kinds.NO_SAMPLE)
    mine = trace.totals[own.fillna(False).to_numpy(bool)].sort_values("duration_ns", ascending=False, kind="stable")
    return (str(mine["name"].iloc[0]), int(mine["duration_ns"].iloc[0])) if len(mine) else ("", 0)


def _waits(trace: Trace) -> int:
    """Return how long functions wait for other processes or threads, ns."""
    own = trace.kernels["name"].astype("string").str.contains(function_kinds.OTHERS.pattern)
    return int(trace.kernels.loc[own.fillna(False).to_numpy(bool), "duration_ns"].sum())


RULES = (each,)
