"""One clock for everything inside: CLOCK_MONOTONIC in integer nanoseconds, with anchors to other clocks."""

import time
from typing import Dict

_wall = time.time  # as it was before the program could replace it

if hasattr(time, "perf_counter_ns"):
    now_ns = time.perf_counter_ns
else:  # Python 3.6: a float still resolves about 10 ns after months of uptime
    _seconds = time.perf_counter

    def now_ns() -> int:
        """Return CLOCK_MONOTONIC in ns."""
        return int(_seconds() * 1e9)


def anchor() -> Dict[str, int]:
    """Return simultaneous readings of the monotonic and the wall clock in ns, and how far apart the reads were.

    oneDNN's verbose lines and some profilers use the wall clock; a pair of readings maps their times to our clock. The tightest
    of several attempts counts, so being descheduled between two reads does no harm.
    """
    best: Dict[str, int] = {}
    for _ in range(7):
        before = now_ns()
        wall = int(_wall() * 1e9)
        after = now_ns()
        if not best or after - before < best["uncertainty_ns"]:
            best = {"monotonic_ns": (before + after) // 2, "wall_ns": wall, "uncertainty_ns": after - before}
    return best
