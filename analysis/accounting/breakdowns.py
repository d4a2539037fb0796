"""Tables of where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle cause or host line.

Every row has `count` and `duration_ns` (sums over all measured steps, what vendors' tools report) and `time_ns` (its conserved
share of the mean step). The rows' `time_ns` add up to the step's wall time exactly, in every table. Device work that belongs to
no measured step is in rows of the phase "outside of steps", so every kernel of the recording is counted once.

A capture without steps is broken down as a whole. One that holds only totals has no `time_ns`: it is unknown what ran at the same
time, so durations are no shares of a wall time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import kernel_summary, levels, moved_pages
from kernelscope.analysis.accounting import partition as parts
from kernelscope.analysis.accounting.cell_labels import KERNELS, CellLabels, Texts
from kernelscope.analysis.accounting.statistics import mean_step_ns
from kernelscope.analysis.attribution import device_steps, host_lines
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.kernels import work
from kernelscope.analysis.kernels.short_names import short
from kernelscope.analysis.trace import Trace, intervals, notebook

SCHEMA = "kernelscope/breakdown/1"

Made = TypeVar("Made")

# The columns that make a row, for each table
BY = {
    "layer": ("layer", "phase"),
    "kernel": ("kernel", "kind", "library", "phase", "problem", "layout", "algorithm", "dtype", "transpose"),
    "layer-kernel": ("kernel", "kind", "library", "layer", "phase", "problem", "layout", "algorithm", "dtype", "transpose"),
    "kind": ("kind", "phase"),
    "phase": ("phase",),
    "step": ("step",),
    "operator": ("operator", "phase"),
    "range": ("range", "activity", "phase"),
    "idle": ("cause", "layer", "phase"),
    "line": ("file", "function", "line", "text"),
}

_OF_ROWS = ("count", "duration_ns", "median_ns", "min_ns", "max_ns", "std_ns")  # of the executions in a row of totals
OF_MEANS = "the mean of"  # in info["iteration"]: durations are means of so many executions
TOTAL_ONLY = "total"  # the method of rows that the source gives as totals


@dataclass
class Breakdown:
    """One table with its whole: step_ns is the mean wall time of the measured steps and the sum of the rows' time_ns.

    coverage: the share of step_ns in rows whose key is known from evidence. steps: the number of measured steps; 0 if the whole
    capture counts as one. step_ns is None if the source gives only totals; coverage is then of the sum of durations.
    totals: kernel_sum_ns, kernel_busy_ns, device_busy_ns and wall_ns of the window (see analysis.accounting.partition).
    """

    by: str
    table: pd.DataFrame
    step_ns: int | None
    coverage: float
    steps: int
    info: dict[str, Any]
    totals: dict[str, int] = field(default_factory=dict)

    @property
    def window(self) -> str:
        """What was broken down: steps, capture or totals."""
        return "totals" if self.step_ns is None else "steps" if self.steps else "capture"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON envelope."""
        # pandas takes None here, its stubs do not know it
        columns = {str(name): self.table[name].to_numpy(dtype=object, na_value=None).tolist() for name in self.table}  # type: ignore[call-overload]
        return _envelope(self.by, self.window, self.step_ns, self.steps, self.coverage, self.totals, self.info, columns)

    def _repr_html_(self) -> str:
        return notebook.of_breakdown(self, short)


def breakdown(trace: Trace, by: str = "layer") -> Breakdown:
    """Break the mean step of `trace` down `by` one of BY; raise EvidenceError if the trace lacks the evidence."""
    if by not in BY:
        raise EvidenceError(f"unknown breakdown {by!r}; known: {', '.join(BY)}")
    result = breakdowns(trace, (by,))[by]
    if isinstance(result, str):
        raise EvidenceError(result)
    return result


def breakdowns(trace: Trace, wanted: Sequence[str]) -> dict[str, Breakdown | str]:
    """Return several breakdowns of one trace from one partition; the reason in place of one that the trace does not allow."""
    return _each(trace, wanted, of_cells)


def envelopes(trace: Trace, wanted: Sequence[str]) -> dict[str, dict[str, Any] | str]:
    """Return the result of `breakdowns`, each Breakdown as its JSON envelope."""
    matches = _each(trace, wanted, _envelope_of_cells)
    return {by: result.as_dict() if isinstance(result, Breakdown) else result for by, result in matches.items()}


