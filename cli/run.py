"""Record all passes of one workload in one framework into a run folder."""

from __future__ import annotations

import argparse
import sys

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import capture, sharing, sides
from kernelscope.cli.output import FORMATS, write_breakdown
from kernelscope.tracer.outside.errors import ChildError
from kernelscope.tracer.outside.recipes import FRAMEWORKS
from kernelscope.tracer.outside.run_folder import replaced
from kernelscope.tracer.outside.session import Session


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    capture.configure(parser)
    parser.add_argument("-f", "--framework", required=True, metavar="[LABEL=]NAME", help=f"one of {', '.join(FRAMEWORKS)}")
    parser.add_argument("--format", choices=FORMATS, default="table", help="format of the breakdown by layer (default: table)")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has the framework, used as it is")
    parser.add_argument("--program", metavar="FILE.py", help="a file with a class Program that varies the workload")
    sides.add_variables(parser, "NAME=VALUE", "environment variable for the framework (repeatable)")


def run(arguments: argparse.Namespace) -> int:
    """Record the run and print its breakdown by layer."""
    options = capture.options(arguments)
    variant = sides.variant(arguments)
    folder = capture.folder(arguments, f"{options.network}-{variant.label}")
    choices = capture.choices(arguments, options, [variant])
    with replaced(folder, arguments.force):
        session = Session([variant], options, [folder], sys.argv, choices)
        capture.record(session)
        sharing.overwrite_secrets(folder)
        side = session.sides[0]
        if side.failure is not None:
            raise ChildError(f"{side.failure}; what was recorded is in {folder}")
    write_breakdown(breakdown(Run(folder).trace(), "layer").as_dict(), arguments.format)
    print(f"run folder: {folder}", file=sys.stderr)
    return 0
