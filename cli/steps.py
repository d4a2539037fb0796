"""Show the steps of a capture: how they were found, how certain that is, and how long each takes."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from kernelscope.analysis.accounting.step_times import step_times
from kernelscope.analysis.attribution import device_steps, steps
from kernelscope.analysis.attribution.steps import DetectedSteps
from kernelscope.analysis.recordings import reading
from kernelscope.analysis.trace import Trace
from kernelscope.cli import output, steps_options, warn
from kernelscope.cli.output import FORMATS
from kernelscope.reports.text import printable


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="PATH", help="a capture that `import` can read, or a folder that `import` or `run` wrote")
    steps_options.configure(parser)
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format (default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the steps, and in a table also what else they could be."""
    trace = reading.read(Path(arguments.path))
    warn.about(trace)
    request = steps_options.request(arguments)
    trace = steps.windowed(trace, request)
    found = steps.candidates(trace, request)
    if not found:
        print(_none(trace, arguments), file=sys.stdout if arguments.format == "table" else sys.stderr)
        if arguments.format != "table":
            output.write_rows([], arguments.format, "steps")
        return 0
    rows = step_times(trace, found[0], request.device)
    if arguments.format != "table":
        how = {name: getattr(found[0], name) for name in ("method", "source", "confidence")}
        more = {} if arguments.format == "markdown" else how  # Markdown is for reading
        output.write_rows([{**row, **more} for row in rows], arguments.format, "steps")
        return 0
    print(printable(f"{Path(arguments.path).name}: {_summary(rows)}: {found[0].sentence()}", None))
    for other in _others(trace, [*found, *steps.beside_marked(trace, request)]):
        print(printable(f"  or: {other}"))
    output.write_rows(rows, "table", "steps")
    if any(row["start_ms"] < 0 for row in rows):
        print("start: measured from the device's first work, as for --window; negative if the host began the step before it")
    return 0


def _none(trace: Trace, arguments: argparse.Namespace) -> str:
    where = "the window" if arguments.window else "the capture"
    if arguments.steps == "whole":
        return f"no steps: {where} is taken as a whole, as requested"
    if not len(trace.kernels) and not len(trace.graphs):
        return f"no steps: {where} holds no kernels"
    return f"no steps: {where} marks none and nothing in it repeats; it is taken as a whole (see --steps)"


def _summary(rows: list[dict[str, Any]]) -> str:
    lengths = sorted(row["step_ms"] for row in rows)
    middle = statistics.median(lengths)
    return f"{sum(lengths) / len(lengths):,.3f} ms a step (median {middle:,.3f}, {lengths[0]:,.3f} to {lengths[-1]:,.3f})"


def _others(trace: Trace, found: list[DetectedSteps]) -> list[str]:
    """Describe what else the steps could be: candidates that differ in how they were found or in number."""
    seen = {(found[0].method, len(found[0].table))}
    others = []
    for one in found[1:]:
        key = (one.method, len(one.table))
        if key not in seen:
            seen.add(key)
            begun, over = device_steps.bounds(steps.applied(trace, one).steps)
            others.append(f"{(over - begun).mean() / 1e6:,.3f} ms a step: {one.described()}")
    return others[:4]