def _each(
    trace: Trace, wanted: Sequence[str], of: Callable[[parts.Partition, str, dict[str, Any], CellLabels], Made]
) -> dict[str, Breakdown | Made | str]:
    """Return the result of `of` for each breakdown made of cells, all from one partition, and other Breakdowns; or the reason."""
    result: dict[str, Breakdown | Made | str] = {}
    partition: parts.Partition | None = None
    labels: CellLabels | None = None
    executed: _Executed | None = None
    for by in wanted:
        try:
            if by == "layer-kernel" and trace.kernels[["layer", "phase"]].isna().all(axis=None):
                result[by] = "the capture's kernels belong to no layer or phase; --by kernel has all there is"
            elif by == "line":
                result[by] = _by_line(trace) if trace.host_lines.empty else _by_host_line(trace)
            elif not trace.has_timeline() and (len(trace.kernels) or len(trace.copies) or len(trace.totals)):
                result[by] = _of_totals(trace, by)
            else:
                partition = partition or parts.partition(trace)
                labels = labels or CellLabels(partition.everything)
                if by in KERNELS:
                    executed = executed or _executed(trace)
                    result[by] = _with_executions(of_cells(partition, by, trace.info, labels), executed)
                else:
                    result[by] = _by_step(partition, trace) if by == "step" else of(partition, by, trace.info, labels)
        except EvidenceError as error:
            result[by] = str(error)
    return result


def of_cells(partition: parts.Partition, by: str, info: dict[str, Any], labels: CellLabels | None = None) -> Breakdown:
    """Group the cells of a partition (see `breakdown`). labels: its cells' labels, if already made."""
    columns, coverage = _grouped(partition, by, labels or CellLabels(partition.everything))
    table = pd.DataFrame(columns | {key: pd.array(columns[key], dtype="string") for key in BY[by]})
    return Breakdown(by, table, partition.step_ns, coverage, len(partition.steps), _context(info), partition.totals)


def kernels(partition: parts.Partition, trace: Trace) -> Breakdown:
    """Return the kernels by layer, with the times of their single executions, for a trace whose partition is already made."""
    labels = CellLabels(partition.everything)
    return _with_executions(of_cells(partition, "layer-kernel", trace.info, labels), _executed(trace))


class _Executed(NamedTuple):
    """The executions, the labels of their distinct cells, and each one's operations; NaN is unknown."""

    ran: parts.Executions
    labels: CellLabels
    flops: npt.NDArray[np.float64]


def _executed(trace: Trace) -> _Executed:
    ran = parts.executions(trace)
    flops = np.full(len(ran.number), np.nan)
    flops[: len(trace.kernels)] = work.of_kernels(trace)["flops"].to_numpy(float, na_value=np.nan)
    return _Executed(ran, CellLabels(ran.keys), flops)


def _with_executions(breakdown: Breakdown, executed: _Executed) -> Breakdown:
    """Return a breakdown with mean_ns, median_ns, min_ns, max_ns and std_ns of the single executions of a row's work.

    They are null in rows of graphs and of the host; for totals, all but the mean are null. gflops_per_s: operations (see
    kernels.work) over the durations of the executions whose operations are known; null if none are.
    """
    by, ran = breakdown.by, executed.ran
    names, group = executed.labels.numbered(by, BY[by])
    row = pd.Series(np.array(group, dtype=np.int64)[ran.number], name="row")
    single = kernel_summary.executions([row], pd.Series(ran.counts), pd.Series(ran.duration_ns), ("median", "min", "max", "std"))
    rates = _rates(row, executed.flops, ran.duration_ns)
    table = breakdown.table.copy(deep=False)
    # pandas takes None here, its stubs do not know it
    given = [table[key].to_numpy(dtype=object, na_value=None).tolist() for key in BY[by]]  # type: ignore[call-overload]
    place = pd.Index([names.get(key, -1) for key in zip(*given, strict=True)])
    mean = (table["duration_ns"] / table["count"].where(table["count"] > 0)).where(place >= 0)
    found = {name: single[name].reindex(place).to_numpy(float) for name in single}
    for name, values in {"mean_ns": mean.to_numpy(float, na_value=np.nan), **found}.items():
        table[name] = pd.Series(np.round(values), index=table.index).astype("Int64")
    table["gflops_per_s"] = pd.array(rates.reindex(place).to_numpy(float), dtype="Float64")
    return replace(breakdown, table=table)


