"""Show where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle cause or host line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.accounting import inclusive, moved_pages
from kernelscope.analysis.accounting.amounts import duration
from kernelscope.analysis.accounting.breakdowns import Breakdown, breakdowns
from kernelscope.analysis.accounting.host_rows import summed_up
from kernelscope.analysis.attribution import steps
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import recording_cost as cost_of_recording
from kernelscope.analysis.recordings import archives, imported, reading
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace, page_faults
from kernelscope.cli import output, steps_options
from kernelscope.cli.output import FOR_READING, FORMATS, write_breakdown
from kernelscope.cli.warn import about, about_info
from kernelscope.reports import recorded
from kernelscope.reports.chosen_columns import with_columns
from kernelscope.reports.chosen_rows import NotInTable, chosen, finest, is_named
from kernelscope.tracer.outside.errors import UsageError

ALL = "all"  # rows
COARSE = ("layer", "range")  # the default, if the recording knows them; else kernels
MARKED = "marked"  # steps that the profiler marks, or ranges named like steps; without either, the whole recording
BY = ("layer", "kernel", "layer-kernel", "kind", "phase", "step", "line", "operator", "range", "idle")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "path", metavar="PATH", help="a folder that `run`, `compare` or `import` wrote, or a capture that `import` can read"
    )
    parser.add_argument("--by", choices=BY, help="what a row is (default: layer if any is known, else range, else kernel)")
    parser.add_argument("--rows", type=_rows, metavar="N|all", help="number of rows (default: 20 in tables, else all)")
    parser.add_argument("--sort", metavar="COLUMN", help="sort by this column, numbers from the largest (default: time)")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        type=_filter,
        metavar="COLUMN=PATTERN",
        help="show only these rows, such as layer=conv*",
    )
    parser.add_argument(
        "--group",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAME,...",
        help="add up rows that agree in these columns: --by kernel --group library gives one row for each library",
    )
    parser.add_argument(
        "--columns", metavar="NAME,...", help="show these columns, named as in the table's head or in JSON (all: every column)"
    )
    steps_options.configure(
        parser, default=MARKED, explained=": the profiler's marks, or ranges named like steps", device="all together"
    )
    parser.add_argument(
        "--inclusive", action="store_true", help="for layers and ranges: each row includes everything inside it, so rows overlap"
    )
    parser.add_argument("--range", metavar="NAME", help="show only what is inside ranges of this name (* is any text)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the breakdown."""
    path = archives.folder(Path(arguments.path))
    if (arguments.steps, arguments.device, arguments.window, arguments.range) != (MARKED, None, None, None):
        trace = reading.read(path)
        about(trace)
        return _of_steps(trace, arguments)
    kind = kind_of(path)
    if arguments.inclusive:
        with reading.reading(path) as trace:
            about(trace)
            _write(_inclusive(trace, arguments.by), arguments)
        return 0
    if kind is Kind.IMPORT:
        return _of_import(path, arguments)
    with reading.reading(path) as trace:
        named = steps.named_by_program(trace)
        found = None if named else _broken_down(trace, arguments.by)
    about(trace)
    if found is None:
        return _show(trace, named, None, arguments)
    _hint(found.window)
    _hint_of_devices(trace)
    _hint_of_page_faults(trace)
    first = recording_cost(Run(path), found) if kind is Kind.RUN else None
    _write(found.as_dict(), arguments, first)
    return 0


def _of_import(path: Path, arguments: argparse.Namespace) -> int:
    """Print the breakdown that an import stored; if only the program marks steps, break those down instead."""
    capture = imported.Imported(path)
    about_info(capture.record.get("info", {}))
    by = arguments.by or finest({by: capture.breakdown(by) for by in COARSE})
    result = capture.breakdown(by)
    trace = capture.trace() if result["window"] == "capture" else None
    named = None if trace is None else steps.named_by_program(trace)
    if trace is not None and named is not None:
        return _show(trace, named, None, arguments)
    _hint(result["window"])
    if capture.record["tables"].get("totals"):
        _hint_of_page_faults(trace or capture.trace())
    _write(result, arguments)
    return 0


def _broken_down(trace: Trace, by: str | None) -> Breakdown:
    """Return the breakdown that was asked for, else the finest that the recording knows; raise EvidenceError if there is none."""
    if by is None and len(trace.lines) and not trace.has_timeline():
        by = "line"
    found = breakdowns(trace, (by,) if by else COARSE)
    by = by or finest({name: one if isinstance(one, str) else one.as_dict() for name, one in found.items()})
    result = found[by] if by in found else breakdowns(trace, (by,))[by]
    if isinstance(result, str):
        raise EvidenceError(result)
    return result


