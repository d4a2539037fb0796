"""A cell of a sweep: one combination of the varied parameters (its axes), and the settings that it is measured with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from kernelscope.tracer.inside.plan import PASSES
from kernelscope.tracer.outside import energy
from kernelscope.tracer.outside.options import RunOptions

PASS_NAMES = (*PASSES, energy.NAME)
_GIB = 1 << 30


@dataclass(frozen=True)
class Settings:
    """How a cell is measured, as the keys of a sweep's file; their meanings are those of RunOptions.

    warmup_seconds: the longest warm-up. memory_gib: the most that a process may allocate; None: on a CPU, the machine's memory.
    timeout: seconds within which a process must answer.
    """

    steps: int = 10
    warmup: int = 2
    warmup_seconds: float = 3.0
    repeats: int = 2
    passes: tuple[str, ...] = ("clean",)
    memory_gib: float | None = None
    timeout: float = 300.0
    seed: int = 0
    steady: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "passes": list(self.passes)}


@dataclass(frozen=True)
class Axes:
    """What distinguishes a cell from others. None is the framework's own default."""

    framework: str
    network: str
    mode: str
    batch: int
    threads: int
    device: str
    devices: int
    precision: str | None
    layout: str | None
    autotune: bool | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


AXES = tuple(field.name for field in fields(Axes))


@dataclass(frozen=True)
class Cell:
    """One cell. excluded: why the sweep's file leaves it out, if it does."""

    axes: Axes
    settings: Settings
    excluded: str | None = None

    @property
    def key(self) -> str:
        """Its name, also that of its folder: the axes, without those at their defaults."""
        a = self.axes
        parts = [a.framework, a.network, a.mode, f"b{a.batch}", a.device, f"t{a.threads}"]
        parts += [f"x{a.devices}"] if a.devices > 1 else []
        parts += [text for text in (a.precision, a.layout) if text is not None]
        parts += [] if a.autotune is None else ["autotune" if a.autotune else "no_autotune"]
        return "-".join(parts)

    @property
    def turn(self) -> tuple[Any, ...]:
        """What cells that take turns have in common: everything except the framework."""
        return (*(value for name, value in self.axes.as_dict().items() if name != "framework"), self.settings)

    def options(self, memory_bytes: int | None) -> RunOptions:
        """Return the options of its session; memory_bytes: the limit if its file gives none."""
        a, s = self.axes, self.settings
        return RunOptions(
            network=a.network, mode=a.mode, batch=a.batch, device=a.device, threads=a.threads, seed=s.seed, steps=s.steps,
            warmup=s.warmup, repeats=s.repeats, steady=s.steady, timeout_s=s.timeout, energy=energy.NAME in s.passes,
            passes=tuple(name for name in PASSES if name in s.passes), precision=a.precision, layout=a.layout,
            autotune=a.autotune, devices=a.devices, warmup_s=s.warmup_seconds,
            memory_bytes=round(s.memory_gib * _GIB) if s.memory_gib is not None else memory_bytes,
        )  # fmt: skip
