"""What makes a command that reads captures start and end sooner: for captures of some megabytes that is most of its time."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

# Parameters of glibc's mallopt(3), and what they are set to: bytes
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_KEPT, _MAPPED = 128 << 20, 16 << 20
_MADV_HUGEPAGE = 14  # of madvise(2)


def start() -> None:
    """Prepare this process for reading a capture; to be called before numpy is imported.

    numpy starts no threads for linear algebra: nobody here needs them, they take time to start, and a process that has them
    cannot fork a helper (see analysis.helper). Looking for garbage with cycles waits until there are more objects than libraries
    bring. Memory of arrays below 16 MB, up to 128 MB in all, is used again and not given back: to be given it anew, page by page,
    takes longer than much of what is done with it. Threads use the same memory in turn. Where the system has pages of 2 MB for
    those who ask, the first of it are such pages.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(500_000, 20, 20)
    import ctypes  # late: a stored table needs none of this

    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_ARENA_MAX, 1)
        _take_large_pages(libc)


def _take_large_pages(libc: ctypes.CDLL) -> None:
    """Let the heap grow by as much as is kept, and ask for large pages there: they are had when they are first written to."""
    import ctypes

    libc.sbrk.restype = libc.malloc.restype = ctypes.c_void_p
    libc.mallopt(_TOP_PAD, _KEPT)
    begin = libc.sbrk(0)
    libc.free(ctypes.c_void_p(libc.malloc(_MAPPED >> 1)))
    page = os.sysconf("SC_PAGESIZE")
    begin += -begin % page
    libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(max(libc.sbrk(0) - begin, 0)), _MADV_HUGEPAGE)


class Leaving:
    """Ends the process without freeing every object of every library first, after all else that is to be done at its end.

    To be made before libraries are imported: what they want to do at the end is done before. Nothing happens until `status` is
    set, so that what ends by an exception ends as ever.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python says what it says of output that cannot be written
        os._exit(self.status)
