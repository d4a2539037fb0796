"""Programs that change: steps of one loop, then of another one, whose times no single number represents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_LEAST = 4  # steps of a part: fewer may be slow ones of a single loop
_APART = 2.0  # least ratio of the parts' medians
_WITHIN, _MOSTLY = 1.5, 0.9  # most steps of a part are within this factor of its median


@dataclass(frozen=True)
class Change:
    """Where steps change. first: the first step of the second part, counted from 1. before_ns, after_ns: medians of the parts."""

    first: int
    before_ns: int
    after_ns: int


def change(lengths: npt.NDArray[np.int64]) -> Change | None:
    """Return where the times of steps, in order, change once and for good; None if they do not.

    The steps are divided where the sum of squared deviations of logarithms within both parts is least (binary segmentation: Scott
    and Knott, A cluster analysis method for grouping means in the analysis of variance, Biometrics 30, 1974).
    """
    count = len(lengths)
    if count < 2 * _LEAST or lengths.min() <= 0:
        return None
    logs = np.log(lengths.astype(float))
    size = np.arange(_LEAST, count - _LEAST + 1)
    sums, squares = logs.cumsum(), (logs**2).cumsum()
    left = squares[size - 1] - sums[size - 1] ** 2 / size
    right = squares[-1] - squares[size - 1] - (sums[-1] - sums[size - 1]) ** 2 / (count - size)
    at = int(size[np.argmin(left + right)])
    before, after = (float(np.median(part)) for part in (lengths[:at], lengths[at:]))
    if max(before, after) < _APART * min(before, after):
        return None
    alike = all(
        np.mean(np.abs(np.log(part / middle)) < np.log(_WITHIN)) >= _MOSTLY
        for part, middle in ((lengths[:at], before), (lengths[at:], after))
    )
    return Change(at + 1, round(before), round(after)) if alike else None
