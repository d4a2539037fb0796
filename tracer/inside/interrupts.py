"""Defer signals that the program handles, such as Ctrl-C or a timer, while something must not be interrupted."""

import _signal  # type: ignore[import-not-found]  # what signal calls, without looking up names: six times as fast
import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Tuple

_SIGNALS = tuple(map(int, (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1,
    signal.SIGUSR2,
)))  # fmt: skip


@contextmanager
def deferred() -> Iterator[None]:
    """Hold a signal that arrives during the block until its end, then handle it as usual.

    Only signals that Python handles: in the main thread, and neither ignored nor left to the system. A process started in the
    block does not inherit this, as a new program does not keep caught signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: _signal.getsignal(number) for number in _SIGNALS}
    handled: "Dict[int, Any]" = {number: handler for number, handler in before.items() if callable(handler)}
    come: "List[Tuple[int, Optional[FrameType]]]" = []
    for number in handled:
        _signal.signal(number, lambda number, frame: come.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handled.items():
            _signal.signal(number, handler)
        for number, frame in dict(come).items():  # each once
            _handle_late(handled[number], number, frame)


def _handle_late(handler: Any, number: int, frame: Optional[FrameType]) -> None:
    handler(number, frame)


def raised_late(error: BaseException) -> bool:
    """Return whether a handler raised this at the end of a block, whose own work was complete."""
    return any(frame.f_code is _handle_late.__code__ for frame in _frames(error))


def raised_by_a_handler(error: BaseException) -> bool:
    """Return whether one of the program's signal handlers raised this, wherever it interrupted us: it is for the program."""
    codes = [getattr(signal.getsignal(number), "__code__", None) for number in _SIGNALS]
    return any(frame.f_code is code for frame in _frames(error) for code in codes)


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames through which an exception came, outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
