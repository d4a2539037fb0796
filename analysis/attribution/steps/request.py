"""What a user asks for as steps: `range:NAME`, `kernel:REGEX`, `period`, `whole`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelscope.analysis.errors import EvidenceError

METHODS = ("range", "kernel", "period", "whole")


@dataclass(frozen=True)
class Request:
    """What to take as steps: one of METHODS (None: whatever is found), a pattern for the first two; and which device's work."""

    method: str | None = None
    pattern: str = ""
    device: str | None = None

    @property
    def text(self) -> str:
        """How it was written."""
        return f"{self.method}:{self.pattern}" if self.pattern else str(self.method)


def parse(text: str | None, device: str | None = None) -> Request:
    """Return the request that a text stands for; raise EvidenceError for one that is none."""
    if text is None or text == "auto":
        return Request(device=device)
    method, _, pattern = text.partition(":")
    if method not in METHODS or (method in ("range", "kernel")) != bool(pattern):
        raise EvidenceError(f"--steps {text!r}: write range:NAME (with * for any text), kernel:REGEX, period, whole or auto")
    if method == "kernel":
        try:
            re.compile(pattern)
        except re.error as error:
            raise EvidenceError(f"--steps {text!r}: {error}; write a regular expression after kernel:") from error
    return Request(method, pattern, device)
