"""The steps that a user asks for: `range:NAME`, `kernel:REGEX`, `period`, `whole`, or some of the detected ones: `3:7`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelscope.analysis.errors import EvidenceError

_LATEST = 1 << 62
METHODS = ("range", "kernel", "period", "whole")
_SOME = re.compile(r"([0-9]*):([0-9]*)")


@dataclass(frozen=True)
class Request:
    """Which steps to take, on which device and in which window of time.

    method: one of METHODS; None for the detected steps. pattern: for the methods range and kernel. window: start and end in ns
    after the first device work; None for the whole capture. only: the first and the last number among the detected steps; None
    for all.
    """

    method: str | None = None
    pattern: str = ""
    device: str | None = None
    window: tuple[int, int] | None = None
    only: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The request as it was written."""
        if self.only:
            return f"{self.only[0]}:{self.only[1] if self.only[1] < _LATEST else ''}"
        return f"{self.method}:{self.pattern}" if self.pattern else str(self.method)


def parse(text: str | None, device: str | None = None, window: str | None = None) -> Request:
    """Return the request that these texts express; raise EvidenceError for an invalid one."""
    between = _window(window) if window else None
    if text is None or text == "auto":
        return Request(device=device, window=between)
    some = _SOME.fullmatch(text)
    if some and any(some.groups()):
        only = int(some[1] or 0), int(some[2] or _LATEST)
        if only[0] > only[1]:
            raise EvidenceError(f"--steps {text!r}: the last step is before the first")
        return Request(device=device, window=between, only=only)
    method, _, pattern = text.partition(":")
    if method not in METHODS or (method in ("range", "kernel")) != bool(pattern):
        raise EvidenceError(
            f"--steps {text!r}: write auto, range:NAME (with * for any text), kernel:REGEX, period, whole, or 3:7 for some"
        )
    if method == "kernel":
        try:
            re.compile(pattern)
        except re.error as error:
            raise EvidenceError(f"--steps {text!r}: {error}; write a regular expression after kernel:") from error
    return Request(method, pattern, device, between)


def _window(text: str) -> tuple[int, int]:
    """Return a window START:END, in ms, as ns; either end may be left out."""
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
