"""Vectorised arithmetic on nested and overlapping time intervals: no Python loop over events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


def parents(thread: Int, start: Int, end: Int) -> Int:
    """Return for each interval the index of the innermost interval of its thread that contains it, or -1.

    Intervals of one thread are taken to nest, as stacks do; where clocks of different sources make two overlap by a little,
    the later one counts as inside the earlier one if it starts inside it. Intervals of no length contain nothing, and of
    two intervals with the same start and end the first in the input is the outer one.

    Method: per thread, starts and ends in one order; the depth after each is a cumulative sum; an interval's parent is the
    last start before it whose depth is one less, found by a forward fill within each depth.
    """
    count = len(start)
    if count == 0:
        return np.empty(0, dtype=np.int64)
    order = np.lexsort((np.arange(count), -end, start, thread))
    clipped = _clip_to_enclosing(thread[order], start[order], end[order])
    depth = _depths(thread[order], start[order], clipped)
    found = np.full(count, -1, dtype=np.int64)
    frame = pd.DataFrame({"depth": depth, "thread": thread[order]})
    position = np.arange(count)
    for level in range(1, int(depth.max()) + 1):
        # the last interval one level up that started at or before this one
        above = pd.Series(np.where(frame["depth"] == level - 1, position, np.nan)).ffill()
        mine = np.flatnonzero(depth == level)
        found[order[mine]] = order[above.iloc[mine].to_numpy().astype(np.int64)]
    return found


def _clip_to_enclosing(thread: Int, start: Int, end: Int) -> Int:
    """Return ends cut so that no interval (sorted by thread, start, -end) outlasts an earlier one that it starts inside of."""
    clipped = end.copy()
    for _ in range(64):  # each round settles one more level of nesting; stacks are not deeper
        enclosing = _last_open(thread, start, clipped)
        inside = enclosing >= 0
        limit = np.where(inside, clipped[enclosing], clipped)
        lower = np.minimum(clipped, limit)
        if (lower == clipped).all():
            break
        clipped = np.asarray(lower)
    return clipped


def _last_open(thread: Int, start: Int, end: Int) -> Int:
    """Return, for sorted intervals, the index of the nearest earlier one that is open at its start, or -1 (one candidate)."""
    previous = np.arange(len(start)) - 1
    previous[0] = -1
    same = previous >= 0
    same[same] = thread[previous[same]] == thread[same]
    candidate = np.where(same, previous, -1)
    # climb: an earlier interval that ended before this start is replaced by its own candidate
    for _ in range(64):
        closed = candidate >= 0
        closed[closed] = end[candidate[closed]] <= start[closed]
        if not closed.any():
            break
        candidate[closed] = candidate[candidate[closed]]
    return np.asarray(candidate)


def _depths(thread: Int, start: Int, end: Int) -> Int:
    """Return how many intervals of the same thread are open around each one (sorted input, nested)."""
    depth = np.zeros(len(start), dtype=np.int64)
    for value in np.unique(thread):
        mine = np.flatnonzero(thread == value)
        opened = np.arange(len(mine))
        closed = np.searchsorted(np.sort(end[mine]), start[mine], side="right")
        depth[mine] = opened - np.minimum(closed, opened)
    return depth


def innermost(thread: Int, start: Int, end: Int, at_thread: Int, at: Int) -> Int:
    """Return the index of the innermost interval of the same thread that is open at each time `at`, or -1.

    An interval is open from its start until just before its end.
    """
    found = np.full(len(at), -1, dtype=np.int64)
    if len(start) == 0:
        return found
    up = parents(thread, start, end)
    order = np.lexsort((np.arange(len(start)), -end, start, thread))
    for value in np.unique(at_thread):
        mine = np.flatnonzero(at_thread == value)
        own = order[thread[order] == value]
        if len(own) == 0:
            continue
        position = np.searchsorted(start[own], at[mine], side="right") - 1
        candidate = np.where(position >= 0, own[np.maximum(position, 0)], -1)
        for _ in range(64):
            closed = candidate >= 0
            closed[closed] = end[candidate[closed]] <= at[mine[closed]]
            if not closed.any():
                break
            candidate[closed] = up[candidate[closed]]
        found[mine] = candidate
    return found


def leaves(thread: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Cut nested intervals into pieces that do not overlap: (index of the interval, start, end) of each piece.

    At every instant the innermost open interval of a thread owns the piece; pieces of one thread follow each other.
    """
    if len(start) == 0:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    owners, starts, ends = [], [], []
    for value in np.unique(thread):
        mine = np.flatnonzero(thread == value)
        cuts = np.unique(np.concatenate([start[mine], end[mine]]))
        inner = innermost(thread[mine], start[mine], end[mine], np.full(len(cuts) - 1, value), cuts[:-1])
        covered = inner >= 0
        owners.append(mine[inner[covered]])
        starts.append(cuts[:-1][covered])
        ends.append(cuts[1:][covered])
    return np.concatenate(owners), np.concatenate(starts), np.concatenate(ends)


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


def shares(level: Int, start: Int, end: Int, levels: int) -> Float:
    """Share every instant among the intervals active in it; return each interval's part in ns.

    An instant belongs to the lowest level that is active in it, in equal parts to that level's active intervals. So the
    parts of all intervals add up to the length of the union of all.
    """
    times = np.unique(np.concatenate([start, end]))
    length = np.diff(times).astype(float)
    from_index, to_index = np.searchsorted(times, start), np.searchsorted(times, end)
    taken = np.zeros(len(length), dtype=bool)
    part = np.zeros(len(start))
    for number in range(levels):
        mine = level == number
        change = np.bincount(from_index[mine], minlength=len(times)) - np.bincount(to_index[mine], minlength=len(times))
        active = np.cumsum(change)[:-1]
        free = (active > 0) & ~taken
        portion = np.where(free, length / np.maximum(active, 1), 0.0)
        taken |= active > 0
        total = np.concatenate([[0.0], np.cumsum(portion)])
        part[mine] = total[to_index[mine]] - total[from_index[mine]]
    return part


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
