"""Write a self-contained HTML report of a run, a comparison, sweeps or a capture, or print its tables."""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from kernelscope.analysis import advise
from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.comparisons import opening
from kernelscope.analysis.comparisons.comparison import compare
from kernelscope.analysis.files import whole
from kernelscope.analysis.recordings import archives, imported, reading
from kernelscope.analysis.recordings.imported import Imported
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import comparisons, named, output, sharing, warn
from kernelscope.cli.breakdown import recording_cost
from kernelscope.cli.output import FORMATS, figure_options
from kernelscope.reports.captures import first
from kernelscope.reports.text import printable
from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside.errors import InputError, UsageError
from kernelscope.tracer.version import VERSION

_PERFETTO = re.compile(r'(<p class="note" id="perfetto">Every event, for Perfetto: ).*?(</p>)', re.DOTALL)
_GENERATED, _HEAD = '<meta name="generator" content="kernelscope', 4000  # within the first characters of each of our pages


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a capture, a folder that `compare` or `import` wrote, or one or several run folders or folders that `sweep` wrote, "
        "shown side by side",
    )
    add(
        "-o",
        "--output",
        metavar="FILE.html",
        help="write the report to this self-contained file; for sweeps, figures and tables go beside it (default: report.html in "
        "the folder if only one is named, PATH.html beside a capture, report/report.html in a sweep)",
    )
    add("--force", action="store_true", help="replace FILE.html, or figures, if they exist")
    add("--perfetto", action="store_true", help="also write every event to FILE.pftrace.gz beside the page, for ui.perfetto.dev")
    add(
        "--format",
        choices=FORMATS,
        help="print to stdout, and write no page without -o (default: a table, unless -o or --figures is given or sweeps are "
        "named); csv has the table of layers, or of cells",
    )
    figure_options(parser)
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the recordings, write the report, and print it if asked to."""
    target = _reported(arguments)
    if arguments.perfetto and target is not None:
        _beside_page(arguments.paths[0], target, arguments.full_paths)
    return 0


def _check_perfetto(arguments: argparse.Namespace, kinds: Sequence[Kind]) -> None:
    """Raise UsageError if --perfetto has no page to link to, or a page of several recordings."""
    printed_only = arguments.output is None and (arguments.format is not None or arguments.figures is not None)
    if arguments.perfetto and (len(kinds) > 1 or printed_only or Kind.SWEEP in kinds):
        raise UsageError("--perfetto: needs the page of one capture, run or comparison; use `kernelscope export` for others")


def _reported(arguments: argparse.Namespace) -> Path | None:
    """Write the report and print it; return the page, or None if none was written."""
    paths = [archives.folder(Path(path)) for path in arguments.paths]
    kinds = [kind_of(path) for path in paths]
    _check_perfetto(arguments, kinds)
    if arguments.figures is not None:
        from kernelscope.cli import figures  # matplotlib takes half a second: load it only to draw

        figures.write(figures.of_paths(paths, arguments.full_paths), arguments.figures, arguments.style, arguments.force)
        if arguments.output is None and arguments.format is None:
            return None
    if Kind.SWEEP in kinds:
        from kernelscope.cli import sweep_report  # as above

        sweep_report.run([Path(path) for path in arguments.paths], arguments.output, arguments.force, arguments.format)
        return None
    captures = [given for given, kind in zip(arguments.paths, kinds, strict=True) if kind in (Kind.CAPTURE, Kind.IMPORT)]
    if captures and len(paths) > 1:
        raise UsageError(f"{captures[0]}: a capture gets its own page; for two, use `kernelscope explain A B -o FILE.html`")
    given = [Path(path) for path in arguments.paths]
    target = output.target_file(arguments.output, arguments.force, [*paths, *given]) if arguments.output else None
    form = arguments.format or (None if target else "table")
    if target is None and arguments.format is None and len(paths) == 1:
        target = _beside(Path(arguments.paths[0]), paths[0])
    if kinds == [Kind.IMPORT]:
        _of_import(paths[0], target, form, arguments.full_paths)
        return target
    if kinds == [Kind.CAPTURE]:
        _of_capture(paths[0], target, form, arguments.full_paths)
        return target
    recorded = opening.recorded_comparison(paths)
    if recorded is not None:
        result = sharing.shareable(recorded, arguments.full_paths)
        if target is not None:
            pages().comparison(result, paths[0], target, arguments.full_paths)
        if form:
            comparisons.write_comparison(result, form)
        return target
    _of_runs(paths, target, form, arguments.full_paths)
    return target


def _beside_page(path: str, page: Path, full_paths: bool) -> None:
    """Write every event of a recording beside its page, for Perfetto, and link it in the page."""
    from kernelscope.cli import export  # as above

    trace = page.with_suffix(".pftrace.gz")
    export.to_file(path, "perfetto", trace, full_paths)
    text = page.read_text(encoding="utf8")
    name, address = escape(printable(trace.name, None)), quote(os.fsencode(trace.name))
    link = f'<a href="{address}" download>{name}</a>, beside this page; open it at ui.perfetto.dev'
    whole.write_text(page, _PERFETTO.sub(lambda match: f"{match[1]}{link}{match[2]}", text, count=1))


def write(run: Run, target: Path, advised: dict[str, Any]) -> None:
    """Write the report of one run with its advice, and say on stderr where it is."""
    result = sharing.shareable(compare([run], []), full_paths=False)
    pages().run(result, run, recording_cost(run, breakdown(run.trace(), "layer")), target, False, lambda: advised)


def _of_runs(paths: Sequence[Path], target: Path | None, form: str | None, full_paths: bool) -> None:
    """Report one run with its breakdowns, or several side by side."""
    runs, left_out = named.runs(paths)
    result = sharing.shareable(compare(runs, left_out), full_paths)
    if len(runs) > 1:
        if target is not None:
            pages().runs(result, runs, target, full_paths)
        if form:
            comparisons.write_comparison(result, form)
        return
    by_layer = breakdown(runs[0].trace(), "layer")
    first = recording_cost(runs[0], by_layer)
    if target is not None:
        pages().run(result, runs[0], first, target, full_paths, lambda: advise.of_subject(advise.of_run(runs[0], runs[0].name)))
    if form:
        output.write_breakdown(by_layer.as_dict(), form, first)


def _of_import(path: Path, target: Path | None, form: str | None, full_paths: bool) -> None:
    """Report an imported capture."""
    capture = Imported(path)
    warn.about_info(capture.record["info"])
    record, tables = sharing.shareable(capture.record, full_paths), sharing.shareable(capture.breakdowns(), full_paths)
    if target is not None:
        pages().capture(record, tables, sharing.shareable_trace(capture.trace(), full_paths), target)
    if form == "table":
        output.write_capture(record, tables)
    elif form:
        output.write_breakdown(first(tables) or sharing.shareable(capture.breakdown("kernel"), full_paths), form)


def _of_capture(path: Path, target: Path | None, form: str | None, full_paths: bool) -> None:
    """Report a capture as if it had been imported."""
    trace = reading.read(path)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with temporary.folder() as folder:
        info = partial(sharing.shareable, trace.info, full_paths)
        imported.write(sharing.shareable_trace(trace, full_paths), [path], Path(folder, "import"), now, VERSION, info)
        _of_import(Path(folder, "import"), target, form, full_paths)


def pages() -> ModuleType:
    """Return the module that writes pages."""
    from kernelscope.cli import pages as writers  # matplotlib takes half a second: load it only for a page

    return writers


def _beside(given: Path, path: Path) -> Path | None:
    """Return the default path of a page: in a folder, or beside a file; print why and return None if it is not writable.

    given: the path as the user wrote it; path: its unpacked content. An older page of ours is replaced.
    """
    folder = path.parent if path.name == "compare.json" else path
    target = folder / "report.html" if given == path and folder.is_dir() else given.with_name(f"{given.name}.html")
    if not os.access(target.parent, os.W_OK):
        print(
            f"kernelscope: {target.parent} is not writable, so no page is written; name another place with -o FILE.html",
            file=sys.stderr,
        )
        return None
    if target.exists() and _GENERATED not in target.read_text(encoding="utf8", errors="replace")[:_HEAD]:
        raise InputError(f"{target}: exists and is not a kernelscope page; name another place with -o FILE.html")
    return target
