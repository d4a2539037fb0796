"""Does an exported capture hold what was asked for? Plain SQL on what nsys or nvprof exported, compared with what was emitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Verification:
    """What arrived of what was asked for.

    emitted, recorded: NVTX ranges that the program opened and those of the same names in the capture; lost: by name, how many
    are not there. kernels: GPU kernels in the capture; graphs: executions of CUDA graphs recorded as one interval each.
    missing: one line each, with reason and remedy. warnings: what the tool says that may have cost events.
    """

    emitted: int
    recorded: int
    lost: dict[str, int]
    kernels: int
    graphs: int
    missing: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as run.json keeps it: {"nvtx": {"emitted": n, "recorded": m}, "kernels": n, "lost": {...}, ...}."""
        return {
            "nvtx": {"emitted": self.emitted, "recorded": self.recorded},
            "kernels": self.kernels,
            "graphs": self.graphs,
            "lost": self.lost,
            "missing": list(self.missing),
            "warnings": list(self.warnings),
        }


def verify(exported: Path, emitted: Mapping[str, int], cuda: bool = False, version: str = "") -> Verification:
    """Compare the SQLite file that nsys exported (or nvprof wrote) with what the program emitted.

    emitted: how often a range of each name was opened. cuda: kernels were to be recorded. version: of the tool that recorded,
    where it is known better than by the file. Never raises for what the file lacks; a file that cannot be read is one missing
    line.
    """
    raise NotImplementedError
