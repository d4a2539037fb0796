"""Report sweeps: what `report` does with folders that `sweep` wrote."""

from __future__ import annotations

import sys
from pathlib import Path

from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.comparisons.sweeps import Sweep
from kernelscope.cli.output import target_file, write_page, write_rows
from kernelscope.reports.renderers import to_csv
from kernelscope.reports.sweeps import cells, page
from kernelscope.tracer.outside.errors import InputError, UsageError

DEFAULT = Path("report") / "report.html"  # in the sweep's folder: only ours, and replaced every time


def run(paths: list[Path], output: str | None, force: bool, form: str | None) -> None:
    """Write the page of these sweeps with its figures and tables, unless only printing is requested; print if requested.

    output: the page's path (default for one sweep: DEFAULT in its folder). form: one of cli.output.FORMATS or None.
    """

    found = [sweeps.read(path) for path in paths]
    if output is not None or form is None:
        _write(found, _target(paths, output, force))
    if form:
        _print(found, form)


def _target(paths: list[Path], output: str | None, force: bool) -> Path:
    """Return the page's path; raise UsageError or InputError if there is none, or if something would be lost."""
    if output is None:
        if len(paths) > 1 or not paths[0].is_dir():
            what = "several sweeps" if len(paths) > 1 else f"{paths[0]}: an archive"
            raise UsageError(f"{what}; name the report's file with -o FILE.html")
        return paths[0] / DEFAULT
    target = target_file(output, force, paths)
    if not force:
        for folder in page.folders(target):
            if folder.exists():
                raise InputError(
                    f"{folder}: exists, and the report would write into it; name a file in another folder or pass --force"
                )
    return target


def _write(found: list[Sweep], target: Path) -> None:
    written: list[Path] = []
    write_page(lambda: written.extend(page.write(found, target)), target)
    for folder in page.folders(target):
        count = sum(file.parent == folder for file in written)
        print(f"{folder.name}: {folder} ({count} files)", file=sys.stderr)


def _print(found: list[Sweep], form: str) -> None:
    """Print a row per cell; for reading, only columns with values."""
    if form == "csv":
        sys.stdout.write(to_csv(cells.table(cells.rows(found))))
        return
    rows = [{name: value for name, value in row.items() if name != "path"} for row in cells.rows(found)]
    if form in ("table", "markdown"):
        shown = cells.READABLE
        rows = [{name: row[name] for name in shown} for row in rows]
        rows = [{name: row[name] for name in shown if any(other[name] is not None for other in rows)} for row in rows]
    write_rows(rows, form, "cells", "sweep_cells")
