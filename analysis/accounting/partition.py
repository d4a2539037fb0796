"""Every nanosecond of every step, given to one cell: the conservation that all tables rest on.

At each instant of a step, whoever is highest on this list owns it, in equal parts where several are active at once:

0. kernels: library primitives and operators that compute by themselves, on any stream or thread of any device;
1. graphs: executions of a CUDA graph of which the capture does not show the kernels;
2. copies: the device copies or sets memory, and computes nothing;
3. the device between two pieces of work, of which the launch of the second had returned before: the host was ahead;
4. calls: the host is inside a function of the device's API (launching, waiting, copying, allocating);
5. operators: the time of an operator in which nothing of the above runs (dispatch, allocation, the framework's own work);
6. ranges: a layer, phase, data, sync or user's range in which no operator runs;
7. calls of the operating system, in which threads mostly wait;
8. the step itself: the loop's own code, for which there is no further evidence.

A step of a device that works behind the host lasts from its first kernel to the next step's first, and device work counts for the
step that launched it (see analysis.attribution.device_steps). What belongs to no measured step is counted all the same, in cells
of the phase OUTSIDE_OF_STEPS, which own no more than what they take of a measured step's time.

So the cells of a step add up to its wall time by construction. The rounding to integer nanoseconds happens once, here, for
the finest cells; coarser tables add those integers up. A capture without steps counts as one: from its first event to its last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import next_work
from kernelscope.analysis.accounting.next_work import NextWork
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.launches import without_details
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals
from kernelscope.analysis.trace.categories import filled, is_null, taken, translated
from kernelscope.analysis.trace.stacks import Stacks

KERNEL, GRAPH, COPY, BETWEEN, CALL, OPERATOR, RANGE, SYSTEM, STEP = range(9)

# What a cell is keyed by. `cause` says what went on where no kernel ran; it is null where one did.
KEYS = (
    "layer", "phase", "kind", "cause", "kernel", "library", "operator", "range", "problem", "layout", "algorithm", "dtype",
    "m", "n", "k", "transpose", "method",
)  # fmt: skip
_INTEGER_KEYS = ("m", "n", "k")

# Host causes, as `cause` names them; those of API calls are in analysis.attribution.calls
IN_OPERATOR = "in operators"  # inside an operator, outside of any kernel
DISPATCH = "in the framework"  # inside the framework's own call, outside of any operator
IN_LAYER = "in layers"  # inside a layer's range, outside of any operator: the layer's Python code
IN_PHASE = "in phases"  # inside a phase's range, outside of any layer
IN_RANGE = "in ranges"  # inside a user's range, outside of any call or operator
DATA = "data"  # fetching and converting the batch
WAITING = api.WAITING  # the host waits for results
OUTSIDE = "outside of ranges"  # in the step, outside of any range: the loop's own code
SCRIPT = "in the program"  # the same in a profiled script of which the framework's operators were traced: Python, by elimination
UNSEEN = "unknown"  # in a capture without steps, outside of everything that was recorded

OUTSIDE_OF_STEPS = "outside of steps"  # the phase of device work that belongs to no measured step

# Device work that is no kernel
DEVICE = "device: "
OPAQUE_GRAPH = DEVICE + "graph whose kernels were not recorded"
QUEUED = DEVICE + next_work.QUEUED  # its own time from one piece of work to the next, which had been launched before


@dataclass
class Partition:
    """The cells of the measured steps.

    cells: one row per distinct KEYS, with count and duration_ns (sums over all steps; of the host's rows without what ran
    inside of them) and time_ns (mean per step; adds up to step_ns exactly). steps: the measured steps; empty where the window
    is the whole capture. totals: over all of it, kernel_sum_ns (durations added), kernel_busy_ns (at least one kernel ran),
    device_busy_ns (kernels, graphs or copies) and wall_ns; and of kernel_sum_ns, what has a known kind, range, operator and
    layer (known_kind_ns, ...). outside: device work that belongs to no measured step and took none of their time, as cells.
    """

    cells: pd.DataFrame
    step_ns: int
    steps: pd.DataFrame
    totals: dict[str, int]
    outside: pd.DataFrame

    @property
    def everything(self) -> pd.DataFrame:
        """All cells: every kernel, graph and copy of the recording is counted in exactly one."""
        return pd.concat([self.cells, self.outside], ignore_index=True) if len(self.outside) else self.cells


@dataclass
class _Activity:
    """Intervals of one level: `row` of `keys` (columns of KEYS; those not there are null) that each interval stands for.

    work: of device work, what each row of keys stands for, whether or not any of it is in the measured steps' time.
    """

    level: int
    keys: pd.DataFrame
    row: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    work: _Executions | None = None

    def within(self, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> _Activity:
        """Return the pieces inside windows that follow each other; what has no length there owns nothing, but is counted."""
        if len(start) == 1 and len(self.start) and self.start.min() >= start[0] and self.end.max() <= end[0]:
            return self
        index, _, first, last = intervals.split_at(self.start, self.end, start, end)
        moment = np.flatnonzero(self.start == self.end)
        if len(moment) and len(start):
            window = np.searchsorted(start, self.start[moment], side="right") - 1
            moment = moment[(window >= 0) & (self.start[moment] <= end[np.maximum(window, 0)])]
            index = np.concatenate([index, moment])
            first, last = (np.concatenate([cut, self.start[moment]]) for cut in (first, last))
        return _Activity(self.level, self.keys, self.row[index], first, last, self.work)


@dataclass(frozen=True)
class _Executions:
    """Per row of device work: executions, their durations added (ns), and whether it belongs to a measured step."""

    count: npt.NDArray[np.int64]
    duration: npt.NDArray[np.int64]
    measured: npt.NDArray[np.bool_]


def partition(trace: Trace) -> Partition:
    """Partition the wall time of the trace's measured steps, or of the whole capture where it has no steps.

    It is made once and kept with the trace. Raises EvidenceError when there is nothing on a timeline.
    """
    if "partition" not in trace.derived:
        trace.derived["partition"] = _partitioned(_labelled(device_steps.assigned(trace)))
    result: Partition = trace.derived["partition"]
    return result


def _partitioned(trace: Trace) -> Partition:
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns").reset_index(drop=True)
    if steps.empty and len(trace.steps):
        raise EvidenceError("the capture holds no measured step; record some, or lower --warmup")
    start, end = device_steps.bounds(steps) if len(steps) else whole(trace)
    owned, free = [], (start, end)
    totals: dict[str, int] = {}
    with ThreadPoolExecutor(max_workers=1) as beside:  # a level is added up while the next one is made
        added_up: list[Future[Cells]] = []
        for activity, left in _levels(trace, free):
            if activity.level == KERNEL:
                totals = _known(activity)
            if len(activity.start) or (activity.work and len(activity.keys)):
                added_up.append(beside.submit(_shared_out, activity))
            owned.append(_length(free) - _length(left))
            free = left
        rest = _added_up(_rest(free, _remainder(trace, steps)), (free[1] - free[0]).astype(float))
        tables = [*(table.result() for table in added_up), rest]
    totals["kernel_busy_ns"] = owned[KERNEL]
    totals["device_busy_ns"] = sum(owned[:BETWEEN])
    totals["wall_ns"] = _length((start, end))
    step_ns = round(totals["wall_ns"] / len(start))
    cells = _cells(tables, len(start), step_ns)
    inside = ((cells["phase"] != OUTSIDE_OF_STEPS).fillna(True) | (cells["time_ns"] > 0)).to_numpy(bool)
    return Partition(cells[inside].reset_index(drop=True), step_ns, steps, totals, cells[~inside].reset_index(drop=True))


def range_labels(names: pd.Series) -> pd.Series:
    """Return names of ranges without what is of one call only."""
    return translated(names, without_details)


def _labelled(trace: Trace) -> Trace:
    """Return the trace with the names of ranges as cells have them."""
    return replace(trace, ranges=trace.ranges.assign(name=range_labels(trace.ranges["name"])))


class Executions(NamedTuple):
    """Each kernel, then each copy. keys: distinct KEYS but the method of cells; number: of its cell among these."""

    keys: pd.DataFrame
    number: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]


def executions(trace: Trace) -> Executions:
    """Return which cell counts each kernel and each copy, how many executions it stands for, and how long these took."""
    trace = _labelled(device_steps.assigned(trace))
    parts = [_executions(_kernels(trace)), _executions(_copies(trace))]
    keys, number, counts, durations = zip(*parts, strict=True)
    shifted = np.concatenate([number[0], number[1] + len(keys[0])])
    return Executions(pd.concat(keys, ignore_index=True), shifted, np.concatenate(counts), np.concatenate(durations))


def _executions(activity: _Activity) -> Executions:
    assert activity.work is not None
    keys = activity.keys.reindex(columns=KEYS)
    number, first = numbered(keys[[key for key in KEYS if key != "method"]])
    return Executions(keys.iloc[first].astype("string"), number, activity.work.count, activity.work.duration)


def owners(trace: Trace, start_ns: int, end_ns: int) -> pd.DataFrame:
    """Return who owns each instant of a window, by the rules above: pieces that follow each other and fill it without a gap.

    Columns: start_ns, end_ns (int64) and cause: that of the cells, null where a kernel runs. Where several causes of one level
    share an instant they stand in one cause, as "dispatch + waiting".
    """
    trace = device_steps.assigned(trace)
    free = window = (np.array([start_ns]), np.array([end_ns]))
    steps = trace.steps[~trace.steps["warmup"]]
    tables = []
    for activity, left in _levels(trace, window):
        if len(activity.start):
            tables.append(_owned(activity))
        free = left
    tables.append(_owned(_rest(free, _remainder(trace, steps))))
    result = pd.concat(tables, ignore_index=True).sort_values("start_ns", ignore_index=True)
    cause = result["cause"].fillna("").to_numpy(dtype=object)
    first = np.flatnonzero(np.append(True, cause[1:] != cause[:-1]))
    return result.iloc[first].assign(end_ns=np.append(result["start_ns"].to_numpy()[first[1:]], end_ns)).reset_index(drop=True)


def _owned(activity: _Activity) -> pd.DataFrame:
    """Return the union of a level's intervals, cut where the causes that are active change."""
    causes = activity.keys["cause"].astype("string") if "cause" in activity.keys else pd.Series(pd.NA, activity.keys.index)
    codes, names = pd.factorize(causes.iloc[activity.row], sort=True)
    times = np.unique(np.concatenate([activity.start, activity.end]))
    first, last = np.searchsorted(times, activity.start), np.searchsorted(times, activity.end)
    active = np.zeros(len(times), dtype=bool)
    texts = np.full(len(times), "", dtype=object)
    for code in range(-1, len(names)):  # causes of a level are few
        of = codes == code
        covered = np.cumsum(np.bincount(first[of], minlength=len(times)) - np.bincount(last[of], minlength=len(times))) > 0
        active |= covered
        if code >= 0:
            texts[covered] = np.where(texts[covered] == "", names[code], texts[covered] + " + " + names[code])
    rows = np.flatnonzero(active)
    cause = pd.Series(texts[rows], dtype="string")
    return pd.DataFrame({"start_ns": times[rows], "end_ns": times[rows + 1], "cause": cause.mask(cause == "")})


