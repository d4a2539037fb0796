"""The account of a device's step: what it computed, what else it did that nothing hid, and why it was idle.

At each instant of a step, the highest active part of this list owns it; activities of one part that run at once share it equally:

1. compute: kernels that do not communicate; 2. graphs whose kernels were not recorded; 3. exposed communication, which no kernel
of the device hides; 4. copies that nothing hides; 5. interruptions, in which another process had the device (see interruptions):
they begin where the interrupted kernel ends; 6. idle, by what the thread did that launched the next work.

So the parts add up to the step by construction. Hidden work has its whole duration, and less time or none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes, moved_pages
from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.accounting.interruptions import Interruptions, interruptions
from kernelscope.analysis.accounting.levels import OUTSIDE_OF_STEPS
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps.model import critical_device
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

COMPUTE, GRAPH, COMMUNICATION, COPY, IDLE = "compute", "graph", "communication", "copy", "idle"
INTERRUPTED = "interrupted"
OUTSIDE = OUTSIDE_OF_STEPS  # kernels that run in a measured step that did not launch them: not the step's own work

# The key of a row of the account; null where it does not apply or is unknown
KEYS = (
    "part", "kind", "name", "operator", "phase", "layer", "library", "dtype", "algorithm", "problem", "grid", "cause", "detail",
)  # fmt: skip
_OF_KERNELS = ("kind", "name", "operator", "phase", "layer", "library", "dtype", "algorithm", "problem", "grid")

WINDOW, KERNELS, TOTALS = "window", "kernels", "totals"
ALL = "all"  # in place of a device: all of them as one, the host's processors included
_TELLING, _NAMED = r"^(?:samples_per_second|gpu_utili[sz]ation)\b", 4  # samples that a recording without device work tells
_HOST_TIMED = ("mxnet",)  # formats whose kernels and copies are operators timed by the host: none of them hides another


@dataclass(frozen=True)
class DeviceAccount:
    """A device's steps, in parts.

    device: such as cuda:0. basis: what a step is: "steps"; for a capture without steps "window" (from the device's first work to
    its last) or "kernels" (only the kernels' time: the device is idle most of the time, which says more about the program's start
    than about its work); or "totals" (durations added up, for a source that gives no more). rows: KEYS with count, duration_ns
    (per step, whole durations of the work that the step launched), bytes (of copies, per step) and time_ns (per step; the sum is
    step_ns exactly). by_window: [rows, steps], time (ns) of each row in each step. lengths: of the steps, ns. outside: kernels,
    copies and graphs of no step: count and duration_ns by part; for totals, moves of pages that are part of the kernels' time.
    busy_ns: the time per step in which the device did anything. waited_ns: idle time per step that began while the host waited
    for the device, without another explanation: no input, compilation or allocation.
    """

    device: str
    basis: str
    step_ns: int
    rows: pd.DataFrame
    by_window: Float
    lengths: Int
    outside: pd.DataFrame
    busy_ns: int
    waited_ns: int = 0

    def time_ns(self, **keys: Any) -> int:
        """Return the time per step of the rows with these keys."""
        return int(self.of(**keys)["time_ns"].sum())

    def of(self, **keys: Any) -> pd.DataFrame:
        """Return the rows with these keys; a tuple matches any of its values."""
        chosen = np.ones(len(self.rows), dtype=bool)
        for name, value in keys.items():
            values = value if isinstance(value, tuple) else (value,)
            chosen &= self.rows[name].isin(values).to_numpy(bool)
        return self.rows[chosen]


@dataclass
class _PartWork:
    """Device work of one part: intervals, the row of keys of each, and whether a measured step launched it."""

    part: str
    keys: pd.DataFrame
    start: Int
    end: Int
    measured: npt.NDArray[np.bool_]


def is_host_timed(trace: Trace) -> bool:
    """Return whether operators that the host timed stand for kernels and copies."""
    return (trace.info.get("source") or {}).get("format") in _HOST_TIMED


def is_timed_by_device(trace: Trace) -> bool:
    """Return whether an accelerator computes, and times its kernels and copies by its own clock."""
    return critical_device(trace) is not None and not is_host_timed(trace)


def account(trace: Trace, device: str | None = None, hiding: bool = False, with_idle: bool = False) -> DeviceAccount:
    """Return the account of a device, by default of the one that computes longest.

    hiding: let kernels hide copies even if the host timed both; otherwise these share their time equally. with_idle: count
    idle time even if it is most of a capture without steps, whose kernels are else all that counts.

    The trace's steps are the measured ones (see attribution.steps.applied); a capture without steps is one step. Raises
    EvidenceError if nothing ran on the device.
    """
    chosen = device or critical_device(trace)
    mine = None if chosen == ALL else chosen
    trace, interrupted = _without_interruptions(trace)
    works = [_kernels(trace, mine, False), _graphs(trace, mine), _kernels(trace, mine, True), _copies(trace, mine)]
    works += [_interruptions(trace, mine, interrupted)] if interrupted else []
    if not any(len(work.start) for work in works):
        if (len(trace.kernels) or len(trace.copies)) and device in (None, ALL):
            return _of_totals(trace)
        raise EvidenceError(_nothing(trace))
    start, end = windows = _windows(trace, works)
    basis = "steps" if len(trace.steps) else WINDOW
    if basis == WINDOW and not with_idle and _is_mostly_idle(trace, works, windows):
        return _of_kernels(chosen or "cpu", works)
    tables, matrices, free = [], [], windows
    busy = 0
    for level in [works] if is_host_timed(trace) and not hiding else [[work] for work in works]:
        result, left = _part(level, windows, free)
        busy += int((free[1] - free[0]).sum() - (left[1] - left[0]).sum())
        tables += [table for table, _ in result]
        matrices += [matrix for _, matrix in result]
        free = left
    idle, matrix, waited = _idle(trace, windows, free)
    tables.append(idle)
    matrices.append(matrix)
    rows, by_window = _rows(tables), np.concatenate(matrices)
    step_ns = round(int((end - start).sum()) / len(start))
    rows["time_ns"] = intervals.apportion(by_window.sum(axis=1) / len(start), step_ns)
    busy, waited = round(busy / len(start)), round(waited / len(start))
    return DeviceAccount(chosen or "cpu", basis, step_ns, rows, by_window, end - start, _outside(works), busy, waited)


def _nothing(trace: Trace) -> str:
    """Return why there is no account: what the recording holds instead of device work."""
    if len(trace.lines):
        return "the recording holds times of lines only, and no device work; `kernelscope breakdown PATH --by line` shows them"
    missing = (trace.info.get("unavailable") or {}).get("kernels")
    if len(trace.ranges):
        missing = f"{missing or 'no kernels were recorded'}; `kernelscope breakdown PATH --by range` shows its ranges"
    return f"the recording holds no work of a device{f': {missing}' if missing else ''}{_instead(trace)}"


def _instead(trace: Trace) -> str:
    """Say what a recording tells without device work: ranges that the tool summed up (epochs), and samples (speed, use)."""
    said = []
    summed = (trace.totals["table"] == "ranges") & trace.totals["duration_ns"].notna()
    epochs = trace.totals[summed.fillna(False).to_numpy(bool)]
    if len(epochs):
        named = ", ".join(
            f"{name} {duration(float(ns))}"
            for name, ns in zip(epochs["name"][:_NAMED], epochs["duration_ns"][:_NAMED], strict=True)
        )
        said.append(f"{named}{', ...' if len(epochs) > _NAMED else ''} (`kernelscope breakdown PATH --by range` shows all)")
    samples = trace.samples
    chosen = samples[samples["metric"].astype("string").str.contains(_TELLING, na=False).to_numpy(bool)]
    sums = chosen.groupby(chosen["metric"].astype("string"))["value"].agg(["mean", "min", "max"])
    rows = sums[:_NAMED].iterrows()
    for name, row in rows:
        form = ".0%" if str(name).startswith("gpu") else ".4g"  # utilisation is a share
        said.append(f"{name} {row['mean']:{form}} on average ({row['min']:{form}} to {row['max']:{form}})")
    return f"; it holds: {'; '.join(said)}" if said else ""


# --- what the device did ------------------------------------------------------------------------------------------------------


def _kernels(trace: Trace, device: str | None, communicating: bool) -> _PartWork:
    table = trace.kernels
    timed = table["start_ns"].notna().to_numpy(bool)
    table = table[timed & (_communicates(table) == communicating) & on_device(table, device)]
    keys = table[list(_OF_KERNELS)].astype("string")
    return _work(trace, COMMUNICATION if communicating else COMPUTE, table, keys)


def _without_interruptions(trace: Trace) -> tuple[Trace, Interruptions | None]:
    """Return the trace with the kernels' uninterrupted durations, and the interruptions; None if there are none."""
    found = interruptions(trace)
    if found is None:
        return trace, None
    kernels = trace.kernels.copy(deep=False)
    end = kernels["end_ns"].copy()
    end.loc[found.rows] -= found.extra_ns
    kernels["end_ns"] = end
    return replace(trace, kernels=kernels), found


