"""Assign device work to the step that launched it, whenever it runs, and find when each step starts and ends on the device.

A device runs asynchronously: a step's kernels may run after the step has ended on the host, so the host's edges would cut or
lose them. A step therefore starts on the device when it starts on the host or, if later, when the device has finished earlier
work; at the latest with the step's own first kernel. Kernels on a CPU belong to the step in which they run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import PROFILE, Trace, intervals

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

DEVICE_TABLES = ("kernels", "graphs", "copies")
# Steps with a gap longer than this share of a usual step are not consecutive: the loop paused, or was not recorded
_PAUSE = 0.5
_NEVER = np.iinfo(np.int64).max


def step_at(times: pd.Series, steps: pd.DataFrame) -> pd.Series:
    """Return the step that contains each time (ns); null outside of steps and for null."""
    ordered = steps.sort_values("start_ns")
    position = intervals.containing(times.to_numpy(np.int64, na_value=-1), *intervals.edges(ordered))
    return _numbers(position, ordered).set_axis(times.index)


def assign(trace: Trace, on_device: bool = False, marked: bool = True, ranges: bool = False) -> None:
    """Fill `step` of all device work, and device_start_ns and device_end_ns of the steps, in place.

    The device times are null if no device runs asynchronously: a step then lasts as long on the device as on the host.
    on_device: the steps' times are device times, so work belongs to the step in which it starts. marked: marks delimit the
    steps; otherwise they may lie anywhere in the repeating sequence, and a step lasts from its first work to the next step's.
    ranges: the steps are ranges of one name; each ends with its own work or when it is closed, whichever is later.
    """
    steps = trace.steps.sort_values("start_ns")
    result = _StepWork.of(trace, steps, on_device)
    apart = trace.info.get("recorder") == PROFILE  # the tracer writes its records between two steps
    bounds_and_firsts = None if on_device else _bounds(result, steps, marked, apart, ranges)
    edges = bounds_and_firsts[:2] if bounds_and_firsts else None
    if bounds_and_firsts is not None:
        _place_unlaunched(result, *bounds_and_firsts)
    for name, position in result.positions.items():
        getattr(trace, name)["step"] = _numbers(position, steps)
    columns = {
        name: pd.Series(pd.NA if values is None else values, index=steps.index, dtype="Int64").reindex(trace.steps.index)
        for name, values in zip(("device_start_ns", "device_end_ns"), edges or (None, None), strict=True)
    }
    trace.steps = trace.steps.assign(**columns)


def relate(trace: Trace) -> None:
    """Assign a capture's device work to its marked steps, in place; nothing changes without steps."""
    if len(trace.steps):
        assign(trace)
        drop_empty_tail(trace)


def measured(trace: Trace, table: pd.DataFrame) -> Bool:
    """Return which rows of device work belong to a measured step; all rows if the trace has no steps."""
    if trace.steps.empty:
        return np.ones(len(table), dtype=bool)
    return table["step"].isin(trace.steps.loc[~trace.steps["warmup"], "step"]).to_numpy(bool)


def assigned(trace: Trace) -> Trace:
    """Return the trace with its device work assigned to its steps; the trace itself if that is done already."""
    tables = [getattr(trace, name)["step"] for name in DEVICE_TABLES]
    if trace.steps.empty or not any(map(len, tables)) or any(bool(column.notna().any()) for column in tables):
        return trace
    result = replace(trace, **{name: getattr(trace, name).copy(deep=False) for name in DEVICE_TABLES})
    assign(result)
    return result


def drop_empty_tail(trace: Trace) -> None:
    """Drop the last step, in place, if it is short and launched no device work but others did: the profiler was stopping."""
    last = trace.steps.index[trace.steps["start_ns"] == trace.steps["start_ns"].max()]
    result = pd.concat([getattr(trace, name)["step"].value_counts() for name in DEVICE_TABLES])
    counts = result.groupby(level=0).sum().reindex(trace.steps["step"]).fillna(0)
    lasted = trace.steps["end_ns"] - trace.steps["start_ns"]
    if len(last) != 1 or len(counts) < 2 or not (counts > 0).any() or (counts.loc[trace.steps.loc[last[0], "step"]] > 0).any():
        return
    if lasted[last[0]] < _PAUSE * float(lasted.drop(last).median()):
        trace.steps = trace.steps.drop(last)
        assign(trace)  # the step before it now ends with its own work
        trace.diagnostics["steps at the end without device work, left out"] = 1


def bounds(steps: pd.DataFrame) -> tuple[Int, Int]:
    """Return when each step starts and ends on the device; on the host if no device runs asynchronously."""
    result = []
    for side in ("start", "end"):
        known = steps[f"device_{side}_ns"].to_numpy(np.int64, na_value=-1)
        result.append(np.where(known >= 0, known, steps[f"{side}_ns"].to_numpy(np.int64)))
    return result[0], result[1]


# --- device work --------------------------------------------------------------------------------------------------------------


