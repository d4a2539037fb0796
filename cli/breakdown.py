"""Show where a step's time goes: by layer, kernel, kind, phase, step, operator, range, idle cause or host line."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelscope.cli.output import FORMATS

NAME = "breakdown"
HELP = "where a recorded step's time goes"
BY = ("layer", "kernel", "kind", "phase", "step", "line", "operator", "range", "idle")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("run_folder", metavar="RUN", help="a folder that `run` or `compare` wrote")
    parser.add_argument("--by", choices=BY, default="layer", help="what makes a row (default: layer)")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")


def run(arguments: argparse.Namespace) -> int:
    """Print the breakdown."""
    from kernelscope.analysis.breakdowns import breakdown
    from kernelscope.analysis.run import Run
    from kernelscope.cli.output import write_breakdown

    write_breakdown(breakdown(Run(Path(arguments.run_folder)).trace(), arguments.by), arguments.format)
    return 0
