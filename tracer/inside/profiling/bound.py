"""Bounds the time and size of a pass over a whole program, which has no step ends at which to check them.

A thread checks. It asks the program's main thread to end the pass between two of its own instructions, since profilers must be
stopped where they were started. The interpreter calls the function that was given to `Py_AddPendingCall` (Python's C API,
"Initialization, Finalization, and Threads").
"""

import ctypes
import functools
import threading
from typing import Any, Callable, List

LOOK_S = 0.2

_ending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_asked: List[Any] = []  # callbacks for the interpreter: they must stay alive


def watch(recording: Any, seconds: float, give_up: Callable[[str], None]) -> None:
    """Call give_up(reason) on the main thread if the pass exceeds this many seconds or its size limit.

    recording: the pass, watched until it is closed.
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
    """Have the main thread call the function once the framework's profiler can be stopped there."""

    def called(_: Any) -> int:
        if recording.adapter.interruptible():
            function()
        return 0

    _asked.append(_ending(called))
    while not recording.closed.wait(LOOK_S):
        ctypes.pythonapi.Py_AddPendingCall(_asked[-1], None)
