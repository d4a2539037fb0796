"""Options that choose the steps, the window and the device of a capture."""

from __future__ import annotations

import argparse

from kernelscope.analysis.attribution.steps import Request, parse
from kernelscope.analysis.errors import EvidenceError
from kernelscope.tracer.outside.errors import UsageError

AUTO = "auto"


def configure(
    parser: argparse.ArgumentParser, default: str = AUTO, explained: str = "", device: str = "the one that computes longest"
) -> None:
    """Add the options. default: of --steps, with an explanation. device: the default of --device in words."""
    parser.add_argument(
        "--steps",
        metavar="HOW",
        default=default,
        help="how to find the steps of a capture: auto (the profiler's marks, else what repeats), range:NAME (* is any text),"
        " kernel:REGEX, period or whole; 3:7 takes steps 3 to 7 of auto's"
        f" (default: {default}{explained}; see `kernelscope steps`)",
    )
    parser.add_argument(
        "--window",
        metavar="START:END",
        help="use only what starts in this window of a capture: milliseconds after the device's first work",
    )
    parser.add_argument("--device", metavar="NAME", help=f"device of a capture with several, such as cuda:1 (default: {device})")


def request(arguments: argparse.Namespace) -> Request:
    """Return the request of the command line; raise UsageError if it is malformed."""
    try:
        return parse(arguments.steps, arguments.device, arguments.window)
    except EvidenceError as error:
        raise UsageError(str(error)) from error
