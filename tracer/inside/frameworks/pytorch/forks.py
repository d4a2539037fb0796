"""Processes that a profiled one forks: they end, although libkineto, once it ran, does not let them.

It has a thread that waits on a condition variable. In a forked process there is no such thread, and destroying the variable, as
the library does when a process exits, waits for it for ever. So hangs any program that forks after torch.profiler ran in it.
"""

import ctypes
from ctypes import c_void_p


def leave_without_destructors() -> None:
    """Let this process, which was forked, end without destructors of C++: what is buffered is written, then it is gone.

    The C library runs what was registered last first. Libraries of C without `on_exit` (musl) have no PyTorch.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit") and hasattr(libc, "__cxa_atexit"):
        libc.on_exit(ctypes.cast(libc._exit, c_void_p), None)
        libc.__cxa_atexit(ctypes.cast(libc.fflush, c_void_p), None, None)
