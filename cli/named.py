"""The runs of a command line, each with a unique name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.comparisons import opening
from kernelscope.analysis.recordings.names import told_apart
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside.errors import UsageError


def runs(paths: Sequence[Path]) -> tuple[list[Run], list[dict[str, Any]]]:
    """Return the runs, and what their comparisons left out; runs of the same name are named after what differs in their folders.

    Raises UsageError if a run is named twice.
    """
    found, left_out = opening.runs(paths)
    by_name: dict[str, list[Run]] = {}
    for run in found:
        by_name.setdefault(run.name, []).append(run)
    for same in (same for same in by_name.values() if len(same) > 1):
        names = told_apart([run.path for run in same])
        if names is None or set(names) & set(by_name):
            raise UsageError(f"two runs are called {same[0].name}; name each folder once, or rename one of them")
        for run, name in zip(same, names, strict=True):
            run.name = name
    return found, left_out
