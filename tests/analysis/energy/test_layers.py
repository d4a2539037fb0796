"""Energy by layer on loops whose layers have known powers: right within the interval, or refused."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from kernelscope.analysis.energy.layers import NOT_RESOLVED, by_class
from kernelscope.analysis.errors import EvidenceError

found = importlib.util.spec_from_file_location("planted_energy", Path(__file__).parent / "planted.py")
planted = importlib.util.module_from_spec(found)
found.loader.exec_module(planted)
MS = planted.MS


def _layers(loop, instrument, seed=0):
    profile, readings, windows, counter, truth = planted.record(loop, instrument, seed)
    step_uj = round(sum(truth.values()) * 1e6)
    layers = by_class(profile, readings, windows, counter, step_uj, loop.idle_w)
    assert layers.rows["energy_uj"].fillna(0).sum() == step_uj, "rows add up exactly"
    return layers, layers.rows.set_index("layer"), {name: value * 1e6 for name, value in truth.items()}


def test_long_layers_are_found_through_an_average_of_100_ms():
    layers, rows, truth = _layers(planted.Loop(step_ms=430.0), planted.Instrument())
    for name, value in truth.items():
        assert rows.loc[name, "low_uj"] <= value <= rows.loc[name, "high_uj"]
        assert rows.loc[name, "energy_uj"] == pytest.approx(value, rel=0.05)
    assert rows.loc["conv1", "power_w"] == pytest.approx(300.0, rel=0.03)
    assert rows.loc[NOT_RESOLVED, "energy_uj"] == 0
    # idle power for the layer's own time: 70 W for a quarter of 430 ms
    assert rows.loc["conv1", "idle_uj"] == pytest.approx(70.0 * 0.25 * 0.43 * 1e6, rel=0.01)
    assert layers.facts["samples"] > 200


def test_steps_far_shorter_than_the_average_are_refused():
    _, rows, _ = _layers(planted.Loop(step_ms=1.0), planted.Instrument(average_ms=25.0, told_ns=[25 * MS]))
    assert rows.drop(NOT_RESOLVED)["energy_uj"].isna().all()
    assert rows.drop(NOT_RESOLVED)["reason"].notna().all()


@pytest.mark.parametrize("step_ms", [100.0, 50.0, 200.0])
def test_samples_in_step_with_the_loop_are_refused_or_right(step_ms):
    _, rows, truth = _layers(planted.Loop(step_ms=step_ms, jitter=0.0), planted.Instrument(average_ms=25.0, told_ns=[25 * MS]))
    for name, value in truth.items():
        assert rows["energy_uj"].isna()[name] or rows.loc[name, "low_uj"] <= value <= rows.loc[name, "high_uj"]
    assert "aliasing" in " ".join(rows["reason"].dropna())


def test_an_average_that_is_told_wrong_is_noticed_or_covered():
    """Samples average 100 ms; all that is told is 25 or 100: what both say together holds the truth."""
    instrument = planted.Instrument(average_ms=100.0, told_ns=[25 * MS, 100 * MS])
    _, rows, truth = _layers(planted.Loop(step_ms=430.0), instrument)
    for name, value in truth.items():
        if not rows["energy_uj"].isna()[name]:
            assert rows.loc[name, "low_uj"] <= value <= rows.loc[name, "high_uj"]
    assert rows.loc["conv1", "energy_uj"] == pytest.approx(truth["conv1"], rel=0.05), "the one that fits better is said"


def test_samples_that_disagree_with_the_counter_say_nothing():
    _, rows, _ = _layers(planted.Loop(step_ms=430.0), planted.Instrument(gain=1.3))
    assert rows.drop(NOT_RESOLVED)["energy_uj"].isna().all()
    assert rows.loc["conv1", "reason"].startswith("power samples and energy counter disagree by 30%")
    assert rows["high_uj"].isna().all()


def test_layers_of_one_phase_cannot_be_told_apart():
    """Two layers that always run at the same time, on two streams: only their sum is known."""
    loop = planted.Loop(step_ms=430.0)
    profile, readings, windows, counter, truth = planted.record(loop, planted.Instrument(), 0)
    classes = profile.classes.copy()
    classes.loc[len(classes)] = ["twin"]
    until = np.concatenate([profile.until, profile.until[:, :1] / 2], axis=1)
    until[:, 0] /= 2
    twins = dataclasses.replace(profile, classes=classes, until=until)
    rows = by_class(twins, readings, windows, counter, round(sum(truth.values()) * 1e6), None).rows.set_index("layer")
    assert rows["reason"]["conv1"] == rows["reason"]["twin"] == "always sampled together with other rows"
    assert rows.loc["conv2", "energy_uj"] == pytest.approx(truth["conv2"] * 1e6, rel=0.05)
    assert rows.loc[NOT_RESOLVED, "energy_uj"] == pytest.approx(truth["conv1"] * 1e6, rel=0.05)


def test_too_little_is_refused_as_a_whole():
    loop = planted.Loop(step_ms=430.0)
    profile, readings, windows, counter, _ = planted.record(loop, planted.Instrument(), 0)
    with pytest.raises(EvidenceError, match="2 windows, 3 are needed"):
        by_class(profile, readings, windows[:2], counter, 1, None)
    slow = dataclasses.replace(profile, step_ns=profile.step_ns * 1.5)
    with pytest.raises(EvidenceError, match=r"a step takes 1\.50 times as long in the kernels pass"):
        by_class(slow, readings, windows, counter, 1, None)
    few = planted.record(planted.Loop(step_ms=430.0, seconds=2.0), planted.Instrument(update_ms=250.0), 0)
    with pytest.raises(EvidenceError, match="power samples, 50 are needed"):
        by_class(*few[:4], 1, None)


def scenario(seed):
    """A random loop and instrument; every fifth is in step with the instrument."""
    random = np.random.default_rng(1000 + seed)
    count = int(random.integers(2, 6))
    cuts = np.concatenate([[0.0], np.round(np.sort(random.uniform(0, 1, count)), 3)])
    layers = tuple(
        (f"layer{i}", cuts[i], cuts[i + 1], float(random.uniform(60, 400))) for i in range(count) if cuts[i + 1] - cuts[i] > 0.005
    )
    step, jitter = float(np.exp(random.uniform(np.log(5), np.log(600)))), float(random.choice([0, 0.002, 0.02]))
    if seed % 5 == 0:
        step, jitter = float(random.choice([100, 50, 25, 200, 300])), 0.0
    average = int(random.choice([25, 100]))
    told = sorted({average * MS, int(random.choice([25, 100])) * MS})
    instrument = planted.Instrument(
        average_ms=average, lag_ms=float(random.uniform(0, 5)), noise_w=float(random.uniform(0.5, 6)), told_ns=told
    )
    return planted.Loop(step, jitter, layers, seconds=3.0), instrument


def covered(trials):
    """Return over so many trials how many rows were said, and how many of these hold the truth in their interval."""
    said = right = 0
    for seed in trials:
        _, rows, truth = _layers(*scenario(seed), seed=seed)
        told = rows[rows["energy_uj"].notna() & rows.index.isin(list(truth))]
        said += len(told)
        right += sum(row.low_uj <= truth[row.Index] <= row.high_uj for row in told.itertuples())
    return said, right


def test_rows_that_are_said_hold_the_truth():
    said, right = covered(range(12))
    assert said >= 8
    assert right >= said - 1


@pytest.mark.long
@pytest.mark.slow
def test_rows_that_are_said_hold_the_truth_in_19_of_20_cases():
    said, right = covered(range(100))
    assert said >= 75
    assert right >= 0.95 * said
