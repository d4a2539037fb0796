"""Moves of unified memory that are part of the kernels' time: in totals they stand beside the sum, not in it.

A kernel waits while its page faults move pages, so its time includes these moves. On a timeline the overlap itself shows this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.trace import Trace, page_faults

_PREFETCHES = r"^cudaMemPrefetch"
_MANY, _SMALL = 100, 512_000  # moves that answer page faults: how many, and bytes of each


def within_kernels(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which copies of a source of totals are moves of pages for which kernels wait.

    With recorded page faults of the device, all moves of pages are. Without, those to the device are if they are many and small
    and no longer than the kernels: the host, and cudaMemPrefetchAsync, move blocks of up to 2 MiB. Moves to the host answer its
    own page faults, between kernels.
    """
    copies = trace.copies
    moves = (copies["operation"] == page_faults.UNIFIED).fillna(False).to_numpy(bool)
    if not moves.any() or page_faults.of(trace).ns:
        return moves
    moves = moves & (copies["memory"] == "host to device").fillna(False).to_numpy(bool)
    count, moved, took = (float(copies[name][moves].sum()) for name in ("count", "bytes", "duration_ns"))
    computing = trace.kernels["duration_ns"][(trace.kernels["kind"] != "communication").fillna(True).to_numpy(bool)]
    prefetched = bool(trace.totals["name"].astype("string").str.contains(_PREFETCHES).any())
    answered = count >= _MANY and 0 < moved < _SMALL * count and took <= float(computing.sum())
    return moves & (answered and not prefetched)