@dataclass
class _StepWork:
    """Rows of device work of all tables, concatenated, and the step (position, -1: none) that each belongs to.

    positions: the same, by table. behind: on a device that runs asynchronously. opening: may be the first work of a step.
    computes: is not a copy. main: on the stream that computes longest; other streams may run ahead of it or lag behind.
    """

    positions: dict[str, Int]
    position: Int
    start: Int
    end: Int
    launch: Int
    thread: Int
    behind: Bool
    opening: Bool
    computes: Bool
    main: Bool

    @classmethod
    def of(cls, trace: Trace, steps: pd.DataFrame, on_device: bool) -> _StepWork:
        columns: dict[str, list[npt.NDArray[np.int64] | Bool]] = {name: [] for name in ("start", "end", "launch", "thread")}
        behind, opening, streams, sizes = [], [], [], []
        for name in DEVICE_TABLES:
            table = getattr(trace, name)
            sizes.append(len(table))
            names = ("start_ns", "end_ns", "launch_ns", "launch_thread")
            for key, column in zip(columns, names, strict=True):
                columns[key].append(table[column].to_numpy(np.int64, na_value=-1))
            behind.append(_is_accelerator(table["device"]))
            opening.append(np.ones(len(table), bool) if name != "copies" else (table["operation"] != "set").to_numpy(bool))
            streams.append(table["device"].astype("string").fillna("") + " " + table["thread"].astype("string").fillna(""))
        whole = {name: np.concatenate(parts).astype(np.int64) for name, parts in columns.items()}
        launched = np.concatenate(behind) & (whole["launch"] >= 0) & (not on_device)
        at = np.where(launched, whole["launch"], whole["start"])
        position = intervals.containing(at, *intervals.edges(steps))
        parts = np.split(position, np.cumsum(sizes)[:-1])  # views: a change in one is a change in the other
        computes = np.repeat([name != "copies" for name in DEVICE_TABLES], sizes)
        main = _longest(pd.concat(streams), whole["end"] - whole["start"], np.concatenate(behind) & computes)
        return cls(dict(zip(DEVICE_TABLES, parts, strict=True)), position, **whole, behind=np.concatenate(behind),
                   opening=np.concatenate(opening), computes=computes, main=main)  # fmt: skip

    @property
    def launched(self) -> Bool:
        """Which rows have a known launch on a device that runs asynchronously."""
        return np.asarray(self.behind & (self.launch >= 0) & (self.start >= 0))


def _is_accelerator(devices: pd.Series) -> Bool:
    """Return which rows ran on a device other than the CPU."""
    return (devices.notna() & (devices != "cpu")).to_numpy(bool)


def _longest(streams: pd.Series, lasted: Int, counted: Bool) -> Bool:
    """Return which rows are on the stream where the counted rows last longest in total."""
    codes, _ = pd.factorize(streams.to_numpy(dtype=object))
    if not counted.any():
        return np.zeros(len(codes), dtype=bool)
    return np.asarray(codes == np.bincount(codes[counted], weights=lasted[counted]).argmax())


def _place_unlaunched(work: _StepWork, begun: Int, over: Int, first: Int) -> None:
    """Assign work whose launch is not in the capture to the step in whose device time it starts, in place.

    Work that runs before a step's first own work is left over from earlier launches, and belongs to no step.
    """
    rows = np.flatnonzero(work.behind & (work.launch < 0))
    start = work.start[rows]
    position = np.where(start >= 0, intervals.containing(start, begun, over), -1)
    work.position[rows] = np.where((position >= 0) & (start < first[np.maximum(position, 0)]), -1, position)


# --- from when to when ----------------------------------------------------------------------------------------------------------


def _bounds(work: _StepWork, steps: pd.DataFrame, marked: bool, apart: bool, ranges: bool) -> tuple[Int, Int, Int] | None:
    """Return when each step starts and ends on the devices, and when its own work starts; None if no step launched device work.

    A step starts when it starts on the host or, if the device is still busy with earlier work, when that is done. The first of
    several consecutive steps starts with the host; or later, by as much as the last one ends later, if earlier work lasts.
    The steps together then last as long as their marks say. The first step also waits for earlier work that was launched right
    before it, such as a warm-up step, or if the device is busy with other work and still lags half a step or more at the end.

    apart: the time between two steps on the host is the tracer's own, so a device that waits then waits in no step. ranges: the
    steps are ranges within a loop's step; what follows their work and their end does not belong to them.
    """
    launched = work.launched
    mine = launched & (work.position >= 0)
    if not mine.any():
        return None
    start, end = intervals.edges(steps)
    first = _first(work, mine, steps)
    last = np.full(len(steps), -1, dtype=np.int64)
    np.maximum.at(last, work.position[mine], work.end[mine])
    usual = int(np.median(end - start))
    joined = _joined(steps, start, end, usual)
    late = (last - end)[_run_end_of(joined)]  # how far the device lags when the last step ends on the host
    behind = late > _PAUSE * usual
    busy = behind & _busy_before(work, start, first)
    goes_on = np.append(False, joined[:-1]) | _launched_before(work, launched, start, usual) | busy
    done = _done_before(work, first)
    free = np.maximum(start, done) if marked else first
    alike = np.clip(np.minimum(done - start, late), 0, None) if marked else 0  # shift the beginning by as much as the end
    begun = np.minimum(first, np.where(goes_on, free, start + alike))
    begun = np.maximum.accumulate(begun)
    following = np.append(begun[1:], _NEVER)
    own = np.where(busy[_run_of(joined)], first + (end - start), end)
    alone = _run_end(work, launched, end, np.maximum(own, last), usual, marked)
    closed = np.minimum(following, np.maximum(end, last))
    over = closed if ranges else np.where(joined, closed if apart else following, np.minimum(alone, following))
    return begun, np.maximum(over, begun), first


