"""The step of a sweep's cell by kind of kernel, from the kernels pass of its run folder."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.comparisons.recording import open_recording
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run

NOT_RECORDED = "no kernels pass"
ONLY_TOTALS = "its kernels pass has only totals"


def recorded(folder: Path) -> bool:
    """Return whether a cell's run folder has a kernels pass; only run.json is read."""
    try:
        return bool(Run(folder).record.get("passes", {}).get("kernels", {}).get("folders"))
    except EvidenceError:
        return False


def by_kind(folder: Path) -> dict[str, int]:
    """Return the ns of each kind in the mean step of the kernels pass, host time included: they add up to that step.

    Raises EvidenceError if that is unknown.
    """
    if not recorded(folder):
        raise EvidenceError(NOT_RECORDED)
    found = open_recording(folder).breakdown("kind")
    if found.step_ns is None:
        raise EvidenceError(ONLY_TOTALS)
    sums = found.table.groupby("kind", sort=False)["time_ns"].sum()
    return {str(kind): int(ns) for kind, ns in sums.items()}
