"""Write a self-contained HTML report of a run, a comparison, sweeps or an imported capture, or print its tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.accounting.breakdowns import breakdown, tables
from kernelscope.analysis.comparisons.comparison import compare
from kernelscope.analysis.recordings import archives
from kernelscope.analysis.recordings.imported import Imported
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import figures, interactive, output, sharing, warn
from kernelscope.cli.breakdown import recording_cost
from kernelscope.cli.output import FORMATS, write_page
from kernelscope.cli.recorded import opened, recorded_comparison, target_file
from kernelscope.reports import captures

if TYPE_CHECKING:
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.reports.interactive import Interactive


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
    paths = [archives.folder(Path(path)) for path in arguments.paths]
    if arguments.figures is not None:
        drawn = figures.of_paths(paths, arguments.full_paths)
        figures.write(drawn, arguments.figures, arguments.style, arguments.force)
        if arguments.output is None and arguments.format is None:
            return 0
    kinds = [kind_of(path) for path in paths]
    if Kind.SWEEP in kinds:
        from kernelscope.cli import sweep_report  # matplotlib takes half a second to import

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
    capture = Imported(path)
    warn.about_info(capture.record["info"])
    record, tables = sharing.shareable(capture.record, full_paths), sharing.shareable(capture.breakdowns(), full_paths)
    if target is not None:
        from kernelscope.reports import html  # matplotlib takes half a second to import

        trace = sharing.shareable_trace(capture.trace(), full_paths)
        parts = interactive.of_capture(" \u00b7 ".join(str(entry["name"]) for entry in record["sources"]), trace)
        output.write_page(lambda: html.write_capture(record, tables, target, parts), target)
    if form == "table":
        output.write_capture(record, tables)
    elif form:
        output.write_breakdown(captures.first(tables) or sharing.shareable(capture.breakdown("kernel"), full_paths), form)


def _emit_comparison(result: dict[str, Any], parts: Callable[[], list[Interactive]], target: Path | None) -> None:
    """Write the HTML file of a comparison with its interactive parts, if one is wanted, and say where it is."""
    if target is not None:
        from kernelscope.reports import html  # matplotlib takes half a second to import

        write_page(lambda: html.write_comparison(result, target, parts()), target)


def _emit_run(result: dict[str, Any], run: Run, first: str | None, target: Path | None, full_paths: bool) -> None:
    """Write the HTML file of a run, if one is wanted, and say where it is."""
    if target is not None:
        from kernelscope.reports import html  # matplotlib takes half a second to import

        every = sharing.shareable(tables(run.trace()), full_paths)
        from kernelscope.cli import measured

        parts, drawn = measured.of_run(run), sharing.shareable_parts(interactive.of_runs([run]), full_paths)
        write_page(lambda: html.write_run(result, every, target, parts, drawn, first), target)
