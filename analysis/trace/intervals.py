"""Vectorised arithmetic on nested and overlapping time intervals: no Python loop over events."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace.stacks import Stacks, sorted_distinct

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


def spans(table: pd.DataFrame) -> tuple[Int, Int, Int]:
    """Return thread, start and end of a table's rows; -1 for null."""
    return whole(table["thread"]), whole(table["start_ns"]), whole(table["end_ns"])


def whole(column: pd.Series) -> Int:
    """Return a column of integers with -1 for null; it is not copied if it has no null."""
    return column.to_numpy() if column.dtype == np.int64 else column.to_numpy(np.int64, na_value=-1)


def edges(table: pd.DataFrame) -> tuple[Int, Int]:
    """Return start and end of a table's rows; none of them may be null."""
    return table["start_ns"].to_numpy(np.int64), table["end_ns"].to_numpy(np.int64)


def containing(times: Int, start: Int, end: Int) -> Int:
    """Return which of the disjoint, sorted intervals contains each time (its end excluded), or -1."""
    if not len(start):
        return np.full(len(times), -1, dtype=np.int64)
    position = np.searchsorted(start, times, side="right") - 1
    inside = (position >= 0) & (times < end[np.maximum(position, 0)])
    return np.asarray(np.where(inside, position, -1), dtype=np.int64)


def parents(thread: Int, start: Int, end: Int) -> Int:
    """Return, for each interval, the row of the innermost interval of its thread that contains it, or -1 (see Stacks)."""
    return Stacks(thread, start, end).parents(thread, start)


def depths(parent: Int) -> Int:
    """Return how many intervals enclose each one; parent: see `parents`."""
    up = np.append(parent, -1)
    depth = (up >= 0).astype(np.int64)
    while (up >= 0).any():
        depth, up = depth + depth[up], up[up]
    return depth[:-1]


def innermost(thread: Int, start: Int, end: Int, at_thread: Int, at: Int) -> Int:
    """Return the row of the innermost interval of the same thread that is open at each time `at`, or -1 (see Stacks)."""
    return Stacks(thread, start, end).innermost(at_thread, at)


def leaves(thread: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Cut nested intervals into disjoint pieces; return (row of the interval, start, end) of each (see Stacks)."""
    return Stacks(thread, start, end).leaves()


def split_at(start: Int, end: Int, edges_start: Int, edges_end: Int) -> tuple[Int, Int, Int, Int]:
    """Cut intervals by disjoint, sorted windows; return (interval index, window index, start, end) of each piece inside one."""
    if len(edges_start) == 1:  # the window of a whole capture
        index = np.flatnonzero((end > start) & (start < edges_end[0]) & (end > edges_start[0]))
        window = np.zeros(len(index), dtype=np.int64)
        return index, window, np.maximum(start[index], edges_start[0]), np.minimum(end[index], edges_end[0])
    first = np.searchsorted(edges_end, start, side="right")
    last = np.searchsorted(edges_start, end, side="left")
    pieces = np.maximum(last - first, 0)
    if len(pieces) == 0 or pieces.max() <= 1:
        index = np.flatnonzero(pieces)
        window = first[index]
    else:
        index = np.repeat(np.arange(len(start)), pieces)
        window = np.arange(len(index)) + np.repeat(first - (np.cumsum(pieces) - pieces), pieces)
    piece_start = np.maximum(start[index], edges_start[window])
    piece_end = np.minimum(end[index], edges_end[window])
    keep = piece_end > piece_start
    if keep.all():
        return index, window, piece_start, piece_end
    return index[keep], window[keep], piece_start[keep], piece_end[keep]


def reaching(start: Int, end: Int, edges_start: Int, edges_end: Int) -> npt.NDArray[np.bool_]:
    """Return which intervals overlap one of the disjoint, sorted windows."""
    if len(edges_start) == 0 or len(start) == 0:
        return np.zeros(len(start), dtype=bool)
    opens = np.append(edges_start, np.iinfo(np.int64).max)  # a sentinel after the last
    if bool((start[1:] >= start[:-1]).all()):  # then search the windows in the intervals, which are more
        begun = np.searchsorted(start, edges_end, side="left")
        return np.repeat(opens, np.diff(begun, prepend=0, append=len(start))) < end
    return np.asarray(opens[np.searchsorted(edges_end, start, side="right")] < end)


def shares(start: Int, end: Int) -> Float:
    """Share every instant equally among the intervals active in it; return each interval's part in ns.

    The parts of all intervals add up to the length of their union.
    """
    part = (end - start).astype(float)
    order = None if bool((start[1:] >= start[:-1]).all()) else np.argsort(start, kind="stable")
    begun, over = (start, end) if order is None else (start[order], end[order])
    reached = np.maximum.accumulate(over)
    # intervals that overlap no other, which are most, keep their whole length
    touches = begun[1:] < reached[:-1]
    crowded = np.append(touches, False)[: len(begun)] | np.append(False, touches)[: len(begun)]
    if crowded.any():
        rows = np.flatnonzero(crowded) if order is None else order[crowded]
        part[rows] = _swept(start[rows], end[rows])
    return part


def _swept(start: Int, end: Int) -> Float:
    """Return each interval's part of the instants that it shares with others (see `shares`)."""
    times = sorted_distinct(np.concatenate([start, end]))
    length = np.diff(times).astype(float)
    first, last = np.searchsorted(times, start), np.searchsorted(times, end)
    active = np.cumsum(np.bincount(first, minlength=len(times)) - np.bincount(last, minlength=len(times)))[:-1]
    total = np.concatenate([[0.0], np.cumsum(np.where(active > 0, length / np.maximum(active, 1), 0.0))])
    return np.asarray(total[last] - total[first])


def uncovered(start: Int, end: Int, window_start: Int, window_end: Int) -> tuple[Int, Int]:
    """Return the gaps in disjoint, sorted windows where no interval is active, as starts and ends.

    The time outside the windows is treated as further intervals, so that the gaps are what remains between all of them.
    """
    if not len(window_start):
        return window_start, window_end
    low, high = min(window_start[0], start.min(initial=window_start[0])), max(window_end[-1], end.max(initial=window_end[-1]))
    begun = np.concatenate([[low], window_end, start])
    over = np.concatenate([window_start, [high], end])
    order = np.argsort(begun, kind="stable")  # mostly two sorted runs, which merge quickly
    begun, reached = begun[order], np.maximum.accumulate(over[order])
    gaps = np.flatnonzero(begun[1:] > reached[:-1])
    return reached[gaps], begun[gaps + 1]


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
    if left < 0:  # floating point rounded up: take back from the smallest remainders that are positive
        giving = order[::-1][whole[order[::-1]] > 0][:-left]
        whole[giving] -= 1
    return whole