def _length(windows: _Free) -> int:
    """Return how long windows are together."""
    return int((windows[1] - windows[0]).sum())


def _known(kernels: _Activity) -> dict[str, int]:
    """Return how many ns the measured steps' kernels last, durations added, and of these, how many have a known kind, ...

    Of kernels that others launched it is the part that runs in the measured steps' time.
    """
    assert kernels.work is not None
    inside = np.bincount(kernels.row, weights=(kernels.end - kernels.start).astype(float), minlength=len(kernels.keys))
    lasted = np.where(kernels.work.measured, kernels.work.duration, inside)
    keys = kernels.keys.reindex(columns=["kind", "range", "operator", "layer"])
    known = {key: keys[key].notna().to_numpy() for key in keys}
    known["kind"] = known["kind"] & (keys["kind"] != "unknown").to_numpy()
    return {"kernel_sum_ns": int(lasted.sum())} | {f"known_{key}_ns": int(lasted[rows].sum()) for key, rows in known.items()}


def whole(trace: Trace) -> _Free:
    """Return the window of a capture without steps: from the first start to the last end of anything on its timeline."""
    extent = trace.extent()
    if extent is None:
        raise EvidenceError("the capture has no timeline; it holds " + _contents_of(trace))
    return np.array(extent[:1]), np.array(extent[1:])


