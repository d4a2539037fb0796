"""Step times as medians over windows, with intervals that include the noise between processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

RESAMPLES = 1000
CONFIDENCE = 0.95
# Student's t at 97.5% by degrees of freedom: one column of a table does not justify another library
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_T_MANY = 2.0

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


def interval_of_median(repeats: Sequence[pd.DataFrame]) -> tuple[int, int] | None:
    """Return the bootstrap interval (95%) of the median step time in ns; None with fewer than two restarts.

    repeats: the measured steps of each restart, with columns window, start_ns and end_ns. Restarts are resampled first and
    windows within them second, as much of the noise is per process: resampling only windows gives intervals that are far too
    narrow. Source: the two-stage (cluster) bootstrap, Davison and Hinkley, Bootstrap Methods, 1997, section 3.8.
    """
    return _bootstrap([window_means(steps).to_numpy(dtype=float) for steps in repeats])


class Difference(NamedTuple):
    """How much longer a step of one side takes, in ns, and the interval (95%) of the difference, if any.

    Between sides it is the difference of the medians over windows.
    """

    median_ns: int
    interval_ns: tuple[int, int] | None

    @property
    def significant(self) -> bool | None:
        """Whether it exceeds the detection limit, so that the interval excludes zero; None if there is no interval."""
        limit = self.detection_limit_ns
        return None if limit is None else abs(self.median_ns) > limit

    @property
    def detection_limit_ns(self) -> int | None:
        """How far the interval reaches from the difference towards zero: these recordings cannot show smaller differences."""
        if self.interval_ns is None:
            return None
        below, above = self.median_ns - self.interval_ns[0], self.interval_ns[1] - self.median_ns
        return below if self.median_ns > 0 else above if self.median_ns < 0 else max(below, above)


def paired_difference(repeats: Sequence[pd.DataFrame], base: Sequence[pd.DataFrame]) -> Difference | None:
    """Return how much slower `repeats` are than `base`, both the measured steps of each restart of one session.

    Windows of the same number ran next to each other, so they are drawn together: the machine's drift is in both and cancels in
    their difference. None if no window has a partner.
    """
    both = [_joined(mine, other) for mine, other in zip(repeats, base, strict=False)]
    table = pd.concat([pair.assign(restart=number) for number, pair in enumerate(both)], ignore_index=True)
    if table.empty:
        return None
    ends = [median_step_ns(base), median_step_ns(repeats)]
    restart = pd.factorize(table["restart"])[0].astype(np.int64)
    turns = Turns(np.arange(len(table)), np.arange(len(table)), restart)
    if turns.restarts < 2:
        return Difference(ends[1] - ends[0], None)
    draws, alone = (
        np.array([[np.median(np.repeat(table[side], count)) for side in ("other", "mine")] for count in counts])
        for counts in (turns.draws(RESAMPLES), turns.each_restart())
    )
    low, high = interval(ends[1] - ends[0], draws[:, 1] - draws[:, 0], np.zeros(0))
    least, most = _between_restarts(ends[0], ends[1], alone)
    return Difference(ends[1] - ends[0], (min(low, least), max(high, most)))


def _between_restarts(base_ns: int, mine_ns: int, medians: Float) -> tuple[int, int]:
    """Return the interval (95%) of a difference by Student's t over the logarithms of the restarts' ratios.

    medians: [restarts, 2], of the base and of the other side. A slower process is slower by a factor in most of its parts, so
    ratios, not differences, spread evenly.
    """
    ratios = np.log(medians[:, 1] / medians[:, 0])
    reach = student_t(len(ratios)) * float(np.std(ratios, ddof=1)) / len(ratios) ** 0.5
    middle = float(np.log(mine_ns / base_ns))
    low, high = (base_ns * (np.exp(min(middle + end, 30.0)) - 1.0) for end in (-reach, reach))
    return round(float(low)), round(float(high))


def reach_of_difference(a: Float, b: Float) -> float | None:
    """Return how far the difference of the means of two series may be off (95%), in their unit; None if both have one value.

    A series of one value is taken to vary like the other one.
    """
    known = [series for series in (a, b) if len(series) > 1]
    if not known:
        return None
    spread = [float(np.var(series, ddof=1)) for series in known]
    variances = spread if len(known) > 1 else spread * 2
    error = float(sum(variance / len(series) for variance, series in zip(variances, (a, b), strict=True)))
    return float(student_t(sum(len(series) - 1 for series in known) + 1) * error**0.5)


def student_t(count: int) -> float:
    """Return Student's t at 97.5% for the mean of this number of values (two or more)."""
    return _T[count - 2] if count - 2 < len(_T) else _T_MANY


