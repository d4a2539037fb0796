"""Signals that end a process, such as Ctrl-C's, wait for a moment: while something is done that must not be cut in two."""

import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Tuple

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred() -> Iterator[None]:
    """Keep a signal that comes during the block until its end, where it does what it would have done.

    Only those that Python would handle at all: in the main thread, and neither ignored nor left to the system. A process started
    in the block does not inherit this, as signals that are caught are not in a new program.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    handled: "Dict[int, Any]" = {number: handler for number, handler in before.items() if callable(handler)}
    come: "List[Tuple[int, Optional[FrameType]]]" = []
    for number in handled:
        signal.signal(number, lambda number, frame: come.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        if come:
            handled[come[0][0]](*come[0])
