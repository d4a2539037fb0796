"""Checks and what came of them: passed, failed or not run, with measured numbers and reasons. One that fails stops no other."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"


class NotRun(Exception):
    """A check cannot be done here: one line that says why."""


class TimeOver(BaseException):
    """A check took longer than its limit; not an Exception, so that no check can take it for one of its own."""


@dataclass
class Findings:
    """What one check measured, and what it found wrong, one line each."""

    measured: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a line where something does not hold."""
        if not holds:
            self.wrong.append(otherwise)


@dataclass(frozen=True)
class Check:
    """What is checked, of what (a framework, a collector), by which function, within how many seconds."""

    name: str
    subject: str
    function: Callable[[Findings], None]
    limit_s: float = 300.0


@dataclass(frozen=True)
class Outcome:
    """What came of one check. reasons: what is wrong, or why it was not run."""

    check: str
    subject: str
    outcome: str
    measured: dict[str, Any]
    reasons: list[str]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def perform(check: Check) -> Outcome:
    """Do one check. Whatever it raises becomes its outcome, but for Ctrl-C."""
    began = time.monotonic()
    findings = Findings()
    try:
        with _limited(check.limit_s):
            check.function(findings)
        outcome, reasons = (FAILED if findings.wrong else PASSED), findings.wrong
    except NotRun as error:
        outcome, reasons = NOT_RUN, [str(error)]
    except TimeOver:
        outcome, reasons = FAILED, [*findings.wrong, f"no end within {check.limit_s:g} s"]
    except Exception as error:  # a fault of ours, or of what is checked: neither may end the others
        outcome, reasons = FAILED, [*findings.wrong, f"{type(error).__name__}: {error}"]
    return Outcome(check.name, check.subject, outcome, findings.measured, reasons, round(time.monotonic() - began, 1))


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeOver in the main thread when the time is over."""

    def over(*_: Any) -> None:
        raise TimeOver

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