def _joined(mine: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the means of the windows that both have."""
    return pd.DataFrame({"mine": window_means(mine), "other": window_means(other)}).dropna()


class Turns(NamedTuple):
    """The windows that two sides have, paired: rows of each side's table of windows, and each pair's restart (0, 1, ...)."""

    a: Int
    b: Int
    restart: Int

    @property
    def restarts(self) -> int:
        """The number of restarts."""
        return int(self.restart.max()) + 1 if len(self.restart) else 0

    def draws(self, count: int) -> Int:
        """Return how often each pair is drawn, [count, pairs]: restarts with replacement, then as many of their windows."""
        random = np.random.default_rng(0)
        groups = [np.flatnonzero(self.restart == number) for number in range(self.restarts)]
        drawn = np.zeros((count, len(self.restart)), dtype=np.int64)
        for row in drawn:
            for number in random.integers(0, len(groups), len(groups)):
                group = groups[number]
                np.add.at(row, group[random.integers(0, len(group), len(group))], 1)
        return drawn

    def each_restart(self) -> Int:
        """Return the counts that choose one restart only, [restarts, pairs]."""
        return np.stack([(self.restart == number).astype(np.int64) for number in range(self.restarts)])


def interval(estimate: float, samples: Float, by_restart: Float) -> tuple[int, int]:
    """Return the interval (95%) of an estimate, from its bootstrap samples and from the restarts' own estimates.

    A bootstrap over three restarts hardly shows how much restarts differ, so its interval is widened to that of Student's t over
    the restarts' estimates if that is wider.
    """
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail])
    count = len(by_restart)
    if count > 1:
        reach = student_t(count) * float(np.std(by_restart, ddof=1)) / count**0.5
        low, high = min(low, estimate - reach), max(high, estimate + reach)
    return round(float(min(low, estimate))), round(float(max(high, estimate)))


def _bootstrap(restarts: Sequence[npt.NDArray[np.floating[Any]]]) -> tuple[int, int] | None:
    if len(restarts) < 2:
        return None
    random = np.random.default_rng(0)
    medians = np.empty(RESAMPLES)
    for number in range(RESAMPLES):
        chosen = random.integers(0, len(restarts), len(restarts))
        picked = [restarts[i][random.integers(0, len(restarts[i]), len(restarts[i]))] for i in chosen]
        medians[number] = np.median(np.concatenate(picked))
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    return round(float(low)), round(float(high))


def window_means(steps: pd.DataFrame) -> pd.Series[float]:
    """Return the mean step time in ns of each window of one restart.

    A window is the smallest unit whose time is certain: if work is queued, a step's end is not the end of its work, but a window
    ends only when all of its work is done.
    """
    durations = steps["end_ns"] - steps["start_ns"]
    return durations.groupby(steps["window"]).mean()


def mean_step_ns(steps: pd.DataFrame) -> int | None:
    """Return the mean step time in ns, rounded to an integer; None without steps."""
    if steps.empty:
        return None
    return round(int((steps["end_ns"] - steps["start_ns"]).sum()) / len(steps))


def median_step_ns(repeats: Sequence[pd.DataFrame]) -> int:
    """Return the median step time in ns over the windows of all restarts, each the measured steps of one."""
    return round(float(pd.concat([window_means(steps) for steps in repeats]).median()))
