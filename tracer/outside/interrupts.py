"""Ctrl-C that waits for a moment: while a process is started, nobody holds it yet who could end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred() -> Iterator[None]:
    """Keep a SIGINT that comes during the block until its end, where it does what it would have done.

    Only where Python would handle it at all: in the main thread, and unless it is ignored. The process started in the block does
    not inherit this, as signals that are caught are not in a new program.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    come: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: come.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if come:
            before(*come[0])
