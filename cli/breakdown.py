"""Show where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle cause or host line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope import analysis
from kernelscope.analysis.accounting.breakdowns import Breakdown, breakdown, breakdowns
from kernelscope.analysis.attribution import steps
from kernelscope.analysis.explain import recording_cost as cost_of_recording
from kernelscope.analysis.recordings import archives, imported
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import steps_options
from kernelscope.cli.output import FORMATS, write_breakdown
from kernelscope.cli.warn import about, about_info
from kernelscope.reports import recorded

MARKED = "marked"  # steps that the profiler marks; without any, the whole
BY = ("layer", "kernel", "kind", "phase", "step", "line", "operator", "range", "idle")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "path", metavar="PATH", help="a folder that `run`, `compare` or `import` wrote, or a capture as `import` takes it"
    )
    parser.add_argument("--by", choices=BY, default="layer", help="what makes a row (default: layer)")
    steps_options.configure(parser, default=MARKED)
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the breakdown."""
    path = archives.folder(Path(arguments.path))
    if (arguments.steps, arguments.device, arguments.window) != (MARKED, None, None):
        return _of_steps(path, arguments)
    kind = kind_of(path)
    if kind is Kind.IMPORT:
        recorded = imported.Imported(path)
        about_info(recorded.record.get("info", {}))
        result = recorded.breakdown(arguments.by)
        _hint(result["window"])
        write_breakdown(result, arguments.format)
        return 0
    with analysis.reading(path) as trace:
        found = breakdowns(trace, (arguments.by,))[arguments.by]
    about(trace)
    if isinstance(found, str):
        raise analysis.EvidenceError(found)
    _hint(found.window)
    first = recording_cost(analysis.Run(path), found) if kind is Kind.RUN else None
    write_breakdown(found.as_dict(), arguments.format, first)
    return 0


def recording_cost(run: Run, found: Breakdown) -> str | None:
    """Return what recording cost the step of a run's breakdown, in one line; None where that is next to nothing."""
    cost = cost_of_recording.of_run(run, found)
    return None if cost is None else recorded.sentence(cost)


def _hint(window: str) -> None:
    """Say how to see a step where all of a capture is broken down."""
    if window == "capture":
        print("kernelscope: the capture marks no steps and is taken as a whole; --steps auto finds what repeats", file=sys.stderr)


def _of_steps(path: Path, arguments: argparse.Namespace) -> int:
    """Print the breakdown of the steps, of the device and of the time that were asked for."""
    trace = analysis.read(path)
    about(trace)
    if arguments.steps == MARKED:
        arguments.steps = "auto" if len(trace.steps) else "whole"
    request = steps_options.request(arguments)
    trace = steps.windowed(trace, request)
    found = steps.find(trace, request)
    print(f"kernelscope: {found.sentence() if found else 'no steps: the capture as a whole'}", file=sys.stderr)
    result = breakdown(steps.of_device(steps.applied(trace, found), request.device), arguments.by)
    write_breakdown(result.as_dict(), arguments.format)
    return 0