def _rates(row: pd.Series, flops: npt.NDArray[np.float64], duration_ns: npt.NDArray[np.int64]) -> pd.Series:
    """Return for each row the operations per ns of the executions with known operations; rows without any have no rate."""
    known = (flops > 0) & (duration_ns > 0)
    sums = pd.DataFrame({"flops": flops[known], "ns": duration_ns[known]}).groupby(row[known].to_numpy()).sum()
    return (sums["flops"] / sums["ns"]).round(1)


def _envelope_of_cells(partition: parts.Partition, by: str, info: dict[str, Any], labels: CellLabels) -> dict[str, Any]:
    """Return the envelope without pandas: for a table of a few rows, its overhead alone would be larger."""
    columns, coverage = _grouped(partition, by, labels)
    columns = {name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in columns.items()}
    window, steps = "steps" if len(partition.steps) else "capture", len(partition.steps)
    return _envelope(by, window, partition.step_ns, steps, coverage, partition.totals, _context(info), columns)


def _grouped(partition: parts.Partition, by: str, labels: CellLabels) -> tuple[dict[str, Any], float]:
    """Return the columns of a breakdown of cells, as lists of texts and arrays, most time first, and its coverage."""
    cells, whole = partition.everything, max(partition.step_ns, 1)
    numbers, group = labels.numbered(by, BY[by])
    added = {name: cells[name].to_numpy(np.int64) for name in ("count", "duration_ns", "time_ns")}
    if by != "idle":  # the host's rows count pieces of gaps, which is no number of calls
        added["count"] = np.where(_executed_cells(cells), added["count"], 0)
    sums = {name: np.zeros(len(numbers), dtype=np.int64) for name in added}
    for name, values in added.items():
        np.add.at(sums[name], group, values)
    order = np.argsort(-sums["time_ns"], kind="stable")
    keys, methods, rows = list(numbers), labels.methods(group, len(numbers)), order.tolist()
    columns: dict[str, Any] = {key: [keys[row][at] for row in rows] for at, key in enumerate(BY[by])}
    columns |= {name: values[order] for name, values in sums.items()}
    columns |= {"share": columns["time_ns"] / whole, "method": [methods[row] for row in rows]}
    return columns, float(cells["time_ns"].to_numpy()[labels.known(by)].sum()) / whole


