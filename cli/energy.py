"""Show how many joules a step takes, and which layers take them, in runs recorded with --energy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kernelscope.analysis import energy
from kernelscope.analysis.recordings import archives
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli.output import FORMATS, write, write_rows
from kernelscope.reports import energy as energy_report
from kernelscope.reports.energy import INTERVALS, REPLAY, of_samples
from kernelscope.reports.table import of_rows

BY = ("step", "layer", "kind", "both")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders that `run --energy` or `compare --energy` wrote")
    parser.add_argument("--by", choices=BY, default="step", help="what a row is; both: layer and kind (default: step)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print one table for all runs."""
    found = [Run(Path(path)) for path in arguments.runs]
    alike = len({run.name for run in found}) < len(found)
    names = [archives.named(str(run.path)) if alike else run.name for run in found]
    rows, notes = _steps(found, names) if arguments.by == "step" else _layers(found, names, arguments.by)
    read = arguments.format in ("table", "markdown")
    title = (
        "Energy per step" if arguments.by == "step" else f"Energy of a step by {arguments.by.replace('both', 'layer and kind')}"
    )
    if not read:
        write_rows(rows, arguments.format, title, "energy")
        return 0
    name = {"step": "source", "kind": "kind"}.get(arguments.by, "layer")
    readable = [energy_report.readable(row) for row in rows]
    write(of_rows("energy", readable, title=title, first=(name, *energy_report.FIRST)), arguments.format)
    print("\n".join(notes))
    return 0


def _steps(runs: list[Any], names: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    found = [(name, summary) for name, run in zip(names, runs, strict=True) for summary in energy.steps(run)]
    unsteady = {name for name, summary in found if summary.steady is False}
    notes = [INTERVALS]
    notes += [f"{name}: temperature or power had not settled when the measurement began" for name in sorted(unsteady)]
    return [{"run": name, **summary.as_dict()} for name, summary in found], notes


def _layers(runs: list[Any], names: list[str], by: str) -> tuple[list[dict[str, Any]], list[str]]:
    rows, notes = [], []
    for name, run in zip(names, runs, strict=True):
        found = energy.layers(run, by)
        plain = found.rows.astype(object).where(found.rows.notna(), None)
        rows += [{"run": name, **{str(key): value for key, value in row.items()}} for row in plain.to_dict("records")]
        notes.append(f"{name}: {of_samples(found.facts)}")
        notes += energy_report.not_resolved(name, int(found.rows["reason"].notna().sum()), len(found.rows) - 1)
    if by == "layer":
        notes.append(REPLAY)
    return rows, notes
