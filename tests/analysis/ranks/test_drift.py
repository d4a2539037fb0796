"""Clocks that run at different rates are brought to one rate; equal ones, and few or strange collectives, are left alone."""

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.ranks import drift
from kernelscope.analysis.ranks.recording import RankRecording

SECOND = 1_000_000_000


def ends(rates, count=200, noise=200, seed=1):
    """Return [collectives, ranks]: a collective each 5 ms, by clocks that are some hours apart and run at these rates."""
    random = np.random.default_rng(seed)
    true = np.arange(1, count + 1) * 5_000_000
    found = [true * (1 + rate) + number * 3600 * SECOND + random.normal(0, noise, count) for number, rate in enumerate(rates)]
    return np.rint(np.column_stack(found)).astype(np.int64)


def test_rates_are_found_against_their_mean():
    found = drift.rates(ends([0.0, 50e-6, -20e-6]))
    assert found - found.mean() == pytest.approx(np.array([-10e-6, 40e-6, -30e-6]), abs=1e-6)


def test_wrong_matches_do_not_count():
    times = ends([0.0, 50e-6])
    times[::7, 1] += 40_000_000  # another collective
    found = drift.rates(times)
    assert found[1] - found[0] == pytest.approx(50e-6, abs=2e-6)


@pytest.mark.parametrize(
    "times", [ends([0.0, 0.0, 0.0]), ends([0.0, 50e-6], count=19), ends([0.0])], ids=["equal", "few", "alone"]
)
def test_without_a_rate_that_shows_nothing_is_corrected(times):
    assert drift.rates(times) is None


def test_collectives_of_some_ranks_do_not_tell():
    times = np.ma.masked_array(ends([0.0, 50e-6]))
    times[:, 1] = np.ma.masked
    assert drift.rates(times) is None


def recording(times):
    unknown = pd.array([None] * len(times), "Int64")
    tables = {
        "collectives": pd.DataFrame({"start_ns": times - 1000, "end_ns": times, "posted_ns": unknown}),
        "windows": pd.DataFrame({"start_ns": times[:1], "end_ns": times[-1:]}),
    }
    about = {"path": "", "rank": 0, "told_by": "", "world": 2, "device": "cuda:0", "hardware": None, "parts": {}, "warnings": ()}
    window = int(times[0]), int(times[-1])
    return RankRecording(**about, steps=1, step_ns=1, window_ns=window, table=tables.__getitem__)


def test_times_are_those_of_one_clock_afterwards():
    times = ends([0.0, 50e-6])
    before = times[:, 1] - times[:, 0]
    ranks, apart = drift.all_steadied([recording(column) for column in times.T], times)
    assert apart == pytest.approx(50e-6, abs=1e-6)
    after = (ranks[1].collectives["end_ns"] - ranks[0].collectives["end_ns"]).to_numpy()
    assert np.ptp(before) > 49_000 > 10 * np.ptp(after), "50 µs in a second, then only noise"
    assert ranks[1].collectives["posted_ns"].isna().all()
    assert ranks[1].window_ns == tuple(ranks[1].table("windows").iloc[0])
    lasted = ranks[1].collectives["end_ns"] - ranks[1].collectives["start_ns"]
    assert lasted.between(999, 1001).all()
    unchanged, none = drift.all_steadied(ranks, ends([0.0, 0.0]))
    assert none == 0.0
    assert unchanged == ranks
