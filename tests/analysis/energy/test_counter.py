"""Energy from a counter with updates: by hand, and over many random counters whose truth is known."""

import numpy as np
import pytest

from kernelscope.analysis.energy.counter import Counter
from kernelscope.analysis.errors import EvidenceError

MS = 1_000_000


def _polled(power_w, update_ms, poll_ms, seconds, phase_ms=0.0):
    """A counter of constant power that changes every update_ms, read every poll_ms."""
    times = np.arange(0, round(seconds * 1000), poll_ms)
    known = np.floor((times - phase_ms) / update_ms) * update_ms + phase_ms
    return Counter("gpu", (times * MS).astype(np.int64), power_w * known / 1000.0)


def test_a_window_by_hand():
    """Updates at 100, 200, ... ms, read at 0, 10, 20, ...; 100 W; from 250 to 1250 ms.

    The first update inside is at 300, seen at 300, the last is at 1200: 90 J in 900 ms, so 100 J in 1000 ms.
    Outside: the reading at 250 knows the update at 200, and the next update after the end is at 1300: 110 J.
    """
    counter = _polled(100.0, 100, 10, 3)
    energy = counter.between(250 * MS, 1250 * MS)
    assert energy.joules == pytest.approx(100.0)
    assert energy.low_j == pytest.approx(90.0)
    assert energy.high_j == pytest.approx(110.0)
    assert energy.updates == 10
    assert counter.period_ns() == 100 * MS


def test_without_a_reading_after_the_next_update_there_is_no_upper_bound():
    assert _polled(100.0, 100, 10, 3).between(250 * MS, 2960 * MS).high_j is None


def test_windows_too_short_for_the_counter_are_refused():
    with pytest.raises(EvidenceError, match=r"changed 4 times in a window of 0\.40 s, 5 are needed; record longer windows"):
        _polled(100.0, 100, 10, 3).between(250 * MS, 650 * MS)


def test_a_counter_that_falls_is_refused():
    with pytest.raises(EvidenceError, match=r"fell 0.0 s after its first reading; was the driver reloaded\?"):
        Counter("gpu", np.array([0, 10 * MS]), np.array([5.0, 4.0]))


def test_the_bounds_always_hold_and_the_estimate_is_close():
    """500 random power curves, update phases and windows: the truth is between the bounds every time."""
    random = np.random.default_rng(0)
    worst = 0.0
    for _ in range(500):
        grid = np.arange(0, 8000)  # ms
        watts = 200 + 100 * np.sign(np.sin(2 * np.pi * grid / random.uniform(3, 300) + random.uniform(0, 6)))
        truth = np.concatenate([[0.0], np.cumsum(watts / 1000.0)])  # joules at each ms
        phase, poll = random.integers(0, 100), random.integers(3, 12)
        times = np.arange(phase, 8000, poll)
        known = (times - phase) // 100 * 100 + phase
        counter = Counter("gpu", times * MS, truth[known])
        start, end = random.integers(200, 1500), random.integers(6500, 7500)
        energy = counter.between(int(start) * MS, int(end) * MS)
        real = truth[end] - truth[start]
        assert energy.low_j <= real <= energy.high_j
        worst = max(worst, abs(energy.joules / real - 1))
    assert worst < 0.02
