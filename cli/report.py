"""Write a self-contained HTML report of a run, a comparison, sweeps or an imported capture, or print its tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.cli import figures, interactive, sharing
from kernelscope.cli.output import FORMATS

if TYPE_CHECKING:
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.reports.interactive import Interactive
    from kernelscope.reports.measured import Part

NAME = "report"
HELP = "a report of a run, or of several side by side"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a folder that `compare` or `import` wrote, run folders or folders that `sweep` wrote: one, or several side by side",
    )
    add(
        "-o",
        "--output",
        metavar="FILE.html",
        help="write the report there: one file that needs nothing else (sweeps: figures and tables beside it; "
        "default report/report.html in the sweep's folder)",
    )
    add("--force", action="store_true", help="replace FILE.html, or figures, if they exist")
    add(
        "--format",
        choices=FORMATS,
        help="print on stdout (default: table, unless -o or --figures is given or sweeps are named); csv is the table of layers, "
        "or of cells",
    )
    figures.configure(parser)
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read what was recorded, write the report, print it where asked for."""
    from kernelscope.analysis.recordings import archives
    from kernelscope.analysis.recordings.kinds import Kind, kind_of
    from kernelscope.cli import output

    paths = [archives.folder(Path(path)) for path in arguments.paths]
    if arguments.figures is not None:
        drawn = figures.of_paths(paths, arguments.full_paths)
        figures.write(drawn, arguments.figures, arguments.style, arguments.force)
        if arguments.output is None and arguments.format is None:
            return 0
    kinds = [kind_of(path) for path in paths]
    if Kind.SWEEP in kinds:
        from kernelscope.cli import sweep_report

        sweep_report.run([Path(path) for path in arguments.paths], arguments.output, arguments.force, arguments.format)
        return 0
    target = target_file(arguments.output, arguments.force) if arguments.output else None
    form = arguments.format or (None if target else "table")
    if kinds == [Kind.IMPORT]:
        _report_import(paths[0], target, form, arguments.full_paths)
        return 0
    recorded = recorded_comparison(paths)
    if recorded is not None:
        recorded = sharing.shareable(recorded, arguments.full_paths)
        parts = partial(interactive.beside, recorded, paths[0] if paths[0].is_dir() else paths[0].parent)
        _emit_comparison(recorded, lambda: sharing.shareable_parts(parts(), arguments.full_paths), target)
        if form:
            output.write_comparison(recorded, form)
        return 0
    runs, left_out = opened(paths)
    _report_runs(runs, left_out, target, form, arguments.full_paths)
    return 0


def write(path: Path, target: Path) -> None:
    """Write the report of one run there, and say on stderr where it is."""
    runs, left_out = opened([path])
    _report_runs(runs, left_out, target, None, full_paths=False)


def _report_runs(
    runs: list[Run], left_out: list[dict[str, Any]], target: Path | None, form: str | None, full_paths: bool
) -> None:
    """Report one run with its breakdowns, or several side by side."""
    from kernelscope.analysis.accounting.breakdowns import breakdown
    from kernelscope.analysis.comparisons.comparison import compare
    from kernelscope.cli import output
    from kernelscope.cli.breakdown import recording_cost

    result = sharing.shareable(compare(runs, left_out), full_paths)
    alone = len(runs) == 1
    if alone:
        by_layer = breakdown(runs[0].trace(), "layer")
        first = recording_cost(runs[0], by_layer)
        _emit_run(result, runs[0], first, target, full_paths)
    else:
        _emit_comparison(result, lambda: sharing.shareable_parts(interactive.of_runs(runs), full_paths), target)
    if form and alone:
        output.write_breakdown(by_layer.as_dict(), form, first)
    elif form:
        output.write_comparison(result, form)


def _report_import(path: Path, target: Path | None, form: str | None, full_paths: bool) -> None:
    """Report an imported capture."""
    from kernelscope.analysis.recordings.imported import Imported
    from kernelscope.cli import output, warn
    from kernelscope.reports.captures import first

    capture = Imported(path)
    warn.about_info(capture.record["info"])
    record, tables = sharing.shareable(capture.record, full_paths), sharing.shareable(capture.breakdowns(), full_paths)
    if target is not None:
        from kernelscope.reports import html

        trace = sharing.shareable_trace(capture.trace(), full_paths)
        parts = interactive.of_capture(" \u00b7 ".join(str(entry["name"]) for entry in record["sources"]), trace)
        output.write_page(lambda: html.write_capture(record, tables, target, parts), target)
    if form == "table":
        output.write_capture(record, tables)
    elif form:
        output.write_breakdown(first(tables) or sharing.shareable(capture.breakdown("kernel"), full_paths), form)


def _emit_comparison(result: dict[str, Any], parts: Callable[[], list[Interactive]], target: Path | None) -> None:
    """Write the HTML file of a comparison with its interactive parts, if one is wanted, and say where it is."""
    from kernelscope.cli.output import write_page
    from kernelscope.reports import html

    if target is not None:
        write_page(lambda: html.write_comparison(result, target, parts()), target)


