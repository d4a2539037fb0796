"""Who may own an instant of a step, level by level: what is active on each level in the time that higher levels leave.

analysis.accounting.partition lists the levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import next_work
from kernelscope.analysis.accounting.next_work import NextWork
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.launches import without_details
from kernelscope.analysis.trace import PROFILE, Trace, intervals
from kernelscope.analysis.trace.categories import filled, is_null, taken, translated
from kernelscope.analysis.trace.stacks import Stacks

KERNEL, GRAPH, COPY, BETWEEN, CALL, OPERATOR, RANGE, SYSTEM, STEP = range(9)

# The key of a cell. `cause` says what happened while no kernel ran; it is null where one did.
KEYS = (
    "layer", "phase", "kind", "cause", "kernel", "library", "operator", "range", "problem", "layout", "algorithm", "dtype",
    "m", "n", "k", "transpose", "method",
)  # fmt: skip
INTEGERS = ("m", "n", "k")

# Causes of the host in `cause`; those of API calls are in analysis.attribution.calls
IN_OPERATOR = "in operators"  # inside an operator, outside of any kernel
DISPATCH = "in the framework"  # inside the framework's own call, outside of any operator
IN_LAYER = "in layers"  # inside a layer's range, outside of any operator: the layer's Python code
IN_PHASE = "in phases"  # inside a phase's range, outside of any layer
COMPILING = "compiling"  # the framework compiles code for the steps
IN_RANGE = "in ranges"  # inside a user's range, outside of any call or operator
DATA = "data"  # fetching and converting the batch
WAITING = api.WAITING  # the host waits for results
OUTSIDE = "outside of ranges"  # in the step, outside of any range: the loop's own code
SCRIPT = "in the program"  # the same in a profiled script whose operators were traced: Python, by elimination
UNSEEN = "unknown"  # in a capture without steps, outside everything that was recorded

OUTSIDE_OF_STEPS = "outside of steps"  # the phase of device work that belongs to no measured step

# Device work other than kernels
DEVICE = "device: "
OPAQUE_GRAPH = DEVICE + "graph whose kernels were not recorded"
QUEUED = DEVICE + next_work.QUEUED  # its own time between two pieces of work, the second of which was already launched

Free = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # starts and ends of the time that higher levels leave


@dataclass
class Activity:
    """Intervals of one level, each with its `row` of `keys` (columns of KEYS; absent ones are null).

    work: for device work, the amount in each row of keys, whether or not any of it is in the measured steps' time.
    """

    level: int
    keys: pd.DataFrame
    row: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    work: Work | None = None

    def within(self, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> Activity:
        """Return the pieces inside consecutive windows; pieces without length own no time, but are counted."""
        if len(start) == 1 and len(self.start) and self.start.min() >= start[0] and self.end.max() <= end[0]:
            return self
        index, _, first, last = intervals.split_at(self.start, self.end, start, end)
        moment = np.flatnonzero(self.start == self.end)
        if len(moment) and len(start):
            window = np.searchsorted(start, self.start[moment], side="right") - 1
            moment = moment[(window >= 0) & (self.start[moment] <= end[np.maximum(window, 0)])]
            index = np.concatenate([index, moment])
            first, last = (np.concatenate([cut, self.start[moment]]) for cut in (first, last))
        return Activity(self.level, self.keys, self.row[index], first, last, self.work)


@dataclass(frozen=True)
class Work:
    """For each row of device work: executions, the sum of their durations (ns), and whether it belongs to a measured step."""

    count: npt.NDArray[np.int64]
    duration: npt.NDArray[np.int64]
    measured: npt.NDArray[np.bool_]


def range_labels(names: pd.Series) -> pd.Series:
    """Return names of ranges without the details of a single call."""
    return translated(names, without_details)


def labelled(trace: Trace) -> Trace:
    """Return the trace with the names of ranges that cells use."""
    return replace(trace, ranges=trace.ranges.assign(name=range_labels(trace.ranges["name"])))


def in_order(trace: Trace, free: Free) -> Iterator[tuple[Activity, Free]]:
    """Yield what is active on each level in the time of windows that higher levels leave, and the time that it leaves."""
    for level in (kernels, _graphs, copies, None, _calls, _operators, _ranges, _system):  # None: _between, of the gaps themselves
        trace = _needed(trace, level, free)
        activity = level(trace).within(*free) if level else _between(trace, free)
        left = intervals.uncovered(activity.start, activity.end, *free) if len(activity.start) else free
        yield activity, left
        free = left


def _timed(table: pd.DataFrame, level: int, keys: pd.DataFrame) -> Activity:
    """Return the activities of a table whose rows all have times."""
    start, end = (table[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    return Activity(level, keys, np.arange(len(table), dtype=np.int64), start, end)


def _device_work(trace: Trace, table: pd.DataFrame, level: int, keys: pd.DataFrame) -> Activity:
    """Return the activities of a table of device work. Work of no measured step has its own phase and no layer.

    Rows without times are counted and own no time.
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
    return Activity(level, keys, timed, start[timed], end[timed], Work(count, duration, measured))


