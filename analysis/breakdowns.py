"""Tables of where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle cause or host line.

Every row has `count` and `duration_ns` (sums over all measured steps, what vendors' tools report) and `time_ns` (its conserved
share of the mean step). The rows' `time_ns` add up to the step's wall time exactly, in every table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis import intervals
from kernelscope.analysis import partition as parts
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import METHODS, Trace

SCHEMA = "kernelscope/breakdown/1"

# The columns that make a row, for each table
BY = {
    "layer": ("layer", "phase"),
    "kernel": ("kernel", "kind", "library", "layer", "phase", "problem", "layout", "algorithm", "dtype", "transpose"),
    "kind": ("kind", "phase"),
    "phase": ("phase",),
    "step": ("step",),
    "operator": ("operator", "layer", "phase"),
    "range": ("range", "phase"),
    "idle": ("cause", "layer", "phase"),
    "line": ("file", "function", "line", "text"),
}

# Not layers, but known parts of a step: they are named in the layer column in brackets
_NAMED_PHASES = {"optimizer": "(optimizer)", "data": "(data)"}
_NAMED_CAUSES = {parts.DISPATCH: "(dispatch)", parts.WAITING: "(waiting)", parts.DATA: "(data)"}
UNATTRIBUTED = "(unattributed)"
COMPUTING = "(computing)"
HOST = "(host: {})"


@dataclass
class Breakdown:
    """One table with its whole: step_ns is the mean wall time of the measured steps and the sum of the rows' time_ns.

    coverage: the share of step_ns in rows whose key is known from evidence. steps: how many steps were measured.
    """

    by: str
    table: pd.DataFrame
    step_ns: int
    coverage: float
    steps: int
    info: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON envelope."""
        rows = self.table.astype(object).where(self.table.notna(), None).to_dict("records")
        envelope = {"schema": SCHEMA, "by": self.by, "step_ns": self.step_ns, "steps": self.steps}
        return {**envelope, "coverage": round(self.coverage, 6), **self.info, "rows": rows}


def breakdown(trace: Trace, by: str = "layer") -> Breakdown:
    """Break the mean step of `trace` down `by` one of BY; raise EvidenceError when the trace has nothing to do it with."""
    if by not in BY:
        raise EvidenceError(f"unknown breakdown {by!r}; known: {', '.join(BY)}")
    if by == "line":
        return _by_line(trace)
    partition = parts.partition(trace)
    if by == "step":
        return _by_step(partition, trace)
    return of_cells(partition, by, trace.info)


def of_cells(partition: parts.Partition, by: str, info: dict[str, Any]) -> Breakdown:
    """Group the cells of a partition (see `breakdown`)."""
    cells = partition.cells
    keys = list(BY[by])
    labels = _labels(cells, by)
    known = _known(cells, labels, by)
    frame = cells.assign(**labels, known_ns=cells["time_ns"].where(known, 0))
    grouped = frame.groupby(keys, dropna=False, sort=False)
    table = grouped.agg(count=("count", "sum"), duration_ns=("duration_ns", "sum"), time_ns=("time_ns", "sum")).reset_index()
    table["share"] = table["time_ns"] / partition.step_ns
    table = table.merge(_methods(frame, keys), on=keys, how="left")
    table = table.sort_values("time_ns", ascending=False, kind="stable").reset_index(drop=True)
    coverage = float(frame["known_ns"].sum()) / partition.step_ns
    return Breakdown(by, table, partition.step_ns, coverage, len(partition.steps), _context(info))


def layer_labels(cells: pd.DataFrame) -> pd.Series[str]:
    """Return each cell's layer, or in brackets the known part of the step that it is, or (unattributed)."""
    label = cells["layer"].astype("string")
    label = label.fillna(cells["phase"].map(_NAMED_PHASES).astype("string"))
    label = label.fillna(cells["cause"].map(_NAMED_CAUSES).astype("string"))
    return label.fillna(UNATTRIBUTED)


def kind_labels(cells: pd.DataFrame) -> pd.Series[str]:
    """Return each cell's kind, or in brackets what the host did where no kernel ran."""
    host = "(host: " + cells["cause"].astype("string") + ")"
    return cells["kind"].astype("string").fillna(host)


def _labels(cells: pd.DataFrame, by: str) -> dict[str, pd.Series[str]]:
    """Return the columns to group by, with a text in place of null where the null has a meaning."""
    host = kind_labels(cells)
    labels = {"layer": layer_labels(cells), "kind": host}
    if by == "idle":
        labels["cause"] = cells["cause"].astype("string").fillna(COMPUTING)
    if by == "kernel":
        labels["kernel"] = cells["kernel"].astype("string").fillna(host)
    if by == "operator":
        labels["operator"] = cells["operator"].astype("string").fillna(host)
    if by == "range":
        labels["range"] = cells["range"].astype("string").fillna(COMPUTING)
    return labels


def _known(cells: pd.DataFrame, labels: dict[str, pd.Series[str]], by: str) -> pd.Series[bool]:
    """Return which cells' key is known: not unattributed, not of unknown kind, not the loop's own unexplained time."""
    explained = cells["cause"].fillna("") != parts.OUTSIDE
    if by in ("layer", "operator", "range"):
        return labels["layer"] != UNATTRIBUTED
    if by in ("kind", "kernel"):
        return explained & (cells["kind"].fillna("") != "unknown")
    if by == "phase":
        return cells["phase"].notna() & explained
    return explained


def _methods(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return per row the methods by which its time was attributed, the one with most time first."""
    times = frame.groupby([*keys, "method"], dropna=False, sort=False)["time_ns"].sum().reset_index()
    rank = times["method"].map({method: number for number, method in enumerate(METHODS)}).fillna(len(METHODS))
    times = times.assign(rank=rank).sort_values(["time_ns", "rank"], ascending=[False, True], kind="stable")
    joined = times.groupby(keys, dropna=False, sort=False)["method"].agg("; ".join)
    return joined.reset_index()


def _context(info: dict[str, Any]) -> dict[str, Any]:
    """Return what stands beside every table: what was measured and under which conditions."""
    names = ("framework", "network_name", "mode", "batch", "pass", "clean_step_ns", "conditions")
    return {name: info[name] for name in names if name in info}


def _by_step(partition: parts.Partition, trace: Trace) -> Breakdown:
    steps = partition.steps
    durations = (steps["end_ns"] - steps["start_ns"]).to_numpy()
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
    return Breakdown("step", table, partition.step_ns, 1.0, len(steps), _context(trace.info))


def _by_line(trace: Trace) -> Breakdown:
    """Statements of the line-profiled loop function; callees that were profiled too are shown but not counted twice."""
    lines = trace.lines
    steps = int(trace.info.get("lines_steps", 0))
    if lines.empty or not steps:
        reason = trace.info.get("unavailable", {}).get("lines", "no lines pass was recorded")
        raise EvidenceError(f"no host lines in this capture: {reason}")
    root = str(trace.info["lines_root"])
    mine = lines[lines["function"].str.rpartition(".")[2] == root]
    measured = mine["time_ns"].sum() / steps
    # the function also does things once a window, before its first step: with these it can take longer than its steps
    step_ns = max(int(trace.info["lines_step_ns"]), round(measured))
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
