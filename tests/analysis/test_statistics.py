"""Intervals of medians: wide when restarts differ, whatever the windows say."""

import numpy as np
import pandas as pd

from kernelscope.analysis.statistics import interval_of_median


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
