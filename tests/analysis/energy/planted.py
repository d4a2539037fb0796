"""A loop whose layers have known powers, seen through an instrument with known faults: what analyses must find again."""

import itertools
import json
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from kernelscope.analysis.energy.counter import Counter
from kernelscope.analysis.energy.layers import from_power
from kernelscope.analysis.energy.profile import profile

MS = 1_000_000


@dataclass
class Loop:
    """step_ms, jitter (relative, of each step); layers: name, begin and end as shares of a step, watts; idle_w elsewhere.

    replays: layers that run alone after the last window: name, calls, ms of a call, watts meanwhile.
    """

    step_ms: float = 130.0
    jitter: float = 0.02
    layers: tuple = (("conv1", 0.0, 0.25, 300.0), ("conv2", 0.25, 0.6, 200.0), ("fc1", 0.65, 0.9, 120.0))
    idle_w: float = 70.0
    windows: int = 5
    seconds: float = 6.0
    idle_ms: int = 3000
    replays: tuple = ()


@dataclass
class Instrument:
    """update_ms: a new power value so often, averaged over average_ms, shown lag_ms late, noise_w added, polled every poll_ms."""

    update_ms: float = 100.0
    average_ms: float = 100.0
    lag_ms: float = 0.0
    noise_w: float = 2.0
    poll_ms: float = 5.0
    gain: float = 1.0
    told_ns: list = field(default_factory=lambda: [100 * MS])


def record(loop, instrument, seed):
    """Return (profile, readings, windows, counter, truth): truth is joules per step by class."""
    random = np.random.default_rng(seed)
    energy, at, tables = _loop(loop, random)
    polls, watts = _power(instrument, energy, at, random)
    readings = from_power(polls, watts, list(instrument.told_ns))
    return _profile(loop), readings, tables, Counter("gpu", *_counted(instrument, energy, at)), _truth(loop, tables)


