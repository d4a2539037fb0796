"""The options of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kernelscope.tracer.inside import plan
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.suggestions import meant
from kernelscope.workloads import networks


def check_workload(name: str) -> None:
    """Raise UsageError that lists the known workloads if there is no such workload."""
    if name not in networks.NETWORKS:
        known = ", ".join(networks.NETWORKS)
        raise UsageError(f"unknown workload {name!r}; known: {known}{meant(name, networks.NETWORKS)}")


@dataclass(frozen=True)
class RunOptions:
    """All options that decide what is run; equal for all sides of a comparison.

    steps: measured steps per repeat of a pass. warmup: least number of steps before measuring (0: none). threads: CPU threads
    of each framework. timeout_s: how long a child may take to answer. data: folder of the user's data files. loader: None
    reads them before the steps, "files" in every step, "records" in every step from the framework's own format. collector:
    what records the kernels pass, see collectors. keep_reports: keep nsys's own reports beside their exports. energy: add the
    energy pass, see energy. passes: those of plan.PASSES to run. precision ("float32", "float16", "bfloat16"), layout
    ("channels_first", "channels_last") and autotune: None is the framework's own default. devices: how many share a batch (on
    a CPU, devices or processes of the framework's own, `threads` each). memory_bytes: the most that a child may allocate
    (None: no limit). warmup_s: the longest warm-up. full_paths: keep home folders and user names in the output (see
    tracer.inside.disclosure).
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
    loader: str | None = None
    collector: str = "auto"
    keep_reports: bool = False
    energy: bool = False
    passes: tuple[str, ...] = plan.PASSES
    precision: str | None = None
    layout: str | None = None
    autotune: bool | None = None
    devices: int = 1
    memory_bytes: int | None = None
    warmup_s: float = plan.WARMUP_S
    full_paths: bool = False

    def windows(self) -> list[int]:
        """Return the number of steps of each window of one repeat."""
        result: list[int] = plan.windows(self.steps)
        return result

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for run.json."""
        return {**asdict(self), "passes": list(self.passes)}
