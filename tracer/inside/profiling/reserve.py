"""A few descriptors held in reserve: a program that uses up its own would leave us none to write the recording.

All refer to the run folder, which shows whether a number is still ours: a program may close any open descriptor and reuse its
number for a file of its own.
"""

from typing import Any, List

from kernelscope.tracer.inside import own
from kernelscope.tracer.inside.own import os
from kernelscope.tracer.inside.profiling.descriptors import is_still, moved

COUNT = 4  # a file to write, and those that the capture of libraries' lines and a framework's profiler open
_LEAST = 3  # a program that closed stdin, stdout or stderr may want that number for its next file


class Reserve(object):
    """The descriptors of one process. folder: an existing one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._held: List[int] = []
        self._state: Any = None
        own.spare[:] = [self.spare]

    def fill(self) -> None:
        """Fill the reserve, as far as the program has left descriptors."""
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
        """Close one descriptor; return whether there was one."""
        while self._held:
            descriptor = self._held.pop()
            if is_still(descriptor, self._state):
                os.close(descriptor)
                return True
        return False

    def release(self) -> None:
        """Close all: for code that opens several files, or opens them by itself."""
        while self.spare():
            pass
