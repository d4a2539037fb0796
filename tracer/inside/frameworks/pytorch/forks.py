"""Let forked processes of a profiled one exit, which libkineto, once it ran, prevents.

libkineto has a thread that waits on a condition variable. A forked process lacks this thread, and when the library destroys the
variable at exit, it waits for the thread forever. So any program hangs that forks after torch.profiler ran in it.
"""

import ctypes
from ctypes import c_void_p


def leave_without_destructors() -> None:
    """Let this forked process exit without C++ destructors: it flushes its buffers and exits.

    The C library runs the functions registered last first. C libraries without `on_exit` (musl) have no PyTorch.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit") and hasattr(libc, "__cxa_atexit"):
        libc.on_exit(ctypes.cast(libc._exit, c_void_p), None)
        libc.__cxa_atexit(ctypes.cast(libc.fflush, c_void_p), None, None)
