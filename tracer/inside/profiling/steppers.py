"""Which threads make steps: of several at a time no kernels are recorded, as frameworks' profilers crash among them."""

import sys
import threading
from types import FrameType
from typing import Optional, Set

from kernelscope.tracer.inside.own import os

_PYTHON = os.path.dirname(threading.__file__) + os.sep
_MOST = 1000  # that are remembered


class Steppers(object):
    """The threads that ended steps so far. several: whether one of them was at work while another one ended a step."""

    def __init__(self) -> None:
        self.several = False
        self._known: Set[int] = set()

    def add(self, thread: int) -> None:
        """A thread has ended what may be a step."""
        if self._known == {thread} or self.several:
            return
        if len(self._known) < _MOST:
            self._known.add(thread)
        frames = sys._current_frames()
        self.several = any(_at_work(frames.get(one)) for one in self._known if one != thread)


def _at_work(frame: Optional[FrameType]) -> bool:
    """Return whether a thread is in anything but Python's own modules, where those of a pool wait that take turns."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PYTHON, "<")) or "site-packages" in file:
            return True
        frame = frame.f_back
    return False
