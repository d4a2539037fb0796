"""Intervals that nest within their thread, as stacks do: find the innermost one at a time, the enclosing one, or cut them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]

_BLOCK = 1 << 20  # rows per block, to bound temporary memory


class Stacks:
    """Intervals of several threads, indexed for many look-ups in O((N + M) log N), without a loop over intervals.

    Clocks of different sources may make two intervals overlap by a little. The later one then counts as inside the earlier one
    if it starts inside it, and stays open until its own end; `crossings` counts them. Intervals of no length contain nothing.
    Of two intervals with the same start and end, the first in the input is the outer one.

    Method: threads are laid one after another on one axis, so that intervals of different threads are disjoint. The last
    interval to begin before a time is the innermost if it is still open, and none is open if none reaches that far. Only the
    remaining cases need depths (see _Depths), which are computed when first needed.
    """

    def __init__(self, thread: Int, start: Int, end: Int):
        lasting = end > start
        self._lasting = None if bool(lasting.all()) else np.flatnonzero(lasting)
        self._axis = _Axis(thread, start, end)
        start, end = self._axis.place(thread, start), self._axis.place(thread, end)
        if self._lasting is not None:
            start, end = start[self._lasting], end[self._lasting]
        self._order = sorting(start, end)
        if self._order is not None:
            start, end = start[self._order], end[self._order]
        self._start, self._end = start, end
        self._reached = np.maximum.accumulate(end)
        self.crossings = 0
        self.crossings = sum(map(self._crossing, self._blocks()))
        if self.crossings:
            self.__dict__.pop("_depths", None)  # recompute them for clipped intervals

    @cached_property
    def _depths(self) -> _Depths:
        return _Depths(self._start, _clip_to_enclosing(self._start, self._end) if self.crossings else self._end)

    def _blocks(self) -> Iterator[slice]:
        """Yield the positions of all intervals except the first, which nothing encloses, in blocks."""
        for first in range(1, len(self._start), _BLOCK):
            yield slice(first, min(first + _BLOCK, len(self._start)))

    def _undecided(self, block: slice, closed: npt.NDArray[np.bool_]) -> Int:
        """Return positions in a block whose predecessor is closed, but which an earlier interval may enclose."""
        open_still = self._reached[block.start - 1 : block.stop - 1] > self._start[block]
        return np.asarray(np.flatnonzero(closed & open_still) + block.start)

    def _crossing(self, block: slice) -> int:
        """Return how many intervals of a block outlast the enclosing one: mostly the predecessor, if that is still open."""
        before = self._end[block.start - 1 : block.stop - 1]
        closed = before <= self._start[block]
        crossings = int(np.count_nonzero((self._end[block] > before) > closed))
        undecided = self._undecided(block, closed)
        if len(undecided):
            above = self._depths.around(undecided)
            crossings += int(np.count_nonzero((above >= 0) & (self._end[undecided] > self._end[above])))
        return crossings

    def _around(self) -> Int:
        """Return the position of the interval around each sorted one, or -1."""
        above = np.arange(-1, len(self._start) - 1, dtype=np.int64)  # the predecessor, if still open
        for block in self._blocks():
            closed = self._end[block.start - 1 : block.stop - 1] <= self._start[block]
            above[block][closed] = -1
            undecided = self._undecided(block, closed)
            if len(undecided):
                above[undecided] = self._depths.around(undecided)
        return above

    def _rows(self, position: Int) -> Int:
        """Return the input's rows for positions in the sorted order; -1 for -1."""
        rows = position if self._order is None else self._order[position]
        rows = rows if self._lasting is None else self._lasting[rows]
        return np.where(position >= 0, rows, -1)

    def innermost(self, thread: Int, at: Int) -> Int:
        """Return the row of the innermost interval of the same thread that is open at each time `at`, or -1.

        An interval is open from its start until just before its end.
        """
        if len(self._start) == 0:
            return np.full(len(at), -1, dtype=np.int64)
        placed = self._axis.place(thread, at)
        return np.where(placed >= 0, self._rows(self._open_at(placed)), -1)

    def _open_at(self, placed: Int) -> Int:
        """Return the position of the innermost interval open at each place on the axis, or -1."""
        last = np.searchsorted(self._start, placed, side="right") - 1
        at = np.maximum(last, 0)
        result = np.where((last >= 0) & (self._end[at] > placed), last, -1)
        undecided = (result < 0) & (last >= 0) & (self._reached[at] > placed)
        if undecided.any():
            search = self._climb if self.crossings else self._depths.open_at
            result[undecided] = search(last[undecided], placed[undecided])
        return result

    def _climb(self, position: Int, placed: Int) -> Int:
        """Return the interval at each position if it is open at that place, else the nearest enclosing one that is, else -1."""
        above = self._around()
        candidate = position.copy()
        while True:
            closed = candidate >= 0
            closed[closed] = self._end[candidate[closed]] <= placed[closed]
            if not closed.any():
                return candidate
            candidate[closed] = above[candidate[closed]]

    def parents(self, thread: Int, start: Int) -> Int:
        """Return for each row the innermost interval that contains it, or -1; thread and start as passed to the constructor."""
        result = np.full(len(start), -1, dtype=np.int64)
        if len(self._start) == 0:
            return result
        result[self._rows(np.arange(len(self._start), dtype=np.int64))] = self._rows(self._around())
        if self._lasting is not None:
            momentary = np.ones(len(start), dtype=bool)
            momentary[self._lasting] = False
            result[momentary] = self.innermost(thread[momentary], start[momentary])
        return result

    def leaves(self) -> tuple[Int, Int, Int]:
        """Return the intervals cut into disjoint pieces: (row, start, end) of each.

        At every instant, the innermost open interval of a thread owns the piece; the pieces of a thread are sorted.
        """
        touching = self._start[1:] < self._reached[:-1]
        crowded = (np.append(touching, False) | np.append(False, touching))[: len(self._start)]
        cuts = sorted_distinct(np.concatenate([self._start[crowded], self._end[crowded]]))
        result = self._open_at(cuts[:-1]) if len(cuts) else cuts
        owned = result >= 0
        owned[owned] = crowded[result[owned]]
        position, start, end = result[owned], cuts[:-1][owned], cuts[1:][owned]
        alone = np.flatnonzero(~crowded)
        if len(alone):  # often most: each is a piece
            position, start, end = (
                np.concatenate(parts) for parts in ((alone, position), (self._start[alone], start), (self._end[alone], end))
            )
            order = np.argsort(start, kind="stable")
            position, start, end = position[order], start[order], end[order]
        return self._rows(position), self._axis.times(start), self._axis.times(end)


