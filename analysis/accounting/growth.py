"""Whether steps get longer as a program goes on: data that it keeps from each step is processed again in the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_FEWEST = 20  # steps: fewer may rise by chance. The first quarter is left out: steps settle there, which hides growth
_AGREE = 0.65  # Kendall's tau; a machine that gets slower once, half way, gives 0.5, and noise alone seldom 0.3
_LONGER = 1.3  # times as long at the end as at the beginning
_MOST = 512  # steps that are compared with each other, evenly chosen if there are more


class Growth(NamedTuple):
    """first_ns, last_ns: medians of the second and the last quarter of the steps. steps: their number."""

    first_ns: int
    last_ns: int
    steps: int


def growth(repeats: Sequence[npt.NDArray[np.int64]]) -> Growth | None:
    """Return how steps get longer; None if they do not in every restart, or are too few to say.

    repeats: the times of each restart's measured steps, ns, in order. Source of the measure: Kendall, Biometrika 30 (1938),
    between a step's time and its place in order.
    """
    found = [_of_one(lengths) for lengths in repeats]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    first, last = (int(np.median([getattr(one, name) for one in known])) for name in ("first_ns", "last_ns"))
    return Growth(first, last, min(one.steps for one in known))


def _of_one(lengths: npt.NDArray[np.int64]) -> Growth | None:
    if len(lengths) < _FEWEST:
        return None
    quarter = len(lengths) // 4
    settled = lengths[quarter:]
    first, last = int(np.median(settled[:quarter])), int(np.median(settled[-quarter:]))
    if last < _LONGER * first or agreement(settled) < _AGREE:
        return None
    return Growth(first, last, len(lengths))


def agreement(values: npt.NDArray[np.int64]) -> float:
    """Return Kendall's tau between values and their order: 1 if each is larger than all before, 0 if there is no trend."""
    chosen = values[np.linspace(0, len(values) - 1, min(len(values), _MOST)).astype(np.int64)]
    earlier, later = np.triu_indices(len(chosen), 1)
    return float(np.sign(chosen[later] - chosen[earlier]).mean()) if len(earlier) else 0.0
