"""The work at each phase of a step, and from it the work during a power sample.

The kernels pass knows when each kernel runs within its step; the energy pass knows only where its steps begin and end, as no
other instrument is on. So steps of both are aligned by phase, the elapsed share of a step (0 to 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import intervals

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

BINS = 1000  # phases of a step that are distinguished
NO_KERNEL = "(no kernel)"


@dataclass(frozen=True)
class Profile:
    """The classes (names of rows), and the time of each up to each phase of a step.

    classes: one row per class. until: [BINS + 1, classes], the share of the step's time in which the class ran up to phase
    i / BINS; its last row adds up to 1. step_ns: the mean step of the kernels pass.
    """

    classes: pd.DataFrame
    until: Float
    step_ns: float

    def ran(self, starts: Int, ends: Int, steps_start: Int, steps_end: Int) -> Float:
        """Return the share of each class in each time from starts[i] to ends[i], [times, classes].

        steps_start, steps_end: the steps of one window, in order, each beginning where the one before ends.
        """
        length = (steps_end - steps_start).astype(float)
        begun = np.concatenate([[0.0], np.cumsum(length)])

        def had(at: Int) -> Float:
            step = np.clip(np.searchsorted(steps_start, at, side="right") - 1, 0, len(steps_start) - 1)
            phase = np.clip((at - steps_start[step]) / length[step], 0.0, 1.0) * BINS
            low = np.minimum(phase.astype(np.int64), BINS - 1)
            part = (phase - low)[:, None]
            inside = self.until[low] * (1 - part) + self.until[low + 1] * part
            return np.asarray(begun[step][:, None] * self.until[-1] + length[step][:, None] * inside)

        ran = had(ends) - had(starts)
        return np.asarray(ran / ran.sum(axis=1, keepdims=True))


def profile(kernels: pd.DataFrame, steps: pd.DataFrame, keys: list[str]) -> Profile:
    """Return the work at each phase of these steps, by the columns `keys` of the kernels (null is a class of its own).

    Kernels that run at once share the time equally; time without any is the class (no kernel). Raises EvidenceError if no kernel
    has a time in a step.
    """
    ordered = steps.sort_values("start_ns")
    start, end = (ordered[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
    timed = kernels[kernels["start_ns"].notna()]
    begun, over = (timed[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
    index, step, low, high = intervals.split_at(begun, over, start, end)
    if not len(index):
        raise EvidenceError("no kernel of this device has a time within a step: its energy cannot be split by layer")
    group = timed.iloc[index].groupby(keys, dropna=False, observed=True, sort=False)
    number = group.ngroup().to_numpy()
    classes = group.size().reset_index()[keys].astype("string")
    length = (end - start).astype(float)
    weight = intervals.shares(low, high) / (high - low)
    first, last = (low - start[step]) / length[step], (high - start[step]) / length[step]
    columns = [_ramps(first[number == c], last[number == c], weight[number == c]) for c in range(len(classes))]
    until = np.stack(columns, axis=1) / len(start)
    busy = np.minimum(np.diff(until.sum(axis=1)), 1.0 / BINS)
    rest = np.concatenate([[0.0], np.cumsum(1.0 / BINS - busy)])
    whole = np.concatenate([until, rest[:, None]], axis=1) if rest[-1] > 0 else until
    if rest[-1] > 0:
        classes.loc[len(classes)] = [NO_KERNEL] * len(keys)
    return Profile(classes.fillna("unknown"), whole / whole[-1].sum(), float(length.mean()))


def _ramps(first: Float, last: Float, weight: Float) -> Float:
    """Return for each phase how much of these weighted pieces lies before it."""
    grid = np.arange(BINS + 1) / BINS
    return np.maximum(_risen(grid, first, weight) - _risen(grid, last, weight), 0.0)


def _risen(grid: Float, at: Float, weight: Float) -> Float:
    """Return the sum over all i of weight[i] * max(0, grid - at[i])."""
    order = np.argsort(at, kind="stable")
    count = np.searchsorted(at[order], grid, side="right")
    heavy = np.concatenate([[0.0], np.cumsum(weight[order])])
    moment = np.concatenate([[0.0], np.cumsum(weight[order] * at[order])])
    return np.asarray(grid * heavy[count] - moment[count])
