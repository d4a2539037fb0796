"""Joules per step and per sample, gross and net of the idle baseline, with intervals."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.accounting.statistics import student_t
from kernelscope.analysis.energy.counter import Counter, Energy
from kernelscope.analysis.energy.recording import Consumer, EnergyRepeat
from kernelscope.analysis.errors import EvidenceError

IDLE_PARTS = 5  # the idle time is cut into parts, so that its power has an interval


@dataclass(frozen=True)
class Summary:
    """The energy of one source, in integer microjoules of one step; None is unknown.

    energy_uj: mean over windows; low_uj, high_uj: 95% interval of that mean (Student's t over windows). least_uj, most_uj: bounds
    from the counter's updates, without assuming steady power. net_*: without the idle power. sample_uj: of one sample in a batch.
    """

    source: str
    energy_uj: int
    low_uj: int | None
    high_uj: int | None
    least_uj: int
    most_uj: int | None
    net_uj: int | None
    net_low_uj: int | None
    net_high_uj: int | None
    sample_uj: int
    net_sample_uj: int | None
    power_w: float
    idle_w: float | None
    idle_low_w: float | None
    idle_high_w: float | None
    windows: int
    steps: int
    step_ns: int
    update_ns: int | None
    steady: bool | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def summarise(recording: EnergyRepeat, source: Consumer) -> Summary:
    """Return the energy per step of one source; raise EvidenceError if its counter changed too seldom."""
    windows = recording.measured()
    spans = [(int(steps["start_ns"].iloc[0]), int(steps["end_ns"].iloc[-1]), len(steps)) for steps in windows]
    energies = [source.counter.between(start, end) for start, end, _ in spans]
    counts = np.array([count for *_, count in spans], dtype=float)
    seconds = np.array([(end - start) / 1e9 for start, end, _ in spans])
    gross = np.array([energy.joules for energy in energies]) / counts
    step_s = float(seconds.sum() / counts.sum())
    mean, reach = mean_and_reach(gross)
    idle = _idle(recording, source.counter)
    net = idle and _net(mean, reach, step_s, *idle)
    return Summary(
        source=source.name, energy_uj=micro(mean), low_uj=_less(mean, reach), high_uj=_more(mean, reach),
        least_uj=micro(float(np.mean([energy.low_j for energy in energies] / counts))), most_uj=_most(energies, counts),
        net_uj=micro(net[0]) if net else None, net_low_uj=_less(*net) if net else None, net_high_uj=_more(*net) if net else None,
        sample_uj=micro(mean / recording.batch), net_sample_uj=micro(net[0] / recording.batch) if net else None,
        power_w=float(sum(energy.joules for energy in energies) / seconds.sum()), idle_w=idle[0] if idle else None,
        idle_low_w=idle[0] - idle[1] if idle and idle[1] is not None else None,
        idle_high_w=idle[0] + idle[1] if idle and idle[1] is not None else None, windows=len(spans), steps=int(counts.sum()),
        step_ns=round(step_s * 1e9), update_ns=source.counter.period_ns(), steady=_steady(recording),
    )  # fmt: skip


def micro(joules: float) -> int:
    """Return joules as integer microjoules."""
    return round(joules * 1e6)


def mean_and_reach(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float | None]:
    """Return a mean and how far its 95% interval reaches to either side (Student's t); None with a single value."""
    if len(values) < 2:
        return float(values.mean()), None
    return float(values.mean()), student_t(len(values)) * float(values.std(ddof=1)) / len(values) ** 0.5


def _less(mean: float, reach: float | None) -> int | None:
    return None if reach is None else micro(mean - reach)


def _more(mean: float, reach: float | None) -> int | None:
    return None if reach is None else micro(mean + reach)


def _most(energies: list[Energy], counts: np.ndarray[Any, np.dtype[np.float64]]) -> int | None:
    most = [energy.high_j for energy in energies]
    known = [value for value in most if value is not None]
    return micro(float(np.mean(np.array(known) / counts))) if len(known) == len(most) else None


def _idle(recording: EnergyRepeat, counter: Counter) -> tuple[float, float | None] | None:
    """Return the idle power in watts and its reach; None if the child was not asleep long enough."""
    watts = []
    for start, end in recording.spans("idle"):
        edges = np.linspace(start, end, IDLE_PARTS + 1).astype(np.int64)
        try:
            watts += [
                counter.between(int(low), int(high)).joules / ((int(high) - int(low)) / 1e9)
                for low, high in itertools.pairwise(edges)
            ]
        except EvidenceError:
            continue
    return mean_and_reach(np.array(watts)) if watts else None


def _net(mean: float, reach: float | None, step_s: float, idle_w: float, idle_reach: float | None) -> tuple[float, float | None]:
    """Return joules per step without the idle power; the errors of both add as independent errors."""
    both = None if reach is None or idle_reach is None else float(np.hypot(reach, idle_reach * step_s))
    return mean - idle_w * step_s, both


def _steady(recording: EnergyRepeat) -> bool | None:
    rows = recording.windows[recording.windows["kind"] == "warmup"]
    return bool(rows["steady"].iloc[-1]) if len(rows) and "steady" in rows and rows["steady"].notna().any() else None