def _contents_of(trace: Trace) -> str:
    """Return in words what a capture without a timeline holds."""
    names = ("kernels", "copies", "totals", "samples", "lines")
    result = [name for name in names if len(getattr(trace, name))]
    return "only " + " and ".join(result) if result else "nothing that could be broken down"


# --- adding up --------------------------------------------------------------------------------------------------------------


Cells = dict[str, Any]  # columns of some cells by name, as lists or arrays; keys that are not there are null


def _cells(tables: list[Cells], steps: int, step_ns: int) -> pd.DataFrame:
    """Put the levels' cells together and round them to integers that keep the sum."""
    columns: dict[str, Any] = {}
    for key in KEYS:
        values = [value for table in tables for value in table.get(key, [None] * len(table["count"]))]
        columns[key] = pd.array(values, dtype="Int64" if key in _INTEGER_KEYS else "string")
    part = np.concatenate([table["part"] for table in tables])
    for name in ("count", "duration_ns"):  # of whole numbers already, or parts of the host's time
        columns[name] = np.concatenate([np.round(table[name]).astype(np.int64) for table in tables])
    return pd.DataFrame({**columns, "time_ns": intervals.apportion(part / steps, step_ns)})


def _shared_out(activity: _Activity) -> Cells:
    """Return a level's cells, every instant shared among the intervals that are active in it."""
    return _added_up(activity, intervals.shares(activity.start, activity.end))