def _emit_run(result: dict[str, Any], run: Run, first: str | None, target: Path | None, full_paths: bool) -> None:
    """Write the HTML file of a run, if one is wanted, and say where it is."""
    from kernelscope.cli.output import write_page
    from kernelscope.reports import html

    if target is not None:
        tables = sharing.shareable(breakdowns(run), full_paths)
        parts, drawn = measured_parts(run), sharing.shareable_parts(interactive.of_runs([run]), full_paths)
        write_page(lambda: html.write_run(result, tables, target, parts, drawn, first), target)


def breakdowns(run: Run) -> list[dict[str, Any]]:
    """Return the run's tables by everything there is; what its evidence does not hold is left out with the reason."""
    from kernelscope.analysis.accounting.breakdowns import BY, breakdown
    from kernelscope.analysis.errors import EvidenceError

    found: list[dict[str, Any]] = []
    for by in BY:
        try:
            found.append(breakdown(run.trace(), by).as_dict())
        except EvidenceError as error:
            found.append({"by": by, "unavailable": str(error), "rows": []})
    return found


def measured_parts(run: Run) -> list[Part]:
    """Return the roofline and the energy of a run, as far as it has what they take."""
    found = []
    record = run.record.get("ceilings") or {}
    if isinstance(record, dict) and (record.get("copies") or record.get("products")):
        found.append(_part("Roofline", lambda: _roofline(run, record)))
    if "energy" in run.record.get("passes", {}):
        found.append(_part("Energy", lambda: _energy(run)))
    return found


def _part(title: str, make: Callable[[], Part]) -> Part:
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.reports import measured

    try:
        return make()
    except EvidenceError as error:
        return measured.unavailable(title, str(error))


def _roofline(run: Run, record: dict[str, Any]) -> Part:
    from kernelscope.analysis.device import ceilings
    from kernelscope.analysis.device.roofline import roofline
    from kernelscope.cli.roofline import best_known
    from kernelscope.reports import measured

    known = ceilings.of_record(best_known(record), str(run.path / "run.json"))
    return measured.roofline(roofline(run.trace(), "kernel", known).as_dict())


def _energy(run: Run) -> Part:
    from kernelscope.analysis import energy
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.reports import measured

    steps = [summary.as_dict() for summary in energy.steps(run)]
    try:
        split = energy.layers(run)
    except EvidenceError as error:
        return measured.energies(steps, [], None, str(error))
    plain = split.rows.astype(object).where(split.rows.notna(), None).to_dict("records")
    return measured.energies(steps, [{str(key): value for key, value in row.items()} for row in plain], split.facts, None)


def target_file(text: str, force: bool) -> Path:
    """Return where the report goes; raise InputError when a file there would be lost or the folder cannot be made."""
    from kernelscope.tracer.outside.errors import InputError

    target = Path(text)
    if target.is_dir():
        raise InputError(f"{target}: is a folder; name a file, such as {target / 'report.html'}")
    if target.exists() and not force:
        raise InputError(f"{target}: exists; name another file or pass --force to replace it")
    return target


def recorded_comparison(paths: Sequence[Path]) -> dict[str, Any] | None:
    """Return the comparison that the only path names, as `compare` wrote it; None when runs are named."""
    from kernelscope.analysis.comparisons.comparison import SCHEMA
    from kernelscope.analysis.errors import EvidenceError
    from kernelscope.analysis.recordings.kinds import COMPARISON, Kind, kind_of
    from kernelscope.analysis.trace.records import read_object

    if len(paths) > 1:
        return None
    if kind_of(paths[0]) is not Kind.COMPARISON:
        return None
    file = paths[0] if paths[0].is_file() else paths[0] / COMPARISON
    result = read_object(file)
    name, _, newest = SCHEMA.rpartition("/")
    kind, _, version = str(result.get("schema")).rpartition("/")
    if kind != name or not version.isdigit():
        raise EvidenceError(f"{file}: not a comparison; name a folder that `run` or `compare` wrote")
    if int(version) > int(newest):
        raise EvidenceError(f"{file}: written in schema {version}, this version reads up to {newest}; upgrade kernelscope")
    return result


def opened(paths: Sequence[Path]) -> tuple[list[Run], list[dict[str, Any]]]:
    """Open the run folders, those of comparisons among the paths included; raise UsageError when two are called the same."""
    from kernelscope.analysis.explain import again
    from kernelscope.analysis.recordings.kinds import COMPARISON, Kind, kind_of
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.analysis.trace.records import read_object
    from kernelscope.tracer.outside.errors import UsageError

    runs: list[Run] = []
    left_out: list[dict[str, Any]] = []
    for path in paths:
        if kind_of(path) is Kind.COMPARISON:
            recorded = read_object(path / COMPARISON)
            runs += [Run(path / name) for name in recorded["frameworks"]]
            left_out += recorded.get("left_out", [])
        else:
            runs.append(Run(path))
    names = [run.name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        profiled = again.recorded_by(next(run for run in runs if run.name == twice[0]).record) == again.PROFILE
        label = "--label NAME" if profiled else f"-f LABEL={twice[0]}"
        raise UsageError(f"two runs are called {twice[0]}; record one of them with a label: {label}")
    return runs, left_out
