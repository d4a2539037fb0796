"""Moves of unified memory that are part of the kernels' time: in totals they stand beside the sum, not in it.

A kernel waits while its page faults move pages, so its time includes these moves. On a timeline the overlap itself shows this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.trace import Trace, page_faults

_PREFETCHES = r"^cudaMemPrefetch"
_BLOCK = 2 << 20  # bytes: the most that one page fault of the CPU, or a prefetch, moves at once
_MANY, _SMALL, _SMALL_NS = 100, 512_000, 60_000  # moves that answer page faults: how many, and bytes or ns of each


def within_kernels(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which copies of a source of totals are moves of pages for which kernels wait.

    With recorded page faults of the device, moves to it are. Without, they are if they are many and small and no longer than the
    kernels: the host, and cudaMemPrefetchAsync, move blocks of up to 2 MiB. Moves to the host answer its own page faults, between
    kernels, unless they are more than those can move: then the device makes room, while kernels wait.
    """
    copies, faults = trace.copies, page_faults.of(trace)
    moves = (copies["operation"] == page_faults.UNIFIED).fillna(False).to_numpy(bool)
    to_device, to_host = (
        moves & (copies["memory"] == where).fillna(False).to_numpy(bool) for where in ("host to device", "device to host")
    )
    if faults.ns:
        makes_room = float(copies["bytes"][to_host].sum()) > _BLOCK * faults.of_cpu
        return moves if makes_room else moves & ~to_host
    return to_device & _answer_faults(trace, to_device)


def _answer_faults(trace: Trace, moves: npt.NDArray[np.bool_]) -> bool:
    """Return whether moves to the device seem to answer page faults that were not recorded."""
    count, moved, took = (float(trace.copies[name][moves].sum()) for name in ("count", "bytes", "duration_ns"))
    computing = trace.kernels["duration_ns"][(trace.kernels["kind"] != "communication").fillna(True).to_numpy(bool)]
    prefetched = bool(trace.totals["name"].astype("string").str.contains(_PREFETCHES).any())
    small = moved < _SMALL * count if moved else took < _SMALL_NS * count
    return count >= _MANY and small and took <= float(computing.sum()) and not prefetched