def _write(result: dict[str, Any], arguments: argparse.Namespace, first: str | None = None) -> None:
    """Write the rows that were asked for."""
    by = result["by"]
    if by in COARSE and result["rows"] and not any(is_named(row[by]) for row in result["rows"]):
        print(f"kernelscope: the recording names no {by}; --by kernel and --by kind show more", file=sys.stderr)
    most = None if arguments.rows in (None, ALL) else arguments.rows
    asked = arguments.rows == ALL or arguments.filter or arguments.group
    read = arguments.format in FOR_READING and not asked
    rows, host = summed_up(result["by"], result["rows"]) if read else (result["rows"], [])
    try:
        sort = arguments.sort or ("time" if by == "line" and arguments.format in FOR_READING else None)  # not the source's order
        result = chosen({**result, "rows": rows}, arguments.filter, sort, most, arguments.group)
        result["rows"] += host
        columns = arguments.columns.split(",") if arguments.columns else None
        table = with_columns(result, columns, arguments.format in FOR_READING) if columns else None
    except NotInTable as error:
        raise UsageError(str(error)) from error
    if table is not None:
        output.write(table, arguments.format)
        return
    write_breakdown(result, arguments.format, first, len(result["rows"]) if arguments.rows else None)


def _rows(text: str) -> int | str:
    if text == ALL:
        return ALL
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of rows nor {ALL!r}")
    return int(text)


def _filter(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r}: write COLUMN=PATTERN, such as layer=conv*")
    return text


def recording_cost(run: Run, found: Breakdown) -> str | None:
    """Return in one line what recording adds to the step of a run's breakdown; None if that is negligible."""
    cost = cost_of_recording.of_run(run, found)
    return None if cost is None else recorded.sentence(cost)


def _hint_of_devices(trace: Trace) -> None:
    """Say that several devices are shown together."""
    named = {str(name) for table in (trace.kernels, trace.copies) for name in table["device"].dropna().unique()}
    devices = sorted(named - {"cpu"})
    if len(devices) > 1:
        more = f"--device {devices[0]} shows one"
        print(f"kernelscope: {len(devices)} devices are shown together: {', '.join(devices)}; {more}", file=sys.stderr)


def _hint_of_page_faults(trace: Trace) -> None:
    """Say how long kernels waited for page faults and moves of unified memory, which have no row of their own in totals."""
    found = page_faults.of(trace)
    if found.ns:
        took = f"{duration(found.ns)} in {found.groups:,} {'group' if found.groups == 1 else 'groups'}"
        print(f"kernelscope: kernels wait for page faults of unified memory: {took}, included in their time", file=sys.stderr)
    moves = trace.copies[moved_pages.within_kernels(trace)] if not trace.has_timeline() else trace.copies[:0]
    if len(moves):
        took = f"{int(moves['count'].sum()):,} ({duration(int(moves['duration_ns'].sum()))})"
        print(f"kernelscope: moves of unified memory are part of the kernels' time, not of the sum: {took}", file=sys.stderr)


def _hint(window: str) -> None:
    """Say how to see steps when the whole capture is broken down."""
    if window == "capture":
        more = "--steps auto looks for what repeats, as advise does"
        print(f"kernelscope: the capture marks no steps and is shown as a whole; {more}", file=sys.stderr)


def _of_steps(trace: Trace, arguments: argparse.Namespace) -> int:
    """Print the breakdown of the requested steps, device, window and range."""
    if arguments.steps == MARKED:
        arguments.steps = "auto" if len(trace.steps) else "whole"
    request = steps_options.request(arguments)
    trace = steps.windowed(trace, request)
    found = steps.find(trace, request)
    if arguments.range:
        found = steps.inside(steps.applied(trace, found), arguments.range)
    return _show(trace, found, request.device, arguments)


def _show(trace: Trace, found: steps.DetectedSteps | None, device: str | None, arguments: argparse.Namespace) -> int:
    """Print the breakdown of these steps (None: the whole recording) on one device (None: all of them)."""
    print(f"kernelscope: {found.sentence() if found else 'no steps: the capture as a whole'}", file=sys.stderr)
    trace = steps.of_device(steps.applied(trace, found), device)
    _write(_inclusive(trace, arguments.by) if arguments.inclusive else _broken_down(trace, arguments.by).as_dict(), arguments)
    return 0


def _inclusive(trace: Trace, by: str | None) -> dict[str, Any]:
    """Return the inclusive breakdown by what was asked for, else by layer if any is known, else by range."""
    return inclusive.inclusive(trace, by or ("layer" if trace.kernels["layer"].notna().any() else "range"))