def kernels(trace: Trace) -> Activity:
    """Return the kernels, each with its keys."""
    table = trace.kernels
    same = [key for key in KEYS if key in table and not is_null(table[key].array)]
    method = table["attribution"]
    if table["range_id"].notna().any():  # the layer's method if there is one, else the range's
        from_range = table["range_id"].notna() & method.isna()
        method = method.cat.add_categories(["launch range"]) if "launch range" not in method.cat.categories else method
        method = method.mask(from_range, "launch range")
    keys = table[same].assign(kernel=table["name"], range=_range_names(table, trace), method=method)
    return _device_work(trace, table, KERNEL, keys)


def _range_names(table: pd.DataFrame, trace: Trace) -> pd.Categorical:
    """Return the name of the range in which each row of device work was launched."""
    return taken(trace.ranges["name"], table["range_id"].to_numpy(np.int64, na_value=-1))


def _graphs(trace: Trace) -> Activity:
    table = trace.graphs
    keys = pd.DataFrame({"cause": OPAQUE_GRAPH, "range": _range_names(table, trace), **_owner(table)}, index=table.index)
    return _device_work(trace, table, GRAPH, keys)


def _owner(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the keys for the owner of a table's rows."""
    return {"layer": table["layer"], "phase": table["phase"], "method": table["attribution"]}


def copies(trace: Trace) -> Activity:
    """Return copies and memory sets."""
    table = trace.copies
    cause = table["operation"].cat.rename_categories(lambda operation: DEVICE + copy_name(operation))
    keys = pd.DataFrame({"cause": cause, "range": _range_names(table, trace), **_owner(table)}, index=table.index)
    return _device_work(trace, table, COPY, keys)


def copy_name(operation: str) -> str:
    """Return the name of one of COPY_OPERATIONS in tables."""
    return "memory set" if operation == "set" else f"copy {operation}"


def _reaching(table: pd.DataFrame, free: Free) -> pd.DataFrame:
    """Return the rows of a table that reach into a gap."""
    reaches = intervals.reaching(*intervals.edges(table), *free)
    return table if reaches.all() else table[reaches]


def _flat(rows: pd.DataFrame, level: int, keys: pd.DataFrame, chosen: npt.NDArray[np.bool_] | None = None) -> Activity:
    """Return the chosen rows' activities as pieces that do not overlap: each instant of a thread goes to its innermost row."""
    columns = intervals.spans(rows)
    if chosen is None or chosen.all():
        return Activity(level, keys, *intervals.leaves(*columns))
    row, start, end = intervals.leaves(*(column[chosen] for column in columns))
    return Activity(level, keys, np.flatnonzero(chosen)[row], start, end)


def _host(trace: Trace, free: Free) -> Trace:
    """Return the trace with only the calls and operators that reach into the gaps that higher levels leave.

    Only ranges that nest like stacks stay; ranges of our own steps do not, as they are not inside steps.
    """
    ranges = trace.ranges[["thread", "start_ns", "end_ns", "category", "name", "nested", "layer", "phase"]]
    other = ((ranges["category"] == "step") | ~ranges["nested"]).to_numpy()
    ranges = ranges[~other] if other.any() else ranges
    calls = trace.calls[["thread", "start_ns", "end_ns", "name", "api", "layer", "phase", "attribution"]]
    return replace(trace, ranges=ranges, calls=_reaching(calls, free), operators=_reaching(trace.operators, free))


def _flat_within(
    ranges: pd.DataFrame, rows: pd.DataFrame, level: int, keys: pd.DataFrame, chosen: npt.NDArray[np.bool_] | None = None
) -> tuple[Activity, pd.Categorical]:
    """Return the result of _flat, and for each row the innermost range that is open on its thread when its first piece begins."""
    if rows.empty:
        return _flat(rows, level, keys), taken(ranges["name"], np.empty(0, dtype=np.int64))
    with ThreadPoolExecutor(max_workers=1) as beside:  # numpy releases the interpreter lock while it processes a column
        making = beside.submit(Stacks, *intervals.spans(ranges))
        activity = _flat(rows, level, keys, chosen)
        stacks = making.result()
    first = np.full(len(rows), -1, dtype=np.int64)
    first[activity.row[::-1]] = activity.start[::-1]
    return activity, taken(ranges["name"], stacks.innermost(rows["thread"].to_numpy(np.int64, na_value=-1), first))


def _between(trace: Trace, free: Free) -> Activity:
    """Return the gaps that are followed by work launched before they began."""
    start, end = free
    queued = np.flatnonzero(NextWork.of(trace, end).launched_before(start)) if len(trace.calls) else np.empty(0, dtype=np.int64)
    keys = pd.DataFrame({"cause": QUEUED, "method": "none"}, index=range(len(queued)))
    return Activity(BETWEEN, keys, np.arange(len(queued)), start[queued], end[queued])


def _calls(trace: Trace) -> Activity:
    rows = trace.calls
    cause = translated(rows["name"], api.cause)
    keys = pd.DataFrame({"cause": cause}, index=rows.index)
    activity, around = _flat_within(trace.ranges, rows, CALL, keys, (rows["api"] != "os").to_numpy())
    method = filled(rows["attribution"], pd.Series(_either(around.codes >= 0, "launch range", "none"), index=rows.index))
    activity.keys = activity.keys.assign(layer=rows["layer"], phase=rows["phase"], range=around, method=method)
    return activity


def _operators(trace: Trace) -> Activity:
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


def _ranges(trace: Trace) -> Activity:
    rows = trace.ranges
    names = {"data": DATA, "sync": WAITING, "layer": IN_LAYER, "user": IN_RANGE, "mark": IN_RANGE, "compile": COMPILING}
    cause = translated(rows["category"], lambda category: names.get(category, IN_PHASE))
    phases = (rows["category"] == "phase").to_numpy()
    if phases.any():
        unnamed = phases & ~rows["phase"].isin(["forward", "backward", "optimizer", "data"]).to_numpy()
        cause = cause.astype("string").mask(unnamed, DISPATCH).astype("category")
    method = _either(np.ones(len(rows), dtype=np.bool_), "launch range", "none")
    columns = {"cause": cause, "layer": rows["layer"], "phase": rows["phase"], "range": rows["name"], "method": method}
    return _flat(rows, RANGE, pd.DataFrame(columns))


def _either(rows: npt.NDArray[np.bool_], yes: str, no: str) -> pd.Categorical:
    """Return a column with one text in these rows and another in all others."""
    return pd.Categorical.from_codes(rows.view(np.int8), categories=pd.Index([no, yes], dtype="str"), validate=False)


def _system(trace: Trace) -> Activity:
    """Return calls of the operating system. Threads that wait in one say little, so everything else comes first."""
    rows = trace.calls
    cause = pd.Categorical.from_codes(np.zeros(len(rows), dtype=np.int8), pd.Index([api.SYSTEM]))
    return _flat(rows, SYSTEM, pd.DataFrame({"cause": cause}, index=rows.index), (rows["api"] == "os").to_numpy())


def remainder(trace: Trace, steps: pd.DataFrame) -> str:
    """Return the cause of time that nothing else explains."""
    if steps.empty:
        return UNSEEN
    profiled = trace.info.get("recorder") == PROFILE and (len(trace.operators) or len(trace.kernels))
    return SCRIPT if profiled else OUTSIDE


def rest(free: Free, cause: str) -> Activity:
    """Return the time that nothing else explains."""
    known = {"cause": cause} if cause == UNSEEN else {"phase": "other", "cause": cause}
    return Activity(STEP, pd.DataFrame([{**known, "method": "none"}]), np.zeros(len(free[0]), dtype=np.int64), *free)


def _needed(trace: Trace, level: Callable[[Trace], Activity] | None, free: Free) -> Trace:
    """Return the trace with only the calls, operators and ranges that this level and lower ones need."""
    if level is _calls:
        return _host(trace, free)
    if level is _ranges:
        return replace(trace, ranges=_reaching(trace.ranges, free), calls=_reaching(trace.calls, free))
    return trace
