"""Read reports of Nsight Compute by NVIDIA's library for that, the package ncu-report, where it is installed beside us.

The library is native code and what it reads is of unknown origin, so it runs in a process of its own.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from kernelscope.nsys_wrappers.export import ExportError, run_logged, telling_line

PACKAGE = "ncu-report"
_RUNS = "kernelscope.nsys_wrappers.ncu_pages"


def version() -> str | None:
    """Return the library's version; None if it is not installed."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def export_pages(report: Path, folder: Path) -> tuple[Path, Path]:
    """Write a report into the folder as two tables, and return their paths: launches with their metrics, and what rules say.

    The first is as `ncu --csv --page raw` prints it, in base units. Raises ExportError if the library cannot read the report.
    """
    launches, rules = folder / "launches.csv", folder / "rules.csv"
    command = [sys.executable, "-P", "-m", _RUNS, str(report.absolute()), str(launches), str(rules)]
    status, printed = run_logged(command, folder, report)
    if status < 0:
        raise ExportError(f"{PACKAGE} {version()} ended by signal {-status} on it")
    if status:
        raise ExportError(f"{PACKAGE} {version()} did not read it: {telling_line(printed)}")
    return launches, rules
