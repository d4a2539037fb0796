"""A few descriptors that are kept for us: a program that uses up its own would leave none to write what was recorded.

All are of the run folder, so that it is seen whether a number is still ours: a program may close what it finds open, and have
a file of its own under that number.
"""

from typing import Any, List

from kernelscope.tracer.inside import own
from kernelscope.tracer.inside.own import os
from kernelscope.tracer.inside.profiling.descriptors import is_still, moved

COUNT = 4  # a file to write, and what the capture of libraries' lines and a framework's profiler open beside it
_LEAST = 3  # a program that closed its stdin, stdout or stderr may want that number for what it opens next


class Reserve(object):
    """The descriptors of one process. folder: one that is there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._held: List[int] = []
        self._state: Any = None
        own.spare[:] = [self.spare]

    def fill(self) -> None:
        """Keep as many as there should be, as far as the program has left some."""
        while len(self._held) < COUNT:
            try:
                opened = os.open(self._folder, os.O_RDONLY)
            except OSError:  # none is left, or the folder is gone
                return
            opened = moved(opened, _LEAST) if opened < _LEAST else opened
            if opened < _LEAST:
                os.close(opened)
                return
            self._state = os.fstat(opened)
            self._held.append(opened)

    def spare(self) -> bool:
        """Close one; return whether there was one."""
        while self._held:
            descriptor = self._held.pop()
            if is_still(descriptor, self._state):
                os.close(descriptor)
                return True
        return False

    def release(self) -> None:
        """Close all: for what opens several files, or opens them by itself."""
        while self.spare():
            pass
