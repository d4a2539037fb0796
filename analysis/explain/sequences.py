"""The best alignment of two sequences by dynamic programming: pairs and groups in order, and gaps.

S. B. Needleman and C. D. Wunsch, J. Mol. Biol. 48 (1970), with one cost for each element left out, and with moves that take
several elements of one sequence at once. A whole row of the table is computed at once, so hundreds of elements take no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GAP = 0.15  # cost of an element left out; a pair is worth 2 * likeness - 1, so with a likeness under 0.35 two gaps are better
GROUPED = 0.02  # a group costs as much as leaving out its further elements, less this: its evidence decides
NEVER = 1e6

Step = tuple[range, range]  # positions in A and in B that correspond; one of them empty: a gap


@dataclass(frozen=True)
class Move:
    """`height` consecutive elements of A for `width` of B. alike[i, j]: how alike they are, ending at i and j; NaN: forbidden."""

    height: int
    width: int
    alike: npt.NDArray[np.float64]

    def worth(self) -> npt.NDArray[np.float64]:
        """Return what the move adds to the alignment's score."""
        more = self.height + self.width - 2
        worth = 2.0 * self.alike - 1.0 - GAP * more + (GROUPED if more else 0.0)
        return np.where(np.isnan(worth), -np.inf, worth)

    def keeping(self, anchors: Sequence[tuple[int, int]], fixed: Sequence[tuple[int, int]]) -> Move:
        """Return the move without what would separate anchored pairs: an anchored element goes with its partner.

        fixed: the anchors that nothing may join.
        """
        marked = np.zeros(self.alike.shape[0], dtype=bool), np.zeros(self.alike.shape[1], dtype=bool)
        covering = np.zeros(self.alike.shape, dtype=np.int64)
        forbidden = np.zeros(self.alike.shape, dtype=bool)
        for x, y in anchors:
            marked[0][x] = marked[1][y] = True
            covering[x : x + self.height, y : y + self.width] += 1
        for x, y in fixed if self.height + self.width > 2 else ():
            forbidden[x : x + self.height, y : y + self.width] = True
        inside = _within(marked[0], self.height)[:, None], _within(marked[1], self.width)[None, :]
        allowed = (inside[0] == covering) & (inside[1] == covering) & ~forbidden
        return Move(self.height, self.width, np.where(allowed, self.alike, np.nan))


def _within(marks: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.int64]:
    """Return, for each position, how many marks are in the window of this size that ends there."""
    sums = np.concatenate([np.zeros(size, dtype=np.int64), np.cumsum(marks)])
    return np.asarray(sums[size:] - sums[:-size])


def best(moves: Sequence[Move], gap_a: npt.NDArray[np.float64], gap_b: npt.NDArray[np.float64]) -> list[Step]:
    """Return the alignment with the highest score from first to last elements; gap_*: the cost of leaving each out."""
    rows, columns = len(gap_a), len(gap_b)
    worth = [move.worth() for move in moves]
    score = np.empty((rows + 1, columns + 1))
    taken = np.empty((rows + 1, columns + 1), dtype=np.int16)  # number of the move; then a gap in B, a gap in A
    left = np.concatenate([[0.0], np.cumsum(gap_b)])
    for row in range(rows + 1):
        here = np.full(columns + 1, -np.inf) if row else np.concatenate([[0.0], np.full(columns, -np.inf)])
        which = np.full(columns + 1, -1, dtype=np.int16)
        for number, move in enumerate(moves):
            if row >= move.height and columns >= move.width:
                value = score[row - move.height, : columns + 1 - move.width] + worth[number][row - 1, move.width - 1 :]
                better = value > here[move.width :]
                here[move.width :][better] = value[better]
                which[move.width :][better] = number
        if row:
            value = score[row - 1] - gap_a[row - 1]
            which[value > here] = len(moves)
            here = np.maximum(here, value)
        along = np.maximum.accumulate(here + left) - left
        which[along > here + 1e-9] = len(moves) + 1
        score[row], taken[row] = np.maximum(along, here), which
    return _traced(taken, moves)


def _traced(taken: npt.NDArray[np.int16], moves: Sequence[Move]) -> list[Step]:
    """Return the steps that lead to the table's last cell."""
    sizes = [(move.height, move.width) for move in moves] + [(1, 0), (0, 1)]
    row, column = taken.shape[0] - 1, taken.shape[1] - 1
    steps = []
    while row or column:
        height, width = sizes[taken[row, column]]
        steps.append((range(row - height, row), range(column - width, column)))
        row, column = row - height, column - width
    return steps[::-1]
