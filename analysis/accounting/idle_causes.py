"""Why a device is idle: what the host thread that launched the device's next work did, instant by instant.

If that launch had returned before the device became idle, the host was ahead, and the gap is the device's own: the time to begin
the next kernel, or to see that the work it waits for is done. Else, the first of these that fits on that thread: it fetched a
batch; it captured a graph; it compiled or loaded code; it warmed up, as the program calls it; it was in a call of the device's
API, in an operator, or in a range; and else in the program itself. The last counts as fetching if an input thread, one that
mostly copies to the device, launched the next work. In captures without operators it counts as BETWEEN steps before a step that
begins with a copy to the device, or, if steps are the period of the kernels, before the one place in a step with such copies. If
the capture does not say which thread launched what, any thread counts.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import levels, next_work
from kernelscope.analysis.accounting.next_work import NextWork
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution.device_steps import DEVICE_TABLES
from kernelscope.analysis.attribution.launches import readable
from kernelscope.analysis.attribution.steps.inputs import INPUT
from kernelscope.analysis.trace import Trace, intervals
from kernelscope.analysis.trace.categories import translated

Int = npt.NDArray[np.int64]
Gaps = tuple[Int, Int]

FETCHING = levels.DATA  # in the loader, or wherever else a batch is prepared
BETWEEN = "between steps"  # before a step that begins with a copy to the device, in nothing that was recorded
COMPILING = levels.COMPILING
CAPTURING = "capturing a graph"  # between a call that begins and one that ends a CUDA or HIP graph: nothing runs meanwhile
WARMING_UP = "warming up"  # in a range or operator of that name: start-up, not a part of a step that could be saved
SYNCHRONISING = levels.WAITING
LAUNCHING = "launching"
COPYING = "copying"
ALLOCATING = "allocating"
OPERATOR = levels.IN_OPERATOR
RANGE = levels.IN_RANGE
LINE = "in lines"  # in a line of the program, in a recording that holds nothing else
PROGRAM = levels.SCRIPT  # nothing recorded: the program's own code
QUEUED = next_work.QUEUED
LONG_GAP = 10_000  # ns: if QUEUED gaps are longer on average, they are not just the time to begin kernels
AFTER_LONG_GAPS = "see on the timeline what these kernels wait for: events of other streams, copies, other devices or processes"
UNSEEN = levels.UNSEEN  # the capture holds nothing of the host
# Causes that make the device idle by themselves, whether or not the host had waited
OWN = (FETCHING, BETWEEN, COMPILING, CAPTURING, WARMING_UP, ALLOCATING)

OF_CALLS = {
    api.WAITING: SYNCHRONISING, api.LAUNCHING: LAUNCHING, api.COPYING: COPYING, api.ALLOCATING: ALLOCATING,
    api.LOADING: COMPILING, api.OTHER: LAUNCHING,
}  # fmt: skip
_COMPILE = re.compile(r"(?i)compil(?!ed)|dynamo|inductor|autotun|nvrtc|triton.*jit|ModuleLoad|cudagraph.*capture")
_WARM_UP = re.compile(r"(?i)warm_?-?up")
_NUMBER = re.compile(r"\b\d+\b")  # in the names of ranges: mostly the step's number
_RETURNS = 10_000  # ns within which a wait returns after the device is done, by two clocks
_OF_PIECES = ["start_ns", "time_ns", "cause", "detail", "phase"]
_COLUMNS = [*_OF_PIECES, "waited"]


def pieces(trace: Trace, free: Gaps, windows: Gaps) -> pd.DataFrame:
    """Return the idle time of a device in pieces of one cause each; their time_ns add up to that of the gaps.

    free: starts and ends of the gaps, sorted; windows: the steps. Columns: start_ns, time_ns, cause, detail (function, operator
    or range; may be null), phase, waited (whether the gap began while the host waited for the device before it launched the next
    work, so that the device ran out of work).
    """
    start, end = free
    if not len(start):
        return pd.DataFrame(columns=_COLUMNS)
    host = _Host(trace)
    if not host.known:
        return _table(start, end, UNSEEN, None).assign(waited=False)
    following = NextWork.of(trace, end)
    queued = following.launched_before(start)
    result = [_table(start[queued], end[queued], QUEUED, None)]
    start, end, following = start[~queued], end[~queued], following.only(~queued)
    at = host.place(following.thread) * host.length + start - host.low
    left = _Gaps(start, end, at, np.arange(len(start)))
    for level in host.levels():
        cut, left = left.taken_by(level)
        result += cut
    rest = np.where(following.opens_step(start, end, windows) & ~host.has_operators, BETWEEN, PROGRAM)
    rest = np.where(following.by_input(), FETCHING, rest)
    result.append(_table(left.start, left.end, rest[left.gap].astype(object), None))
    there = [part for part in result if len(part)] or result[-1:]
    whole = pd.concat(there, ignore_index=True)
    gap = np.searchsorted(start, whole["start_ns"].to_numpy(np.int64), side="right") - 1
    waited = np.append(host.waits_at(at, at + end - start), False)[gap]
    return whole.assign(waited=waited & (whole["cause"] != QUEUED).to_numpy(bool))


Labels = str | npt.NDArray[np.object_] | None  # one label for all pieces, or one for each


def _table(
    start: Int, end: Int, cause: Labels, detail: Labels, phase: Labels = None, time: npt.NDArray[np.float64] | None = None
) -> pd.DataFrame:
    """Return pieces as a table. time: theirs, if they share it with others."""
    table = pd.DataFrame({"start_ns": start, "time_ns": (end - start).astype(float) if time is None else time})
    for name, value in (("cause", cause), ("detail", detail), ("phase", phase)):
        table[name] = pd.Series(_each(value, len(start)), index=table.index, dtype="string")
    return table[_OF_PIECES]


def _each(value: Labels, count: int) -> npt.NDArray[np.object_]:
    """Return the labels for this number of rows."""
    return np.full(count, value, dtype=object) if value is None or isinstance(value, str) else value


class _Gaps:
    """Remaining gaps on an axis that holds the threads one after another: start, end, place on the axis, and the gap's number."""

    def __init__(self, start: Int, end: Int, at: Int, gap: Int):
        self.start, self.end, self.at, self.gap = start, end, at, gap

    def taken_by(self, level: _Level) -> tuple[list[pd.DataFrame], _Gaps]:
        """Return the pieces that a level's intervals own, and the gaps that remain."""
        if not len(level.start) or not len(self.start):
            return [], self
        order = np.argsort(self.at, kind="stable")
        at, start, gap = self.at[order], self.start[order], self.gap[order]
        over = at + (self.end - self.start)[order]
        index, window, first, last = intervals.split_at(level.start, level.end, at, over)
        owned = intervals.shares(first, last)
        moved = start[window] - at[window]
        row = level.row[index]
        part = _table(first + moved, last + moved, level.cause[row], level.detail[row], level.phase[row], owned)
        begun, ended = intervals.uncovered(first, last, at, over)
        mine = np.searchsorted(at, begun, side="right") - 1
        shift = start[mine] - at[mine]
        return [part], _Gaps(begun + shift, ended + shift, begun, gap[mine])


