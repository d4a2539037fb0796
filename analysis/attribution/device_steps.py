"""Which step device work belongs to: the one that launched it, whenever it runs; and how long a step lasts on the device.

A device works behind the host: a step's kernels run when the host's step has ended, and the host's clock would clip or lose them.
So a step of the device begins where the host's does, or later, when the device is done with what was launched before; at its own
first kernel at the latest. Kernels of a CPU belong to the step that they run in.
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
# Steps further apart than this share of a usual one are not consecutive: the loop paused between them, or was not recorded
_PAUSE = 0.5
_NEVER = np.iinfo(np.int64).max


def step_at(times: pd.Series, steps: pd.DataFrame) -> pd.Series:
    """Return the step in which each time (ns) lies, null outside of steps and for null."""
    ordered = steps.sort_values("start_ns")
    position = intervals.containing(times.to_numpy(np.int64, na_value=-1), *intervals.edges(ordered))
    return _numbers(position, ordered).set_axis(times.index)


def assign(trace: Trace, on_device: bool = False, marked: bool = True, ranges: bool = False) -> None:
    """Fill `step` of all device work, and device_start_ns and device_end_ns of the steps, in place.

    The latter two are null where no device works behind the host: a step then lasts as long on the device as on the host.
    on_device: the steps' times are the device's own: work belongs to the step in which it starts. marked: a step is what lies
    between its marks; else they stand anywhere in what repeats, and a step is from its first work to the next one's. ranges: they
    are ranges of a name, of which each ends with its own work, or where it is closed.
    """
    steps = trace.steps.sort_values("start_ns")
    result = _StepWork.of(trace, steps, on_device)
    apart = trace.info.get("recorder") == PROFILE  # the tracer writes between two steps
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
    """Tie a capture's device work to the steps that it marks, in place; without steps nothing changes."""
    if len(trace.steps):
        assign(trace)
        drop_empty_tail(trace)


def measured(trace: Trace, table: pd.DataFrame) -> Bool:
    """Return which rows of device work belong to a measured step; all of them where the trace has no steps."""
    if trace.steps.empty:
        return np.ones(len(table), dtype=bool)
    return table["step"].isin(trace.steps.loc[~trace.steps["warmup"], "step"]).to_numpy(bool)


def assigned(trace: Trace) -> Trace:
    """Return the trace with its device work assigned to its steps: itself, unless that was not done yet."""
    tables = [getattr(trace, name)["step"] for name in DEVICE_TABLES]
    if trace.steps.empty or not any(map(len, tables)) or any(bool(column.notna().any()) for column in tables):
        return trace
    result = replace(trace, **{name: getattr(trace, name).copy(deep=False) for name in DEVICE_TABLES})
    assign(result)
    return result


def drop_empty_tail(trace: Trace) -> None:
    """Drop the last step where it launched nothing on a device and others did, in place: the profiler's stop, and no step."""
    last = trace.steps.index[trace.steps["start_ns"] == trace.steps["start_ns"].max()]
    result = pd.concat([getattr(trace, name)["step"].value_counts() for name in DEVICE_TABLES])
    counts = result.groupby(level=0).sum().reindex(trace.steps["step"]).fillna(0)
    lasted = trace.steps["end_ns"] - trace.steps["start_ns"]
    if len(last) != 1 or len(counts) < 2 or not (counts > 0).any() or (counts.loc[trace.steps.loc[last[0], "step"]] > 0).any():
        return
    if lasted[last[0]] < _PAUSE * float(lasted.drop(last).median()):
        trace.steps = trace.steps.drop(last)
        assign(trace)  # the step before ends by itself now
        trace.diagnostics["steps at the end without device work, left out"] = 1


def bounds(steps: pd.DataFrame) -> tuple[Int, Int]:
    """Return when each step starts and ends on the device; on the host where no device works behind it."""
    result = []
    for side in ("start", "end"):
        known = steps[f"device_{side}_ns"].to_numpy(np.int64, na_value=-1)
        result.append(np.where(known >= 0, known, steps[f"{side}_ns"].to_numpy(np.int64)))
    return result[0], result[1]


# --- device work --------------------------------------------------------------------------------------------------------------


@dataclass
class _StepWork:
    """Rows of device work of all tables, one after another, and the step (position, -1: none) that each belongs to.

    positions: the same by table. behind: on a device that works behind the host. opening: may be the first work of a step.
    computes: is no copy. main: on the stream that computes longest: others may run ahead of it or behind.
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
        parts = np.split(position, np.cumsum(sizes)[:-1])  # views: what is changed in one is changed in the other
        computes = np.repeat([name != "copies" for name in DEVICE_TABLES], sizes)
        main = _longest(pd.concat(streams), whole["end"] - whole["start"], np.concatenate(behind) & computes)
        return cls(dict(zip(DEVICE_TABLES, parts, strict=True)), position, **whole, behind=np.concatenate(behind),
                   opening=np.concatenate(opening), computes=computes, main=main)  # fmt: skip

    @property
    def launched(self) -> Bool:
        """Which rows have a known launch on a device that works behind the host."""
        return np.asarray(self.behind & (self.launch >= 0) & (self.start >= 0))


def _is_accelerator(devices: pd.Series) -> Bool:
    """Return which rows ran on something other than the host's processors."""
    return (devices.notna() & (devices != "cpu")).to_numpy(bool)


def _longest(streams: pd.Series, lasted: Int, counted: Bool) -> Bool:
    """Return which rows are of the stream that the counted ones last longest on."""
    codes, _ = pd.factorize(streams.to_numpy(dtype=object))
    if not counted.any():
        return np.zeros(len(codes), dtype=bool)
    return np.asarray(codes == np.bincount(codes[counted], weights=lasted[counted]).argmax())


