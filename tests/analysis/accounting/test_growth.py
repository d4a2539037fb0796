"""Steps that get longer are told from noise, from a machine that gets slower once, and from steps that settle."""

import numpy as np
import pytest

from kernelscope.analysis.accounting.growth import Growth, agreement, growth

MS = 1_000_000


def steps(lengths_ms):
    return (np.asarray(lengths_ms) * MS).astype(np.int64)


def noisy(lengths_ms, part, seed=0):
    return np.asarray(lengths_ms) * np.random.default_rng(seed).uniform(1 - part, 1 + part, len(lengths_ms))


RISING = np.linspace(10, 25, 40)


def test_the_second_and_the_last_quarter_tell_how_much():
    """Of 40 steps from 10 to 25 ms the middle of the second ten is between the 15th and the 16th: 10 + 14.5 * 15 / 39 ms."""
    found = growth([steps(RISING)])
    assert found is not None
    assert found.steps == 40
    assert (found.first_ns, found.last_ns) == pytest.approx(((10 + 14.5 * 15 / 39) * MS, (25 - 4.5 * 15 / 39) * MS), abs=2)


def test_steps_that_settle_first_hide_no_growth():
    """As measured of a script that adds to a tensor: cold for five steps, then longer and longer."""
    measured = [
        2.11,
        1.3,
        1.09,
        1.06,
        1.08,
        0.95,
        0.97,
        0.98,
        1.03,
        1.18,
        1.13,
        1.07,
        1.3,
        1.27,
        1.14,
        1.43,
        1.41,
        1.56,
        1.69,
        1.67,
    ]
    assert growth([steps(measured)]) == Growth(980_000, 1_560_000, 20)


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_a_tenth_hides_no_growth(seed):
    assert growth([steps(noisy(RISING, 0.1, seed))]) is not None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "lengths",
    [
        np.full(40, 10.0),
        np.repeat([10.0, 16.0], 20),
        RISING[::-1],
        np.tile([10.0, 12.0, 14.0, 16.0], 10),
        np.linspace(10, 12, 40),
        np.linspace(10, 20, 19),
    ],
    ids=["equal", "a machine that gets slower once", "steps that settle", "batches of several sizes", "a fifth more", "too few"],
)
def test_what_is_no_growth(lengths, seed):
    assert growth([steps(noisy(lengths, 0.1, seed))]) is None


def test_every_restart_has_to_show_it():
    assert growth([steps(RISING), steps(np.full(40, 10.0))]) is None
    assert growth([steps(RISING), steps(RISING)]) == growth([steps(RISING)])
    assert growth([]) is None


@pytest.mark.parametrize(
    ("values", "tau"), [([1, 2, 3, 4], 1.0), ([4, 3, 2, 1], -1.0), ([1, 3, 2, 4], 4 / 6), ([5, 5, 5], 0.0), ([7], 0.0)], ids=str
)
def test_agreement_is_kendalls_tau(values, tau):
    """By hand: of the six pairs of 1 3 2 4 five rise and one falls."""
    assert agreement(np.array(values)) == pytest.approx(tau)


def test_many_steps_are_compared_by_some_of_them():
    assert agreement(np.arange(100_000)) == 1.0
