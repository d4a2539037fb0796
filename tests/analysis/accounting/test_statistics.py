"""Intervals of medians: wide when restarts differ, whatever the windows say."""

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.accounting.statistics import Difference, interval_of_median, paired_difference
from kernelscope.analysis.explain.model import Wall


def _repeat(level, seed, windows=8, steps=5):
    noise = np.random.default_rng(seed).normal(0, 0.01, windows * steps)
    durations = np.rint(level * (1 + noise)).astype(int)
    return pd.DataFrame({"window": np.repeat(np.arange(windows), steps), "start_ns": 0, "end_ns": durations})


def test_one_restart_gives_no_interval():
    assert interval_of_median([_repeat(1000, 1)]) is None


def test_the_interval_spans_restarts_that_disagree():
    low, high = interval_of_median([_repeat(30_000_000, 1), _repeat(36_000_000, 2), _repeat(33_000_000, 3)])
    assert low < 31_000_000
    assert high > 35_000_000


def test_restarts_that_agree_give_a_narrow_interval_around_the_median():
    low, high = interval_of_median([_repeat(30_000_000, seed) for seed in range(5)])
    assert 29_700_000 < low < 30_000_000 < high < 30_300_000


def _drifting(level, seed, windows=8, steps=5):
    """Steps whose speed drifts by half from window to window, alike for every side that ran at the time."""
    drift = np.repeat(1 + 0.5 * np.sin(np.arange(windows)), steps)
    frame = _repeat(level, seed, windows, steps)
    return frame.assign(end_ns=np.rint(frame["end_ns"] * drift).astype(int))


def test_pairing_sees_a_difference_that_drift_would_hide():
    base = [_drifting(10_000_000, seed) for seed in range(3)]
    slower = [_drifting(10_500_000, seed + 10) for seed in range(3)]
    difference = paired_difference(slower, base)
    assert difference.significant
    assert 300_000 < difference.median_ns < 700_000
    assert difference.interval_ns[0] <= difference.median_ns <= difference.interval_ns[1]


def test_the_same_against_itself_is_not_significant():
    difference = paired_difference([_repeat(10_000_000, s) for s in (1, 2, 3)], [_repeat(10_000_000, s) for s in (4, 5, 6)])
    assert difference.significant is False
    assert difference.detection_limit_ns > 0


@pytest.mark.parametrize(
    ("median", "interval", "limit", "significant"),
    [
        (14_000_000, (500_000, 30_700_000), 13_500_000, True),  # half the width is 15.1 ms
        (-14_000_000, (-30_700_000, -500_000), 13_500_000, True),
        (14_000_000, (-500_000, 16_000_000), 14_500_000, False),
        (14_000_000, (0, 16_000_000), 14_000_000, False),
        (0, (-3, 2), 3, False),
    ],
)
def test_what_cannot_be_seen_and_what_is_seen_are_one_number(median, interval, limit, significant):
    """An interval need not reach as far to both sides."""
    difference = Difference(median, interval)
    assert difference.detection_limit_ns == limit
    assert difference.significant is significant
    assert Wall(100_000_000, 100_000_000 + median, interval).floor_ns == limit
    assert Wall(100_000_000, 100_000_000 + median, interval).significant is significant


def test_one_restart_has_a_difference_but_no_interval():
    difference = paired_difference([_repeat(2000, 1)], [_repeat(1000, 2)])
    assert 900 < difference.median_ns < 1100
    assert difference.interval_ns is difference.significant is difference.detection_limit_ns is None


def test_no_common_window_is_unknown():
    assert paired_difference([_repeat(10, 1).assign(window=range(40))], [_repeat(10, 1).assign(window=range(50, 90))]) is None