def _interruptions(trace: Trace, device: str | None, found: Interruptions) -> _PartWork:
    """Return the time that interrupted kernels lost, as work of its own after each of them."""
    table = trace.kernels.loc[found.rows]
    mine = table[on_device(table, device)]
    lost = mine.assign(start_ns=mine["end_ns"], end_ns=mine["end_ns"] + found.extra_ns.loc[mine.index])
    return _work(trace, INTERRUPTED, lost, pd.DataFrame({"kind": INTERRUPTED, "name": "another process"}, index=mine.index))


def _communicates(kernels: pd.DataFrame) -> npt.NDArray[np.bool_]:
    return (kernels["kind"] == "communication").fillna(False).to_numpy(bool)


def _graphs(trace: Trace, device: str | None) -> _PartWork:
    table = trace.graphs[on_device(trace.graphs, device)]
    return _work(trace, GRAPH, table, pd.DataFrame({"name": "CUDA graph", "kind": "graph"}, index=table.index))


def _copies(trace: Trace, device: str | None) -> _PartWork:
    table = trace.copies
    table = table[table["start_ns"].notna().to_numpy(bool) & on_device(table, device)]
    keys = pd.DataFrame({"kind": table["operation"].astype("string"), "name": table["memory"].astype("string")})
    return _work(trace, COPY, table, keys.assign(bytes=table["bytes"].astype("Float64")))


