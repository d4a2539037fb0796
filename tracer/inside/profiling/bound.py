"""Ends a pass that has no steps at whose ends its time and its size could be looked at: that over a program as a whole.

A thread looks, and the program's main thread is asked to end the pass between two of its own instructions, since profilers are
stopped where they were started. The interpreter calls what `Py_AddPendingCall` is given (Python's C API, "Initialization,
Finalization, and Threads").
"""

import ctypes
import functools
import threading
from typing import Any, Callable, List

LOOK_S = 0.2

_ending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_asked: List[Any] = []  # what the interpreter is to call: it has to stay


def watch(recording: Any, seconds: float, give_up: Callable[[str], None]) -> None:
    """Call give_up(reason) on the main thread when the pass lasts longer than so many seconds, or is larger than it may be.

    recording: the pass; it is watched until it is closed.
    """
    thread = threading.Thread(target=_look, args=(recording, seconds, give_up), name="kernelscope-bound")
    thread.daemon = True
    thread.start()


def _look(recording: Any, seconds: float, give_up: Callable[[str], None]) -> None:
    waited = 0.0
    while not recording.closed.wait(LOOK_S):
        waited += LOOK_S
        long = "it took longer than --seconds %g; more seconds let it be recorded" % seconds
        reason = long if waited > seconds else recording.too_large()
        if reason is not None:
            _on_main_thread(recording, functools.partial(give_up, reason))
            return


def _on_main_thread(recording: Any, function: Callable[[], None]) -> None:
    """Have the main thread call the function, once the framework's profiler can be stopped there."""

    def called(_: Any) -> int:
        if recording.adapter.interruptible():
            function()
        return 0

    _asked.append(_ending(called))
    while not recording.closed.wait(LOOK_S):
        ctypes.pythonapi.Py_AddPendingCall(_asked[-1], None)
