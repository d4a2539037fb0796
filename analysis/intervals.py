"""Vectorised arithmetic on nested and overlapping time intervals: no Python loop over events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


class Stacks:
    """Intervals that nest within their thread, as stacks do, prepared for many look-ups in O((N + M) log N).

    Where clocks of different sources make two overlap by a little, the later one counts as inside the earlier one if it starts
    inside it; `crossings` counts them. Intervals of no length contain nothing. Of two intervals
    with the same start and end the first in the input is the outer one.

    Method: threads are laid one after another on one axis, so that intervals of different threads are disjoint. In the order of
    starts, the number of intervals open before each is its depth: those that have begun minus those that have ended. Among the
    intervals of one depth at most one is open at a time, so the innermost open one at a time is the last to begin at the depth
    below the number that are open then.
    """

    def __init__(self, thread: Int, start: Int, end: Int):
        lasting = end > start
        self._lasting = None if bool(lasting.all()) else np.flatnonzero(lasting)
        self._axis = _Axis(thread, start, end)
        start, end = self._axis.place(thread, start), self._axis.place(thread, end)
        if self._lasting is not None:
            start, end = start[self._lasting], end[self._lasting]
        self._order = _sorting(start, end)
        if self._order is not None:
            start, end = start[self._order], end[self._order]
        self.crossings = 0
        self._end = end
        self._prepare(start, end)
        above = self._above()
        crossing = (above >= 0) & (end > end[above])
        if crossing.any():
            self.crossings = int(crossing.sum())
            self._prepare(start, _clip_to_enclosing(start, end))

    def _prepare(self, start: Int, end: Int) -> None:
        self._start = start
        self._ends = np.sort(end)
        count = np.arange(len(start), dtype=np.int64)
        depth = np.maximum(count - np.searchsorted(self._ends, start, side="right"), 0)
        small = depth.astype(np.int16) if len(depth) and depth.max() < 1 << 15 else depth  # numpy sorts short integers by radix
        by_depth = np.argsort(small, kind="stable")
        self._depth = depth
        self._keys = depth[by_depth] * len(start) + by_depth

    def _last_at(self, depth: Int, position: Int) -> Int:
        """Return the last interval of each depth (at least 0) that stands at or before a position, or -1."""
        count = len(self._start)
        found = np.searchsorted(self._keys, depth * count + position, side="right") - 1
        at = np.where(found >= 0, self._keys[np.maximum(found, 0)] - depth * count, -1)
        return np.where((depth >= 0) & (at >= 0), at, -1)

    def _above(self) -> Int:
        """Return for each sorted interval the position of the one around it, or -1."""
        return self._last_at(self._depth - 1, np.arange(len(self._start), dtype=np.int64))

    def _rows(self, position: Int) -> Int:
        """Return the input's rows for positions in the sorted order, -1 for -1."""
        return np.where(position >= 0, self._input_rows()[position], -1) if len(self._start) else position

    def _input_rows(self) -> Int:
        """Return the input's row of each interval in the sorted order."""
        order = np.arange(len(self._start), dtype=np.int64) if self._order is None else self._order
        return order if self._lasting is None else self._lasting[order]

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
        begun = np.searchsorted(self._start, placed, side="right")
        if self.crossings:
            return self._climb(begun - 1, placed)
        ended = np.searchsorted(self._ends, placed, side="right")
        return self._last_at(begun - ended - 1, begun - 1)

    def _climb(self, position: Int, at: Int) -> Int:
        """Return the last interval to begin that is open, or the nearest one around it that is; -1 without.

        For intervals that cross, of which the later one stays open after the earlier one that it began in has ended.
        """
        above = self._above()
        candidate = position.copy()
        while True:
            closed = candidate >= 0
            closed[closed] = self._end[candidate[closed]] <= at[closed]
            if not closed.any():
                return candidate
            candidate[closed] = above[candidate[closed]]

    def parents(self, thread: Int, start: Int) -> Int:
        """Return for each row the innermost interval that contains it, or -1; thread and start are those that came in."""
        found = np.full(len(start), -1, dtype=np.int64)
        if len(self._start) == 0:
            return found
        found[self._input_rows()] = self._rows(self._above())
        if self._lasting is not None:
            momentary = np.ones(len(start), dtype=bool)
            momentary[self._lasting] = False
            found[momentary] = self.innermost(thread[momentary], start[momentary])
        return found

    def leaves(self) -> tuple[Int, Int, Int]:
        """Return the intervals cut into pieces that do not overlap: (row, start, end) of each.

        At every instant the innermost open interval of a thread owns the piece; pieces of one thread follow each other.
        """
        cuts = _sorted_distinct(np.concatenate([self._start, self._end]))
        found = self._open_at(cuts[:-1]) if len(cuts) else cuts
        owned = found >= 0
        return self._rows(found[owned]), self._axis.times(cuts[:-1][owned]), self._axis.times(cuts[1:][owned])