def on_device(table: pd.DataFrame, device: str | None) -> npt.NDArray[np.bool_]:
    """Return the rows of a device; work of an unknown device counts for any."""
    if device is None:
        return np.ones(len(table), dtype=bool)
    return (table["device"].isna() | (table["device"] == device)).to_numpy(bool)


def _work(trace: Trace, part: str, table: pd.DataFrame, keys: pd.DataFrame) -> _PartWork:
    """Return work of one part. Kernels that no measured step launched but that run in one get a row of their own.

    Such a row has no key except whether it communicates.
    """
    start, end = intervals.edges(table)
    measured = device_steps.measured(trace, table)
    if part in (COMPUTE, COMMUNICATION) and not measured.all():
        keys = keys.where(pd.Series(measured, index=keys.index)).assign(outside=~measured)
        if part == COMMUNICATION:
            keys["kind"] = "communication"  # all rows of this part have it
    return _PartWork(part, keys.reset_index(drop=True), start, end, measured)


# --- windows ------------------------------------------------------------------------------------------------------------------


def _windows(trace: Trace, works: list[_PartWork]) -> tuple[Int, Int]:
    """Return the measured steps on the device, or the time from its first work to its last if there are none."""
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    if len(steps):
        return device_steps.bounds(steps)
    low = min(int(work.start.min()) for work in works if len(work.start))
    return np.array([low]), np.array([max(int(work.end.max()) for work in works if len(work.end))])