def _place_unlaunched(work: _StepWork, begun: Int, over: Int, first: Int) -> None:
    """Put work whose launch is not in the capture into the step in whose time on the device it starts, in place.

    What runs before the first work of a step is left of what was launched before: it is in no step.
    """
    rows = np.flatnonzero(work.behind & (work.launch < 0))
    start = work.start[rows]
    position = np.where(start >= 0, intervals.containing(start, begun, over), -1)
    work.position[rows] = np.where((position >= 0) & (start < first[np.maximum(position, 0)]), -1, position)


# --- from when to when ----------------------------------------------------------------------------------------------------------


def _bounds(work: _StepWork, steps: pd.DataFrame, marked: bool, apart: bool, ranges: bool) -> tuple[Int, Int, Int] | None:
    """Return when each step starts and ends on the devices, and when its own work does; None where nothing was launched on one.

    A step starts when the host's does or, where the device still works on what was launched before, when it is done with that.
    The first of consecutive ones starts with the host's; or later by as much as the last one ends later, where earlier work goes
    on until then. So all together last as long as their marks say. It is done with earlier work, too, where that was launched
    right before it, as by a warm-up step, and where the device is behind by half a step and more, at the end as well.

    apart: what lies between two steps of the host is our own writing: a device that waits meanwhile waits in none. ranges: these
    are no steps of a loop, but ranges within one, and what comes after their work and behind their end is not theirs.
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
    late = (last - end)[_run_end_of(joined)]  # by how much the device is behind when the last step ends on the host
    behind = late > _PAUSE * usual
    busy = behind & _busy_before(work, start, first)
    goes_on = np.append(False, joined[:-1]) | _launched_before(work, launched, start, usual) | busy
    done = _done_before(work, first)
    free = np.maximum(start, done) if marked else first
    alike = np.clip(np.minimum(done - start, late), 0, None) if marked else 0  # at the beginning, as far as at the end
    begun = np.minimum(first, np.where(goes_on, free, start + alike))
    begun = np.maximum.accumulate(begun)
    following = np.append(begun[1:], _NEVER)
    own = np.where(busy[_run_of(joined)], first + (end - start), end)
    alone = _run_end(work, launched, end, np.maximum(own, last), usual, marked)
    closed = np.minimum(following, np.maximum(end, last))
    over = closed if ranges else np.where(joined, closed if apart else following, np.minimum(alone, following))
    return begun, np.maximum(over, begun), first


def _run_end_of(joined: Bool) -> Int:
    """Return for each step the position of the last of the consecutive ones that it is one of."""
    ends = np.flatnonzero(~joined)
    return np.asarray(ends[np.searchsorted(ends, np.arange(len(joined)))], dtype=np.int64)


def _run_of(joined: Bool) -> Int:
    """Return for each step the position of the first of the consecutive ones that it is one of."""
    opens = np.append(True, ~joined[:-1])
    return np.asarray(np.flatnonzero(opens)[np.cumsum(opens) - 1], dtype=np.int64)


def _first(work: _StepWork, mine: Bool, steps: pd.DataFrame) -> Int:
    """Return when each step's first work starts: of the main stream and launched by the loop's thread, where there is any."""
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
    """Return of each step whether the next one follows it at once; turns of a comparison are apart."""
    near = start[1:] - end[:-1] <= _PAUSE * usual
    window = steps["window"].to_numpy(np.int64, na_value=-1)
    return np.append(near & (window[1:] == window[:-1]), False)


def _busy_before(work: _StepWork, start: Int, first: Int) -> Bool:
    """Return whether the device is still busy with work of no step when each step starts on the host."""
    others = work.behind & ((work.position < 0) | (work.launch < 0)) & (work.start >= 0)
    order = np.argsort(work.start[others], kind="stable")
    begun, reached = work.start[others][order], np.maximum.accumulate(work.end[others][order])
    before = np.searchsorted(begun, first, side="left") - 1  # the last of them that begins before the step's own work
    return np.asarray((before >= 0) & (np.append(reached, -1)[before] > start))


def _launched_before(work: _StepWork, launched: Bool, start: Int, usual: int) -> Bool:
    """Return whether the capture holds launches right before each step."""
    launch = np.sort(work.launch[launched & work.opening])
    before = np.searchsorted(launch, start, side="left") - 1
    return np.asarray((before >= 0) & (start - launch[np.maximum(before, 0)] <= _PAUSE * usual))


def _done_before(work: _StepWork, first: Int) -> Int:
    """Return when the device is done with what earlier steps computed, and with what else began before each step's first work."""
    latest = np.full(len(first) + 1, -1, dtype=np.int64)  # of each step, and of none where it began before that one's first work
    mine = work.behind & work.computes & (work.start >= 0)
    of_none = np.searchsorted(first, work.start, side="right")
    after = np.where((work.position >= 0) & (work.launch >= 0), work.position + 1, of_none)
    np.maximum.at(latest, after[mine], work.end[mine])
    return np.maximum.accumulate(latest)[:-1]


def _run_end(work: _StepWork, launched: Bool, end: Int, own: Int, usual: int, marked: bool) -> Int:
    """Return when each step would end if no other came after it: by itself (`own`), or where what was launched after it begins.

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
    """Return the numbers of the steps at these positions, null for -1."""
    numbers = np.append(steps["step"].to_numpy(np.int64), 0)
    return pd.Series(numbers[position]).astype("Int64").where(position >= 0)
