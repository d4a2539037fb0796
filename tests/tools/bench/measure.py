"""Whole processes, measured: wall time, processor time and peak memory, the sides taking turns.

A child's peak memory is what `wait4` reports: that of the largest process among it and the children it waited for. It is never
less than the measuring process's own, from which it is forked; so nothing here imports more than the standard library.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TIMEOUT_S = 1800.0


class Failed(Exception):
    """A process that failed; the text is one line with the reason."""


@dataclass(frozen=True)
class Run:
    """What one process took. cpu_s: user and system time of it and its children."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Side:
    """A process to measure. before: done each time before it starts, not timed. output: file for its stdout. then: the command
    of a second process, whose times are added.
    """

    name: str
    command: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], None] | None = None
    output: Path | None = None
    then: Sequence[str] = ()


@dataclass(frozen=True)
class Measured:
    """The runs of each side, in order, and of sides that failed or are missing the reason."""

    runs: dict[str, list[Run]]
    missing: dict[str, str]

    def median(self, side: str, what: str) -> float:
        """Return a side's median of `wall_s`, `cpu_s` or `peak_bytes`."""
        return statistics.median(getattr(run, what) for run in self.runs[side])

    def spread(self, side: str, what: str) -> tuple[float, float]:
        """Return a side's least and greatest."""
        values = [getattr(run, what) for run in self.runs[side]]
        return min(values), max(values)

    def ratios(self, numerator: str, denominator: str, what: str = "wall_s") -> list[float]:
        """Return the ratio of two sides in each repeat: runs of one repeat are close in time."""
        pairs = zip(self.runs[numerator], self.runs[denominator], strict=True)
        return [getattr(one, what) / getattr(other, what) for one, other in pairs]

    def has(self, *sides: str) -> bool:
        """Return whether all these sides were measured."""
        return all(self.runs.get(side) for side in sides)


def alternate(sides: Sequence[Side], repeats: int, missing: Mapping[str, str] | None = None) -> Measured:
    """Run every side `repeats` times, in turn, every second time in the reverse order; one that fails drops out.

    Each runs once untimed just before: some systems put pages of files that nobody read for a few seconds out of memory, and
    half a minute of another side made ours take up to 1.7 times as long (20 to 70 major page faults).
    """
    runs: dict[str, list[Run]] = {side.name: [] for side in sides}
    failed = dict(missing or {})
    for number in range(repeats):
        for side in sides if number % 2 == 0 else reversed(sides):
            if side.name in failed:
                continue
            try:
                run(side)
                runs[side.name].append(run(side))
            except Failed as error:
                failed[side.name] = str(error)
    return Measured({name: done for name, done in runs.items() if name not in failed}, failed)


def run(side: Side) -> Run:
    """Run a side once; raise Failed when it exits with another status than 0 or takes too long."""
    if side.before is not None:
        side.before()
    runs = [_run(side, command) for command in (side.command, side.then) if command]
    return Run(sum(one.wall_s for one in runs), sum(one.cpu_s for one in runs), max(one.peak_bytes for one in runs))


def _run(side: Side, command: Sequence[str]) -> Run:
    # Python keeps what it compiled, as where packages are installed, whatever this environment says
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as errors, open(side.output or os.devnull, "wb") as output:
        start = time.perf_counter()
        try:
            child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                env={**variables, **side.variables}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        usage, status = _wait(child)
        wall = time.perf_counter() - start
        if status != 0:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise Failed(f"{Path(command[0]).name} exited with {status}: {lines[-1] if lines else 'it said nothing'}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _wait(child: subprocess.Popen[bytes]) -> tuple[os.struct_rusage, int]:
    """Wait for a child, for a limited time; return what it used and its exit status."""
    timer = threading.Timer(_TIMEOUT_S, os.killpg, (child.pid, signal.SIGKILL))
    timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    finally:
        timer.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage, child.returncode
