"""Limits of a child: how much it may allocate, and that it does not outlive the process that started it."""

import ctypes
import os
import resource
import signal
from typing import Any, Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def memory(most_bytes: int) -> None:
    """Make allocations fail, as if memory had run out, once the process has this many bytes of private writable memory.

    RLIMIT_DATA counts private writable memory (Linux 4.7 and later), touched or not. It does not count address space that is
    only reserved; CUDA and XLA reserve more than any machine has.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))


def end_with_parent() -> None:
    """Ask the operating system to send SIGKILL when the parent ends, for any reason; without prctl, do nothing.

    The closed pipe ends the child too, but only once the child reads it.
    """
    _asking(signal.SIGKILL)()


def ending_with_us(number: int) -> Callable[[], None]:
    """Return a function for a new process to call between fork and exec, to get this signal when we end for any reason.

    Processes that it starts do not get the signal.
    """
    parent, ask = os.getpid(), _asking(number)

    def between() -> None:
        ask()
        if os.getppid() != parent:  # we ended before the request
            os.kill(os.getpid(), number)

    return between


def _asking(number: int) -> Callable[[], Any]:
    """Return a function that asks the operating system for this signal when the parent ends; without prctl, it does nothing.

    The library is loaded here: after a fork of a process with threads, a lock of the loader may be held.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda: None
    return lambda: prctl(_PR_SET_PDEATHSIG, int(number))