_MOSTLY = 0.5


def _is_mostly_idle(trace: Trace, works: list[_PartWork], windows: tuple[Int, Int]) -> bool:
    """Return whether the device is idle most of the time, and only calls show what the host did meanwhile."""
    if len(trace.operators) or len(trace.ranges):
        return False
    start, end = np.concatenate([work.start for work in works]), np.concatenate([work.end for work in works])
    left = intervals.uncovered(start, end, *windows)
    return bool((left[1] - left[0]).sum() > _MOSTLY * (windows[1] - windows[0]).sum()) and any(len(w.start) for w in works[:2])


def _of_kernels(device: str, works: list[_PartWork]) -> DeviceAccount:
    """Return the account of kernels alone, for a capture without steps whose device is mostly idle."""
    tables, matrices = [], []
    for work in (*works[:3], *works[4:]):
        table, matrix = _added(work, intervals.shares(work.start, work.end), np.arange(len(work.start)),
                               np.zeros(len(work.start), dtype=np.int64), 1)  # fmt: skip
        tables.append(table)
        matrices.append(matrix)
    rows, by_window = _rows(tables), np.concatenate(matrices)
    whole = round(by_window.sum())
    rows["time_ns"] = intervals.apportion(by_window[:, 0], whole)
    outside = pd.DataFrame(
        [{"part": COPY, "count": len(works[3].start), "duration_ns": int((works[3].end - works[3].start).sum())}]
    )
    return DeviceAccount(device, KERNELS, whole, rows, by_window, np.array([whole]), outside, whole)


def _of_totals(trace: Trace) -> DeviceAccount:
    """Return the account of a source of totals: the durations of its kernels and copies count as time.

    A kernel waits while page faults move its pages, so the time of these moves is part of the kernel's.
    """
    kernels, copies = trace.kernels, trace.copies
    within = moved_pages.within_kernels(trace)
    hidden, copies = copies[within], copies[~within]
    rows = kernels[list(_OF_KERNELS)].astype("string").assign(part=np.where(_communicates(kernels), COMMUNICATION, COMPUTE))
    moved = pd.DataFrame({"part": COPY, "kind": copies["operation"].astype("string"), "name": copies["memory"].astype("string")})
    sums = [table[["count", "duration_ns"]].astype(float) for table in (kernels, copies)]
    tables = [
        pd.concat([rows, sums[0]], axis=1),
        pd.concat([moved, sums[1]], axis=1).assign(bytes=copies["bytes"].astype("Float64")),
    ]
    whole = _rows(tables)
    by_window = whole["duration_ns"].to_numpy(float)[:, None]
    whole["time_ns"] = by_window[:, 0].round().astype(np.int64)
    total = int(whole["time_ns"].sum())
    pages = {"part": COPY, "count": int(hidden["count"].sum()), "duration_ns": int(hidden["duration_ns"].sum())}
    outside = pd.DataFrame([pages][: len(hidden)], columns=["part", "count", "duration_ns"])
    devices = kernels["device"].dropna().astype(str).unique()
    return DeviceAccount(
        devices[0] if len(devices) == 1 else ALL, TOTALS, total, whole, by_window, np.array([total]), outside, total
    )


# --- parts --------------------------------------------------------------------------------------------------------------------


def _part(
    works: list[_PartWork], windows: tuple[Int, Int], free: tuple[Int, Int]
) -> tuple[list[tuple[pd.DataFrame, Float]], tuple[Int, Int]]:
    """Return the rows of parts that share a level, with their time in each step, and the free time that they leave."""
    start, end = (np.concatenate([getattr(work, side) for work in works]) for side in ("start", "end"))
    index, _, first, last = intervals.split_at(start, end, *free)
    window = np.searchsorted(windows[0], first, side="right") - 1
    owned = intervals.shares(first, last)
    result, before = [], 0
    for work in works:
        mine = (index >= before) & (index < before + len(work.start))
        result.append(_added(work, owned[mine], index[mine] - before, window[mine], len(windows[0])))
        before += len(work.start)
    return result, intervals.uncovered(first, last, *free) if len(first) else free


