"""What a user asks for as steps: `range:NAME`, `kernel:REGEX`, `period`, `whole`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelscope.analysis.errors import EvidenceError

_LATEST = 1 << 62
METHODS = ("range", "kernel", "period", "whole")


@dataclass(frozen=True)
class Request:
    """What to take as steps: one of METHODS (None: whatever is found), a pattern for the first two; and of which device and time.

    window: from when to when, in ns after the first work of a device; None for all of the capture.
    """

    method: str | None = None
    pattern: str = ""
    device: str | None = None
    window: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """How it was written."""
        return f"{self.method}:{self.pattern}" if self.pattern else str(self.method)


def parse(text: str | None, device: str | None = None, window: str | None = None) -> Request:
    """Return the request that texts stand for; raise EvidenceError for one that is none."""
    between = _window(window) if window else None
    if text is None or text == "auto":
        return Request(device=device, window=between)
    method, _, pattern = text.partition(":")
    if method not in METHODS or (method in ("range", "kernel")) != bool(pattern):
        raise EvidenceError(f"--steps {text!r}: write range:NAME (with * for any text), kernel:REGEX, period, whole or auto")
    if method == "kernel":
        try:
            re.compile(pattern)
        except re.error as error:
            raise EvidenceError(f"--steps {text!r}: {error}; write a regular expression after kernel:") from error
    return Request(method, pattern, device, between)


def _window(text: str) -> tuple[int, int]:
    """Return a window START:END in ms as ns; either may be left out."""
    start, colon, end = text.partition(":")
    try:
        result = round(float(start or 0) * 1e6), round(float(end) * 1e6) if end else _LATEST
    except (ValueError, OverflowError):
        colon = ""
    if colon and result[0] >= result[1]:
        raise EvidenceError(f"--window {text!r}: it ends before it begins")
    if not colon:
        raise EvidenceError(f"--window {text!r}: write START:END in ms after the device's first work, such as 500:1500")
    return result