class _Depths:
    """How many intervals enclose each one, for nested intervals sorted by start, longest first.

    An interval's depth is the number of intervals that began before it minus the number that have ended by then. At each depth
    at most one interval is open at a time, so the innermost open one is the last to begin at the depth just below the number
    that are open then: one search in the order of (depth, start).
    """

    def __init__(self, start: Int, end: Int):
        self._count = len(start)
        self._ends = np.sort(end)
        self._depth = np.zeros(self._count, dtype=np.int32)
        for first in range(0, self._count, _BLOCK):
            block = slice(first, min(first + _BLOCK, self._count))
            begun = np.arange(block.start, block.stop, dtype=np.int64)
            self._depth[block] = np.maximum(begun - np.searchsorted(self._ends, start[block], side="right"), 0)
        shallow = self._depth.max() < 1 << 15  # numpy sorts short integers by radix
        by_depth = np.argsort(self._depth.astype(np.int16) if shallow else self._depth, kind="stable")
        self._keys = self._depth[by_depth].astype(np.int64)
        self._keys *= self._count
        self._keys += by_depth

    def around(self, position: Int) -> Int:
        """Return the position of the interval around each of these, or -1."""
        return self._last_at(self._depth[position].astype(np.int64) - 1, position)

    def open_at(self, last: Int, placed: Int) -> Int:
        """Return the innermost interval open at each place; last: the position of the last one that has begun by then."""
        return self._last_at(last - np.searchsorted(self._ends, placed, side="right"), last)

    def _last_at(self, depth: Int, position: Int) -> Int:
        """Return the last interval of each depth at or before a position, or -1; also -1 for a depth below 0."""
        result = np.searchsorted(self._keys, depth * self._count + position, side="right") - 1
        at = np.where(result >= 0, self._keys[np.maximum(result, 0)] - depth * self._count, -1)
        return np.where((depth >= 0) & (at >= 0), at, -1)


