"""Processor time as a second clock, and what a busy machine does to single recordings."""

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.explain import abstention, claims, noise
from kernelscope.analysis.explain.model import Account, Case, Side, Wall
from kernelscope.analysis.trace import Trace, conform

MS = 1_000_000


def steps(processor_ms, wall_ms=30.0, spread=0.0):
    """Twenty steps in windows of five, with this processor time a step, which varies by `spread` from window to window."""
    start = (np.arange(20) * wall_ms * MS).astype(np.int64)
    used = (np.repeat(np.array([1, -1, 1, -1]) * spread + processor_ms, 5) * MS).astype(np.int64)
    table = {"step": range(20), "window": np.arange(20) // 5, "warmup": False, "thread": 1, "start_ns": start,
             "end_ns": start + int(wall_ms * MS), "user_ns": used, "system_ns": 0}  # fmt: skip
    return conform("steps", pd.DataFrame(table))


def side(name, *restarts, foreign=None):
    facts = {"framework": "pytorch", "version": "1", "machine": {"allowed_threads": 2}, "recorder": "profile"}
    return Side(name=name, path=name, trace=Trace(), windows=pd.DataFrame(), cells=pd.DataFrame(), clean=list(restarts),
                clean_ns=30 * MS, layers=[], events=pd.Series(dtype=float), facts=facts, foreign_cores=foreign)  # fmt: skip


def test_single_recordings_differ_by_more_than_the_floor_or_not():
    used = noise.processor(side("A", steps(40.0)), side("B", steps(60.0)))
    assert used is not None
    assert (used.a_ns, used.b_ns, used.significant) == (40 * MS, 60 * MS, True)
    assert used.interval_ns == (20 * MS - 6 * MS, 20 * MS + 6 * MS), "a tenth of the larger one"
    near = noise.processor(side("A", steps(40.0)), side("B", steps(43.0)))
    assert near is not None
    assert near.significant is False


def test_threads_that_spin_are_no_second_clock():
    """Both keep two cores busy all of the step: 72 and 83 ms are no more than twice 36 and 41.5 ms of the wall clock."""
    spinning = noise.processor(side("A", steps(72.0, 36.0)), side("B", steps(83.0, 41.5)))
    assert spinning is not None
    assert spinning.significant is False
    waiting = noise.processor(side("A", steps(60.0, 36.0)), side("B", steps(72.0, 41.5)))
    assert waiting is not None
    assert waiting.significant is True


def test_windows_that_vary_widen_it():
    even, uneven = (noise.processor(side("A", steps(40.0)), side("B", steps(50.0, spread=spread))) for spread in (0.0, 8.0))
    assert even is not None
    assert uneven is not None
    assert even.significant is True
    assert uneven.significant is False


def test_restarts_tell_the_noise_themselves():
    used = noise.processor(side("A", *map(steps, (40.0, 40.2, 39.8))), side("B", *map(steps, (41.9, 42.1, 42.0))))
    assert used is not None
    assert used.significant is True, "5% of a time that three processes agree on"
    assert noise.processor(side("A", steps(40.0)), side("B")) is None


def case(a, b, wall, restarts=1):
    rows = pd.DataFrame({"delta_ns": pd.Series([], dtype="int64")})
    account = Account(
        wall=wall, rows=rows, cells=pd.DataFrame(), instrumentation_ns=0, removed_ns={}, recorded_ns={}, samples=None,
        by_restart=None, restarts=restarts, floor=noise.floor(a, b, restarts), processor=noise.processor(a, b),
    )  # fmt: skip
    return Case(a, b, [], account, {})


@pytest.fixture(autouse=True)
def covered(monkeypatch):
    monkeypatch.setattr(abstention, "coverage", lambda side: 1.0)


SEEN, DROWNED = (8 * MS, 20 * MS), (-2 * MS, 20 * MS)


def test_what_processor_time_shows_is_seen_although_steps_are_noisy():
    wall = Wall(30 * MS, 39 * MS, DROWNED)
    assert abstention.reason(case(side("A", steps(40.0)), side("B", steps(60.0)), wall), False) is None
    reason, _ = abstention.reason(case(side("A", steps(40.0)), side("B", steps(42.0)), wall), False)
    assert "within the noise" in reason
    reason, _ = abstention.reason(case(side("A", steps(60.0)), side("B", steps(40.0)), wall), False)
    assert "within the noise" in reason, "a longer step that needs less processor time"


