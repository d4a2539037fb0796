"""How long a cell will take: estimated from its network's operations, corrected by the sweep's finished cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from kernelscope.tracer.inside import plan, steady
from kernelscope.tracer.outside.cells import Cell
from kernelscope.workloads import networks

_START_S = 3.0  # for an interpreter to start, import the framework, build the network and end; ranks follow it
_WEIGHT_S = 4e-8  # to draw and load a parameter
_STEP_S = 1e-3  # of a step besides its operations
_FLOPS_PER_S = {"cpu": 3e10, "cuda": 3e12}  # reached in small networks by a CPU thread, and by a GPU
_BYTES_PER_S = {"cpu": 5e9, "cuda": 5e11}
_DRAWN_BYTES = 24  # per input number while at least two batches are drawn; a cell without this memory ends at once
_PASSES_OVER_WEIGHTS = {"infer": 1, "train": 6}  # forward and backward reads; gradient, momentum and weight in the update


@dataclass
class Estimates:
    """Learns from cells how far the plain estimate is off: by framework and network, by framework, and overall."""

    _ratios: dict[tuple[str, ...], list[float]] = field(default_factory=dict)

    def learn(self, cell: Cell, seconds: float) -> None:
        """Record how long a finished cell took."""
        ratio = seconds / plain(cell)
        for key in _keys(cell):
            self._ratios.setdefault(key, []).append(ratio)

    def seconds(self, cell: Cell) -> float:
        """Return the estimated time of a cell in s."""
        known = next((self._ratios[key] for key in _keys(cell) if key in self._ratios), [1.0])
        return plain(cell) * median(known)

    def total(self, cells: Iterable[Cell]) -> float:
        """Return the estimated time of cells one after another in s."""
        return sum(map(self.seconds, cells))


def _keys(cell: Cell) -> tuple[tuple[str, ...], ...]:
    """Return the keys that a cell shares with others, closest first."""
    return (cell.axes.framework, cell.axes.network), (cell.axes.framework,), ()


def plain(cell: Cell) -> float:
    """Return the estimate in s without knowledge of the machine."""
    axes, settings = cell.axes, cell.settings
    counts = _counts(axes.network)
    if settings.memory_gib is not None and counts["inputs"] * axes.batch * _DRAWN_BYTES > settings.memory_gib * (1 << 30):
        return _START_S
    training = 3 if axes.mode == "train" else 1  # a backward pass takes about twice a forward one
    rate = _FLOPS_PER_S[axes.device] * axes.devices * (axes.threads if axes.device == "cpu" else 1)
    operations = counts["flops"] * axes.batch * training / rate
    weights = 4 * counts["parameters"] * _PASSES_OVER_WEIGHTS[axes.mode] / _BYTES_PER_S[axes.device]
    step = operations + weights + _STEP_S
    least = max(settings.warmup, 2 * steady.GROUP) if settings.warmup else 0
    warmup = min(least * step, max(settings.warmup_seconds, step)) if least else 0.0
    launches = len(plan.order(settings.repeats, settings.passes)) + ("energy" in settings.passes)
    start = _START_S * (2 if axes.devices > 1 else 1)
    return float(launches * (start + counts["parameters"] * _WEIGHT_S + warmup + settings.steps * step))


@cache
def _counts(name: str) -> Mapping[str, int]:
    network = networks.get(name)
    flops = sum(layer.flops for layer in network.layers)
    return {
        "parameters": networks.parameter_count(network), "flops": flops, "inputs": networks.elements(network.input_shape),
    }  # fmt: skip