def folder(path, loop, instrument, seed):
    """Write the energy pass of a run folder; return the truth, as `record` does."""
    random = np.random.default_rng(seed)
    energy, at, tables = _loop(loop, random)
    power, counted = _power(instrument, energy, at, random), _counted(instrument, energy, at)
    samples = [
        pd.DataFrame({"time_ns": time, "core": None, "device": "cuda:0", "metric": metric, "value": value})
        for metric, (time, value) in (("gpu_power_w", power), ("gpu_energy_j", counted))
    ]
    here = path / "energy" / "1"
    here.mkdir(parents=True)
    pd.concat(samples, ignore_index=True).astype({"core": "Int64"}).to_parquet(here / "samples.parquet")
    steps = pd.concat(tables, ignore_index=True)
    steps.assign(step=steps.index, warmup=False, thread=1).to_json(here / "steps.jsonl", orient="records", lines=True)
    spans = [("idle", None, 0, loop.idle_ms * MS), ("warmup", None, loop.idle_ms * MS, loop.idle_ms * MS)]
    spans += [("window", number, int(t["start_ns"].iloc[0]), int(t["end_ns"].iloc[-1])) for number, t in enumerate(tables)]
    rows = [
        {"kind": kind, "window": window, "start_ns": start, "end_ns": end, "steady": kind == "warmup" or None}
        for kind, window, start, end in spans
    ]
    rows += _replays(loop, tables)
    (here / "windows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gpus = [{"index": 3, "power": {"windows_ns": list(instrument.told_ns)}}]
    record = {
        "schema": "kernelscope/run/1", "framework": "pytorch", "label": "planted", "complete": True, "unavailable": {},
        "options": {"device": "cuda", "batch": 4, "network": "lenet"}, "gpus": [{"device": "cuda:0", "index": 3}],
        "passes": {"energy": {"folders": ["energy/1"], "status": "complete", "sampling": {"sources": [{"gpus": gpus}]}}},
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(record))
    return _truth(loop, tables)


def _loop(loop, random):
    """Return the energy used up to a time (a function of ms), the end in ns, and the steps of each window."""
    tables, power = [], []  # power: (time, watts from then on) in ms
    at = float(loop.idle_ms)
    for window in range(loop.windows):
        power.append((0.0 if not tables else at - 500.0, loop.idle_w))
        edges = at + np.concatenate([[0.0], np.cumsum(_lengths(loop, random))])
        for start, end in itertools.pairwise(edges):
            last = 0.0
            for _, low, high, watts in loop.layers:
                if low > last:
                    power.append((start + last * (end - start), loop.idle_w))
                power.append((start + low * (end - start), watts))
                last = high
            if last < 1.0:
                power.append((start + last * (end - start), loop.idle_w))
        steps = pd.DataFrame({"start_ns": np.rint(edges[:-1] * MS), "end_ns": np.rint(edges[1:] * MS)}).astype("int64")
        tables.append(steps.assign(window=window))
        power.append((edges[-1], loop.idle_w))
        at = edges[-1] + 500.0
    for _, calls, call_ms, watts in loop.replays:
        power += [(at, watts), (at + calls * call_ms, loop.idle_w)]
        at += calls * call_ms + 500.0
    times, watts = np.array([p[0] for p in power]), np.array([p[1] for p in power])
    joules = np.concatenate([[0.0], np.cumsum(np.diff(times) * watts[:-1]) / 1000.0])

    def energy(t):
        return np.interp(t, times, joules)

    return energy, at, tables


def _replays(loop, tables):
    """Return the rows of windows.jsonl of what runs alone; none calls is a layer that could not be."""
    rows, at = [], int(tables[-1]["end_ns"].iloc[-1]) + 500 * MS
    for name, calls, call_ms, _ in loop.replays:
        end = at + round(calls * call_ms * MS)
        reason = None if calls else "it is not called in a step"
        rows.append({"kind": "replay", "layer": name, "start_ns": at, "end_ns": end, "steps": calls or None, "reason": reason})
        at = end + 500 * MS
    return rows


def _lengths(loop, random):
    count = int(loop.seconds * 1000 / loop.step_ms)
    return loop.step_ms * (1 + loop.jitter * random.standard_normal(count).clip(-3, 3))


def _polls(instrument, until, random=None):
    gaps = np.full(int(until / instrument.poll_ms), instrument.poll_ms)
    return np.cumsum(gaps if random is None else gaps * random.uniform(0.8, 1.2, len(gaps)))


def _power(instrument, energy, until, random):
    """Return when the power field was polled, in ns, and what it said."""
    phase = random.uniform(0, instrument.update_ms)
    updates = np.arange(phase, until, instrument.update_ms)
    of = updates - instrument.lag_ms
    mean = (energy(of) - energy(of - instrument.average_ms)) / (instrument.average_ms / 1000.0)
    shown = np.round(instrument.gain * mean + instrument.noise_w * random.standard_normal(len(updates)), 3)
    polls = _polls(instrument, until, random)
    polls = polls[polls >= phase]
    value = shown[np.searchsorted(updates, polls, side="right") - 1]
    return np.rint(polls * MS).astype(np.int64), value


def _counted(instrument, energy, until):
    """Return when the energy counter was polled, in ns, and what it said."""
    polls = _polls(instrument, until)
    return np.rint(polls * MS).astype(np.int64), np.round(energy(np.floor(polls / 100.0) * 100.0), 3)


def kernels_pass(loop):
    """The kernels pass of this loop, (kernels, steps): twenty steps without jitter."""
    length = round(loop.step_ms * MS)
    steps = pd.DataFrame({"start_ns": np.arange(20) * length, "end_ns": np.arange(1, 21) * length})
    kernels = [
        {"layer": name, "start_ns": int(start + low * length), "end_ns": int(start + high * length)}
        for start in steps["start_ns"]
        for name, low, high, _ in loop.layers
    ]
    return pd.DataFrame(kernels), steps


def _profile(loop):
    return profile(*kernels_pass(loop), ["layer"])


def _truth(loop, tables):
    step_s = sum(int(t["end_ns"].iloc[-1] - t["start_ns"].iloc[0]) for t in tables) / 1e9 / sum(map(len, tables))
    truth = {name: (high - low) * watts * step_s for name, low, high, watts in loop.layers}
    rest = 1.0 - sum(high - low for _, low, high, _ in loop.layers)
    return {**truth, "(no kernel)": rest * loop.idle_w * step_s} if rest > 1e-9 else truth
