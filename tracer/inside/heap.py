"""How profilers disturb the heap, and the countermeasures.

A profiler keeps small records of every operator between the large blocks that a framework frees and allocates again each step.
The gaps become too small for the next step, which goes on in untouched pages: thousands of page faults per step, in the time of
whichever kernel writes there first, and the process grows. A heap that keeps freed memory (see the steady conditions) is filled
with pages before operators are recorded; any other heap is trimmed once the records are gone.
"""

import ctypes
import os

KEPT = "MALLOC_TRIM_THRESHOLD_"  # set if the heap keeps freed memory
SPARE_BYTES = 512 << 20  # some ten MiB are used up per step


def touch() -> None:
    """Allocate memory, write to all of it and free it, so that its pages exist; only if the heap keeps freed memory."""
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
    """Return free pages to the system, wherever they lie; does nothing unless the C library is glibc."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
