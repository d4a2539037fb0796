"""Medians and intervals of step times, honest about where the noise comes from."""

from __future__ import annotations

from collections.abc import Sequence

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
    if len(repeats) < 2:
        return None
    windows = [_window_medians(steps) for steps in repeats]
    random = np.random.default_rng(seed)
    medians = np.empty(RESAMPLES)
    for number in range(RESAMPLES):
        chosen = random.integers(0, len(windows), len(windows))
        picked = [windows[i][random.integers(0, len(windows[i]), len(windows[i]))] for i in chosen]
        medians[number] = np.median(np.concatenate(picked))
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    return round(float(low)), round(float(high))


def _window_medians(steps: pd.DataFrame) -> npt.NDArray[np.float64]:
    durations = steps["end_ns"] - steps["start_ns"]
    return durations.groupby(steps["window"]).median().to_numpy(dtype=float)
