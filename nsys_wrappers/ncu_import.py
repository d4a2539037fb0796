"""Run an installed Nsight Compute to turn its reports into tables that others can read."""

from __future__ import annotations

from pathlib import Path

from kernelscope.nsys_wrappers.export import ExportError, run_logged, telling_line
from kernelscope.nsys_wrappers.find import Tool

# Exact numbers first; releases before 2020.2 lack this option
_UNITS: tuple[list[str], ...] = (["--print-units", "base"], [])


def export_csv(tool: Tool, report: Path, folder: Path) -> Path:
    """Print a report's launches with all their metrics as CSV into a file in the folder, and return its path.

    Nothing is written beside the report. Raises ExportError if ncu fails, takes too long or prints no table.
    """
    failure = ""
    for units in _UNITS:
        command = [str(tool.path), "--import", str(report.absolute()), "--csv", "--page", "raw", *units]
        status, printed = run_logged(command, folder, report)
        log = folder / "output.txt"
        if status == 0 and log.stat().st_size:
            return log.rename(folder / "report.csv")
        failure = failure or telling_line(printed)
    raise ExportError(f"ncu {tool.version} ({tool.path}) did not read it: {failure}")
