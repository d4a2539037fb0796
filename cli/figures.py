"""Figures as files: the options of `report` and `explain`, and which figures there are of what they were given.

What draws is imported where it draws: matplotlib takes half a second to import.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.accounting.breakdowns import tables
from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.comparisons.comparison import compare
from kernelscope.analysis.recordings import imported
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.cli import recorded, sharing
from kernelscope.reports.sections import identifier
from kernelscope.tracer.outside.errors import InputError

if TYPE_CHECKING:
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.reports.figures.gathered import Figures

STYLES = ("paper", "slides")  # reports.figures.STYLES, which is slow to import


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--figures", metavar="DIR", help="write each figure there as PNG, SVG and PDF")
    add("--style", choices=STYLES, default="paper", help="of these: paper is readable in black and white (default: paper)")


def write(figures: Figures, folder: str, style: str, force: bool) -> None:
    """Write figures into a folder and say how many there are.

    Raises InputError when the folder cannot be written, when files in it would be lost, or when there is nothing to draw.
    """
    from kernelscope.reports.figures import STYLES, files

    target = Path(folder)
    if not figures:
        raise InputError(f"{target}: nothing to draw: what is reported has no numbers for a figure")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; name a folder for the figures")
    lost = next((name for name in files.names(figures) if (target / name).exists()), None)
    if lost and not force:
        raise InputError(f"{target / lost}: exists; name another folder or pass --force to replace it")
    try:
        files.write(figures, target, STYLES[style])
    except OSError as error:
        raise InputError(f"{target}: not writable: {error.strerror or error}; name another folder") from error
    print(f"figures: {target} ({', '.join(figures)}; as {', '.join(files.FORMS)})", file=sys.stderr)


def of_paths(paths: Sequence[Path], full_paths: bool = False) -> Figures:
    """Return the figures of what `report` was given; raise what reading it raises."""
    from kernelscope.reports.figures import gathered

    kinds = [kind_of(path) for path in paths]
    if Kind.SWEEP in kinds:
        return _of_sweeps(paths)
    if kinds == [Kind.IMPORT]:
        return gathered.of_capture(sharing.shareable(imported.Imported(paths[0]).breakdowns(), full_paths))
    comparison = recorded.recorded_comparison(paths)
    if comparison is not None:
        return gathered.of_comparison(sharing.shareable(comparison, full_paths))
    runs, left_out = recorded.opened(paths)
    result = compare(runs, left_out)
    return _of_run(result, runs[0]) if len(runs) == 1 else gathered.of_comparison(result)


def _of_run(result: Mapping[str, Any], run: Run) -> Figures:
    from kernelscope.cli import measured
    from kernelscope.reports.figures import gathered

    drawn = {identifier(part.title).lower(): part.draw for part in measured.of_run(run) if part.draw is not None}
    restarts = [(data.measured["end_ns"] - data.measured["start_ns"]).tolist() for data in run.passes("clean")]
    return gathered.of_run(dict(result), tables(run.trace()), restarts) | drawn


def _of_sweeps(paths: Sequence[Path]) -> Figures:
    from kernelscope.reports.sweeps import page
    from kernelscope.reports.sweeps.chart import Chart

    found = page.content([sweeps.read(path) for path in paths])
    return {chart.key: chart.draw for chart in found.charts if isinstance(chart, Chart)}