def test_processor_time_of_restarts_is_seen_although_one_was_disturbed():
    a, wall = side("A", *map(steps, (40.0, 41.0, 39.5))), Wall(30 * MS, 39 * MS, DROWNED)
    more, little = side("B", *map(steps, (60.0, 59.0, 61.0))), side("B", *map(steps, (41.4, 41.5, 41.6)))
    assert abstention.reason(case(a, more, wall, restarts=3), False) is None
    alike = side("A", *map(steps, (40.0, 40.1, 39.9)))
    assert case(alike, little, wall, restarts=3).account.processor.significant, "beyond its noise"
    reason, _ = abstention.reason(case(alike, little, wall, restarts=3), False)
    assert "within the noise" in reason, "but by less than 5%, which alone says little"


def test_steps_that_are_longer_by_waiting_on_a_busy_machine_get_no_cause():
    wall = Wall(30 * MS, 44 * MS, SEEN)
    reason, _ = abstention.reason(case(side("A", steps(40.0), foreign=0.1), side("B", steps(41.0), foreign=0.5), wall), False)
    assert "as much processor time" in reason
    assert abstention.reason(case(side("A", steps(40.0)), side("B", steps(41.0), foreign=0.1), wall), False) is None, "it sleeps"
    assert abstention.reason(case(side("A", steps(40.0)), side("B", steps(60.0), foreign=0.5), wall), False) is None


@pytest.mark.parametrize(("foreign", "named"), [(1.7, False), (0.5, True)])
def test_restarts_that_may_all_have_met_a_busy_machine_get_no_cause(foreign, named):
    a = side("A", *map(steps, (40.0, 40.5, 39.5)), foreign=foreign)
    b = side("B", *map(steps, (40.2, 39.8, 40.4)), foreign=0.1)
    found = abstention.reason(case(a, b, Wall(44 * MS, 30 * MS, (-20 * MS, -8 * MS)), restarts=3), False)
    assert (found is None) is named
    assert named or "as much processor time" in found[0]


def test_what_explains_all_of_it_is_as_sure_as_what_shows_it():
    made = case(side("A", steps(40.0)), side("B", steps(60.0)), Wall(30 * MS, 39 * MS, DROWNED))
    low, high = claims._of_whole(made.account)
    assert 0 < low < 9 * MS < high
    assert claims._of_whole(case(side("A", steps(40.0)), side("B", steps(42.0)), made.account.wall).account) == DROWNED


def test_what_was_measured_of_the_machine_is_the_floor():
    a, b = side("A", steps(40.0)), side("B", steps(43.0))
    for each in (a, b):
        each.facts["noise"] = {"pytorch": {"wall": 0.2, "processor": 0.055}, "mxnet": {"wall": 0.5}}
    assert noise.floor(a, b, 1) == 0.2
    used = noise.processor(a, b)
    assert used is not None
    assert used.significant is True, "3 of 43 ms, of which 5.5% may be noise"
    b.facts["noise"]["pytorch"] = {"wall": 0.01, "processor": None}
    a.facts["noise"]["pytorch"] = {"wall": 0.02}
    assert noise.floor(a, b, 1) == noise.LEAST, "other programs may differ by more than those that were measured"
    for each in (a, b):
        each.facts["noise"]["pytorch"] = {"wall": 0.87, "processor": 0.8}
    assert noise.floor(a, b, restarts=1) == noise.MOST
    assert noise.restless(a, b, restarts=1) == 0.87
    assert noise.restless(a, b, restarts=3) is None
    b.facts["noise"] = {}
    assert noise.floor(a, b, 1) == noise.AS_IT_COMES, "measured of one side only"


class _Run:
    """What is asked of a run: the restarts of its clean pass."""

    def __init__(self, *restarts):
        self._restarts = restarts

    def passes(self, name):
        assert name == "clean"
        return [type("Pass", (), {"measured": steps})() for steps in self._restarts]


def test_noise_between_processes():
    # by hand: logarithms of 100, 102, 98 have a standard deviation of 0.020001; times t(2) = 4.303 and the root of 2: 0.12171
    found = noise.between_processes([_Run(steps(40.0, 100.0), steps(40.0, 102.0), steps(40.0, 98.0))])
    assert found["wall"] == pytest.approx(np.expm1(0.12171), rel=1e-3)
    assert found["processor"] == pytest.approx(0.0)
    assert noise.between_processes([_Run(steps(40.0), steps(41.0))]) == {"wall": None, "processor": None}, "two tell too little"