class _Level:
    """Intervals on the axis of threads, without overlap within a thread, and the labels of each one's row."""

    def __init__(self, start: Int, end: Int, row: Int, cause: npt.NDArray[np.object_], detail: npt.NDArray[np.object_],
                 phase: npt.NDArray[np.object_]):  # fmt: skip
        self.start, self.end, self.row, self.cause, self.detail, self.phase = start, end, row, cause, detail, phase


class _Host:
    """What the host's threads did, on one axis: thread after thread, each as long as the capture."""

    def __init__(self, trace: Trace):
        self._trace = trace
        tables = [trace.calls[(trace.calls["api"] != "os").to_numpy(bool)], trace.operators, trace.ranges[_is_stack(trace)]]
        self._tables = [table[table["thread"].notna().to_numpy(bool)] for table in tables]
        self.known = any(len(table) for table in self._tables)
        self.has_operators = bool(len(trace.operators))
        launchers = [getattr(trace, name)["launch_thread"] for name in DEVICE_TABLES]
        self._launchers_known = any(bool(column.notna().any()) for column in launchers)
        threads = [table["thread"].to_numpy(np.int64) for table in self._tables]
        self._threads = np.unique(np.concatenate([*threads, *(column.dropna().to_numpy(np.int64) for column in launchers)]))
        edges = [trace.kernels, trace.copies, trace.graphs, *self._tables]
        self.low = min((int(table["start_ns"].min()) for table in edges if table["start_ns"].notna().any()), default=0)
        high = max((int(table["end_ns"].max()) for table in edges if table["end_ns"].notna().any()), default=0)
        self.low -= 1 << 40  # windows may reach beyond the recorded events
        self.length = high - self.low + (1 << 41)

    def place(self, threads: Int) -> Int:
        """Return the position of each thread on the axis; all threads are one if it is unknown who launched what."""
        if not self._launchers_known:
            return np.zeros(len(threads), dtype=np.int64)
        known = np.where(threads < 0, self._commonest(), threads)
        return np.searchsorted(self._threads, known)

    def _commonest(self) -> int:
        launches = pd.concat([getattr(self._trace, name)["launch_thread"].dropna() for name in DEVICE_TABLES])
        return int(launches.mode().iloc[0])

    def waits_at(self, at: Int, until: Int) -> npt.NDArray[np.bool_]:
        """Return whether the host, at each place of the axis, is in a call that waits for the device, or copies, and returns.

        until: the place by which the call must return. If it does not, more work is queued, and the idle time has another reason.
        """
        calls = self._tables[0]
        mine = calls[api.waits(calls, self._trace.copies)]
        level = self._level(mine, SYNCHRONISING, _Texts(mine["name"]).values, None)
        inside = np.searchsorted(level.start, at, side="right") - 1
        end = np.append(level.end, 0)[inside]
        return np.asarray((inside >= 0) & (at <= end + _RETURNS) & (end < until))

    def levels(self) -> list[_Level]:
        """Return the levels that may own an instant, highest first."""
        calls, operators, ranges = self._tables
        named = [_Texts(operators["name"]), _Texts(translated(ranges["name"], lambda text: _NUMBER.sub("#", readable(text))))]
        result = [self._captures(calls)]
        for pattern, cause in ((INPUT, FETCHING), (_COMPILE, COMPILING), (_WARM_UP, WARMING_UP)):
            for table, names in ((operators, named[0]), (ranges, named[1])):
                fits = names.matching(pattern)
                if cause == FETCHING:
                    fits = fits | (table["phase"] == "data").fillna(False).to_numpy(bool)
                mine = table[fits]
                result.append(self._level(mine, cause, names.values[fits], "data" if cause == FETCHING else None))
        causes = _Texts(translated(calls["name"], lambda name: OF_CALLS[api.cause(name)])).values
        result.append(self._level(calls, causes, _Texts(calls["name"]).values, calls["phase"]))
        result.append(self._level(operators, OPERATOR, named[0].values, operators["phase"]))
        result.append(self._level(ranges, RANGE, named[1].values, ranges["phase"]))
        return result

    def _captures(self, calls: pd.DataFrame) -> _Level:
        """Return the time from each call that begins a graph to the next one of its thread that ends one."""
        edges = calls[calls["name"].map(api.captures).astype(bool).to_numpy()].sort_values(["thread", "start_ns"])
        begins = edges["name"].astype("string").str.contains("Begin").to_numpy(bool)
        pairs = np.flatnonzero(begins[:-1] & ~begins[1:] & (edges["thread"].to_numpy()[:-1] == edges["thread"].to_numpy()[1:]))
        first, last = edges.iloc[pairs], edges.iloc[pairs + 1]
        spans = first[["thread", "start_ns"]].assign(end_ns=last["end_ns"].to_numpy())
        return self._level(spans, CAPTURING, _each(None, len(spans)), None)

    def _level(
        self, table: pd.DataFrame, cause: Labels, detail: npt.NDArray[np.object_], phase: str | pd.Series | None
    ) -> _Level:
        """Return the innermost of a table's intervals at each instant of each thread, on the axis."""
        thread = table["thread"].to_numpy(np.int64)
        row, first, last = intervals.leaves(*intervals.spans(table))
        base = self.place(thread[row]) * self.length - self.low
        order = np.argsort(base + first, kind="stable")
        phases = _Texts(phase).values if isinstance(phase, pd.Series) else _each(phase, len(table))
        return _Level((base + first)[order], (base + last)[order], row[order], _each(cause, len(table)), detail, phases)


class _Texts:
    """A column of texts as objects, None for null. A pattern is matched once per distinct text."""

    def __init__(self, column: pd.Series):
        self._codes, distinct = pd.factorize(column.astype("object").to_numpy(), use_na_sentinel=True)
        self._distinct = [str(text) for text in distinct]
        self.values: npt.NDArray[np.object_] = np.array([*self._distinct, None], dtype=object)[self._codes]

    def matching(self, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
        """Return which texts contain a pattern."""
        return np.array([*(bool(pattern.search(text[:300])) for text in self._distinct), False], dtype=bool)[self._codes]


def _is_stack(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which ranges nest like stacks; ranges of steps are left out, as they do not say what the host did in them."""
    ranges = trace.ranges
    return (ranges["nested"] & ~ranges["category"].isin(["step", "mark"])).to_numpy(bool)
