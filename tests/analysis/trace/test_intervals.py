"""Interval arithmetic against a brute-force count of every instant."""

import random

import numpy as np
import pytest

from kernelscope.analysis.trace import intervals

SPAN = 60


def _grow(rng, low, high, depth, thread, out):
    out.append((thread, low, high))
    position = low
    while depth and position < high - 1:
        start = rng.randint(position, high - 1)
        end = rng.randint(start, high)
        if end > start and rng.random() < 0.7:
            _grow(rng, start, end, depth - 1, thread, out)
        position = max(end, start + 1) + rng.randint(0, 2)


def _random_trees(seed):
    rng = random.Random(seed)
    out = []
    for thread in range(2):
        _grow(rng, 0, rng.randint(1, SPAN), 3, thread, out)
    rng.shuffle(out)
    table = np.array(out, dtype=np.int64)
    return table[:, 0], table[:, 1], table[:, 2], rng


@pytest.mark.parametrize("seed", range(40))
def test_leaves_give_each_instant_to_the_innermost_interval(seed):
    thread, start, end, _ = _random_trees(seed)
    owner, piece_start, piece_end = intervals.leaves(thread, start, end)
    owned = {}
    for index, first, last in zip(owner, piece_start, piece_end, strict=True):
        for instant in range(first, last):
            key = (thread[index], instant)
            assert key not in owned, "an instant of a thread has two owners"
            owned[key] = (start[index], end[index])
    for number in range(2):
        for instant in range(SPAN):
            open_now = [(s, e) for t, s, e in zip(thread, start, end, strict=True) if t == number and s <= instant < e]
            innermost = max(open_now, key=lambda pair: (pair[0], -pair[1])) if open_now else None
            assert owned.get((number, instant)) == innermost


@pytest.mark.parametrize("seed", range(40))
def test_shares_split_each_instant_equally_among_the_active(seed):
    _, start, end, _ = _random_trees(seed)
    expected = np.zeros(len(start))
    for instant in range(SPAN):
        active = [i for i in range(len(start)) if start[i] <= instant < end[i]]
        for index in active:
            expected[index] += 1 / len(active)
    assert np.allclose(intervals.shares(start, end), expected)


@pytest.mark.parametrize("seed", range(40))
def test_uncovered_are_the_instants_of_the_windows_in_which_nothing_is_active(seed):
    _, start, end, rng = _random_trees(seed)
    edges = sorted(rng.sample(range(-5, SPAN + 5), 6))
    window_start, window_end = np.array(edges[::2]), np.array(edges[1::2])
    kept = np.array([rng.random() < 0.3 for _ in start])
    gaps = intervals.uncovered(start[kept], end[kept], window_start, window_end)
    found = [instant for low, high in zip(*gaps, strict=True) for instant in range(low, high)]
    expected = [
        instant for low, high in zip(window_start, window_end, strict=True) for instant in range(low, high)
        if not any(s <= instant < e for s, e in zip(start[kept], end[kept], strict=True))
    ]  # fmt: skip
    assert found == expected


@pytest.mark.parametrize("seed", range(20))
def test_innermost_at_any_time_and_thread(seed):
    thread, start, end, rng = _random_trees(seed)
    at_thread = np.array([rng.randint(0, 2) for _ in range(50)])
    at = np.array([rng.randint(-2, SPAN + 2) for _ in range(50)])
    found = intervals.innermost(thread, start, end, at_thread, at)
    for where, when, index in zip(at_thread, at, found, strict=True):
        open_now = [(s, -e) for t, s, e in zip(thread, start, end, strict=True) if t == where and s <= when < e]
        assert (index == -1) == (not open_now)
        if open_now:
            assert (start[index], -end[index]) == max(open_now)


def _stack_answers(thread, start, end, at_thread, at):
    """The innermost open interval by going through the stack's events one by one."""
    order = sorted(range(len(start)), key=lambda i: (start[i], -end[i], i))
    answers = []
    for where, when in zip(at_thread, at, strict=True):
        open_now = [i for i in order if thread[i] == where and start[i] <= when < end[i]]
        answers.append(open_now[-1] if open_now else -1)
    return answers


