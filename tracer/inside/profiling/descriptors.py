"""Our file descriptors within a program that may close any descriptor and reuse its number for a file of its own."""

import fcntl
from typing import Any

from kernelscope.tracer.inside.own import os


def moved(descriptor: int, least: int) -> int:
    """Move a descriptor to a number of at least `least` and return that number; if none is free, it keeps its own."""
    try:
        made = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:
        return descriptor
    os.close(descriptor)
    return made


def is_still(descriptor: int, state: Any) -> bool:
    """Return whether a descriptor still refers to the file with this fstat result."""
    try:
        return os.path.samestat(os.fstat(descriptor), state)
    except OSError:
        return False
