"""Clocks of ranks that run at different rates: the longer a recording, the farther the ends of a collective come apart.

A rank's rate is the median of the slopes between pairs of collectives, of its end against the mean end of all ranks (Theil, A
rank-invariant method of linear and polynomial regression analysis, 1950; Sen, Journal of the American Statistical Association 63,
1968), so that collectives that were matched wrongly do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.ranks.recording import RankRecording

Float = npt.NDArray[np.float64]

_LEAST, _MOST = 20, 60  # collectives: fewer do not tell a rate, more do not improve it
_CLOSER = 0.5  # of the distance of ends: a rate is one only if it brings them so close
_TIMES = ("start_ns", "end_ns", "posted_ns")


def rates(end_ns: Any) -> Float | None:
    """Return how much faster than the mean each rank's clock runs, in ns per ns; None if no difference shows.

    end_ns: [collectives, ranks], by each rank's clock, masked where a rank is not in a collective. Only collectives of all ranks
    count.
    """
    ends = np.ma.masked_array(end_ns)
    whole = ends[~np.ma.getmaskarray(ends).any(axis=1)].data
    if len(whole) < _LEAST or whole.shape[1] < 2:
        return None
    whole = whole[np.argsort(whole[:, 0])]
    chosen = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), _MOST)).astype(np.int64))
    times = (whole[chosen] - whole[0]).astype(float)  # by each clock since the first collective
    mean = times.mean(axis=1)
    apart = times - mean[:, None]
    first, second = np.triu_indices(len(chosen), 1)
    distance = (mean[second] - mean[first])[:, None]
    found: Float = np.median((apart[second] - apart[first]) / np.maximum(distance, 1.0), axis=0)
    return found if _spread(apart - found * mean[:, None]) < _CLOSER * _spread(apart) else None


def _spread(apart: Float) -> float:
    """Return the median distance of the ends of a collective, once each rank has its usual place."""
    centred = apart - np.median(apart, axis=0)
    return float(np.median(centred.max(axis=1) - centred.min(axis=1)))


def steadied(one: RankRecording, rate: float, since_ns: int) -> RankRecording:
    """Return a rank with its times since a moment as a clock of the mean rate gives them; durations hardly change."""

    def table(name: str) -> pd.DataFrame:
        rows = one.table(name)
        return rows.assign(**{key: _at(rows[key], rate, since_ns) for key in _TIMES if key in rows})

    first, last = (int(_at(pd.Series([at]), rate, since_ns).iloc[0]) for at in one.window_ns)
    return replace(one, window_ns=(first, last), table=table)


def _at(times: pd.Series, rate: float, since_ns: int) -> pd.Series:
    """Return times without the drift, null if unknown."""
    off = (times.astype("Float64").sub(float(since_ns)) * rate).round().astype("Int64")
    return (times - off).astype(times.dtype)


def all_steadied(ranks: Sequence[RankRecording], end_ns: Any) -> tuple[list[RankRecording], float]:
    """Return the ranks without the drift of their clocks, and the largest difference of two rates; 0 if none shows."""
    found = rates(end_ns) if len(end_ns) else None
    if found is None:
        return list(ranks), 0.0
    since = [int(column) for column in np.ma.masked_array(end_ns).min(axis=0)]
    steady = [steadied(one, float(rate), at) for one, rate, at in zip(ranks, found, since, strict=True)]
    return steady, float(found.max() - found.min())
