"""Options that choose the steps of a capture and the device whose work is looked at."""

from __future__ import annotations

import argparse

from kernelscope.analysis.attribution.steps import Request, parse
from kernelscope.analysis.errors import EvidenceError
from kernelscope.tracer.outside.errors import UsageError

AUTO = "auto"


def configure(
    parser: argparse.ArgumentParser, default: str = AUTO, explained: str = "", device: str = "that which computes longest"
) -> None:
    """Add the options. default: what --steps is where it is not given, and explained in words. device: where none is named."""
    parser.add_argument(
        "--steps",
        metavar="HOW",
        default=default,
        help="steps of a capture: auto (the profiler's, else what repeats), range:NAME (* is any text), kernel:REGEX, period,"
        " whole; 3:7 is steps 3 to 7 of auto's"
        f" (default: {default}{explained}; see `kernelscope steps`)",
    )
    parser.add_argument(
        "--window", metavar="START:END", help="of a capture, only what starts between: ms after the device's first work"
    )
    parser.add_argument("--device", metavar="NAME", help=f"of a capture with several, such as cuda:1 (default: {device})")


def request(arguments: argparse.Namespace) -> Request:
    """Return what was asked for; raise UsageError where it cannot be read."""
    try:
        return parse(arguments.steps, arguments.device, arguments.window)
    except EvidenceError as error:
        raise UsageError(str(error)) from error
