"""The cost of recording in the step that a run's breakdown shows, which is the recorded step and longer than the clean one.

The rows that it lengthened are found as in explanations (see `instrumentation`); the breakdown itself is left unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import BY, Breakdown
from kernelscope.analysis.accounting.cell_labels import CellLabels
from kernelscope.analysis.accounting.device_account import is_timed_by_device
from kernelscope.analysis.accounting.growth import Growth
from kernelscope.analysis.accounting.levels import KEYS
from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.explain import sides
from kernelscope.analysis.explain.instrumentation import factors
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace

LEAST = 0.1  # of the clean step: two passes of one program may differ by less
MOST_ROWS, LEAST_OF_COST = 3, 0.05  # how many rows are named at most, and the least share of the cost that each has
_NO_CELLS = ("step", "line")  # breakdowns whose rows are not cells of the partition


@dataclass(frozen=True)
class Cost:
    """recorded_ns: the breakdown's step. clean_ns: the clean one, as in explanations. rows: those with most of the cost.

    Each row has the breakdown's keys, time_ns and, as part of it, cost_ns. from_layers: whether the layers pass shows the cost,
    or else the number of events recorded in each row. growth: set if steps get longer while the program runs, which is why the
    recorded steps, which are later ones, took longer; then there are no rows.
    """

    by: str
    recorded_ns: int
    clean_ns: int
    rows: list[dict[str, Any]]
    from_layers: bool
    growth: Growth | None = None


class Kept(NamedTuple):
    """factors: of each cell, 0 to 1. from_layers: whether they come from the layers pass, or from the number of recorded
    events.
    """

    factors: npt.NDArray[np.float64]
    from_layers: bool


def of_run(run: Run, shown: Breakdown) -> Cost | None:
    """Return the cost of recording in the step of a run's breakdown; None if it is next to nothing or unknown.

    A recorded step that is shorter than the clean one by as much has no rows: something else lengthened the clean one.
    """
    clean_ns = run.clean_step_ns
    if clean_ns is None or not shown.step_ns:
        return None
    if shown.step_ns < (1 + LEAST) * clean_ns:
        shorter = (1 + LEAST) * shown.step_ns < clean_ns
        return Cost(shown.by, shown.step_ns, clean_ns, [], False) if shorter else None
    if run.growth is not None:
        return Cost(shown.by, shown.step_ns, clean_ns, [], False, run.growth)
    trace = run.trace()
    cells = partition(trace).cells
    share = kept(run, trace, cells, clean_ns)
    time_ns = cells["time_ns"].to_numpy(dtype=float)
    rows = [] if shown.by in _NO_CELLS else _rows(CellLabels(cells), shown.by, time_ns, time_ns * (1 - share.factors))
    return Cost(shown.by, shown.step_ns, clean_ns, rows, share.from_layers)


def kept(run: Run, trace: Trace, cells: pd.DataFrame, clean_ns: int) -> Kept:
    """Return the share of each cell's time that is left without the cost of recording, so that cells add up to the clean step.

    If steps get longer while the program runs, later ones were recorded: their additional time is not a cost, and all cells are
    shortened alike. trace: a recording of the run; cells: those of its partition.
    """
    time_ns = cells["time_ns"].to_numpy(dtype=float)
    if run.growth is not None:
        return Kept(np.full(len(cells), min(clean_ns / max(float(time_ns.sum()), 1.0), 1.0)), False)
    grouped, layers_ns = sides.layers_pass_of(run, clean_ns)
    by_device = is_timed_by_device(trace)
    shares = factors(cells[list(KEYS)], time_ns, float(clean_ns), layers_ns, grouped, sides.events_of(trace), by_device)
    return Kept(shares, layers_ns is not None and not by_device)


def _rows(labels: CellLabels, by: str, time_ns: np.ndarray[Any, Any], cost_ns: np.ndarray[Any, Any]) -> list[dict[str, Any]]:
    """Return the rows of a breakdown that hold most of the cost, largest first."""
    numbers, group = labels.numbered(by, BY[by])
    time, cost = (np.bincount(group, weights=values) for values in (time_ns, cost_ns))
    keys, least = list(numbers), LEAST_OF_COST * float(cost_ns.sum())
    return [
        {**dict(zip(BY[by], keys[row], strict=True)), "time_ns": round(float(time[row])), "cost_ns": round(float(cost[row]))}
        for row in np.argsort(-cost, kind="stable")[:MOST_ROWS]
        if cost[row] > max(least, 0.0)
    ]
