"""Assign every nanosecond of every step to one cell: the conservation that all tables rest on.

At each instant of a step, the highest active entry of this list owns it, in equal parts if several are active at once:

0. kernels: library primitives and operators that compute by themselves, on any stream or thread of any device;
1. graphs: executions of a CUDA graph whose kernels the capture does not show;
2. copies: the device copies or sets memory, and computes nothing;
3. the device between two pieces of work, if the launch of the second had returned before: the host was ahead;
4. calls: the host is inside a function of the device's API (launching, waiting, copying, allocating);
5. operators: the time of an operator in which none of the above runs (dispatch, allocation, the framework's own work);
6. ranges: a layer, phase, data, sync or user's range in which no operator runs;
7. calls of the operating system, in which threads mostly wait;
8. the step itself: the loop's own code, for which there is no further evidence.

On a device that works behind the host, a step lasts from its first kernel to the next step's first, and device work counts in the
step that launched it (see analysis.attribution.device_steps). Work that belongs to no measured step is counted, too, in cells of
the phase OUTSIDE_OF_STEPS, which own only the time that they take of a measured step.

So the cells of a step add up to its wall time by construction. Times are rounded to integer nanoseconds once, here, for the
finest cells; coarser tables add these integers up. A capture without steps counts as one: from its first event to its last.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.accounting.levels import BETWEEN, INTEGERS, KERNEL, KEYS, OUTSIDE_OF_STEPS, Activity, Free
from kernelscope.analysis.attribution import device_steps, host_lines
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals


@dataclass
class Partition:
    """The cells of the measured steps.

    cells: one row per distinct KEYS, with count and duration_ns (sums over all steps; for the host's rows, without work inside
    them) and time_ns (mean per step; adds up to step_ns exactly). steps: the measured steps; empty if the window is the whole
    capture. totals, over the window: kernel_sum_ns (durations added), kernel_busy_ns (at least one kernel ran), device_busy_ns
    (kernels, graphs or copies) and wall_ns; marked_ns, the host's time between the marks of steps that are measured on the
    device; and the parts of kernel_sum_ns with a known kind, range, operator and layer (known_kind_ns, ...). outside: device work
    that belongs to no measured step and took none of their time, as cells. numbers: of `cells` among the cells of all levels.
    """

    cells: pd.DataFrame
    step_ns: int
    steps: pd.DataFrame
    totals: dict[str, int]
    outside: pd.DataFrame
    numbers: npt.NDArray[np.int64]

    @property
    def everything(self) -> pd.DataFrame:
        """All cells: every kernel, graph and copy of the recording is counted in exactly one."""
        return pd.concat([self.cells, self.outside], ignore_index=True) if len(self.outside) else self.cells


def partition(trace: Trace) -> Partition:
    """Partition the wall time of the trace's measured steps, or of the whole capture if it has no steps.

    The result is cached with the trace. Raises EvidenceError if there is nothing on a timeline.
    """
    if "partition" not in trace.derived:
        trace.derived["partition"] = _partitioned(levels.labelled(device_steps.assigned(trace)))
    result: Partition = trace.derived["partition"]
    return result


def _partitioned(trace: Trace) -> Partition:
    steps, (start, end) = _window(trace)
    owned, free = [], (start, end)
    totals: dict[str, int] = {}
    with ThreadPoolExecutor(max_workers=1) as beside:  # adds a level up while the next one is made
        added_up: list[Future[Cells]] = []
        for activity, left in levels.in_order(trace, free):
            if activity.level == KERNEL:
                totals = _known(activity)
            if _has_cells(activity):
                added_up.append(beside.submit(_shared_out, activity))
            owned.append(_length(free) - _length(left))
            free = left
        rest = _added_up(levels.rest(free, levels.remainder(trace, steps)), (free[1] - free[0]).astype(float))
        tables = [*(table.result() for table in added_up), rest]
    totals["kernel_busy_ns"] = owned[KERNEL]
    totals["device_busy_ns"] = sum(owned[:BETWEEN])
    totals["wall_ns"] = _length((start, end))
    if len(steps) and steps["device_start_ns"].notna().any():
        totals["marked_ns"] = int((steps["end_ns"] - steps["start_ns"]).sum())
    step_ns = round(totals["wall_ns"] / len(start))
    cells = _cells(tables, len(start), step_ns)
    inside = ((cells["phase"] != OUTSIDE_OF_STEPS).fillna(True) | (cells["time_ns"] > 0)).to_numpy(bool)
    outside = cells[~inside].reset_index(drop=True)
    return Partition(cells[inside].reset_index(drop=True), step_ns, steps, totals, outside, np.flatnonzero(inside))


def _window(trace: Trace) -> tuple[pd.DataFrame, Free]:
    """Return the measured steps and their bounds, or no steps and the whole capture's bounds if it has none."""
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns").reset_index(drop=True)
    if steps.empty and len(trace.steps):
        raise EvidenceError("the capture holds no measured step; record some, or lower --warmup")
    return steps, device_steps.bounds(steps) if len(steps) else whole(trace)