@pytest.mark.parametrize("shift", [0, 5_000, 1_700_000_000_000_000_000])
@pytest.mark.parametrize("seed", range(30))
def test_ties_moments_and_wild_times_are_looked_up_like_a_stack(seed, shift):
    thread, start, end, rng = _random_trees(seed)
    again = np.array([rng.random() < 0.3 for _ in thread])  # the same interval twice: the second is inside the first
    moments = start[: rng.randint(0, len(start))]
    thread = np.concatenate([thread, thread[again], thread[: len(moments)]]) * 10**9
    start, end = np.concatenate([start, start[again], moments]) + shift, np.concatenate([end, end[again], moments]) + shift
    if seed % 3 == 0:  # a row whose clock was never set
        thread, start, end = np.append(thread, 7), np.append(start, 0), np.append(end, 1)
    at = np.array([rng.randint(-2, SPAN + 2) for _ in range(60)]) + shift
    at_thread = np.array([rng.choice([0, 1, 2, 10**9]) for _ in at])
    assert intervals.innermost(thread, start, end, at_thread, at).tolist() == _stack_answers(thread, start, end, at_thread, at)
    found = intervals.parents(thread, start, end)
    for row, parent in enumerate(found):
        around = [
            i for i in range(len(start))
            if thread[i] == thread[row] and end[i] > start[i] and i != row
            and (start[i] <= start[row] and end[row] <= end[i] and (end[row] > start[row] or start[row] < end[i]))
            and (start[i], -end[i], i) < (start[row], -end[row], row)
        ]  # fmt: skip
        expected = max(around, key=lambda i: (start[i], -end[i], i)) if around else -1
        assert parent == expected, (row, parent, expected)


def test_an_interval_that_outlasts_its_enclosing_one_by_clock_error_still_nests():
    thread, start, end = np.zeros(3, dtype=np.int64), np.array([0, 10, 20]), np.array([100, 50, 55])
    assert intervals.parents(thread, start, end).tolist() == [-1, 0, 1]
    owner, piece_start, piece_end = intervals.leaves(thread, start, end)
    assert (piece_end - piece_start).sum() == 100
    assert not set(zip(owner, piece_start, piece_end, strict=True)) - set(zip(owner, piece_start, piece_end, strict=True))


def test_split_at_cuts_by_windows_and_drops_what_is_outside():
    index, window, start, end = intervals.split_at(
        np.array([0, 5, 25, 40]), np.array([4, 22, 28, 50]), np.array([3, 10, 20]), np.array([8, 15, 30])
    )
    pieces = list(zip(index.tolist(), window.tolist(), start.tolist(), end.tolist(), strict=True))
    assert pieces == [(0, 0, 3, 4), (1, 0, 5, 8), (1, 1, 10, 15), (1, 2, 20, 22), (2, 2, 25, 28)]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_reaching_are_those_with_an_instant_in_a_window(seed, ordered):
    _, start, end, rng = _random_trees(seed)
    if ordered:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    edges = sorted(rng.sample(range(-5, SPAN + 5), rng.choice([0, 2, 8])))
    low, high = np.array(edges[::2], dtype=np.int64), np.array(edges[1::2], dtype=np.int64)
    expected = [any(max(a, s) < min(b, e) for a, b in zip(low, high, strict=True)) for s, e in zip(start, end, strict=True)]
    assert intervals.reaching(start, end, low, high).tolist() == expected


@pytest.mark.parametrize("seed", range(30))
def test_apportion_keeps_the_sum_and_stays_within_one(seed):
    rng = np.random.default_rng(seed)
    parts = rng.exponential(size=rng.integers(1, 200)) * rng.integers(0, 2, 1)[0] + rng.random()
    total = int(rng.integers(0, 10**9))
    whole = intervals.apportion(parts, total)
    assert whole.sum() == total
    assert (whole >= 0).all()
    assert (np.abs(whole - parts * total / parts.sum()) <= 1).all()


def test_nothing_in_nothing_out():
    nothing = np.empty(0, dtype=np.int64)
    assert len(intervals.parents(nothing, nothing, nothing)) == 0
    assert len(intervals.leaves(nothing, nothing, nothing)[0]) == 0
    assert intervals.innermost(nothing, nothing, nothing, np.array([1]), np.array([1])).tolist() == [-1]
    assert len(intervals.apportion(np.empty(0), 5)) == 0
