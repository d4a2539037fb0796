"""How it was measured: warm-up in the measured steps, throttled clocks, a machine with other work to do."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.explain import again
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion
from kernelscope.analysis.recordings import core_use

WARM_UP = "warm-up in the measured steps"
THROTTLED = "throttled clocks"
LOADED = "load of the machine"

# The first steps must take so much longer than the last: step times of a few ms drift by 10 to 20% within one steady run
FALLING = 0.25
LEAST_STEPS = 6  # fewer cannot be cut into three parts whose medians mean anything
# Clocks of the same device vary by about a percent from capture to capture
SLOWER_CLOCK = 0.05


def _thirds(steps: pd.DataFrame) -> tuple[float, float, float] | None:
    """Return the median step times of the first, second and last third of one restart; None if there are too few steps."""
    ordered = steps.sort_values("start_ns")
    times = (ordered["end_ns"] - ordered["start_ns"]).astype("float64").to_numpy()
    if len(times) < LEAST_STEPS:
        return None
    size = len(times) // 3
    parts = (times[:size], times[size:-size], times[-size:])
    first, second, last = (float(pd.Series(part).median()) for part in parts)
    return first, second, last


def _excess_ns(side: Side) -> float:
    """Return how much longer the side's step is than at the end; 0 unless steps get faster in every restart.

    A single recording that began after its steps had settled says nothing: if they still get shorter, the machine is the
    reason.
    """
    if len(side.clean) == 1 and side.facts.get("settled"):
        return 0.0
    restarts = side.clean or [side.trace.steps[~side.trace.steps["warmup"]]]
    thirds = [one for one in map(_thirds, restarts) if one is not None]
    if not thirds or any(not (first >= second >= last and first > (1.0 + FALLING) * last) for first, second, last in thirds):
        return 0.0
    last = sum(one[2] for one in thirds) / len(thirds)
    if side.clean_ns is not None:
        return max(0.0, side.clean_ns - last)
    steps = pd.concat(restarts)
    return max(0.0, float((steps["end_ns"] - steps["start_ns"]).mean()) - last)


def warm_up(case: Case) -> list[Suspicion]:
    """One side's steps still get faster while they are measured."""
    excess = (_excess_ns(case.a), _excess_ns(case.b))
    amount = excess[1] - excess[0]
    if abs(amount) < evidence.worth_ns(case) or amount * case.account.wall.delta_ns <= 0:
        return []
    side, longer = (case.b, excess[1]) if amount > 0 else (case.a, excess[0])
    sentences = [
        f"The step of {side.name} is {evidence.duration(longer)} longer on average than at the end of the measured steps."
    ]
    unlike = side.trace.diagnostics.get("steps with other kernels than most")
    if unlike:
        sentences.append(f"{unlike} of its recorded steps ran other kernels than most: it was still tuning or compiling.")
    return [
        Suspicion(
            WARM_UP,
            f"{side.name} was still warming up while it was measured",
            evidence.towards(case, amount),
            "medium",
            sentences,
            "measure later: a larger --warmup, or leave the first steps of the capture out",
            precedence=0,
        )
    ]


def _sampled(side: Side, metric: str) -> float | None:
    samples = side.trace.samples
    values = samples[(samples["metric"] == metric).to_numpy(bool)]["value"]
    return float(values.mean()) if len(values) else None


def throttled(case: Case) -> list[Suspicion]:
    """The device's clock was lower on one side, so its kernels take proportionally longer."""
    clocks = evidence.known(evidence.both(case, lambda side: _sampled(side, "gpu_sm_clock_hz")))
    if clocks is None or min(clocks) <= 0 or min(clocks) > (1.0 - SLOWER_CLOCK) * max(clocks):
        return []
    slow, sign, column = (case.b, 1, "b_ns") if clocks[1] < clocks[0] else (case.a, -1, "a_ns")
    rows = evidence.computing(case)
    amount = sign * float(rows[column].sum()) * (1.0 - min(clocks) / max(clocks))
    heat = evidence.both(case, lambda side: _sampled(side, "gpu_temperature_c"))
    sentences = [f"Mean clock: {evidence.pair(case, (clocks[0] / 1e6, clocks[1] / 1e6), ' MHz')}."]
    if None not in heat:
        sentences.append(f"Mean temperature: {evidence.pair(case, heat, ' °C')}.")
    return [
        Suspicion(
            THROTTLED,
            f"the device ran at a lower clock in {slow.name}",
            evidence.towards(case, amount, rows),
            "medium",
            sentences,
            "lock the clocks (nvidia-smi --lock-gpu-clocks) or let the device cool down, and "
            f"record both sides {again.in_turns(case.a, case.b)}",
            precedence=0,
        )
    ]


def _foreign_cores(side: Side) -> float | None:
    """Return how many cores other processes kept busy during the side's recorded steps."""
    return core_use.foreign(side.trace.samples, side.trace.steps[~side.trace.steps["warmup"]])


def _taking_turns(case: Case) -> bool:
    """Return whether the sides ran in turns during the same time: their clean steps overlap on one clock."""
    if not case.a.clean or not case.b.clean:
        return False
    a, b = (pd.concat(side.clean) for side in (case.a, case.b))
    return bool(a["start_ns"].min() < b["end_ns"].max() and b["start_ns"].min() < a["end_ns"].max())


def loaded(case: Case) -> list[Suspicion]:
    """Other processes took cores from one side only."""
    foreign = evidence.known(evidence.both(case, _foreign_cores))
    if _taking_turns(case):
        return []  # such a load affects both sides alike
    if foreign is None or abs(foreign[1] - foreign[0]) < core_use.FOREIGN_CORES:
        return []
    side, sign = (case.b, 1) if foreign[1] > foreign[0] else (case.a, -1)
    if sign * case.account.wall.delta_ns <= 0:
        return []
    cores = (side.facts.get("machine") or {}).get("allowed_threads")
    if not cores:
        return []
    wall = case.account.wall.b_ns if side is case.b else case.account.wall.a_ns
    amount = sign * wall * min(1.0, abs(foreign[1] - foreign[0]) / cores)
    return [
        Suspicion(
            LOADED,
            f"other processes were busier while {side.name} ran",
            evidence.towards(case, amount),
            "low",
            [f"Cores that other processes kept busy: {evidence.pair(case, foreign)}, of {cores}."],
            f"measure on an idle machine, {again.in_turns(case.a, case.b)}",
            precedence=2,
        )
    ]


RULES: tuple[Rule, ...] = (warm_up, throttled, loaded)