def _executed_cells(cells: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which cells are kernels, copies and graphs, rather than time without device work."""
    cause = cells["cause"].astype("string").fillna("")
    of_device = cause.str.startswith(levels.DEVICE) & (cause != levels.QUEUED)
    return cells["cause"].isna().to_numpy(bool) | of_device.to_numpy(bool)


def _envelope(
    by: str, window: str, step_ns: int | None, steps: int, coverage: float, totals: dict[str, int], info: dict[str, Any],
    columns: dict[str, list[Any]],
) -> dict[str, Any]:  # fmt: skip
    """Return a breakdown's JSON envelope; columns: those of its table, None for null."""
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    envelope = {"schema": SCHEMA, "by": by, "window": window, "step_ns": step_ns, "steps": steps}
    return {**envelope, "coverage": round(coverage, 6), "totals": totals, **info, "rows": rows}


def layer_labels(rows: pd.DataFrame) -> pd.Series[str]:
    """Return each row's layer, or in parentheses its part of the step, or (unattributed), from layer, phase, cause and kind."""
    return _labelled(rows[["layer", "phase", "cause", "kind"]], lambda labels: labels.layers)


def kind_labels(rows: pd.DataFrame) -> pd.Series[str]:
    """Return each row's kind, or in parentheses what device or host did while no kernel ran, from kind and cause."""
    return _labelled(rows[["kind", "cause"]], lambda labels: labels.kinds)


def _labelled(rows: pd.DataFrame, label: Callable[[CellLabels], Texts]) -> pd.Series[str]:
    """Return each row's label, made once for equal rows."""
    number, first = parts.numbered(rows)
    texts = np.array(label(CellLabels(rows.iloc[first])), dtype=object)
    return pd.Series(texts[number], index=rows.index, dtype="string")


def _context(info: dict[str, Any]) -> dict[str, Any]:
    """Return the context of every table: what was measured, and under which conditions."""
    names = (
        "source", "framework", "network_name", "mode", "batch", "device_count", "pass", "inside", "clean_step_ns", "conditions",
        "coverage_of", "iteration", "counted",
    )  # fmt: skip
    return {name: info[name] for name in names if name in info}


def totals_cells(trace: Trace) -> pd.DataFrame:
    """Return the device work of a source of totals as cells: partition.KEYS, count and duration_ns.

    Without moves of pages that are part of the kernels' time.
    """
    kernels = trace.kernels.rename(columns={"name": "kernel"})
    beside = trace.copies[~moved_pages.within_kernels(trace)]
    copies = pd.DataFrame({"cause": levels.DEVICE + beside["operation"].astype("string").map(levels.copy_name)})
    rows = pd.concat([kernels, copies.join(beside[list(_OF_ROWS)])])
    return rows.reset_index(drop=True).reindex(columns=[*levels.KEYS, *_OF_ROWS])


def _of_totals(trace: Trace, by: str) -> Breakdown:
    """Group the counts and durations of a source of totals; they are no shares of a wall time."""
    if by in ("step", "idle"):
        raise EvidenceError("the capture holds only totals and no timeline, so its steps and idle time are unknown")
    nested = by == "range" and trace.info.get("counted") == "functions"  # each time includes that of other rows
    if by == "range":
        mine = trace.totals[trace.totals["table"] == "ranges"]
        activity = "cumulative time" if nested else "ranges, as summed up by the tool"
        rows = pd.DataFrame({"range": mine["name"], "activity": activity, "phase": pd.NA})
        rows = rows.assign(count=mine["count"], duration_ns=mine["duration_ns"])
        if rows.empty:
            raise EvidenceError("the capture holds only totals, and none of ranges")
    else:
        rows = totals_cells(trace)
        if rows.empty:
            why = (trace.info.get("unavailable") or {}).get("kernels")
            raise EvidenceError(str(why or "the capture holds no kernels or copies"))
        labels = CellLabels(rows)
        rows = rows.assign(**{key: pd.array(labels.column(by, key), dtype="string") for key in BY[by]})
    table = rows.groupby(list(BY[by]), dropna=False, sort=False)[["count", "duration_ns"]].sum().reset_index()
    table["time_ns"] = pd.Series(pd.NA, index=table.index, dtype="Int64")
    whole = int((trace.kernels if nested else table)["duration_ns"].sum())
    table["share"] = table["duration_ns"] / max(whole, 1)
    if by in KERNELS:
        mean = table["duration_ns"] / table["count"].where(table["count"] > 0)
        table["mean_ns"] = mean.round().astype("Float64").astype("Int64")
        means = str(trace.info.get("iteration") or "").startswith(OF_MEANS)
        table = table.join(kernel_summary.of_totals(rows, BY[by], means).reset_index(drop=True))
    table = table.assign(method=TOTAL_ONLY).sort_values("duration_ns", ascending=False, kind="stable").reset_index(drop=True)
    coverage = 1.0
    if by != "range":
        known = CellLabels(rows).known(by)
        coverage = float(rows["duration_ns"].where(known, 0).sum()) / max(whole, 1)
    known_kind = trace.kernels["kind"].notna() & (trace.kernels["kind"] != "unknown")
    durations = trace.kernels["duration_ns"]
    totals = {"kernel_sum_ns": int(durations.sum()), "known_kind_ns": int(durations[known_kind].sum())}
    return Breakdown(by, table, None, coverage, 0, _context(trace.info), totals)


def _by_step(partition: parts.Partition, trace: Trace) -> Breakdown:
    steps = partition.steps
    if steps.empty:
        raise EvidenceError(
            "the capture marks no steps; --steps auto finds what repeats, and `kernelscope steps` shows what it finds"
        )
    begun, over = device_steps.bounds(steps)
    durations = over - begun
    table = pd.DataFrame(
        {
            "step": steps["step"],
            "window": steps["window"],
            "count": 1,
            "duration_ns": durations,
            "time_ns": intervals.apportion(durations / len(durations), partition.step_ns),
        }
    )
    table["share"] = table["time_ns"] / partition.step_ns
    table["method"] = "measured"
    return Breakdown("step", table, partition.step_ns, 1.0, len(steps), _context(trace.info), partition.totals)


def _by_host_line(trace: Trace) -> Breakdown:
    """Lines on a timeline: the time of each on the host and of its work on the device (see attribution.host_lines).

    count and duration_ns come from the lines pass, scaled to as many steps, calls included; profiled_ns is its duration per step.
    Null without that pass.
    """
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    windows = parts.whole(trace) if trace.steps.empty else intervals.edges(steps)
    step_ns = int((windows[1] - windows[0]).sum()) if trace.steps.empty else mean_step_ns(steps)
    if not step_ns:
        raise EvidenceError("the capture holds no measured step; record some, or lower --warmup")
    table = host_lines.by_line(trace, windows, step_ns)
    counted = trace.lines.groupby(host_lines.KEYS, dropna=False)[["hits", "time_ns"]].sum().reset_index()
    counted = counted.rename(columns={"hits": "count", "time_ns": "duration_ns"})
    keys = {name: table[name].dtype for name in host_lines.KEYS}
    table = table.merge(counted.astype(keys), on=host_lines.KEYS, how="left")
    profiled = max(int(trace.info.get("lines_steps", 0)), 1)
    table["profiled_ns"] = (table["duration_ns"] / profiled).round().astype("Int64")
    for name in ("count", "duration_ns"):
        table[name] = (table[name] * (max(len(steps), 1) / profiled)).round().astype("Int64")
    table["time_ns"] = table["device_ns"] + table["idle_ns"]
    table["share"] = table["time_ns"] / step_ns
    named = table["file"].notna()
    table["method"] = np.where(named, trace.info.get("host_lines", "line events"), "none")
    columns = [
        *BY["line"],
        "count",
        "duration_ns",
        "time_ns",
        "host_ns",
        "device_ns",
        "idle_ns",
        "profiled_ns",
        "share",
        "method",
    ]
    coverage = float(table["time_ns"][named].sum()) / step_ns
    return Breakdown("line", table[columns], step_ns, coverage, len(steps), _context(trace.info))


def _by_line(trace: Trace) -> Breakdown:
    """Statements of the line-profiled loop function. Callees that were profiled, too, are not counted twice."""
    lines = trace.lines
    steps = int(trace.info.get("lines_steps", 0))
    if lines.empty or not steps:
        reason = trace.info.get("unavailable", {}).get("lines", "no lines pass was recorded")
        raise EvidenceError(f"no host lines in this capture: {reason}")
    root = str(trace.info["lines_root"])
    mine = lines[lines["function"].str.rpartition(".")[2] == root]
    measured = mine["time_ns"].sum() / steps
    # the function also works once per window, before its first step, so it can take longer than its steps
    step_ns = max(int(trace.info["lines_step_ns"]), round(measured))
    if not step_ns:
        raise EvidenceError("no host lines in this capture: all their times are zero")
    rest = step_ns - measured
    table = mine[["file", "function", "line", "text"]].assign(count=mine["hits"], duration_ns=mine["time_ns"])
    outside = {"file": pd.NA, "function": "(outside the profiled function)", "line": pd.NA, "text": pd.NA}
    table = pd.concat(
        [table, pd.DataFrame([{**outside, "count": steps, "duration_ns": max(0, round(rest * steps))}])], ignore_index=True
    )
    table["time_ns"] = intervals.apportion(np.asarray(table["duration_ns"], dtype=float) / steps, step_ns)
    table["share"] = table["time_ns"] / step_ns
    table["method"] = ["line_profiler"] * len(mine) + ["none"]
    coverage = 1.0 - float(table["time_ns"].iloc[-1]) / step_ns
    return Breakdown("line", table, step_ns, coverage, steps, _context({**trace.info, "pass": "lines"}))