def _added_up(activity: _Activity, owned: npt.NDArray[np.float64]) -> Cells:
    """Return one row per distinct keys: count of rows, duration_ns and part.

    A kernel, graph or copy lasts as long as it lasts; the host's time in a call, an operator or a range is what nothing deeper
    owned.
    """
    rows, work = len(activity.keys), activity.work
    seen = np.arange(rows) if work else np.flatnonzero(np.bincount(activity.row, minlength=rows))
    keys = activity.keys.iloc[seen] if len(seen) < rows else activity.keys
    group, first = numbered(keys)
    part = np.bincount(group, weights=np.bincount(activity.row, weights=owned, minlength=rows)[seen], minlength=len(first))
    columns: Cells = {key: _plain(keys[key], first) for key in KEYS if key in keys}
    columns["method"] = [value or "none" for value in columns.get("method", [None] * len(first))]
    if work is None:
        return {**columns, "count": np.bincount(group, minlength=len(first)), "duration_ns": part, "part": part}
    count, duration = np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=np.int64)
    np.add.at(count, group, work.count)
    np.add.at(duration, group, work.duration)
    return {**columns, "count": count, "duration_ns": duration, "part": part}


def numbered(keys: pd.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number the distinct rows of a table of keys, null being one: (number of each row, the first row of each number)."""
    number: npt.NDArray[np.int64] = np.zeros(len(keys), dtype=np.int64)
    size = 1
    for name in keys:
        codes, values = _codes(keys[name])
        if values <= 1:
            continue
        if size * values >= 1 << 62:
            number, result = pd.factorize(number)
            size = len(result)
        size *= values
        number *= values
        number += codes
        number += 1  # null has the code -1
    number, result = pd.factorize(number)
    first = np.zeros(len(result), dtype=np.int64)
    first[number[::-1]] = np.arange(len(keys) - 1, -1, -1)
    return number, first


def _codes(values: pd.Series) -> tuple[npt.NDArray[np.integer[Any]], int]:
    """Return small integers that tell the values apart, -1 for null, and how many there can be."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), len(values.cat.categories) + 1
    if values.isna().all():
        return np.full(len(values), -1, dtype=np.int8), 1
    codes, result = pd.factorize(values, use_na_sentinel=True)
    return codes, len(result) + 1


def _plain(values: pd.Series, rows: npt.NDArray[np.int64]) -> list[Any]:
    """Return the values of a key in these rows as plain ones, None for null."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        used, places = np.unique(values.cat.codes.to_numpy()[rows], return_inverse=True)
        known = used[used >= 0]
        texts = [*([None] if len(known) < len(used) else []), *values.cat.categories[known].tolist()]  # null, -1, comes first
        return [texts[place] for place in places.tolist()]
    chosen = values.iloc[rows].astype(object)
    return chosen.where(chosen.notna(), None).tolist()


# --- the activities of each level -------------------------------------------------------------------------------------------

_Free = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # starts and ends of what the levels above have left


def _levels(trace: Trace, free: _Free) -> Iterator[tuple[_Activity, _Free]]:
    """Yield what is active on each level within what those above leave of some windows, and what it leaves."""
    for level in (_kernels, _graphs, _copies, None, _calls, _operators, _ranges, _system):  # None: of the gaps themselves
        trace = _needed(trace, level, free)
        activity = level(trace).within(*free) if level else _between(trace, free)
        left = intervals.uncovered(activity.start, activity.end, *free) if len(activity.start) else free
        yield activity, left
        free = left


def _timed(table: pd.DataFrame, level: int, keys: pd.DataFrame) -> _Activity:
    """Return the activities of a table's rows, all of which have times."""
    start, end = (table[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    return _Activity(level, keys, np.arange(len(table), dtype=np.int64), start, end)


def _device_work(trace: Trace, table: pd.DataFrame, level: int, keys: pd.DataFrame) -> _Activity:
    """Return the activities of a table of device work; what belongs to no measured step has its own phase and no layer.

    Rows without a time are counted and take none.
    """
    measured = device_steps.measured(trace, table)
    if not measured.all():
        phase = keys["phase"].astype("category") if "phase" in keys else pd.Series(pd.NA, keys.index, dtype="category")
        keys = keys.assign(phase=phase.cat.add_categories([OUTSIDE_OF_STEPS]).where(measured, OUTSIDE_OF_STEPS))
        if "layer" in keys:
            keys["layer"] = keys["layer"].where(measured)
    start, end = (table[name].to_numpy(dtype=np.int64, na_value=-1) for name in ("start_ns", "end_ns"))
    count = table["count"].to_numpy(np.int64) if "count" in table else np.ones(len(table), dtype=np.int64)
    duration = table["duration_ns"].to_numpy(np.int64) if "duration_ns" in table else end - start
    timed = np.flatnonzero(table["start_ns"].notna().to_numpy(bool))
    return _Activity(level, keys, timed, start[timed], end[timed], _Executions(count, duration, measured))


def _kernels(trace: Trace) -> _Activity:
    table = trace.kernels
    same = [key for key in KEYS if key in table and not is_null(table[key].array)]
    method = table["attribution"]
    if table["range_id"].notna().any():  # a layer's method where there is one, else that of the range
        from_range = table["range_id"].notna() & method.isna()
        method = method.cat.add_categories(["launch range"]) if "launch range" not in method.cat.categories else method
        method = method.mask(from_range, "launch range")
    keys = table[same].assign(kernel=table["name"], range=_range_names(table, trace), method=method)
    return _device_work(trace, table, KERNEL, keys)


def _range_names(table: pd.DataFrame, trace: Trace) -> pd.Categorical:
    """Return the name of the range in which each row of device work was launched."""
    return taken(trace.ranges["name"], table["range_id"].to_numpy(np.int64, na_value=-1))


def _graphs(trace: Trace) -> _Activity:
    table = trace.graphs
    keys = pd.DataFrame({"cause": OPAQUE_GRAPH, "range": _range_names(table, trace), **_owner(table)}, index=table.index)
    return _device_work(trace, table, GRAPH, keys)


def _owner(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the keys that say whose the rows of a table are."""
    return {"layer": table["layer"], "phase": table["phase"], "method": table["attribution"]}


def _copies(trace: Trace) -> _Activity:
    table = trace.copies
    cause = table["operation"].cat.rename_categories(lambda operation: DEVICE + copy_name(operation))
    keys = pd.DataFrame({"cause": cause, "range": _range_names(table, trace), **_owner(table)}, index=table.index)
    return _device_work(trace, table, COPY, keys)


def copy_name(operation: str) -> str:
    """Return one of COPY_OPERATIONS as tables name it."""
    return "memory set" if operation == "set" else f"copy {operation}"


def _reaching(table: pd.DataFrame, free: _Free) -> pd.DataFrame:
    """Return the rows of a table that reach into a gap."""
    reaches = intervals.reaching(*intervals.edges(table), *free)
    return table if reaches.all() else table[reaches]


def _flat(rows: pd.DataFrame, level: int, keys: pd.DataFrame, chosen: npt.NDArray[np.bool_] | None = None) -> _Activity:
    """Return the chosen rows' activities as pieces that do not overlap: each instant of a thread goes to its innermost row."""
    columns = intervals.spans(rows)
    if chosen is None or chosen.all():
        return _Activity(level, keys, *intervals.leaves(*columns))
    row, start, end = intervals.leaves(*(column[chosen] for column in columns))
    return _Activity(level, keys, np.flatnonzero(chosen)[row], start, end)


def _host(trace: Trace, free: _Free) -> Trace:
    """Return the trace with only those calls and operators that reach into the gaps that the levels above have left.

    Ranges are those that enclose work as stacks do; those of our own steps are no ranges inside of steps.
    """
    ranges = trace.ranges[["thread", "start_ns", "end_ns", "category", "name", "nested", "layer", "phase"]]
    other = ((ranges["category"] == "step") | ~ranges["nested"]).to_numpy()
    ranges = ranges[~other] if other.any() else ranges
    calls = trace.calls[["thread", "start_ns", "end_ns", "name", "api", "layer", "phase", "attribution"]]
    return replace(trace, ranges=ranges, calls=_reaching(calls, free), operators=_reaching(trace.operators, free))


def _flat_within(
    ranges: pd.DataFrame, rows: pd.DataFrame, level: int, keys: pd.DataFrame, chosen: npt.NDArray[np.bool_] | None = None
) -> tuple[_Activity, pd.Categorical]:
    """Return as _flat does, and for each row the innermost range open on its thread when the first of its pieces begins."""
    if rows.empty:
        return _flat(rows, level, keys), taken(ranges["name"], np.empty(0, dtype=np.int64))
    with ThreadPoolExecutor(max_workers=1) as beside:  # numpy leaves the interpreter to others while it walks through a column
        making = beside.submit(Stacks, *intervals.spans(ranges))
        activity = _flat(rows, level, keys, chosen)
        stacks = making.result()
    first = np.full(len(rows), -1, dtype=np.int64)
    first[activity.row[::-1]] = activity.start[::-1]
    return activity, taken(ranges["name"], stacks.innermost(rows["thread"].to_numpy(np.int64, na_value=-1), first))


def _between(trace: Trace, free: _Free) -> _Activity:
    """Return the gaps after which comes what was launched before they began."""
    start, end = free
    queued = np.flatnonzero(NextWork.of(trace, end).launched_before(start)) if len(trace.calls) else np.empty(0, dtype=np.int64)
    keys = pd.DataFrame({"cause": QUEUED, "method": "none"}, index=range(len(queued)))
    return _Activity(BETWEEN, keys, np.arange(len(queued)), start[queued], end[queued])


def _calls(trace: Trace) -> _Activity:
    rows = trace.calls
    cause = translated(rows["name"], api.cause)
    keys = pd.DataFrame({"cause": cause}, index=rows.index)
    activity, around = _flat_within(trace.ranges, rows, CALL, keys, (rows["api"] != "os").to_numpy())
    method = filled(rows["attribution"], pd.Series(_either(around.codes >= 0, "launch range", "none"), index=rows.index))
    activity.keys = activity.keys.assign(layer=rows["layer"], phase=rows["phase"], range=around, method=method)
    return activity


def _operators(trace: Trace) -> _Activity:
    rows = trace.operators
    if rows.empty:
        return _timed(rows, OPERATOR, rows[["name"]])
    named = rows["layer"].notna() | rows["phase"].isin(["optimizer", "data"])
    cause = _either(named.to_numpy(), IN_OPERATOR, DISPATCH)
    method = rows["attribution"].astype("string").where(named, "launch range").fillna("none")
    keys = pd.DataFrame({"cause": cause, "method": method.astype("category")}, index=rows.index)
    keys = keys.assign(layer=rows["layer"], phase=rows["phase"], operator=rows["name"])
    activity, around = _flat_within(trace.ranges, rows, OPERATOR, keys)
    activity.keys = activity.keys.assign(range=around)
    return activity


def _ranges(trace: Trace) -> _Activity:
    rows = trace.ranges
    names = {"data": DATA, "sync": WAITING, "layer": IN_LAYER, "user": IN_RANGE, "mark": IN_RANGE}
    cause = translated(rows["category"], lambda category: names.get(category, IN_PHASE))
    phases = (rows["category"] == "phase").to_numpy()
    if phases.any():
        unnamed = phases & ~rows["phase"].isin(["forward", "backward", "optimizer", "data"]).to_numpy()
        cause = cause.astype("string").mask(unnamed, DISPATCH).astype("category")
    method = _either(np.ones(len(rows), dtype=np.bool_), "launch range", "none")
    columns = {"cause": cause, "layer": rows["layer"], "phase": rows["phase"], "range": rows["name"], "method": method}
    return _flat(rows, RANGE, pd.DataFrame(columns))


def _either(rows: npt.NDArray[np.bool_], yes: str, no: str) -> pd.Categorical:
    """Return a column that says one thing in these rows and another one in all others."""
    return pd.Categorical.from_codes(rows.view(np.int8), categories=pd.Index([no, yes], dtype="str"), validate=False)


def _system(trace: Trace) -> _Activity:
    """Return calls of the operating system: threads that wait in one say little, so anything else comes before them."""
    rows = trace.calls
    cause = pd.Categorical.from_codes(np.zeros(len(rows), dtype=np.int8), pd.Index([api.SYSTEM]))
    return _flat(rows, SYSTEM, pd.DataFrame({"cause": cause}, index=rows.index), (rows["api"] == "os").to_numpy())


def _remainder(trace: Trace, steps: pd.DataFrame) -> str:
    """Return the cause of what nothing else explains."""
    if steps.empty:
        return UNSEEN
    profiled = trace.info.get("recorder") == device_steps.PROFILE and (len(trace.operators) or len(trace.kernels))
    return SCRIPT if profiled else OUTSIDE


def _rest(free: _Free, cause: str) -> _Activity:
    """Return what nothing else explains."""
    known = {"cause": cause} if cause == UNSEEN else {"phase": "other", "cause": cause}
    return _Activity(STEP, pd.DataFrame([{**known, "method": "none"}]), np.zeros(len(free[0]), dtype=np.int64), *free)


def _needed(trace: Trace, level: Callable[[Trace], _Activity] | None, free: _Free) -> Trace:
    """Return the trace with no more of calls, operators and ranges than this level and those below it look at."""
    if level is _calls:
        return _host(trace, free)
    if level is _ranges:
        return replace(trace, ranges=_reaching(trace.ranges, free), calls=_reaching(trace.calls, free))
    return trace
