"""The energy pass: idle baseline, warm-up until thermally steady, then repeated windows of seconds, while power is polled.
Finally the heaviest layers run alone, each in a window of its own, to check what the ordinary windows say about them.

Nothing else is on: no ranges, no profilers. The protocol follows good practice for NVIDIA's sensors: windows far longer than
the counter's update, repeated, after a settled warm-up (Yang, Adamek and Armour, SC24, arXiv 2312.02741; ML.ENERGY's Zeus).
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelscope.tracer.outside.samplers.nvml import NvmlSource
from kernelscope.tracer.outside.samplers.rapl import RaplSource
from kernelscope.tracer.outside.samplers.sampler import Sampler, SampleSource

NAME = "energy"
FILE = "windows.jsonl"
RATES_HZ = {"cuda": 200.0, "cpu": 50.0}  # on a CPU, polling itself costs energy that is counted
_FIRST_STEPS = 5
_WATT = 1.0  # smaller differences of power are insignificant
_MARGIN = 1.05  # run more steps than needed, in case they become faster
_SETTLING_S = 0.3  # after a window, until the counter has been updated once more


@dataclass(frozen=True)
class Plan:
    """How long everything takes. After a limit the pass goes on anyway, and records that it was not steady.

    blocks: how many consecutive stretches of block_s must agree: temperature within kelvin, mean power within the share
    `power`. replays: how many layers run alone; each is warmed up for replay_warmup_s before its window.
    """

    windows: int = 5
    window_s: float = 5.0
    idle_s: float = 6.0
    block_s: float = 3.0
    blocks: int = 3
    kelvin: float = 1.0
    power: float = 0.02
    cooldown_limit_s: float = 60.0
    warmup_limit_s: float = 120.0
    replays: int = 2
    replay_warmup_s: float = 1.0


class Worker(Protocol):
    """The child, as far as the energy pass needs it."""

    @property
    def pid(self) -> int:
        """Process id."""

    def tell(self, **command: Any) -> dict[str, Any]:
        """Send a command and return its answer."""

    def wait_until_asleep(self) -> None:
        """Wait until it is not running."""


def sources(device: str) -> tuple[list[SampleSource], str | None]:
    """Return the sources of a run's energy on this device, or why there are none: RAPL always, NVML for GPUs."""
    rapl = RaplSource()
    result: list[SampleSource] = [] if rapl.unavailable else [rapl]
    if device == "cpu":
        return result, rapl.unavailable
    nvml = NvmlSource(energy=True, measure=True)
    lacking = nvml.lacks("gpu_energy_j")
    # the CPU's energy alone would be mistaken for the run's
    return ([], f"{lacking} (GPUs have the energy counter since Volta)") if lacking else ([nvml, *result], None)


def heaviest(network: dict[str, Any] | None) -> list[str]:
    """Return the layers of a network's description, most operations first."""
    layers = (network or {}).get("layers", [])
    return [layer["name"] for layer in sorted(layers, key=lambda layer: -layer["flops"])]