def _run_end_of(joined: Bool) -> Int:
    """Return, for each step, the position of the last step in its run of consecutive steps."""
    ends = np.flatnonzero(~joined)
    return np.asarray(ends[np.searchsorted(ends, np.arange(len(joined)))], dtype=np.int64)


def _run_of(joined: Bool) -> Int:
    """Return, for each step, the position of the first step in its run of consecutive steps."""
    opens = np.append(True, ~joined[:-1])
    return np.asarray(np.flatnonzero(opens)[np.cumsum(opens) - 1], dtype=np.int64)


def _first(work: _StepWork, mine: Bool, steps: pd.DataFrame) -> Int:
    """Return when each step's first work starts. Prefer work of the main stream that the loop's thread launched."""
    start, _ = intervals.edges(steps)
    by_loop = work.thread == steps["thread"].to_numpy(np.int64)[np.maximum(work.position, 0)]
    result = np.full(len(steps), _NEVER, dtype=np.int64)
    opening = mine & work.opening
    for rows in (opening & by_loop & work.main, opening & by_loop, opening, mine):
        tried = np.full(len(steps), _NEVER, dtype=np.int64)
        np.minimum.at(tried, work.position[rows], work.start[rows])
        result = np.where(result == _NEVER, tried, result)
    return np.maximum.accumulate(np.where(result == _NEVER, start, result))


def _joined(steps: pd.DataFrame, start: Int, end: Int, usual: int) -> Bool:
    """Return for each step whether the next one follows it directly; turns of a comparison are apart."""
    near = start[1:] - end[:-1] <= _PAUSE * usual
    window = steps["window"].to_numpy(np.int64, na_value=-1)
    return np.append(near & (window[1:] == window[:-1]), False)


def _busy_before(work: _StepWork, start: Int, first: Int) -> Bool:
    """Return for each step whether work of no step still runs on the device when the step starts on the host."""
    others = work.behind & ((work.position < 0) | (work.launch < 0)) & (work.start >= 0)
    order = np.argsort(work.start[others], kind="stable")
    begun, reached = work.start[others][order], np.maximum.accumulate(work.end[others][order])
    before = np.searchsorted(begun, first, side="left") - 1  # the last one that begins before the step's own work
    return np.asarray((before >= 0) & (np.append(reached, -1)[before] > start))


def _launched_before(work: _StepWork, launched: Bool, start: Int, usual: int) -> Bool:
    """Return for each step whether the capture has launches right before it."""
    launch = np.sort(work.launch[launched & work.opening])
    before = np.searchsorted(launch, start, side="left") - 1
    return np.asarray((before >= 0) & (start - launch[np.maximum(before, 0)] <= _PAUSE * usual))


def _done_before(work: _StepWork, first: Int) -> Int:
    """Return when the device has finished the earlier steps' computation and other work begun before each step's first work."""
    latest = np.full(len(first) + 1, -1, dtype=np.int64)  # by step: also work of no step that began before its first work
    mine = work.behind & work.computes & (work.start >= 0)
    of_none = np.searchsorted(first, work.start, side="right")
    after = np.where((work.position >= 0) & (work.launch >= 0), work.position + 1, of_none)
    np.maximum.at(latest, after[mine], work.end[mine])
    return np.maximum.accumulate(latest)[:-1]


def _run_end(work: _StepWork, launched: Bool, end: Int, own: Int, usual: int, marked: bool) -> Int:
    """Return when each step would end without a next one: with its own work (`own`), or when later-launched work begins.

    marked: see assign.
    """
    opening = launched & work.opening
    order = np.argsort(work.launch[opening], kind="stable")
    launch, begun = work.launch[opening][order], work.start[opening][order]
    after = np.searchsorted(launch, end, side="left")
    near = np.append(launch, _NEVER)[after] - end <= _PAUSE * usual
    next_work = np.maximum(np.append(begun, _NEVER)[after], end)
    return np.asarray(np.where(near, np.minimum(next_work, own) if marked else next_work, own))


# --- steps ----------------------------------------------------------------------------------------------------------------------


def _numbers(position: Int, steps: pd.DataFrame) -> pd.Series:
    """Return the numbers of the steps at these positions; null for -1."""
    numbers = np.append(steps["step"].to_numpy(np.int64), 0)
    return pd.Series(numbers[position]).astype("Int64").where(position >= 0)
