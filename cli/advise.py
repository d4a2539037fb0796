"""Advise on one recording: what to change, with evidence and remedies, sorted by the time that a step may save."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelscope.analysis import advise
from kernelscope.analysis.confirm import candidates
from kernelscope.cli import confirm, sharing, steps_options, warn
from kernelscope.cli.output import write_result
from kernelscope.reports.advice import AdviceText, markdown

FORMATS = ("table", "markdown", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("path", metavar="PATH", help="a folder that `run`, `profile` or `import` wrote, or a capture")
    parser.add_argument("--format", choices=FORMATS, default="table", help="output format (default: table)")
    parser.add_argument(
        "--confirm", action="store_true", help="try the advice on the recorded program (see `kernelscope confirm`)"
    )
    confirm.trial_options(parser)
    steps_options.configure(parser)
    sharing.configure(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the recording and print the advice; with --confirm try it."""
    path = Path(arguments.path)
    confirm.checked(arguments, arguments.confirm)
    program = confirm.program_of(arguments, path) if arguments.confirm else None
    subject = advise.read(path, steps_options.request(arguments))
    if subject.unrecorded:  # which the answer says
        warn.about_info(subject.trace.info)
    else:
        warn.about(subject.trace)
    result = advise.of_subject(subject)
    said = sharing.shareable(result, arguments.full_paths)
    if program is None:
        _write(said, arguments.format)
        return 0
    found = candidates.of_advice(result)
    confirm.beside(said, arguments.format, _write, lambda: confirm.confirmed(arguments, program, found))
    return 0


def _write(said: Mapping[str, Any], form: str) -> None:
    write_result(said, form, AdviceText, markdown)
