"""The dynamic programming against a search through all alignments."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.explain.sequences import GAP, NEVER, Move, best


def exhaustive(moves: list[Move], rows: int, columns: int, gap: float) -> float:
    """Return the best score there is, by trying everything."""
    worth = [move.worth() for move in moves]

    @cache
    def score(i: int, j: int) -> float:
        if i == j == 0:
            return 0.0
        options = [score(i - 1, j) - gap] if i else []
        options += [score(i, j - 1) - gap] if j else []
        for move, value in zip(moves, worth, strict=True):
            if i >= move.height and j >= move.width:
                options.append(score(i - move.height, j - move.width) + float(value[i - 1, j - 1]))
        return max(options)

    return score(rows, columns)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_alignment_is_better(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
    values = st.sampled_from([float("nan"), 0.0, 0.2, 0.5, 0.9, 1.0])
    moves = []
    for height, width in ((1, 1), (2, 1), (3, 1), (1, 2)):
        flat = data.draw(st.lists(values, min_size=rows * columns, max_size=rows * columns))
        moves.append(Move(height, width, np.array(flat, dtype=float).reshape(rows, columns)))
    steps = best(moves, np.full(rows, GAP), np.full(columns, GAP))
    assert [n for step in steps for n in step[0]] == list(range(rows))
    assert [n for step in steps for n in step[1]] == list(range(columns))
    by_size = {(move.height, move.width): move.worth() for move in moves}
    found = sum(-GAP if not (a and b) else float(by_size[len(a), len(b)][a[-1], b[-1]]) for a, b in steps)
    assert found == pytest.approx(exhaustive(moves, rows, columns, GAP), abs=1e-6)


def test_anchors_hold_whatever_is_alike() -> None:
    alike = np.array([[0.0, 1.0], [1.0, 0.0]])
    kept = Move(1, 1, alike).keeping([(0, 0)], [])
    gaps = np.array([NEVER, GAP])
    assert best([kept], gaps, gaps)[0] == (range(1), range(1))


def test_a_group_may_join_an_anchor_unless_it_is_fixed() -> None:
    pair, group = np.array([[0.9], [0.1]]), np.array([[np.nan], [0.95]])
    gaps = np.array([NEVER, GAP]), np.array([NEVER])
    for fixed, steps in (([], [(range(2), range(1))]), ([(0, 0)], [(range(1), range(1)), (range(1, 2), range(1, 1))])):
        moves = [Move(1, 1, pair).keeping([(0, 0)], fixed), Move(2, 1, group).keeping([(0, 0)], fixed)]
        assert best(moves, *gaps) == steps