def _added(work: _PartWork, owned: Float, index: Int, window: Int, steps: int) -> tuple[pd.DataFrame, Float]:
    """Return a part's rows per step, and their time in each step."""
    names = [name for name in work.keys if name != "bytes"]
    if not len(work.keys):
        return pd.DataFrame({"part": [], "count": [], "duration_ns": []}), np.zeros((0, steps))
    number, distinct = _numbered(work.keys[names])
    size = len(distinct)
    matrix = _by_step(number[index], size, window, steps, owned)
    table = distinct.assign(part=work.part)
    if "outside" in table:
        table["part"] = table["part"].where(~table.pop("outside").astype(bool), OUTSIDE)
    mine = work.measured
    table["count"] = np.bincount(number[mine], minlength=size) / steps
    table["duration_ns"] = np.bincount(number[mine], weights=(work.end - work.start)[mine], minlength=size) / steps
    if "bytes" in work.keys:
        moved = work.keys["bytes"].fillna(0.0).to_numpy(float)
        table["bytes"] = np.bincount(number[mine], weights=moved[mine], minlength=size) / steps
    kept = (table["count"] > 0).to_numpy() | (matrix.sum(axis=1) > 0)
    return table[kept].reset_index(drop=True), matrix[kept]


def _idle(trace: Trace, windows: tuple[Int, Int], free: tuple[Int, Int]) -> tuple[pd.DataFrame, Float, float]:
    """Return the idle time by cause, in all and in each step, and how much of it began while the host waited for the device."""
    pieces = idle_causes.pieces(trace, free, windows)
    steps = len(windows[0])
    if pieces.empty:
        return pd.DataFrame({"part": [], "count": [], "duration_ns": []}), np.zeros((0, steps)), 0.0
    number, distinct = _numbered(pieces[["cause", "detail", "phase"]])
    window = np.clip(np.searchsorted(windows[0], pieces["start_ns"].to_numpy(np.int64), side="right") - 1, 0, steps - 1)
    matrix = _by_step(number, len(distinct), window, steps, pieces["time_ns"].to_numpy(float))
    table = distinct.assign(part=IDLE, count=np.bincount(number) / steps)
    after = pieces["waited"].to_numpy(bool) & ~pieces["cause"].isin(idle_causes.OWN).to_numpy(bool)
    waited = float(pieces.loc[after, "time_ns"].sum())
    return table.assign(duration_ns=matrix.sum(axis=1) / steps), matrix, waited


def _numbered(keys: pd.DataFrame) -> tuple[Int, pd.DataFrame]:
    """Return each row's number among the distinct keys, which are numbered in order of appearance, and these keys."""
    number = keys.groupby(list(keys), dropna=False, sort=False).ngroup().to_numpy().astype(np.int64)
    return number, keys[~pd.Series(number).duplicated().to_numpy()].reset_index(drop=True)


def _by_step(number: Int, size: int, window: Int, steps: int, time: Float) -> Float:
    """Return the times added up: [numbers, steps]."""
    sums = np.bincount(number * steps + window, weights=time, minlength=size * steps)
    return np.asarray(sums.reshape(size, steps), dtype=float)


def _rows(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all parts, with all columns of the account."""
    there = [table for table in tables if len(table)]
    whole = pd.concat(there, ignore_index=True) if there else pd.DataFrame()
    whole = whole.reindex(columns=[*KEYS, "count", "duration_ns", "bytes"])
    return whole.astype({**dict.fromkeys(KEYS, "string"), "bytes": "Float64"})


def _outside(works: list[_PartWork]) -> pd.DataFrame:
    rows = [
        {
            "part": work.part,
            "count": int((~work.measured).sum()),
            "duration_ns": int((work.end - work.start)[~work.measured].sum()),
        }
        for work in works
    ]
    return pd.DataFrame(rows)
