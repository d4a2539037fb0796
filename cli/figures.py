"""Write the figures of `report` as files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.accounting.envelopes import envelopes
from kernelscope.analysis.comparisons import opening, sweeps
from kernelscope.analysis.comparisons.comparison import compare
from kernelscope.analysis.recordings import imported, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import named, sharing
from kernelscope.cli.roofline import best_known
from kernelscope.reports import measured
from kernelscope.reports.figures import STYLES, files, gathered
from kernelscope.reports.figures.gathered import Figures
from kernelscope.reports.sections import identifier
from kernelscope.reports.sweeps import page
from kernelscope.reports.sweeps.chart import Chart
from kernelscope.tracer.outside.errors import InputError


def write(figures: Figures, folder: str, style: str, force: bool) -> None:
    """Write figures into a folder and name them.

    Raises InputError if the folder cannot be written, if files in it would be lost, or if there is nothing to draw.
    """

    target = Path(folder)
    if not figures:
        raise InputError(f"{target}: nothing to draw: the recording has no numbers for a figure")
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
    """Return the figures of the recordings at these paths; raise what reading them raises."""
    kinds = [kind_of(path) for path in paths]
    if Kind.SWEEP in kinds:
        return _of_sweeps(paths)
    if kinds == [Kind.IMPORT]:
        return gathered.of_capture(sharing.shareable(imported.Imported(paths[0]).breakdowns(), full_paths))
    if kinds == [Kind.CAPTURE]:
        return gathered.of_capture(sharing.shareable(envelopes(reading.read(paths[0])), full_paths))
    recorded = opening.recorded_comparison(paths)
    if recorded is not None:
        return gathered.of_comparison(sharing.shareable(recorded, full_paths))
    runs, left_out = named.runs(paths)
    result = compare(runs, left_out)
    return _of_run(result, runs[0]) if len(runs) == 1 else gathered.of_comparison(result)


def _of_run(result: Mapping[str, Any], run: Run) -> Figures:
    drawn = {identifier(part.title).lower(): part.draw for part in measured.of_run(run, best_known) if part.draw is not None}
    restarts = [(data.measured["end_ns"] - data.measured["start_ns"]).tolist() for data in run.passes("clean")]
    return gathered.of_run(dict(result), envelopes(run.trace()), restarts) | drawn


def _of_sweeps(paths: Sequence[Path]) -> Figures:
    found = page.content([sweeps.read(path) for path in paths])
    return {chart.key: chart.draw for chart in found.charts if isinstance(chart, Chart)}
