"""What profilers do to the heap, and what is done about it.

A profiler keeps small records of every operator between the large blocks that a framework gives back and takes again each step.
The holes then are too small for the next step, which goes on in pages that nobody has touched: thousands of page faults a step,
in the time of whatever kernel is the first to write there, and the process grows. A heap that is kept (see the steady conditions)
is filled with pages before operators are recorded; any other is trimmed once the records are gone.
"""

import ctypes
import os

KEPT = "MALLOC_TRIM_THRESHOLD_"  # set where the heap keeps what is freed
SPARE_BYTES = 512 << 20  # some ten MiB a step are used up


def touch() -> None:
    """Take memory from the heap, write to all of it and give it back, so that its pages are there; only where it is kept."""
    if KEPT not in os.environ:
        return
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    block = library.malloc(SPARE_BYTES)
    if block:
        ctypes.memset(block, 1, SPARE_BYTES)
        library.free(block)


def trim() -> None:
    """Give pages that are free back to the system, wherever they lie; nothing where the C library is not glibc."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
