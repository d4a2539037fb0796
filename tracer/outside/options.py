"""What a run was asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

PASSES = ("check", "clean", "layers", "kernels", "lines")
WINDOW_STEPS = 5  # steps of one turn: short against the machine's drift, long against the switch between children
HOST_BATCHES = 8  # distinct batches that are cycled through

# The C library's allocator gives memory back and faults it in again each step; spinning threads disturb whoever runs next.
STEADY_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_WAIT_POLICY": "passive",
}


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
        whole, rest = divmod(self.steps, WINDOW_STEPS)
        return [WINDOW_STEPS] * whole + ([rest] if rest else [])

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for run.json."""
        return asdict(self)
