"""Ctrl-C that waits for a moment: while something is done that must not be cut in two."""

import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import Iterator, List, Optional, Tuple


@contextmanager
def deferred() -> Iterator[None]:
    """Keep a SIGINT that comes during the block until its end, where it does what it would have done.

    Only where Python would handle it at all: in the main thread, and unless it is ignored. A process started in the block does
    not inherit this, as signals that are caught are not in a new program.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    come: "List[Tuple[int, Optional[FrameType]]]" = []
    signal.signal(signal.SIGINT, lambda number, frame: come.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if come:
            before(*come[0])