def _has_cells(activity: Activity) -> bool:
    """Return whether anything of a level is in the window, or is counted although it is not."""
    return bool(len(activity.start) or (activity.work and len(activity.keys)))


def by_line(trace: Trace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the host's lines (host_lines.KEYS), and the time of each cell while the host was in each of them.

    Columns of the second: cell, its row in the partition's cells; code, the line's row in the first; time_ns, over all steps.
    Time in no line has no row.
    """
    known, code, pieces = host_lines.numbered(trace)
    crossed = _crossed(trace, pieces)
    place = pd.Index(partition(trace).numbers).get_indexer(pd.Index(crossed["cell"]))
    table = crossed.assign(cell=place, code=code[crossed["piece"].to_numpy()]).drop(columns="piece")
    return known, table[place >= 0]


def _crossed(trace: Trace, lines: Free) -> pd.DataFrame:
    """Return the time of each cell in consecutive pieces of the host's time: cell, its number; piece; time_ns."""
    trace = levels.labelled(device_steps.assigned(trace))
    steps, free = _window(trace)
    tables: list[pd.DataFrame] = []
    first = 0
    for activity, left in levels.in_order(trace, free):
        if _has_cells(activity):
            found, number = _in_pieces(activity, intervals.shares(activity.start, activity.end), lines)
            tables.append(found.assign(cell=found["cell"] + first))
            first += number
        free = left
    rest = levels.rest(free, levels.remainder(trace, steps))
    found, _ = _in_pieces(rest, (free[1] - free[0]).astype(float), lines)
    tables.append(found.assign(cell=found["cell"] + first))
    return pd.concat(tables, ignore_index=True)


def _in_pieces(activity: Activity, owned: npt.NDArray[np.float64], lines: Free) -> tuple[pd.DataFrame, int]:
    """Return the table of `_crossed` for one level, whose cells are numbered from 0, and their number."""
    seen, group, first = _groups(activity)
    cell = np.full(len(activity.keys), -1, dtype=np.int64)
    cell[seen] = group
    index, piece, start, end = intervals.split_at(activity.start, activity.end, *lines)
    part = owned[index] * (end - start) / np.maximum((activity.end - activity.start)[index], 1)
    table = pd.DataFrame({"cell": cell[activity.row[index]], "piece": piece, "time_ns": part})
    return table.groupby(["cell", "piece"])[["time_ns"]].sum().reset_index(), len(first)


class Executions(NamedTuple):
    """Each kernel, then each copy. keys: the cells' distinct KEYS without the method; number: the row of each in keys."""

    keys: pd.DataFrame
    number: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    duration_ns: npt.NDArray[np.int64]


def executions(trace: Trace) -> Executions:
    """Return the cell of each kernel and each copy, how many executions it stands for, and how long these took."""
    trace = levels.labelled(device_steps.assigned(trace))
    parts = [_executions(levels.kernels(trace)), _executions(levels.copies(trace))]
    keys, number, counts, durations = zip(*parts, strict=True)
    shifted = np.concatenate([number[0], number[1] + len(keys[0])])
    return Executions(pd.concat(keys, ignore_index=True), shifted, np.concatenate(counts), np.concatenate(durations))


def _executions(activity: Activity) -> Executions:
    assert activity.work is not None
    keys = activity.keys.reindex(columns=KEYS)
    number, first = numbered(keys[[key for key in KEYS if key != "method"]])
    return Executions(keys.iloc[first].astype("string"), number, activity.work.count, activity.work.duration)


def owners(trace: Trace, start_ns: int, end_ns: int) -> pd.DataFrame:
    """Return who owns each instant of a window, by the rules above: consecutive pieces that fill it without a gap.

    Columns: start_ns, end_ns (int64) and cause: that of the cells, null where a kernel runs. If several causes of one level share
    an instant, they are joined, as "dispatch + waiting".
    """
    trace = device_steps.assigned(trace)
    free = window = (np.array([start_ns]), np.array([end_ns]))
    steps = trace.steps[~trace.steps["warmup"]]
    tables = []
    for activity, left in levels.in_order(trace, window):
        if len(activity.start):
            tables.append(_owned(activity))
        free = left
    tables.append(_owned(levels.rest(free, levels.remainder(trace, steps))))
    result = pd.concat(tables, ignore_index=True).sort_values("start_ns", ignore_index=True)
    cause = result["cause"].fillna("").to_numpy(dtype=object)
    first = np.flatnonzero(np.append(True, cause[1:] != cause[:-1]))
    return result.iloc[first].assign(end_ns=np.append(result["start_ns"].to_numpy()[first[1:]], end_ns)).reset_index(drop=True)


def _owned(activity: Activity) -> pd.DataFrame:
    """Return the union of a level's intervals, cut where the active causes change."""
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


def _length(windows: Free) -> int:
    """Return the total length of windows."""
    return int((windows[1] - windows[0]).sum())


def _known(kernels: Activity) -> dict[str, int]:
    """Return the sum of durations (ns) of the measured steps' kernels, and the parts of it with a known kind, range and so on.

    Of kernels that no measured step launched, only the part that runs in a measured step's time counts.
    """
    assert kernels.work is not None
    inside = np.bincount(kernels.row, weights=(kernels.end - kernels.start).astype(float), minlength=len(kernels.keys))
    lasted = np.where(kernels.work.measured, kernels.work.duration, inside)
    keys = kernels.keys.reindex(columns=["kind", "range", "operator", "layer"])
    known = {key: keys[key].notna().to_numpy() for key in keys}
    known["kind"] = known["kind"] & (keys["kind"] != "unknown").to_numpy()
    return {"kernel_sum_ns": int(lasted.sum())} | {f"known_{key}_ns": int(lasted[rows].sum()) for key, rows in known.items()}


def whole(trace: Trace) -> Free:
    """Return the window of a capture without steps: from the first start to the last end of anything on its timeline."""
    extent = trace.extent()
    if extent is None:
        raise EvidenceError("the capture has no timeline; it holds " + _contents_of(trace))
    return np.array(extent[:1]), np.array(extent[1:])


def _contents_of(trace: Trace) -> str:
    """Return in words the contents of a capture without a timeline."""
    names = ("kernels", "copies", "totals", "samples", "lines")
    result = [name for name in names if len(getattr(trace, name))]
    shown = "; `--by line` shows them" if result == ["lines"] else ""
    return "only " + " and ".join(result) + shown if result else "nothing that can be broken down"


# --- adding up --------------------------------------------------------------------------------------------------------------


Cells = dict[str, Any]  # columns of some cells by name, as lists or arrays; absent keys are null


def _cells(tables: list[Cells], steps: int, step_ns: int) -> pd.DataFrame:
    """Join the levels' cells and round their times to integers that keep the sum."""
    columns: dict[str, Any] = {}
    for key in KEYS:
        values = [value for table in tables for value in table.get(key, [None] * len(table["count"]))]
        columns[key] = pd.array(values, dtype="Int64" if key in INTEGERS else "string")
    part = np.concatenate([table["part"] for table in tables])
    for name in ("count", "duration_ns"):  # integers already, or fractions of the host's time
        columns[name] = np.concatenate([np.round(table[name]).astype(np.int64) for table in tables])
    return pd.DataFrame({**columns, "time_ns": intervals.apportion(part / steps, step_ns)})


def _shared_out(activity: Activity) -> Cells:
    """Return a level's cells, with every instant shared among the intervals active in it."""
    return _added_up(activity, intervals.shares(activity.start, activity.end))


def _added_up(activity: Activity, owned: npt.NDArray[np.float64]) -> Cells:
    """Return one row per distinct keys: count of rows, duration_ns and part.

    A kernel, graph or copy has its whole duration. The host's duration in a call, an operator or a range is the time that no
    deeper level owns.
    """
    rows, work, keys = len(activity.keys), activity.work, activity.keys
    seen, group, first = _groups(activity)
    part = np.bincount(group, weights=np.bincount(activity.row, weights=owned, minlength=rows)[seen], minlength=len(first))
    columns: Cells = {key: _plain(keys[key], seen[first]) for key in KEYS if key in keys}
    columns["method"] = [value or "none" for value in columns.get("method", [None] * len(first))]
    if work is None:
        return {**columns, "count": np.bincount(group, minlength=len(first)), "duration_ns": part, "part": part}
    count, duration = np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=np.int64)
    np.add.at(count, group, work.count)
    np.add.at(duration, group, work.duration)
    return {**columns, "count": count, "duration_ns": duration, "part": part}


def _groups(activity: Activity) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return which rows of a level's keys are in the window, the cell of each of them, and the first of them for each cell."""
    rows = len(activity.keys)
    seen = np.arange(rows) if activity.work else np.flatnonzero(np.bincount(activity.row, minlength=rows))
    group, first = numbered(activity.keys.iloc[seen] if len(seen) < rows else activity.keys)
    return seen, group, first


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
    """Return small integers that distinguish the values, -1 for null, and how many there can be."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), len(values.cat.categories) + 1
    if values.isna().all():
        return np.full(len(values), -1, dtype=np.int8), 1
    codes, result = pd.factorize(values, use_na_sentinel=True)
    return codes, len(result) + 1


def _plain(values: pd.Series, rows: npt.NDArray[np.int64]) -> list[Any]:
    """Return the values of a key in these rows as plain Python values, None for null."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        used, places = np.unique(values.cat.codes.to_numpy()[rows], return_inverse=True)
        known = used[used >= 0]
        texts = [*([None] if len(known) < len(used) else []), *values.cat.categories[known].tolist()]  # null, -1, comes first
        return [texts[place] for place in places.tolist()]
    chosen = values.iloc[rows].astype(object)
    return chosen.where(chosen.notna(), None).tolist()
