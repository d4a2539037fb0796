"""Split a track into rows in which intervals nest: viewers draw a track as a stack and lose intervals that cross."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]

DEEPEST = 500  # slices inside each other in a row: Perfetto draws no more than 512 levels


def lanes(track: Int, start: Int, end: Int) -> Int:
    """Return the row of each interval in its track, from 0, so that any two intervals of a row nest or are disjoint.

    Tracks whose intervals nest at most DEEPEST levels deep, which is nearly all, need one row and no loop. In the others each
    interval, the earliest first and of those the longest, goes to the first row where it fits.
    """
    found = np.zeros(len(track), dtype=np.int64)
    around = intervals.parents(track, start, end)
    crossing = (around >= 0) & (end > end[around])
    for number in np.unique(track[crossing | (intervals.depths(around) >= DEEPEST)]).tolist():
        rows = np.flatnonzero((track == number) & (end > start))
        rows = rows[np.lexsort((rows, -end[rows], start[rows]))]
        found[rows] = _fitted(start[rows].tolist(), end[rows].tolist())
    return found


def _fitted(starts: list[int], ends: list[int]) -> list[int]:
    rows: list[list[int]] = []  # for each row the ends of its open intervals, outermost first
    found = []
    for start, end in zip(starts, ends, strict=True):
        number = 0
        for opened in rows:
            while opened and opened[-1] <= start:
                opened.pop()
            if not opened or (opened[-1] >= end and len(opened) < DEEPEST):
                break
            number += 1
        if number == len(rows):
            rows.append([])
        rows[number].append(end)
        found.append(number)
    return found