class _Axis:
    """Lays the times of several threads one after another on one axis of int64."""

    def __init__(self, thread: Int, start: Int, end: Int):
        self._threads = _distinct(thread)
        self._low = int(start.min()) if len(start) else 0
        self._high = int(end.max()) if len(end) else 0
        span = self._high - self._low + 2
        self._span, self._times = span, None
        if len(self._threads) * span >= 1 << 62:  # a capture with wild times: their ranks take less room
            self._times = _sorted_distinct(np.concatenate([start, end]))
            self._span = 2 * len(self._times) + 2
        self._plain = len(self._threads) == 1 and self._low > 0

    def place(self, thread: Int, at: Int) -> Int:
        """Return where times of threads lie; -1 for threads that have no interval."""
        if self._plain:  # nothing to tell apart among the intervals, nothing to copy
            return at if bool((thread == self._threads[0]).all()) else np.where(thread == self._threads[0], at, -1)
        code = np.searchsorted(self._threads, thread)
        known = code < len(self._threads)
        known[known] = self._threads[code[known]] == thread[known]
        if self._times is None:
            inside = np.clip(at, self._low - 1, self._high) - (self._low - 1)
        else:  # between two known times counts as just after the first
            right, left = np.searchsorted(self._times, at, side="right"), np.searchsorted(self._times, at, side="left")
            inside = right + left
        return np.where(known, code * self._span + inside, -1)

    def times(self, placed: Int) -> Int:
        """Return the times at places where an interval starts or ends."""
        if self._plain:
            return placed
        inside = placed % self._span
        return inside + (self._low - 1) if self._times is None else self._times[inside // 2]


def _distinct(values: Int) -> Int:
    """Return the distinct values in order; quick where few values come in long runs."""
    if len(values) == 0:
        return values
    changes = np.flatnonzero(values[1:] != values[:-1])
    return _sorted_distinct(values[np.concatenate([[0], changes + 1])])


def _sorting(start: Int, end: Int) -> Int | None:
    """Return the order by start, longest first, then by input; None where the intervals stand in it already."""
    later = start[1:] - start[:-1]
    if bool(((later > 0) | ((later == 0) & (end[1:] <= end[:-1]))).all()):
        return None
    order = np.argsort(start, kind="stable")
    tied = np.flatnonzero(np.diff(start[order]) == 0)
    if len(tied):
        group = _sorted_distinct(np.concatenate([tied, tied + 1]))
        rows = order[group]
        order[group] = rows[np.lexsort((rows, -end[rows], start[rows]))]
    return order


def _clip_to_enclosing(start: Int, end: Int) -> Int:
    """Return ends cut so that no interval (sorted by start, longest first) outlasts an earlier one that it starts inside of."""
    clipped = end.copy()
    for _ in range(64):  # each round settles one more level of nesting; stacks are rarely deeper where they cross
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


def parents(thread: Int, start: Int, end: Int) -> Int:
    """Return for each interval the row of the innermost interval of its thread that contains it, or -1 (see Stacks)."""
    return Stacks(thread, start, end).parents(thread, start)


def innermost(thread: Int, start: Int, end: Int, at_thread: Int, at: Int) -> Int:
    """Return the row of the innermost interval of the same thread that is open at each time `at`, or -1 (see Stacks)."""
    return Stacks(thread, start, end).innermost(at_thread, at)


def leaves(thread: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Cut nested intervals into pieces that do not overlap: (row of the interval, start, end) of each (see Stacks)."""
    return Stacks(thread, start, end).leaves()


def split_at(start: Int, end: Int, edges_start: Int, edges_end: Int) -> tuple[Int, Int, Int, Int]:
    """Cut intervals by windows that follow each other: (interval index, window index, start, end) of each piece inside one."""
    first = np.searchsorted(edges_end, start, side="right")
    last = np.searchsorted(edges_start, end, side="left")
    pieces = np.maximum(last - first, 0)
    index = np.repeat(np.arange(len(start)), pieces)
    offset = np.arange(len(index)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    window = first[index] + offset
    piece_start = np.maximum(start[index], edges_start[window])
    piece_end = np.minimum(end[index], edges_end[window])
    keep = piece_end > piece_start
    return index[keep], window[keep], piece_start[keep], piece_end[keep]


def shares(start: Int, end: Int) -> Float:
    """Share every instant equally among the intervals active in it; return each interval's part in ns.

    So the parts of all intervals add up to the length of the union of all.
    """
    part = (end - start).astype(float)
    order = None if bool((start[1:] >= start[:-1]).all()) else np.argsort(start, kind="stable")
    begun, over = (start, end) if order is None else (start[order], end[order])
    reached = np.maximum.accumulate(over)
    # those that overlap no other keep their whole length, and they are most
    touches = begun[1:] < reached[:-1]
    crowded = np.append(touches, False)[: len(begun)] | np.append(False, touches)[: len(begun)]
    if crowded.any():
        rows = np.flatnonzero(crowded) if order is None else order[crowded]
        part[rows] = _swept(start[rows], end[rows])
    return part


def _swept(start: Int, end: Int) -> Float:
    """Return each interval's part of the instants that it shares with others (see `shares`)."""
    times = _sorted_distinct(np.concatenate([start, end]))
    length = np.diff(times).astype(float)
    first, last = np.searchsorted(times, start), np.searchsorted(times, end)
    active = np.cumsum(np.bincount(first, minlength=len(times)) - np.bincount(last, minlength=len(times)))[:-1]
    total = np.concatenate([[0.0], np.cumsum(np.where(active > 0, length / np.maximum(active, 1), 0.0))])
    return np.asarray(total[last] - total[first])


def _sorted_distinct(values: Int) -> Int:
    """Return the distinct values in order: by sorting, which for integers beats the hash table of numpy.unique."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]]


def uncovered(start: Int, end: Int, window_start: Int, window_end: Int) -> tuple[Int, Int]:
    """Return the gaps, as starts and ends, in windows that follow each other, in which none of the intervals is active."""
    order = None if bool((start[1:] >= start[:-1]).all()) else np.argsort(start, kind="stable")
    begun, over = (start, end) if order is None else (start[order], end[order])
    reached = np.maximum.accumulate(over)
    opens = np.flatnonzero(begun[1:] > reached[:-1]) + 1  # blocks of activity without a gap inside
    first, last = begun[np.append(0, opens)[: len(begun)]], np.append(reached[opens - 1], reached[-1:])
    free_start, free_end = np.append(window_start[:1], last), np.append(first, window_end[-1:])
    inside = free_end > free_start
    _, _, gap_start, gap_end = split_at(free_start[inside], free_end[inside], window_start, window_end)
    return gap_start, gap_end


def apportion(parts: Float, total: int) -> Int:
    """Round non-negative parts to integers that add up to `total` exactly, by largest remainder.

    Source: the largest remainder (Hamilton) method of apportionment; ties go to the earlier part.
    """
    if len(parts) == 0:
        return np.empty(0, dtype=np.int64)
    scale = parts.sum()
    exact = parts * (total / scale) if scale > 0 else np.zeros(len(parts))
    whole = np.floor(exact).astype(np.int64)
    left = int(total - whole.sum())
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: max(left, 0)]] += 1
    if left < 0:  # floating point rounded up somewhere: take back from the smallest remainders that have something to give
        giving = order[::-1][whole[order[::-1]] > 0][:-left]
        whole[giving] -= 1
    return whole
