"""Verdicts of trials: intervals by hand, Holm's correction, chance, and results that stay or do not."""

import numpy as np
import pytest
from scipy import stats

from kernelscope.analysis.confirm.verdicts import CONFIRMED, PARTLY, UNSEEN, WORSE, Seen, same_results, seen, verdict

MS = 1_000_000


def test_the_interval_is_that_of_paired_differences():
    base, rounds = [10 * MS, 11 * MS, 12 * MS, 11 * MS], [9 * MS, 7 * MS, 10 * MS, 8 * MS]
    found = seen(base, {"a": rounds})["a"]
    # differences 1, 4, 2, 3: mean 2.5, deviation 1.290994, error 0.645497; t(3) at 97.5% is 3.182446
    assert found.saved_ns == 2.5 * MS
    assert found.interval_ns == pytest.approx((0.445740 * MS, 4.554260 * MS), abs=2)
    assert found.p == pytest.approx(stats.ttest_rel(base, rounds).pvalue)


def test_beside_other_processes_work_chance_counts_five_times():
    base, rounds = [10 * MS, 11 * MS, 12 * MS, 11 * MS], [9 * MS, 7 * MS, 10 * MS, 8 * MS]
    alone, beside = seen(base, {"a": rounds})["a"], seen(base, {"a": rounds}, busy=True)["a"]
    assert (alone.saved_ns, alone.interval_ns) == (beside.saved_ns, beside.interval_ns)
    assert beside.p == pytest.approx(5 * stats.ttest_rel(base, rounds).pvalue)
    assert alone.sure
    assert not beside.sure, "the p value is 0.03"
    assert seen([MS, 2 * MS, MS], {"a": [2 * MS, MS, MS]}, busy=True)["a"].p == 1.0


def test_several_at_once_are_corrected():
    rng = np.random.default_rng(1)
    base = (10 * MS + rng.normal(0, MS / 4, 6)).round()
    trials = {str(number): (base - rng.normal(number * MS / 4, MS / 2, 6)).round() for number in range(4)}
    raw = {name: stats.ttest_rel(base, rounds).pvalue for name, rounds in trials.items()}
    order = sorted(raw, key=raw.get)
    expected, most = {}, 0.0
    for place, name in enumerate(order):
        most = max(most, min(1.0, (4 - place) * raw[name]))
        expected[name] = most
    assert {name: one.p for name, one in seen(base, trials).items()} == pytest.approx(expected)


def test_changes_that_do_nothing_are_seldom_sure():
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(500):
        drift = rng.normal(0, MS, 6)  # the machine's, which both meet
        base = 10 * MS + drift + rng.normal(0, MS / 5, 6)
        trials = {name: 10 * MS + drift + rng.normal(0, MS / 5, 6) for name in "abcde"}
        wrong += any(one.sure for one in seen(base, trials).values())
    assert wrong < 500 * 0.08, "in at most 5% of the tries, all five together"


def test_four_differences_that_are_alike_by_chance_are_not_sure():
    """Changes of a program that do nothing, as recorded: the first one's rounds differ by 0.50, 0.55, 0.53 and 0.66 ms."""
    base = [13.36 * MS, 14.75 * MS, 14.23 * MS, 13.51 * MS]
    others = [
        [13.92, 13.87, 13.86, 13.73],
        [13.85, 13.6, 13.52, 14.75],
        [13.45, 13.86, 13.68, 13.13],
        [13.85, 13.45, 14.02, 12.8],
    ]
    trials = {str(n): [round(ms * MS) for ms in times] for n, times in enumerate([[12.86, 14.2, 13.7, 12.85], *others])}
    assert not any(one.sure for one in seen(base, trials).values())


def test_pairing_takes_off_half_of_the_spread_at_most():
    """Changes of a program that do nothing, as recorded: each has shorter steps than the unchanged one in nearly every round."""
    base = [17.53, 18.22, 18.75, 19.38]
    trials = {"0": [17.19, 17.29, 17.56, 18.67], "1": [17.3, 18.72, 18.15, 18.23], "2": [16.64, 16.52, 17.23, 18.18],
              "3": [17.15, 17.47, 17.72, 17.94], "4": [17.68, 17.48, 18.8, 18.13]}  # fmt: skip
    found = seen([round(ms * MS) for ms in base], {name: [round(ms * MS) for ms in times] for name, times in trials.items()})
    assert not any(one.sure for one in found.values())


def test_rounds_that_are_all_equal():
    found = seen([5, 5, 5], {"same": [5, 5, 5], "shorter": [4, 4, 4]})
    assert not found["same"].sure
    assert found["shorter"].sure
    assert found["shorter"].interval_ns == (1, 1)


@pytest.mark.parametrize(
    ("saved", "p", "claimed", "expected"),
    [
        (5, 0.2, 5, UNSEEN), (5, 0.01, 5, CONFIRMED), (5, 0.01, None, CONFIRMED), (5, 0.01, 11, PARTLY), (-5, 0.01, 5, WORSE),
        (50, 0.01, 5, CONFIRMED), (-5, 0.2, None, UNSEEN),
    ],
)  # fmt: skip
def test_words(saved, p, claimed, expected):
    assert verdict(Seen(saved, (0, 0), p), claimed) == expected


def test_results_are_those_of_the_unchanged_program():
    assert same_results([[1.0, 0.9], [1.0, 0.9]], [[1.0, 0.9], [1.0, 0.9004]])
    assert same_results([[1.0, 0.9], [1.0, 0.9]], [[1.0, 0.92]]) is False
    assert same_results([[1.0, 0.9]], [[1.0, float("nan")]]) is False
    # the unchanged program's own runs are 1% apart: by three times that a change may be
    assert same_results([[1.0], [1.01]], [[1.02]])
    assert same_results([[1.0], [1.01]], [[1.2]]) is False


def test_results_that_vary_by_themselves_tell_nothing():
    assert same_results([[1.0], [1.2]], [[1.1]]) is None
    assert same_results([[], []], [[]]) is None
    assert same_results([[1.0]], [[]]) is None
    assert same_results([[float("nan")]], [[float("nan")]]) is None
