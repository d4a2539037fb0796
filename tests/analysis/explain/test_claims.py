"""Every nanosecond of a difference is granted once, to whom it belongs first, and never to noise."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.analysis.explain import claims
from kernelscope.analysis.explain.model import INSTRUMENTATION, ROW_COLUMNS, Account, Case, Suspicion, Wall


def _case(deltas, noise=0.0, instrumentation=0, interval=(1, 10**9), frameworks=("pytorch", "pytorch")):
    """A case whose rows r1, r2, ... differ by `deltas`, each uncertain by a standard deviation of `noise`."""
    rows = pd.DataFrame({"row": [f"r{n}" for n in range(1, len(deltas) + 1)], "delta_ns": deltas}).reindex(
        columns=list(ROW_COLUMNS)
    )
    rows = rows.assign(a_ns=0, b_ns=deltas, layer="conv1", significant=True).set_index("row", drop=False)
    random = np.random.default_rng(1)
    samples = np.asarray(deltas, dtype=float) + noise * random.standard_normal((500, len(deltas)))
    wall = Wall(1000, 1000 + sum(deltas) + instrumentation, interval)
    account = Account(wall, rows, pd.DataFrame(), instrumentation, {}, {}, samples, samples[:1], 3)
    a, b = (SimpleNamespace(framework=name) for name in frameworks)
    return Case(a, b, [], account, {})


def _suspicion(cause, precedence=1, **claimed):
    return Suspicion(cause, cause, claimed, "high", [], "", precedence)


def _settled(case, *suspicions):
    return {found.suspicion.cause: found.granted for found in claims.settle(case, list(suspicions))}


def test_a_row_is_granted_once_and_the_larger_claim_is_served_first():
    case = _case([1000, 500])
    found = _settled(case, _suspicion("small", r1=400.0), _suspicion("large", r1=800.0, r2=500.0))
    assert found == {"large": {"r1": 800, "r2": 500}, "small": {"r1": 200}}


def test_precedence_comes_before_size():
    found = _settled(_case([1000]), _suspicion("evidence", r1=1000.0), _suspicion("setting", precedence=0, r1=600.0))
    assert found == {"setting": {"r1": 600}, "evidence": {"r1": 400}}


def test_a_claim_against_the_sign_of_its_row_is_not_granted():
    assert _settled(_case([1000, -300]), _suspicion("one", r1=-500.0, r2=-300.0)) == {"one": {"r2": -300}}
    assert _settled(_case([1000, -300]), _suspicion("turned", r1=900.0, r2=300.0), _suspicion("x", precedence=0, r1=1000.0)) == {
        "x": {"r1": 1000}
    }


def test_noise_is_granted_to_nobody_and_stays_for_others():
    case = _case([1000, 400], noise=600.0)
    assert _settled(case, _suspicion("noise", r2=400.0), _suspicion("also noise", r1=1000.0)) == {}
    assert _settled(_case([1000, 400], noise=50.0), _suspicion("seen", r1=1000.0)) == {"seen": {"r1": 1000}}


def test_what_explains_all_has_the_interval_of_the_clean_steps():
    case = _case([1000, 400], noise=5000.0, interval=(900, 1900))
    (found,) = claims.settle(case, [_suspicion("all", r1=1000.0, r2=400.0)])
    assert found.interval_ns == (900, 1900)


def test_instrumentation_can_be_claimed_and_small_change_cannot():
    case = _case([100], instrumentation=900)
    assert _settled(case, _suspicion("hidden", **{INSTRUMENTATION: 900.0}))["hidden"] == {INSTRUMENTATION: 900}
    assert _settled(case, _suspicion("crumbs", r1=15.0)) == {}


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.floats(-2e6, 2e6), min_size=6, max_size=6)), max_size=6),
)
def test_no_row_gives_more_than_it_has(deltas, wanted):
    case = _case(deltas)
    suspicions = [
        _suspicion(str(n), rank, **{f"r{i + 1}": claim for i, claim in enumerate(row[: len(deltas)])})
        for n, (rank, row) in enumerate(wanted)
    ]
    given_to = pd.DataFrame([found.granted for found in claims.settle(case, suspicions)]).fillna(0)
    for row, delta in case.account.rows["delta_ns"].items():
        total = given_to[row].sum() if row in given_to else 0
        assert abs(total) <= abs(delta)
        assert total * delta >= 0


@pytest.mark.parametrize("wall", [1, -1])
def test_findings_are_ranked_in_the_direction_of_the_difference(wall):
    case = _case([wall * 1000, -wall * 400, wall * 300], interval=(1, 2) if wall > 0 else (-2, -1))
    found = claims.settle(
        case, [_suspicion(f"c{n}", **{f"r{n}": float(d)}) for n, d in ((1, wall * 1000), (2, -wall * 400), (3, wall * 300))]
    )
    assert [one.suspicion.cause for one in found] == ["c1", "c3", "c2"]


def test_single_recordings_explain_no_more_than_the_difference():
    """Unless what offsets it is named: rows also move by chance."""
    case = _case([1000, 400, -700])
    first, second = _suspicion("first", r1=1000.0), _suspicion("second", r2=400.0)
    assert sum(map(len, _settled(case, first, second).values())) == 2
    case.account.floor = 0.1
    assert _settled(case, first, second) == {"first": {"r1": 700}}
    named = _settled(case, first, second, _suspicion("offsets", r3=-700.0))
    assert named == {"first": {"r1": 1000}, "second": {"r2": 400}, "offsets": {"r3": -700}}


def test_what_causes_say_beyond_the_difference_of_two_frameworks_is_left_as_not_explained():
    case = _case([1000, 400, -700], frameworks=("pytorch", "jax"))
    case.account.floor = 0.1
    found = _settled(case, _suspicion("first", r1=1000.0), _suspicion("second", r2=400.0))
    assert found == {"first": {"r1": 1000}, "second": {"r2": 400}}


def test_single_recordings_name_no_small_guesses():
    case = _case([1000, 200])
    guess = _suspicion("guess", precedence=2, r2=200.0)
    assert "guess" in _settled(case, guess)
    case.account.floor = 0.1
    assert "guess" not in _settled(case, guess)
    assert "guess" in _settled(case, _suspicion("guess", precedence=2, r1=900.0))


def _once(sides, floor=0.15):
    """A case of single recordings whose rows r1, r2, ... take these ns on both sides."""
    a, b = (np.asarray(each) for each in zip(*sides, strict=True))
    found = _case(list(b - a))
    found.account.rows["a_ns"], found.account.rows["b_ns"] = a, b
    found.account.floor = floor
    found.account.samples = found.account.by_restart = None
    return found


def test_rows_of_single_recordings_that_move_as_all_others_do_are_no_cause():
    """Two recordings of one program on a machine that was 30% slower for one of them: every row is longer by 30%."""
    slower = [(2_000, 2_600), (8_000, 10_500), (4_000, 5_100)]
    assert _settled(_once(slower), replace(_suspicion("input", r1=600.0), confidence="medium")) == {}
    assert _settled(_once(slower), _suspicion("twice as many kernels", r1=600.0)) == {"twice as many kernels": {"r1": 600}}
    assert _settled(_once(slower), _suspicion("setting", precedence=0, r1=600.0)) == {"setting": {"r1": 600}}
    assert _settled(_once([(2_000, 4_600), *slower[1:]]), _suspicion("input", r1=2600.0)) == {"input": {"r1": 2600}}
    assert _settled(_once([(2_000, 2_600), (8_000, 8_100), (4_000, 4_000)]), _suspicion("input", r1=600.0)) == {
        "input": {"r1": 600}
    }, "all others stay"
    assert _settled(_once([(0, 600), *slower[1:]]), _suspicion("new", r1=600.0)) == {"new": {"r1": 600}}
    assert _settled(_once([(8_000, 10_400), (1_000, 1_300)]), _suspicion("most", r1=2400.0)) == {"most": {"r1": 2400}}
