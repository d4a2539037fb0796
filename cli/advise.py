"""What to do about one recording: findings by the time that a step could save, with evidence and remedies."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelscope.analysis import advise
from kernelscope.cli import sharing, steps_options
from kernelscope.cli.output import write_advice

FORMATS = ("table", "markdown", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="PATH", help="a folder that `run`, `profile` or `import` wrote, or a capture")
    parser.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")
    steps_options.configure(parser)
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the recording, and print what to do about it."""
    result = advise.advise(Path(arguments.path), steps_options.request(arguments))
    write_advice(sharing.shareable(result, arguments.full_paths), arguments.format)
    return 0
