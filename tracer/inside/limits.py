"""What a child is held to: how much it may allocate, and that it does not outlive the process that started it."""

import ctypes
import resource
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def memory(most_bytes: int) -> None:
    """Let further allocations fail once the process has so many bytes of its own writable memory, as they do when memory is out.

    RLIMIT_DATA counts private writable memory (Linux 4.7 and later), touched or not, and no address space that is only reserved,
    of which CUDA and XLA take more than any machine has.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))


def end_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends, however that happens; where there is no prctl nothing is asked."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # the closed pipe ends the child too, once it looks at it
