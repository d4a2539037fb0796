"""What a child is held to: how much it may allocate, and that it does not outlive the process that started it."""

import ctypes
import os
import resource
import signal
from typing import Any, Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def memory(most_bytes: int) -> None:
    """Let further allocations fail once the process has so many bytes of its own writable memory, as they do when memory is out.

    RLIMIT_DATA counts private writable memory (Linux 4.7 and later), touched or not, and no address space that is only reserved,
    of which CUDA and XLA take more than any machine has.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))


def end_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends, however that happens; where there is no prctl nothing is asked.

    The closed pipe ends the child too, once it looks at it.
    """
    _asking(signal.SIGKILL)()


def ending_with_us(number: int) -> Callable[[], None]:
    """Return what a process calls between its fork and its program: it gets this signal when we end, however that happens.

    What it starts itself does not.
    """
    parent, ask = os.getpid(), _asking(number)

    def between() -> None:
        ask()
        if os.getppid() != parent:  # we ended before that
            os.kill(os.getpid(), number)

    return between


def _asking(number: int) -> Callable[[], Any]:
    """Return what asks the kernel for this signal when the parent ends, and nothing where there is no prctl.

    The library is loaded here: after a fork among threads a lock of the loader may be held.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda: None
    return lambda: prctl(_PR_SET_PDEATHSIG, int(number))
