"""Corrects the clocks of ranks by the ends of collectives, which all ranks leave together.

The offset of a rank is the median, over collectives, of its end minus the mean end of all (as nsys-jax does). Where everybody
depends on everybody no rank ends before all have begun: clocks that say so beyond their uncertainty are wrong, or matching is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
DEPENDENT = ("all-reduce", "all-gather", "all-to-all")


@dataclass(frozen=True)
class Clocks:
    """offsets_ns: of each rank, local minus corrected time. uncertainty_ns: half of the median spread of corrected ends.

    apart_ns: median spread of the ends before correction. impossible: collectives of DEPENDENT that a rank ends before another
    begins, by more than the uncertainty.
    """

    offsets_ns: Int
    uncertainty_ns: int
    apart_ns: int
    impossible: int


def clocks(start_ns: Int, end_ns: Int, dependent: npt.NDArray[np.bool_]) -> Clocks:
    """Return the clocks of ranks. start_ns, end_ns: [collectives, ranks], local; dependent: which are of DEPENDENT."""
    base = end_ns.min()  # times since an epoch are too large for exact means
    ends = end_ns - base
    offsets = np.rint(np.median(ends - ends.mean(axis=1, keepdims=True), axis=0)).astype(np.int64)
    corrected = ends - offsets
    spread = corrected.max(axis=1) - corrected.min(axis=1)
    uncertainty = int(np.ceil(np.median(spread) / 2))
    last_start = (start_ns - base - offsets).max(axis=1)
    impossible = int(((corrected.min(axis=1) + 2 * uncertainty < last_start) & dependent).sum())
    return Clocks(offsets, uncertainty, int(np.median(ends.max(axis=1) - ends.min(axis=1))), impossible)
