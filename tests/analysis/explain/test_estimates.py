"""Weights of windows, paired draws and intervals, by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.analysis.accounting import statistics
from kernelscope.analysis.explain import estimates
from kernelscope.analysis.explain.instrumentation import event_factors


def test_the_half_of_the_windows_closest_to_the_clean_step_is_used():
    wall = np.array([10.0, 50.0, 12.0, 11.0])
    assert estimates.closest_half(wall, 11.0, np.ones(4, dtype=np.int64)).tolist() == [0.5, 0.0, 0.0, 0.5]


def test_a_window_drawn_twice_counts_twice():
    wall = np.array([10.0, 50.0, 12.0])
    # drawn: 12 twice, 50 once, 10 not at all; half of three, rounded up, is two: both of them the window of 12
    assert estimates.closest_half(wall, 11.0, np.array([[0, 1, 2]])).tolist() == [[0.0, 0.0, 1.0]]


@given(
    st.lists(st.tuples(st.floats(1, 1e9), st.integers(0, 4)), min_size=1, max_size=30).filter(lambda w: sum(n for _, n in w) > 0),
    st.floats(1, 1e9),
)
def test_weights_add_up_to_one_and_no_left_out_window_is_closer_than_a_used_one(windows, target):
    wall, counts = np.array([w for w, _ in windows]), np.array([n for _, n in windows])
    weights = estimates.closest_half(wall, target, counts)
    assert weights.sum() == pytest.approx(1.0)
    away = np.abs(wall - target)
    used, unused = away[weights > 0], away[(weights == 0) & (counts > 0)]
    assert not len(unused) or used.max() <= unused.min()


def test_windows_are_paired_by_restart_and_rank():
    a = pd.DataFrame({"restart": [1, 1, 2, 2], "window": [0, 1, 0, 1]})
    b = pd.DataFrame({"restart": [4, 4, 4, 6], "window": [7, 8, 9, 3]})
    turns = estimates.paired(a, b)
    assert list(zip(turns.a, turns.b, turns.restart, strict=True)) == [(0, 0, 0), (1, 1, 0), (2, 3, 1)]


def test_draws_take_restarts_whole_and_as_many_windows_as_they_have():
    turns = statistics.Turns(np.arange(6), np.arange(6), np.array([0, 0, 0, 1, 1, 2]))
    draws = turns.draws(200)
    per_restart = np.stack([draws[:, :3].sum(axis=1), draws[:, 3:5].sum(axis=1), draws[:, 5]], axis=1)
    times = per_restart / np.array([3, 2, 1])
    assert (times == times.round()).all()
    assert (times.sum(axis=1) == 3).all()
    assert len(np.unique(draws, axis=0)) > 50


def test_the_interval_of_few_restarts_is_that_of_students_t():
    # mean 20, standard deviation 1 over three restarts: 20 +- 4.303 / sqrt(3) = 2.484
    low, high = statistics.interval(20e6, np.full(1000, 20e6), np.array([19e6, 20e6, 21e6]))
    assert (low, high) == (pytest.approx(20e6 - 2.4843e6, abs=500), pytest.approx(20e6 + 2.4843e6, abs=500))


def test_the_interval_of_one_restart_is_that_of_its_windows_and_holds_the_estimate():
    samples = np.arange(1001, dtype=float)
    assert statistics.interval(500.0, samples, np.array([500.0])) == (25, 975)
    assert statistics.interval(2000.0, samples, np.array([500.0])) == (25, 2000)


def _cells(*rows):
    return pd.DataFrame(rows, columns=["layer", "phase", "cause"]).astype("string").assign(library="onednn")


def test_what_recording_cost_is_taken_from_host_rows_by_their_events():
    cells = _cells(
        ("a", "forward", None), ("a", "forward", "in operators"), ("b", "forward", "in layers"), (None, None, "outside of ranges")
    )
    events = pd.Series({("a", "forward"): 30.0, ("b", "forward"): 10.0, ("", ""): 0.0})
    factors = event_factors(cells, np.array([500.0, 100.0, 100.0, 100.0]), events, 80.0)
    assert factors.tolist() == [1.0, pytest.approx(0.4), pytest.approx(0.8), 1.0]


def test_no_event_costs_more_than_recording_one_can():
    cells = _cells(("a", "forward", "in operators"))
    factors = event_factors(cells, np.array([1e6]), pd.Series({("a", "forward"): 5.0}), 8e5)
    assert factors.tolist() == [pytest.approx(1 - 5 * 10_000 / 1e6)]


def test_what_a_group_cannot_give_the_others_give_and_no_more_than_there_is():
    cells = _cells(
        ("a", "forward", "in operators"), ("b", "forward", "in layers"), ("c", "forward", "device: copy host to device")
    )
    events = pd.Series({("a", "forward"): 30.0, ("b", "forward"): 10.0, ("c", "forward"): 5.0})
    factors = event_factors(cells, np.array([30.0, 100.0, 100.0]), events, 80.0)
    assert factors.tolist() == [pytest.approx(0.2), pytest.approx(0.44), 1.0], "a gives 24, b the other 56"
    factors = event_factors(cells, np.array([30.0, 100.0, 100.0]), events, 1000.0)
    assert factors.tolist() == [pytest.approx(0.2), pytest.approx(0.2), 1.0], "the host did start what ran"


def test_operators_that_the_recorder_timed_give_what_the_host_cannot_and_keep_a_tenth():
    cells = _cells(("a", "forward", "in operators"), ("a", "forward", None), ("a", "forward", None))
    cells["library"] = [None, "eigen", "onednn"]
    events = pd.Series({("a", "forward"): 30.0})
    factors = event_factors(cells, np.array([30.0, 200.0, 500.0]), events, 130.0)
    assert factors.tolist() == [pytest.approx(0.2), pytest.approx(0.47), 1.0], "24 and 106 of 130"
    factors = event_factors(cells, np.array([30.0, 200.0, 500.0]), events, 1000.0)
    assert factors.tolist() == [pytest.approx(0.2), pytest.approx(0.1), 1.0]


def test_an_event_costs_no_more_in_operators_and_host_together():
    cells = _cells(("a", "forward", "in operators"), ("a", "forward", None))
    cells["library"] = [None, "eigen"]
    factors = event_factors(cells, np.array([15_000.0, 1e6]), pd.Series({("a", "forward"): 2.0}), 1e6)
    assert factors.tolist() == [pytest.approx(0.2), pytest.approx(1 - 8_000 / 1e6)]


def test_a_recording_that_cost_nothing_changes_nothing():
    cells = _cells(("a", "forward", "in operators"))
    assert event_factors(cells, np.array([30.0]), pd.Series({("a", "forward"): 1.0}), 0.0).tolist() == [1.0]


@pytest.mark.parametrize(("cost", "factor"), [(-13.0, 1.1), (-1000.0, 1.25)])
def test_a_traced_pass_that_was_faster_is_another_process_all_of_whose_rows_are_as_much_slower(cost, factor):
    cells = _cells(("a", "forward", "in operators"), (None, None, None))
    factors = event_factors(cells, np.array([30.0, 100.0]), pd.Series({("a", "forward"): 1.0}), cost)
    assert factors.tolist() == [pytest.approx(factor)] * 2
