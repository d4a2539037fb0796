"""Estimates of cells per step from many windows, and intervals that are honest about where the noise comes from.

A cell's estimate is its mean over whole windows, so that cells add up to the mean of those windows. Where a clean pass tells
what a step takes when nothing is recorded, only the half of the windows closest to it is used: the others were disturbed, by
the recording or by the machine.

An interval is a bootstrap over restarts first and windows second, with both sides' windows of one turn drawn together (see
analysis.statistics). With few restarts that is too narrow, because three draws hardly show how much restarts differ: so it is
widened to the interval of Student's t over the restarts' own estimates, where that is wider.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.statistics import CONFIDENCE

RESAMPLES = 1000

# Student's t at 97.5% by degrees of freedom: no library that has it is needed for one column of a printed table
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_T_MANY = 2.0

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


def closest_half(wall_ns: Float, target_ns: float, counts: Int) -> Float:
    """Return the weights of windows in a mean: the half of them (by `counts`, how often each is there) closest to the target.

    counts: [windows], or [draws, windows] for many draws at once; the weights of each draw add up to 1.
    """
    order = np.argsort(np.abs(wall_ns - target_ns), kind="stable")
    drawn = np.atleast_2d(counts)[:, order].astype(float)
    reached = np.cumsum(drawn, axis=1)
    half = np.ceil(reached[:, -1:] / 2)
    kept = np.clip(half - (reached - drawn), 0, drawn)
    weights = np.zeros_like(kept)
    weights[:, order] = kept / np.maximum(kept.sum(axis=1, keepdims=True), 1)
    return np.asarray(weights if counts.ndim == 2 else weights[0], dtype=np.float64)


@dataclass(frozen=True)
class Turns:
    """The windows that both sides have, paired: rows of each side's table of windows, and each pair's restart (0, 1, ...)."""

    a: Int
    b: Int
    restart: Int

    @property
    def restarts(self) -> int:
        """How many restarts there are."""
        return int(self.restart.max()) + 1 if len(self.restart) else 0

    def draws(self, count: int, seed: int = 0) -> Int:
        """Return how often each pair is drawn, [count, pairs]: restarts with replacement, then as many of their windows."""
        random = np.random.default_rng(seed)
        groups = [np.flatnonzero(self.restart == number) for number in range(self.restarts)]
        drawn = np.zeros((count, len(self.restart)), dtype=np.int64)
        for row in drawn:
            for number in random.integers(0, len(groups), len(groups)):
                group = groups[number]
                np.add.at(row, group[random.integers(0, len(group), len(group))], 1)
        return drawn

    def of_restart(self, number: int) -> Int:
        """Return the counts that choose one restart only."""
        return np.asarray(self.restart == number, dtype=np.int64)


def paired(a: pd.DataFrame, b: pd.DataFrame) -> Turns:
    """Pair windows by restart and window: neighbours in time where the sides took turns, else at least as many of each."""
    left = a[["restart", "window"]].assign(a=np.arange(len(a)))
    right = b[["restart", "window"]].assign(b=np.arange(len(b)))
    for table in (left, right):  # ranks, so that sides that number their windows in another way find each other
        table["window"] = table.groupby("restart").cumcount()
        table["restart"] = pd.factorize(table["restart"])[0]
    both = left.merge(right, on=["restart", "window"])
    return Turns(both["a"].to_numpy(), both["b"].to_numpy(), both["restart"].to_numpy(np.int64))


def interval(estimate: float, samples: Float, by_restart: Float) -> tuple[int, int]:
    """Return the interval (95%) of an estimate from its bootstrap samples and from the restarts' own estimates."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail])
    count = len(by_restart)
    if count > 1:
        t = _T[count - 2] if count - 2 < len(_T) else _T_MANY
        reach = t * float(np.std(by_restart, ddof=1)) / count**0.5
        low, high = min(low, estimate - reach), max(high, estimate + reach)
    return round(float(min(low, estimate))), round(float(max(high, estimate)))
