"""Record a script that knows nothing of kernelscope: kernelscope profile -o DIR -- python train.py ..."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope.tracer.inside.launching import options
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.profile import profile
from kernelscope.tracer.outside.run_folder import prepare_output


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the results")
    parser.add_argument("--force", action="store_true", help="replace earlier results in the output folder")
    options.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command and say on stderr what was recorded; return its exit status, 4 where that is 0 but nothing was recorded."""
    command = options.command(arguments)
    if not command:
        raise UsageError("no command; write it behind --: kernelscope profile -o DIR -- python train.py")
    folder = Path(arguments.output)
    prepare_output(folder, arguments.force)
    outcome = profile(command, options.asked(arguments), folder, arguments.label, sys.argv)
    for line in outcome.lines():
        print(line, file=sys.stderr)
    if outcome.seen is not None:
        print(f"run folder: {folder}; show it with `kernelscope breakdown {folder} --by layer`", file=sys.stderr)
    return int(outcome.exit_status)
