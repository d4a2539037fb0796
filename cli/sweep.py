"""Run the cells of an experiment: every combination of frameworks, networks, batches and so on that a TOML file lists.

The same command continues a sweep that was interrupted for any reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.errors import EvidenceError
from kernelscope.cli import sharing
from kernelscope.cli.output import FORMATS, write_rows
from kernelscope.reports.text import printable
from kernelscope.reports.units import duration
from kernelscope.tracer.outside import experiments
from kernelscope.tracer.outside.cells import AXES, Cell
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.estimates import Estimates
from kernelscope.tracer.outside.experiments import Experiment
from kernelscope.tracer.outside.sweep import DONE, RunningSweep, SweepProgress, finished, opened

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def _budget(text: str) -> float:
    """Return the seconds of a duration such as 90s, 30m or 2h."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 30m or 2h")
    return float(match[1]) * _UNITS_S[match[2]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("file", metavar="FILE.toml", help="the experiment: a file, or the name of an included one, such as thesis-small")
    add("-o", "--output", metavar="DIR", help="folder for the results, new or of the same sweep (optional with --dry-run)")
    add("--dry-run", action="store_true", help="list the cells with the time that each is expected to take, and run nothing")
    add("--only", action="append", default=[], metavar="AXIS=VALUE,...", help="run only cells with these values (repeatable)")
    add("--budget", type=_budget, metavar="TIME", help="start no cell that is expected to end after this time: 90s, 30m, 2h")
    add("--retry-failed", action="store_true", help="run cells again whose result is any kind of failure")
    add("--format", choices=FORMATS, default="table", help="format of the cells on stdout (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Run the unfinished cells, then print all cells with their results; a failure is a result too."""
    experiment = experiments.load(arguments.file)
    cells = _only(experiment, arguments.only)
    if arguments.dry_run:
        _list(experiment, cells, arguments)
        return 0
    if arguments.output is None:
        raise UsageError("-o DIR is missing; name a folder for the results")
    folder = Path(arguments.output)
    with opened(folder, experiment, _measured, lambda rows: _publish(folder, rows), _waiting) as sweep:
        pending = sweep.pending(cells, arguments.retry_failed)
        known = len([cell for cell in cells if cell.excluded is None]) - len(pending)
        if known:
            print(f"kernelscope: {known} of {known + len(pending)} cells already have their result", file=sys.stderr)
        with _shown() as show:
            sweep.run(pending, show, arguments.budget)
        _summarise(sweep, cells, arguments.format)
    return 0


def _measured(folder: Path) -> tuple[dict[str, Any], str | None]:
    """Return what a cell's new run folder holds, or why it holds nothing; overwrite what looks like a secret first."""
    sharing.overwrite_secrets(folder)
    try:
        return sweeps.measured(folder), None
    except EvidenceError as error:
        return {}, str(error)


def _publish(folder: Path, rows: list[dict[str, Any]]) -> None:
    sweeps.write(folder, rows)


def _waiting() -> None:
    print("kernelscope: waiting for another process that works on this sweep", file=sys.stderr)


def _only(experiment: Experiment, texts: Sequence[str]) -> list[Cell]:
    """Return the cells that have, for each axis in --only, one of its values; raise UsageError for unknown values."""
    wanted: dict[str, set[str]] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        axis, equals, value = part.partition("=")
        if not equals or axis not in AXES:
            raise UsageError(f"--only {part}: write AXIS=VALUE with an axis of {', '.join(AXES)}")
        values = {_shown_value(cell.axes.as_dict()[axis]) for cell in experiment.cells}
        if value not in values:
            raise UsageError(f"--only {part}: no cell has it; {axis} is one of {', '.join(sorted(values))}")
        wanted.setdefault(axis, set()).add(value)
    return [
        cell for cell in experiment.cells
        if all(_shown_value(cell.axes.as_dict()[axis]) in values for axis, values in wanted.items())
    ]  # fmt: skip


def _shown_value(value: Any) -> str:
    """Return an axis's value as the file has it."""
    if value is None:
        return "default"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(experiment: Experiment, cells: Sequence[Cell], arguments: argparse.Namespace) -> None:
    """Print the cells with the time that each is expected to take; cells with a result in DIR take none."""
    folder = Path(arguments.output) if arguments.output else None
    results = {cell.key: finished(folder, cell) if folder else None for cell in experiment.cells}
    estimates, total, rows = Estimates(), 0.0, list[dict[str, Any]]()
    for cell in experiment.cells:
        result = results[cell.key]
        if result is not None and result.status == DONE and result.seconds:
            estimates.learn(cell, result.seconds)
    for cell in cells:
        result = results[cell.key]
        state = result.status if result else "left out" if cell.excluded else "to run"
        again = state == "to run" or (arguments.retry_failed and state not in (DONE, "left out"))
        seconds = round(estimates.seconds(cell), 1) if again else 0.0
        total += seconds
        rows.append({"cell": cell.key, "state": state, "seconds": seconds, "reason": result.reason if result else cell.excluded})
    write_rows(rows, arguments.format, experiment.title, "sweep-plan")
    print(f"{sum(row['seconds'] != 0 for row in rows)} cells to run, about {duration(round(total * 1e9))}", file=sys.stderr)


def _summarise(sweep: RunningSweep, cells: Sequence[Cell], form: str) -> None:
    """Print a row per cell, and how many cells have each status."""
    keys = {cell.key for cell in cells}
    table = sweeps.read(sweep.folder).cells
    table = table[table["cell"].isin(keys)]
    names = ("cell", "status", "step_ns", "samples_per_second", "host_memory_mib", "seconds", "reason")
    rows: list[dict[str, Any]] = [
        {name: None if value is None or value != value else value for name, value in zip(names, values, strict=True)}
        for values in table[list(names)].astype(object).where(table[list(names)].notna(), None).itertuples(index=False)
    ]
    if form in ("table", "markdown"):
        rows = [_readable(row, printable) for row in rows]
    write_rows(rows, form, sweep.experiment.title, "sweep")
    counts = table["status"].value_counts()
    totals = ", ".join(f"{counts[status]} {status}" for status in sweeps.STATUSES if status in counts.index)
    print(f"{totals}; to draw them: kernelscope report {sweep.folder}", file=sys.stderr)
    beside = sweeps.disturbed({"foreign_cores": None if cores != cores else cores} for cores in table["foreign_cores"])
    if beside:
        print(f"kernelscope: warning: {beside}", file=sys.stderr)


def _readable(row: dict[str, Any], printable: Callable[[object], str]) -> dict[str, Any]:
    reason = row["reason"]
    return {
        "cell": row["cell"], "status": row["status"], "step": duration(row["step_ns"]), "samples/s": row["samples_per_second"],
        "memory, MiB": row["host_memory_mib"], "took, s": row["seconds"], "reason": printable(reason) if reason else None,
    }  # fmt: skip


@contextmanager
def _shown() -> Iterator[Callable[[SweepProgress], None]]:
    """Show the progress of the sweep on stderr: a bar on a terminal, a line per cell elsewhere."""
    if not sys.stderr.isatty():
        yield _line
        return

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: SweepProgress) -> None:
            if progress.result is not None:
                bar.console.print(escape(_outcome(progress)), highlight=False)
            text = f"{_time(progress.left_s)} left · {escape(progress.text)}"
            bar.update(task, completed=progress.over, total=progress.wanted, description=text)

        yield show


def _line(progress: SweepProgress) -> None:
    if progress.result is not None:
        left = f", {_time(progress.left_s)} left" if progress.over < progress.wanted else ""
        print(f"[{progress.over}/{progress.wanted}] {_outcome(progress)}{left}", file=sys.stderr, flush=True)


def _outcome(progress: SweepProgress) -> str:
    """Return the result of a cell in one line."""
    result = progress.result
    assert result is not None
    if result.reason is not None:
        return f"{progress.text}: {result.status}: {printable(result.reason)}"
    return f"{progress.text}: {duration(result.values['step_ns'])} a step, took {result.seconds:.1f} s"


def _time(seconds: float) -> str:
    """Return an approximate time in words."""
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
