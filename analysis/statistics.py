"""Step times as medians over windows, with intervals that are honest about where the noise comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

RESAMPLES = 2000
CONFIDENCE = 0.95


def interval_of_median(repeats: Sequence[pd.DataFrame], seed: int = 0) -> tuple[int, int] | None:
    """Return the bootstrap interval (95%) of the median step time in ns; None with fewer than two restarts.

    repeats: the measured steps of each restart, with columns window, start_ns and end_ns. Restarts are resampled first and
    windows within them second, because much of the noise is per process: resampling windows alone gives intervals that are
    far too narrow. Source: the two-stage (cluster) bootstrap, Davison and Hinkley, Bootstrap Methods, 1997, section 3.8.
    """
    return _bootstrap([window_means(steps).to_numpy(dtype=float) for steps in repeats], seed)


@dataclass(frozen=True)
class Difference:
    """How much longer a step of one side takes, in ns: median of paired windows, and its interval where there is one."""

    median_ns: int
    interval_ns: tuple[int, int] | None

    @property
    def significant(self) -> bool | None:
        """Whether the interval excludes zero; None when there is no interval."""
        return None if self.interval_ns is None else not self.interval_ns[0] <= 0 <= self.interval_ns[1]

    @property
    def detection_limit_ns(self) -> int | None:
        """Half the interval's width: smaller differences cannot be seen under these conditions."""
        return None if self.interval_ns is None else round((self.interval_ns[1] - self.interval_ns[0]) / 2)


def paired_difference(repeats: Sequence[pd.DataFrame], base: Sequence[pd.DataFrame], seed: int = 0) -> Difference | None:
    """Return how much slower `repeats` are than `base`, both the measured steps of each restart of one session.

    Windows of the same number ran next to each other, so the machine's drift is in both and cancels in their difference.
    None when no window has a partner.
    """
    pairs = [
        (window_means(mine) - window_means(other)).dropna().to_numpy(dtype=float)
        for mine, other in zip(repeats, base, strict=False)
    ]
    pairs = [differences for differences in pairs if len(differences)]
    if not pairs:
        return None
    return Difference(round(float(np.median(np.concatenate(pairs)))), _bootstrap(pairs, seed))


def _bootstrap(restarts: Sequence[npt.NDArray[np.floating[Any]]], seed: int) -> tuple[int, int] | None:
    if len(restarts) < 2:
        return None
    random = np.random.default_rng(seed)
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

    A window is the smallest unit whose time is certain: where work is queued, a step's end is not the end of its work, but a
    window ends only when all of its work is done.
    """
    durations = steps["end_ns"] - steps["start_ns"]
    return durations.groupby(steps["window"]).mean()


def mean_step_ns(steps: pd.DataFrame) -> int | None:
    """Return the mean step time in ns, rounded to an integer; None without steps."""
    if steps.empty:
        return None
    return round(int((steps["end_ns"] - steps["start_ns"]).sum()) / len(steps))
