"""What makes a command that reads captures start and end sooner: for captures of some megabytes that is most of its time."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys

# Parameters of glibc's mallopt(3), and what they are set to: bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEPT, _MAPPED = 128 << 20, 16 << 20


def start() -> None:
    """Prepare this process for reading a capture; to be called before numpy is imported.

    numpy starts no threads for linear algebra: nobody here needs them, they take time to start, and a process that has them
    cannot fork a helper (see analysis.helper). Looking for garbage with cycles waits until there are more objects than libraries
    bring. Memory of arrays below 16 MB, up to 128 MB in all, is used again and not given back: to be given it anew, page by page,
    takes longer than much of what is done with it. Threads use the same memory in turn. It is in small pages: large ones of
    2 MB are taken in a sixth of the time, but in virtual machines whose host had the free ones back in up to 8 times of it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(500_000, 20, 20)
    import ctypes  # late: a stored table needs none of this

    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_ARENA_MAX, 1)


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
