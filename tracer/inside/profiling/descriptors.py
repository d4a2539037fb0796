"""File descriptors of ours within a program that may close any, and have files of its own under their numbers."""

import fcntl
from typing import Any

from kernelscope.tracer.inside.own import os


def moved(descriptor: int, least: int) -> int:
    """Give a descriptor a number of at least so much, and return that; where none is left there it keeps its own."""
    try:
        made = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return descriptor
    os.close(descriptor)
    return made


def is_still(descriptor: int, state: Any) -> bool:
    """Return whether a descriptor is of the file whose state, by fstat, it had."""
    try:
        return os.path.samestat(os.fstat(descriptor), state)
    except OSError:
        return False