class Measurement:
    """One child's energy pass; `record` runs it and writes windows.jsonl into the pass's folder.

    gpu: NVML's index of the child's GPU, whose temperature and power must settle; None on a CPU. layers: candidates to run
    alone, most important first.
    """

    def __init__(
        self, child: Worker, sampler: Sampler, folder: Path, gpu: int | None, plan: Plan | None = None, layers: Sequence[str] = ()
    ):
        self._child, self._sampler, self._gpu = child, sampler, gpu
        self._plan = plan or Plan()
        self._layers = layers[: self._plan.replays]
        self._path = folder / FILE
        self._windows = 0
        self._step_ns = 0.0

    def record(self) -> None:
        """Run the whole pass. Raises ChildError if the child fails; earlier measurements stay."""
        self._child.tell(do="warmup")
        self._child.wait_until_asleep()
        self._sampler.open(self._child.pid, 0)
        try:
            steady = self._settle("cooldown", self._sleep, self._plan.cooldown_limit_s)
            start = time.monotonic_ns()
            self._sleep(self._plan.idle_s)
            self._write("idle", start, time.monotonic_ns(), steady=steady)
            self._sleep(_SETTLING_S)
            self._run(_FIRST_STEPS)
            self._settle("warmup", self._work, self._plan.warmup_limit_s)
            for _ in range(self._plan.windows):
                self._work(self._plan.window_s, measured=True)
            for layer in self._layers:
                self._replay(layer)
        finally:
            self._sampler.close()

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _work(self, seconds: float, measured: bool = False) -> None:
        """Run a window of this length; a measured one is written down."""
        start = time.monotonic_ns()
        steps = _steps(seconds, self._step_ns)
        window = self._run(steps)
        if measured:
            self._write("window", start, time.monotonic_ns(), window=window, steps=steps)
            self._child.wait_until_asleep()
            self._sleep(_SETTLING_S)

    def _run(self, steps: int) -> int:
        number = self._windows
        self._windows += 1
        answer = self._child.tell(do="window", window=number, steps=steps)
        self._step_ns = statistics.mean(answer["step_ns"])
        return number

    def _replay(self, layer: str) -> None:
        """Run a layer alone for a window, after finding out how long it takes; if that is impossible, write the reason."""
        start, steps = time.monotonic_ns(), _FIRST_STEPS
        for seconds in (self._plan.replay_warmup_s, self._plan.window_s, None):
            number = self._windows
            self._windows += 1
            answer = self._child.tell(do="replay", layer=layer, window=number, steps=steps)
            if answer["event"] != "replay":
                self._write("replay", start, time.monotonic_ns(), layer=layer, reason=answer["reason"])
                return
            if seconds is not None:
                steps = _steps(seconds, statistics.median(answer["step_ns"]))
        self._write("replay", answer["start_ns"], answer["end_ns"], window=number, steps=steps, layer=layer)
        self._child.wait_until_asleep()
        self._sleep(_SETTLING_S)

    def _settle(self, kind: str, act: Callable[[float], None], limit_s: float) -> bool:
        """Act in blocks until the last few agree in temperature and power, or the time is up; return whether they agree."""
        begun = time.monotonic_ns()
        blocks: list[tuple[float | None, float | None]] = []
        while True:
            start = time.monotonic_ns()
            act(self._plan.block_s)
            blocks.append(self._block(start))
            steady = self._alike(blocks[-self._plan.blocks :])
            if steady or (time.monotonic_ns() - begun) / 1e9 >= limit_s:
                heat, power = blocks[-1]
                self._write(kind, begun, time.monotonic_ns(), steady=steady, temperature_c=heat, power_w=power)
                return steady

    def _block(self, start_ns: int) -> tuple[float | None, float | None]:
        """Return the last temperature and the mean power since then; None for what was not sampled."""
        heat = self._sampler.since(self._child.pid, start_ns, "gpu_temperature_c", self._gpu)
        watts = self._sampler.since(self._child.pid, start_ns, "gpu_power_w", self._gpu)
        power = statistics.mean(value for *_, value in watts) if watts else self._counted(start_ns)
        return (heat[-1][-1] if heat else None), power

    def _counted(self, start_ns: int) -> float | None:
        """Return the mean power by the energy counter, of all packages together on a CPU; None without enough readings."""
        metric = "cpu_energy_j" if self._gpu is None else "gpu_energy_j"
        readings = self._sampler.since(self._child.pid, start_ns, metric, self._gpu)
        power = 0.0
        for package in {core for _, core, _ in readings}:
            mine = [(at, value) for at, core, value in readings if core == package]
            (first, low), (last, high) = mine[0], mine[-1]
            if last == first:
                return None
            power += (high - low) / ((last - first) / 1e9)
        return power if readings else None

    def _alike(self, blocks: list[tuple[float | None, float | None]]) -> bool:
        if len(blocks) < self._plan.blocks:
            return False
        heat = [value for value, _ in blocks if value is not None]
        power = [value for _, value in blocks if value is not None]
        warm = not heat or max(heat) - min(heat) <= self._plan.kelvin
        return warm and bool(power) and max(power) - min(power) <= max(self._plan.power * statistics.mean(power), _WATT)

    def _write(self, kind: str, start_ns: int, end_ns: int, **facts: Any) -> None:
        row = {"kind": kind, "window": None, "steps": None, "steady": None, "start_ns": start_ns, "end_ns": end_ns, **facts}
        with self._path.open("a", encoding="utf8") as out:
            out.write(json.dumps(row) + "\n")


def _steps(seconds: float, step_ns: float) -> int:
    """Return how many steps take this long."""
    return max(_FIRST_STEPS, math.ceil(seconds * 1e9 * _MARGIN / max(step_ns, 1.0)))