class _Axis:
    """Lays the times of several threads one after another on one axis of int64."""

    def __init__(self, thread: Int, start: Int, end: Int):
        self._threads = distinct_of_runs(thread)
        self._low = int(start.min()) if len(start) else 0
        self._high = int(end.max()) if len(end) else 0
        span = self._high - self._low + 2
        self._span, self._times = span, None
        if len(self._threads) * span >= 1 << 62:  # widely spread times: ranks need less room
            self._times = sorted_distinct(np.concatenate([start, end]))
            self._span = 2 * len(self._times) + 2
        self._plain = len(self._threads) == 1 and self._low > 0

    def place(self, thread: Int, at: Int) -> Int:
        """Return where times of threads lie; -1 for threads without an interval."""
        if self._plain:  # one thread only: no copy needed
            return at if bool((thread == self._threads[0]).all()) else np.where(thread == self._threads[0], at, -1)
        code = np.searchsorted(self._threads, thread)
        known = code < len(self._threads)
        known[known] = self._threads[code[known]] == thread[known]
        if self._times is None:
            inside = np.clip(at, self._low - 1, self._high) - (self._low - 1)
        else:  # a time between two known ones counts as just after the first
            right, left = np.searchsorted(self._times, at, side="right"), np.searchsorted(self._times, at, side="left")
            inside = right + left
        return np.where(known, code * self._span + inside, -1)

    def times(self, placed: Int) -> Int:
        """Return the times at places where an interval starts or ends."""
        if self._plain:
            return placed
        inside = placed % self._span
        return inside + (self._low - 1) if self._times is None else self._times[inside // 2]


def distinct_of_runs(values: Int) -> Int:
    """Return the distinct values in order; fast if few values come in long runs."""
    if len(values) == 0:
        return values
    changes = np.flatnonzero(values[1:] != values[:-1])
    return sorted_distinct(values[np.concatenate([[0], changes + 1])])


def sorting(start: Int, end: Int) -> Int | None:
    """Return the order by start, longest first, then by input; None if the intervals are already sorted."""
    behind = np.flatnonzero(start[1:] <= start[:-1])
    if not len(behind) or bool(((start[behind + 1] == start[behind]) & (end[behind + 1] <= end[behind])).all()):
        return None
    order = np.argsort(start, kind="stable")
    equal = np.flatnonzero(np.diff(start[order]) == 0)
    if len(equal):
        group = sorted_distinct(np.concatenate([equal, equal + 1]))
        rows = order[group]
        order[group] = rows[np.lexsort((rows, -end[rows], start[rows]))]
    return order


def _clip_to_enclosing(start: Int, end: Int) -> Int:
    """Return ends clipped so that no interval (sorted by start, longest first) outlasts an earlier one that it starts in."""
    clipped = end.copy()
    for _ in range(64):  # each round settles one more level of nesting; crossing stacks are rarely deeper
        enclosing = _last_open(start, clipped)
        limit = np.where(enclosing >= 0, clipped[enclosing], clipped)
        lower = np.minimum(clipped, limit)
        if (lower == clipped).all():
            break
        clipped = np.asarray(lower)
    return clipped


def _last_open(start: Int, end: Int) -> Int:
    """Return, for sorted intervals, the nearest earlier one that is open at its start, or -1 (one candidate)."""
    candidate = np.arange(len(start)) - 1
    # climb: an earlier interval that ended before this start is replaced by its own candidate
    for _ in range(64):
        closed = candidate >= 0
        closed[closed] = end[candidate[closed]] <= start[closed]
        if not closed.any():
            break
        candidate[closed] = candidate[candidate[closed]]
    return np.asarray(candidate)


def sorted_distinct(values: Int) -> Int:
    """Return the distinct values in order; sorting integers is faster than the hash table of numpy.unique."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]])
