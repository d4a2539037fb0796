"""Every nanosecond of every step, given to one cell: the conservation that all tables rest on.

At each instant of a step, whoever is highest on this list owns it, in equal parts where several are active at once:

0. kernels: library primitives and operators that compute by themselves, on any thread or stream;
1. operators: the time of an operator in which no kernel runs (dispatch, allocation, the framework's own work);
2. ranges: a layer, phase, data or sync range in which no operator runs;
3. the step itself: the loop's own Python code, for which there is no further evidence.

So the cells of a step add up to its wall time by construction. The rounding to integer nanoseconds happens once, here, for
the finest cells; coarser tables add those integers up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelscope.analysis import intervals
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.statistics import mean_step_ns
from kernelscope.analysis.trace import Trace

KERNEL, OPERATOR, RANGE, STEP = range(4)

# What a cell is keyed by. `cause` says what the host did where no kernel ran; it is null where one did.
KEYS = (
    "layer", "phase", "kind", "cause", "kernel", "library", "operator", "range", "problem", "layout", "algorithm", "dtype",
    "m", "n", "k", "transpose", "method",
)  # fmt: skip

# Host causes, as `cause` names them
IN_OPERATOR = "in operator"  # inside an operator, outside of any kernel
DISPATCH = "dispatch"  # inside the framework's own call, outside of any operator
IN_LAYER = "in layer"  # inside a layer's range, outside of any operator: the layer's Python code
IN_PHASE = "in phase"  # inside a phase's range, outside of any layer
DATA = "data"  # fetching and converting the batch
WAITING = "waiting"  # the host waits for results
OUTSIDE = "loop"  # in the step, outside of any range: the loop's own code


@dataclass
class Partition:
    """The cells of the measured steps.

    cells: one row per distinct KEYS, with count and duration_ns (sums over all steps; of the host's rows without what ran
    inside of them) and time_ns (mean per step; adds up to step_ns exactly). steps: the measured steps.
    """

    cells: pd.DataFrame
    step_ns: int
    steps: pd.DataFrame


def partition(trace: Trace) -> Partition:
    """Partition the wall time of the trace's measured steps; raise EvidenceError when it has none."""
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns").reset_index(drop=True)
    if steps.empty:
        raise EvidenceError("the capture holds no measured step; record some, or lower --warmup")
    activities = pd.concat([_kernels(trace), _operators(trace), _ranges(trace), _steps(steps)], ignore_index=True)
    index, _, start, end = intervals.split_at(
        activities["start_ns"].to_numpy(), activities["end_ns"].to_numpy(),
        steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy(),
    )  # fmt: skip
    pieces = activities.iloc[index].reset_index(drop=True)
    pieces["part"] = intervals.shares(pieces["level"].to_numpy(), start, end, levels=4)
    # a kernel lasts as long as it lasts; the host's time in an operator or range is what nothing deeper owned
    pieces["duration_ns"] = np.where(pieces["level"] == KERNEL, (end - start).astype(float), pieces["part"])
    pieces["first"] = ~pd.Series(index).duplicated().to_numpy()
    step_ns = mean_step_ns(steps) or 0
    return Partition(_cells(pieces, len(steps), step_ns), step_ns, steps)


def _cells(pieces: pd.DataFrame, steps: int, step_ns: int) -> pd.DataFrame:
    """Add pieces up to cells and round these to integers that keep the sum."""
    grouped = pieces.groupby(list(KEYS), dropna=False, sort=False)
    cells = grouped.agg(count=("first", "sum"), duration_ns=("duration_ns", "sum"), part=("part", "sum")).reset_index()
    cells["duration_ns"] = cells["duration_ns"].round().astype("int64")
    cells["time_ns"] = intervals.apportion(cells.pop("part").to_numpy() / steps, step_ns)
    return cells


def _blank(table: pd.DataFrame, level: int, **columns: object) -> pd.DataFrame:
    """Return activities for the rows of `table`: level, times and all KEYS, null where not given."""
    values: dict[str, object] = {"level": level, "start_ns": table["start_ns"], "end_ns": table["end_ns"]}
    values.update({key: columns.get(key, pd.NA) for key in KEYS})
    frame = pd.DataFrame(values, index=table.index)
    for key in KEYS:
        frame[key] = frame[key].astype("Int64" if key in ("m", "n", "k") else "string")
    return frame.astype({"start_ns": "int64", "end_ns": "int64"})


def _kernels(trace: Trace) -> pd.DataFrame:
    timed = trace.kernels[trace.kernels["start_ns"].notna()]
    same = ("layer", "phase", "kind", "library", "operator", "problem", "layout", "algorithm", "dtype", "m", "n", "k")
    columns = {key: timed[key] for key in same}
    return _blank(
        timed,
        KERNEL,
        kernel=timed["name"],
        transpose=timed["transpose"],
        method=timed["attribution"].fillna("none"),
        **columns,
    )


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table's rows cut into pieces owned by the innermost one of each thread."""
    thread = table["thread"].fillna(-1).to_numpy(dtype=np.int64)
    owner, start, end = intervals.leaves(thread, table["start_ns"].to_numpy(), table["end_ns"].to_numpy())
    pieces = table.iloc[owner].reset_index(drop=True)
    return pieces.assign(start_ns=start, end_ns=end)


def _operators(trace: Trace) -> pd.DataFrame:
    pieces = _flat(trace.operators)
    named = pieces["layer"].notna() | pieces["phase"].isin(["optimizer", "data"])
    cause = pd.Series(np.where(named, IN_OPERATOR, DISPATCH), index=pieces.index)
    method = pieces["attribution"].where(named, "launch range").fillna("none")
    return _blank(
        pieces,
        OPERATOR,
        layer=pieces["layer"],
        phase=pieces["phase"],
        cause=cause,
        operator=pieces["name"],
        method=method,
    )


def _ranges(trace: Trace) -> pd.DataFrame:
    pieces = _flat(trace.ranges[trace.ranges["category"] != "step"])
    category = pieces["category"]
    unnamed_phase = (category == "phase") & ~pieces["phase"].isin(["forward", "backward", "optimizer", "data"])
    cause = category.map({"data": DATA, "sync": WAITING, "layer": IN_LAYER, "phase": IN_PHASE}).fillna(IN_PHASE)
    cause = cause.mask(unnamed_phase, DISPATCH)
    return _blank(
        pieces,
        RANGE,
        layer=pieces["layer"],
        phase=pieces["phase"],
        cause=cause,
        range=pieces["name"],
        method="launch range",
    )


def _steps(steps: pd.DataFrame) -> pd.DataFrame:
    return _blank(steps, STEP, phase="other", cause=OUTSIDE, method="none")
