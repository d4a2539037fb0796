"""Show the progress of a recording: passes, steps, throughput and the time left. It only reads files, so it disturbs nothing."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from rich.live import Live

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import progress
from kernelscope.analysis.recordings.progress import RecordingProgress
from kernelscope.analysis.trace.records import read_object
from kernelscope.cli import outlets
from kernelscope.cli.output import console
from kernelscope.reports.progress import Drawn, line, state
from kernelscope.tracer.inside.plan import PASSES, order
from kernelscope.tracer.inside.profiling import owner
from kernelscope.tracer.outside import energy, locks
from kernelscope.tracer.outside.errors import ChildError

_EVERY_S = 1.0
_GIVEN_UP_S = 30.0  # without new data for so long, and with no command here holding the folder, stop waiting


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("folder", metavar="DIR", help="the folder that `run`, `compare`, `profile` or `sweep` is writing to")
    add("--once", action="store_true", help="show the progress once, and exit")


def run(arguments: argparse.Namespace) -> int:
    """Show the recording until it ends, its writer is gone or Ctrl-C is pressed; with --once, once. Return 4 if it failed."""
    folder = Path(arguments.folder)
    seen = progress.read(folder, planned)
    if arguments.once or seen.ended:
        console().print(_drawn(folder, seen))
    else:
        seen = _until_the_end(folder, seen)
        if _given_up(folder, seen):
            return ChildError.exit_code
    return ChildError.exit_code if any(side.state == progress.FAILED for side in seen.sides) else 0


def planned(options: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the passes of a run with these options, with their repeats, in the order in which they run."""
    found: list[tuple[str, int]] = order(int(options.get("repeats") or 1), tuple(options.get("passes") or PASSES))
    return [*found, *([(energy.NAME, 1)] if options.get("energy") else [])]


def _until_the_end(folder: Path, seen: RecordingProgress) -> RecordingProgress:
    """Show a recording until it ends or Ctrl-C is pressed: in place on a terminal, elsewhere a line for each change of pass."""
    if not sys.stdout.isatty():
        return _lines(folder, seen)

    try:
        with Live(_drawn(folder, seen), console=console(), auto_refresh=False) as live:
            while not seen.ended and not _given_up(folder, seen):
                time.sleep(_EVERY_S)
                seen = progress.read(folder, planned)
                live.update(_drawn(folder, seen), refresh=True)
    except KeyboardInterrupt:
        print("still recording", file=sys.stderr)
    return seen


def _given_up(folder: Path, seen: RecordingProgress) -> bool:
    """Return whether a recording has not ended but nobody writes it any more, as far as can be seen from here."""
    return not seen.ended and time.time() - seen.written > _GIVEN_UP_S and not _held(folder, seen)


def _lines(folder: Path, seen: RecordingProgress) -> RecordingProgress:
    said: list[str] = []
    while True:
        if _given_up(folder, seen):
            console().print(_drawn(folder, seen))
            return seen
        states = [f"{side.label} {state(side)}" for side in seen.sides]
        settled = all(side.now or side.state != progress.RECORDING for side in seen.sides)
        if seen.ended or (settled and states != said):
            print(f"{line(seen, time.time())}: {', '.join(states)}" if states else line(seen, time.time()), flush=True)
            said = states
        if seen.ended or outlets.unread():
            return seen
        time.sleep(_EVERY_S)
        seen = progress.read(folder, planned)


def _drawn(folder: Path, seen: RecordingProgress) -> Drawn:
    """Return the current state, ready to print."""
    return Drawn(seen, time.time(), _held(folder, seen))


def _held(folder: Path, seen: RecordingProgress) -> bool:
    """Return whether somebody writes a recording, as far as can be seen from here.

    A command locks the folder that it writes; for a side or a rank that is the folder around it. A program whose `profile` was
    killed continues to run and to write. A sweep's cells are locked one by one.
    """
    return any(map(locks.is_locked, (folder, folder.absolute().parent))) or _runs(folder) or seen.cells is not None


def _runs(folder: Path) -> bool:
    """Return whether the program that `profile` records is running here."""
    try:
        return psutil.pid_exists(int(read_object(folder / owner.FILE)["pid"]))
    except (EvidenceError, KeyError, TypeError, ValueError, OverflowError):
        return False
