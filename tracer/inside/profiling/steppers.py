"""Which threads make steps: kernels of several threads are not recorded, as frameworks' profilers can crash there."""

import sys
import threading
from types import FrameType
from typing import Callable, List, Optional, Set

from kernelscope.tracer.inside.own import os

_PYTHON = os.path.dirname(threading.__file__) + os.sep
_MOST = 1000  # remembered threads
_IN_ONE = 10  # consecutive ends of steps in one thread, after which the next ones are expected there


class Steppers(object):
    """The threads that ended steps so far. beside: whether one of them was at work while another one ended a step."""

    def __init__(self) -> None:
        self.beside = False
        self._known: Set[int] = set()
        self._last: Optional[int] = None
        self._in_one = 0

    @property
    def several(self) -> bool:
        """Whether several threads make steps, concurrently or in turns."""
        return self.beside or (len(self._known) > 1 and self._in_one < _IN_ONE)

    def add(self, thread: int) -> None:
        """Note that a thread has ended what may be a step."""
        self._in_one = self._in_one + 1 if thread == self._last else 1
        self._last = thread
        if self._known == {thread} or self.beside:
            return
        if len(self._known) < _MOST:
            self._known.add(thread)
        others = [one for one in self._known if one != thread]
        self.beside = bool(others) and _any_at_work(others)


class AtThreadsEnd(object):
    """Calls a function, from within the current thread, when that thread ends; never for the main one, which ends with the
    program.
    """

    def __init__(self, function: Callable[[], None]) -> None:
        self._local = threading.local()
        if threading.current_thread() is not threading.main_thread():
            self._local.caller = _Caller(function)


class _Caller(object):
    """Calls a function when it is dropped, as a thread's local data are at its end."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def __del__(self) -> None:
        self._function()


def _any_at_work(threads: List[int]) -> bool:
    """Return whether one of these threads is at work. No frame is kept: it would keep the program's variables alive."""
    frames = sys._current_frames()
    try:
        return any(_at_work(frames.get(thread)) for thread in threads)
    finally:
        frames.clear()  # they include this function's own frame, a reference cycle


def _at_work(frame: Optional[FrameType]) -> bool:
    """Return whether a thread runs anything but Python's own modules, where the threads of a pool wait for their turn."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PYTHON, "<")) or "site-packages" in file:
            return True
        frame = frame.f_back
    return False
