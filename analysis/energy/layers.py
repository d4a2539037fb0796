"""Energy of each layer and kind, from power samples folded by their phase in the step; given only if the samples resolve it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.energy.counter import Counter
from kernelscope.analysis.energy.profile import Profile
from kernelscope.analysis.energy.regression import Fit, Window, fit
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import intervals

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

NOT_RESOLVED = "(not resolved)"
_WIDE = "uncertain by"  # begins the reason of rows that still have an upper bound
FEWEST_WINDOWS = 3
_TELLING = 3.0  # times a row's energy at the step's mean power: larger upper bounds are left out
FEWEST_SAMPLES = 50
LARGEST_DISAGREEMENT = (
    0.10  # between samples and counter, or between the steps of the kernels pass and of the energy pass, halved
)
GPU_LAG_NS = 5_000_000  # a new value may appear this long after the time that it stands for; this is not documented
_LAGS = 5
_OFFSETS = 8  # assumed places of an update between two polls


@dataclass(frozen=True)
class PowerSamples:
    """Power samples. Each is the mean over a time that ended between `after` and `by` (two polls): watts, all [samples].

    averaged_ns: the possible lengths of that time; an empty list: since the update before, own_ns [samples]. lag_ns: how much
    later a value may have appeared.
    """

    own_ns: Float
    after: Int
    by: Int
    watts: Float
    averaged_ns: list[int]
    lag_ns: int


def from_power(time_ns: Int, watts: Float, averaged_ns: list[int]) -> PowerSamples:
    """Return the updates of a polled power field: the readings at which its value changes."""
    changed = np.flatnonzero(np.diff(watts) != 0) + 1
    update = (time_ns[changed] + time_ns[changed - 1]) / 2
    period = float(np.median(np.diff(update))) if len(update) > 1 else 0.0
    own = np.minimum(np.concatenate([[period], np.diff(update)]), 1.5 * period)
    return PowerSamples(own, time_ns[changed - 1], time_ns[changed], watts[changed], averaged_ns, GPU_LAG_NS)


def from_counter(counter: Counter, lag_ns: int = 0) -> PowerSamples:
    """Return the mean power between consecutive updates of an energy counter."""
    elapsed = np.diff(counter.update_ns)
    watts = np.diff(counter.update_j) / (elapsed / 1e9)
    return PowerSamples(elapsed, counter.before[1:], counter.after[1:], watts, [], lag_ns)


@dataclass(frozen=True)
class Layers:
    """Rows that add up to the step's energy, and how they were found.

    rows: the profile's keys, energy_uj (null if refused), low_uj, high_uj, idle_uj, time_ns, power_w, reason; the last row is
    (not resolved): the sum of all refused rows. facts: phase_gap_ns, samples, averaged_ns, lags_ns, gain, kernels_pass_step.
    """

    rows: pd.DataFrame
    facts: dict[str, Any]


def by_class(
    profile: Profile, readings: PowerSamples, windows: list[pd.DataFrame], counter: Counter, step_uj: int, idle_w: float | None
) -> Layers:
    """Split a step's energy by the classes of a profile; raise EvidenceError if the evidence is not good enough.

    windows: the steps of each. All values of unknown settings (a sample's averaging time, its lag, the offset between phases of
    the two passes) are tried, and intervals cover all results.
    """
    step_ns = float(np.mean([_length(steps) / len(steps) for steps in windows]))
    apart = abs(profile.step_ns / step_ns - 1.0)
    if len(windows) < FEWEST_WINDOWS:
        raise EvidenceError(f"{len(windows)} windows, {FEWEST_WINDOWS} are needed for energy by layer; record more")
    if apart > 2 * LARGEST_DISAGREEMENT:
        raise EvidenceError(
            f"a step takes {profile.step_ns / step_ns:.2f} times as long in the kernels pass as in the energy pass: the kernels'"
            " places in the step are not known well enough for energy by layer"
        )
    lags = np.linspace(-apart * step_ns / 2, readings.lag_ns + apart * step_ns / 2, _LAGS)
    samples = sum(
        _inside(readings, steps, readings.averaged_ns[0] if readings.averaged_ns else None, 0.0).sum() for steps in windows
    )
    if samples < FEWEST_SAMPLES:
        raise EvidenceError(f"{samples} power samples, {FEWEST_SAMPLES} are needed for energy by layer; record more windows")
    possible: list[int | None] = [*readings.averaged_ns] or [None]
    ways = [(averaged, float(lag)) for averaged in possible for lag in sorted(lags, key=abs)]
    fits = [fit(_windows(profile, readings, windows, counter, *way)) for way in ways]
    gap_ns = _largest_gap(readings, windows) * step_ns
    rows = _rows(profile, fits, step_ns, step_uj, idle_w, gap_ns)
    facts = {
        "phase_gap_ns": round(gap_ns),
        "samples": int(samples), "averaged_ns": readings.averaged_ns, "lags_ns": [round(lag) for lag in lags],
        "gain": round(_best(fits).gain, 4), "kernels_pass_step": round(profile.step_ns / step_ns, 4),
    }  # fmt: skip
    return Layers(rows, facts)


def _best(fits: list[Fit]) -> Fit:
    """Return the fit with the smallest misfit: that of the likeliest settings."""
    return min(fits, key=lambda result: result.misfit_w)


def _length(steps: pd.DataFrame) -> int:
    return int(steps["end_ns"].iloc[-1]) - int(steps["start_ns"].iloc[0])


def _averaged(readings: PowerSamples, averaged: int | None) -> Float:
    """Return the averaging time of each sample."""
    return readings.own_ns if averaged is None else np.full(len(readings.watts), float(averaged))


def _inside(readings: PowerSamples, steps: pd.DataFrame, averaged: int | None, lag: float) -> npt.NDArray[np.bool_]:
    """Return which samples lie in this window entirely."""
    begun = readings.after - _averaged(readings, averaged) - lag
    return np.asarray((begun >= int(steps["start_ns"].iloc[0])) & (readings.by - lag <= int(steps["end_ns"].iloc[-1])))


def _windows(
    profile: Profile, readings: PowerSamples, windows: list[pd.DataFrame], counter: Counter, averaged: int | None, lag: float
) -> list[Window]:
    made = []
    for steps in windows:
        start, end = (steps[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
        mine = _inside(readings, steps, averaged, lag)
        shares = np.zeros((int(mine.sum()), len(profile.classes)))
        length = _averaged(readings, averaged)[mine]
        for place in (np.arange(_OFFSETS) + 0.5) / _OFFSETS:
            until = (readings.after + place * (readings.by - readings.after))[mine] - lag
            shares += profile.ran((until - length).astype(np.int64), until.astype(np.int64), start, end) / _OFFSETS
        whole = profile.ran(start[:1], end[-1:], start, end)[0]
        mean = counter.between(int(start[0]), int(end[-1])).joules / (_length(steps) / 1e9)
        made.append(Window(shares, readings.watts[mine], whole, mean))
    return made


def _largest_gap(readings: PowerSamples, windows: list[pd.DataFrame]) -> float:
    """Return the largest part of a step, 0 to 1, in which no sample of any window ends: large if both periods are in sync."""
    phases = []
    for steps in windows:
        start, end = (steps[edge].to_numpy(np.int64) for edge in ("start_ns", "end_ns"))
        at = (readings.after + readings.by) / 2
        at = at[(at >= start[0]) & (at < end[-1])]
        step = np.searchsorted(start, at, side="right") - 1
        phases.append((at - start[step]) / (end[step] - start[step]))
    ordered = np.sort(np.concatenate(phases))
    return float(np.diff(np.concatenate([ordered, ordered[:1] + 1.0])).max(initial=0.0)) if len(ordered) else 1.0


def _rows(profile: Profile, fits: list[Fit], step_ns: float, step_uj: int, idle_w: float | None, gap_ns: float) -> pd.DataFrame:
    """Return the rows, refused ones without energy, and (not resolved) with the sum of these."""
    share = profile.until[-1]
    centre = _best(fits)
    slack = max(abs(one.gain - 1.0) for one in fits)
    energy = intervals.apportion(centre.watts * share, step_uj)
    scale = step_ns / 1e3  # microjoules of one watt over a whole step
    low = np.maximum(np.min([one.low for one in fits], axis=0) * share * scale - slack * energy, 0.0)
    high = np.max([one.high for one in fits], axis=0) * share * scale + slack * energy
    rows = profile.classes.copy()
    rows["time_ns"] = np.rint(share * step_ns).astype(np.int64)
    rows["energy_uj"] = pd.array(energy, dtype="Int64")
    rows["low_uj"], rows["high_uj"] = (
        pd.array(np.rint(end).astype(np.int64), dtype="Int64") for end in (np.minimum(low, energy), np.maximum(high, energy))
    )
    rows["idle_uj"] = pd.array([None if idle_w is None else round(idle_w * part * scale) for part in share], dtype="Int64")
    rows["power_w"] = np.where(share > 0, energy / np.maximum(share * scale, 1e-9), np.nan)
    seen = np.all([one.seen for one in fits], axis=0)
    facts = zip(energy, low, high, seen, rows["time_ns"] < gap_ns, strict=True)
    rows["reason"] = pd.array([_refusal(slack, *fact) for fact in facts], dtype="string")
    refused = rows["reason"].notna().to_numpy()
    left = {"time_ns": int(rows["time_ns"][refused].sum()), "energy_uj": int(energy[refused].sum())}
    rows.loc[refused, ["energy_uj", "low_uj", "power_w"]] = pd.NA
    rows.loc[refused & ~rows["reason"].str.startswith(_WIDE).fillna(False).to_numpy(bool), "high_uj"] = pd.NA
    beyond = rows["high_uj"].astype("float64") > _TELLING * share * step_uj  # the bound is too large to be useful
    rows.loc[refused & beyond.fillna(False).to_numpy(bool), "high_uj"] = pd.NA
    rest = {**dict.fromkeys(profile.classes.columns, NOT_RESOLVED), **left}
    return pd.concat([rows, pd.DataFrame([rest])], ignore_index=True).astype({"energy_uj": "Int64", "time_ns": "int64"})


def _refusal(slack: float, energy: int, low: float, high: float, seen: bool, skipped: bool) -> str | None:
    """Return why a row's energy is withheld, or None if it is not."""
    if slack > LARGEST_DISAGREEMENT:
        return f"power samples and energy counter disagree by {slack:.0%}"
    if not seen:
        return "always sampled together with other rows"
    if skipped:
        return "samples fall on the same few phases of the step (aliasing)"
    if high - low > energy:
        return f"{_WIDE} {(high - low) / 2e6:.3g} J"
    return None
