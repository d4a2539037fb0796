"""Who causes waiting: what the last rank did while the others waited for it, cut at its own collectives and messages.

A rank waits in a collective, or for a message, from its own begin until the last rank's begin. If the last rank itself waited in
that time, it only passed the waiting on: the rank that it waited for is charged, and so on. Its work in that time is charged to
it, each piece at the collective or message that follows the work, so that the work can be named. Nothing is lost: a job's waiting
stays the same to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
Intervals = tuple[Int, Int, Int]  # collective, begin, end
CHARGED = ("collective", "rank", "ns")


@dataclass(frozen=True)
class Waits:
    """The waiting of ranks, as matrices [collectives, ranks].

    start_ns: by corrected clocks, masked where a rank is not in a collective. wait_ns: each rank's waiting for the last one.
    exposed_ns: the exposed part of it. before_ns: from the end of the rank's collective before, or the begin of its first step,
    to this begin; -1 if none is before it. last, for each collective: the place of the rank that begins it last. clear: whether
    that is beyond the clocks' uncertainty.
    """

    start_ns: Any
    wait_ns: Int
    exposed_ns: Int
    before_ns: Any
    last: Int
    clear: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Pieces:
    """Pieces of waiting: the collective whose last rank is to be charged, start and end by corrected clocks, and ns."""

    collective: Int
    start_ns: Int
    end_ns: Int
    ns: Int

    def of(self, kept: Any) -> _Pieces:
        """Return some of them."""
        return _Pieces(self.collective[kept], self.start_ns[kept], self.end_ns[kept], self.ns[kept])

    def within(self, own: Intervals) -> tuple[Int, _Pieces]:
        """Return the parts of the pieces within intervals: each part's piece, and the parts with the interval's collective."""
        if not len(self.ns) or not len(own[0]):
            return np.zeros(0, dtype=np.int64), self.of(slice(0, 0))
        row, among, start, end = intervals.split_at(self.start_ns, self.end_ns, own[1], own[2])
        lasted = np.maximum(self.end_ns - self.start_ns, 1)
        ns = (self.ns[row].astype(float) * (end - start) / lasted[row]).astype(np.int64)
        return row, _Pieces(own[0][among], start, end, ns)


def charged(waits: Waits) -> pd.DataFrame:
    """Return the exposed waiting that each rank is charged with at each collective or message: CHARGED.

    rank: the place of a rank; -1 if it is unknown who came last.
    """
    collective, rank = np.nonzero(waits.exposed_ns)
    begun = waits.start_ns.data[collective, rank]
    pieces = _Pieces(collective, begun, begun + waits.wait_ns[collective, rank], waits.exposed_ns[collective, rank])
    known = waits.clear[pieces.collective]
    unknown = pieces.of(~known)
    tables = [_table(unknown.collective, -1, unknown.ns)]
    pieces = pieces.of(known)
    own: dict[int, tuple[Intervals, Intervals]] = {}
    for _ in range(waits.start_ns.shape[1]):  # waiting passes through each rank once at most
        handed = []
        for place, mine in _by_last(pieces, waits.last):
            own[place] = waiting, working = own.get(place) or (_waiting(waits, place), _working(waits, place))
            row, on = mine.within(waiting)
            at, worked = mine.within(working)
            left = mine.ns.copy()
            for where, part in ((row, on), (at, worked)):
                np.subtract.at(left, where, part.ns)
            tables += [_table(worked.collective, place, worked.ns), _table(mine.collective, place, left)]
            handed.append(on.of(on.ns > 0))
        pieces = _joined(handed) if handed else pieces.of(slice(0, 0))
        if not len(pieces.ns):
            break
    tables.append(_table(pieces.collective, waits.last[pieces.collective], pieces.ns))
    sums = pd.concat(tables).groupby(["collective", "rank"], sort=True)["ns"].sum().reset_index()
    return sums[sums["ns"] > 0].reset_index(drop=True)


def _by_last(pieces: _Pieces, last: Int) -> Iterator[tuple[int, _Pieces]]:
    """Yield the place of each rank to be charged, with its pieces."""
    late = last[pieces.collective]
    order = np.argsort(late, kind="stable")
    places, begun = np.unique(late[order], return_index=True)
    for place, first, end in zip(places, begun, [*begun[1:], len(order)], strict=False):
        yield int(place), pieces.of(order[first:end])


def _waiting(waits: Waits, place: int) -> Intervals:
    """Return a rank's waiting for known ranks, as intervals that do not overlap."""
    mine = np.flatnonzero((waits.wait_ns[:, place] > 0) & waits.clear)
    start = waits.start_ns.data[mine, place]
    return _apart(mine, start, start + waits.wait_ns[mine, place])


def _working(waits: Waits, place: int) -> Intervals:
    """Return the intervals between a rank's collectives, each with the collective that follows."""
    before = waits.before_ns.filled(0)[:, place]
    mine = np.flatnonzero(before > 0)
    start = waits.start_ns.data[mine, place]
    return _apart(mine, start - before[mine], start)


def _apart(collective: Int, start: Int, end: Int) -> Intervals:
    """Return intervals in order, each cut to begin where those before it have ended."""
    order = np.argsort(start, kind="stable")
    collective, start, end = collective[order], start[order], end[order]
    if len(end):
        start = np.maximum(start, np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]]))
    kept = end > start
    return collective[kept], start[kept], end[kept]


def _table(collective: Int, rank: int | Int, ns: Int) -> pd.DataFrame:
    return pd.DataFrame({"collective": collective, "rank": rank, "ns": ns}, columns=list(CHARGED))


def _joined(parts: Sequence[_Pieces]) -> _Pieces:
    names = ("collective", "start_ns", "end_ns", "ns")
    return _Pieces(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))
