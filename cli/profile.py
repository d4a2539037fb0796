"""Record a script that knows nothing of kernelscope: kernelscope profile -o DIR -- python train.py ..."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope.cli.capture import _at_least, _seconds

NAME = "profile"
HELP = "record a script of your own, unchanged"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="DIR", help="folder for the results")
    add("--mode", choices=("auto", "train", "infer"), default="auto", help="what a step is (default: what is found)")
    add("--steps", default="20", metavar="N|A:B", help="clean steps, or the script's steps to use, from 0 (default: 20)")
    add("--warmup", type=_at_least(0), default=10, metavar="N", help="least warm-up steps before they settle (default: 10)")
    add("--passes", choices=("once", "rerun"), default="once", help="all passes in one run, or the command again for each")
    add("--seconds", type=_seconds, default=60.0, metavar="S", help="a pass ends after so long with what it has (default: 60)")
    add("--label", metavar="NAME", help="what the run is called (default: the script's name)")
    add("--force", action="store_true", help="replace earlier results in the output folder")
    add("script", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="the command, as you would run it")


def run(arguments: argparse.Namespace) -> int:
    """Run the command and say on stderr what was recorded; return its exit status, 4 where that is 0 but nothing was seen."""
    from kernelscope.tracer.outside import profile
    from kernelscope.tracer.outside.errors import UsageError
    from kernelscope.tracer.outside.run_folder import prepare_output

    command = arguments.script[1:] if arguments.script[:1] == ["--"] else arguments.script
    if not command:
        raise UsageError("no command; write it behind --: kernelscope profile -o DIR -- python train.py")
    count, window = _steps(arguments.steps)
    options = profile.ProfileOptions(
        count, window, arguments.warmup, arguments.passes == "rerun", arguments.seconds, arguments.mode
    )  # fmt: skip
    folder = Path(arguments.output)
    prepare_output(folder, arguments.force)
    outcome = profile.profile(command, options, folder, arguments.label, sys.argv)
    for line in outcome.problems:
        print(f"kernelscope: {line}", file=sys.stderr)
    if outcome.seen is None:
        print(f"kernelscope: error: nothing was recorded of {profile.script_name(command)}", file=sys.stderr)
        return outcome.status or 4
    print(f"kernelscope: {outcome.seen}", file=sys.stderr)
    print(f"run folder: {folder}; show it with `kernelscope breakdown {folder} --by layer`", file=sys.stderr)
    return outcome.status


def _steps(text: str) -> tuple[int, tuple[int, int] | None]:
    """Return how many clean steps, and the window A:B where that is what the text says; raise UsageError for anything else."""
    from kernelscope.tracer.outside.errors import UsageError

    first, colon, last = text.partition(":")
    if not colon and text.isdigit() and int(text) > 0:
        return int(text), None
    if colon and first.isdigit() and last.isdigit() and int(last) - int(first) >= 4 and int(first) >= 1:
        return int(last) - int(first), (int(first), int(last))
    raise UsageError(f"--steps {text}: write a number of steps, or A:B with A at least 1 and B at least A + 4")
