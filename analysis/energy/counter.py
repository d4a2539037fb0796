"""Energy between two times from a polled counter, with bounds for its edges.

A counter does not change between its updates (about 100 ms on NVIDIA GPUs, 1 ms for RAPL), so a difference of two readings can
miss up to one update's energy at either end. There are two results:

- an estimate: the difference between the first and the last update inside, scaled to the whole time by its mean power;
- bounds that only assume that the counter never falls: the energy between updates that are certainly inside, and between readings
  that are certainly outside.

Source, on why readings must be matched with updates: Yang, Adamek and Armour, SC24 (arXiv 2312.02741), and ML.ENERGY's Zeus.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.errors import EvidenceError

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

FEWEST_UPDATES = 5  # inside a window: with fewer, its edges are a large part of it


@dataclass(frozen=True)
class Energy:
    """Joules of a stretch of time: an estimate, and bounds; high_j is None if the counter was not read after the next update."""

    joules: float
    low_j: float
    high_j: float | None
    updates: int


class Counter:
    """Readings of one counter in order of time: time_ns and joules, both [readings]. Raises EvidenceError if it falls."""

    def __init__(self, name: str, time_ns: Int, joules: Float):
        order = np.argsort(time_ns, kind="stable")
        self.name = name
        self.time_ns, self.joules = time_ns[order], joules[order]
        falls = np.flatnonzero(np.diff(self.joules) < 0)
        if len(falls):
            at = (int(self.time_ns[falls[0] + 1]) - int(self.time_ns[0])) / 1e9
            raise EvidenceError(
                f"{name}: the energy counter fell {at:.1f} s after its first reading; was the driver reloaded? run again"
            )
        changed = np.flatnonzero(np.diff(self.joules) > 0) + 1
        self.after, self.before = self.time_ns[changed], self.time_ns[changed - 1]  # each update is between these two
        self.update_ns = (self.after + self.before) / 2
        self.update_j = self.joules[changed]

    def period_ns(self) -> int | None:
        """Return the median time between updates; None with fewer than two."""
        return round(float(np.median(np.diff(self.update_ns)))) if len(self.update_ns) > 1 else None

    def between(self, start_ns: int, end_ns: int) -> Energy:
        """Return the energy between two times; raise EvidenceError if the counter changed too seldom in between."""
        inside = np.flatnonzero((self.before >= start_ns) & (self.after <= end_ns))
        if len(inside) < FEWEST_UPDATES:
            took = (end_ns - start_ns) / 1e9
            raise EvidenceError(
                f"{self.name}: the energy counter changed {len(inside)} times in a window of {took:.2f} s,"
                f" {FEWEST_UPDATES} are needed; record longer windows"
            )
        first, last = inside[0], inside[-1]
        counted = float(self.update_j[last] - self.update_j[first])
        scale = (end_ns - start_ns) / float(self.update_ns[last] - self.update_ns[first])
        return Energy(counted * scale, counted, self._at_most(start_ns, end_ns), len(inside))

    def _at_most(self, start_ns: int, end_ns: int) -> float | None:
        earlier = np.flatnonzero(self.time_ns <= start_ns)
        later = np.flatnonzero(self.before >= end_ns)
        if not len(earlier) or not len(later):
            return None
        return float(self.update_j[later[0]] - self.joules[earlier[-1]])
