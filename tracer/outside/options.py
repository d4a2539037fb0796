"""What a run was asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kernelscope.tracer.inside import plan


@dataclass(frozen=True)
class RunOptions:
    """Everything that decides what is run; equal for all sides of a comparison.

    steps: measured steps per repeat of a pass. warmup: least number of steps before measuring (0: none). threads: processor
    threads of each framework. timeout_s: how long a child may take to answer. data: folder of the user's data files.
    collector: what records the kernels pass, see collectors. keep_reports: keep nsys's own reports beside their exports.
    energy: whether to add the energy pass, see energy.
    """

    network: str
    mode: str = "train"
    batch: int = 64
    device: str = "cpu"
    threads: int = 1
    seed: int = 0
    steps: int = 30
    warmup: int = 10
    repeats: int = 3
    steady: bool = False
    timeout_s: float = 300.0
    data: str | None = None
    collector: str = "auto"
    keep_reports: bool = False
    energy: bool = False

    def windows(self) -> list[int]:
        """Return the number of steps of each window of one repeat."""
        found: list[int] = plan.windows(self.steps)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for run.json."""
        return asdict(self)
