"""Find the call that launched each row of device work, and the innermost range around that call. Uses only integer columns.

Device work belongs to the call with the same correlation id in the same process. If several calls carry the id, the order is:
earliest begin first, then latest end (the outermost), then the order of the capture. A call belongs to the innermost range of
its thread that is open when the call begins. What the device does meanwhile does not matter: launches return before kernels
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.trace.stacks import Stacks, distinct_of_runs, sorted_distinct

Int = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

DEVICE_TABLES = ("kernels", "graphs", "copies")
REPEATED, CROSSING = "API calls that repeat a correlation id", "ranges that outlast the one around them"

_DENSE = 4  # at most this many table slots for each id


class Correlation(NamedTuple):
    """For each device table, the row of the call and of the innermost range that each row of work belongs to; -1 for none.

    ranges: no entry if there are no ranges. counts: oddities, by their names in the diagnostics.
    """

    calls: dict[str, Int]
    ranges: dict[str, Int]
    counts: dict[str, int]


class Numbered(NamedTuple):
    """Rows that carry a correlation id within a process. known: which rows have one; None if all do."""

    process: Int
    number: Int
    known: Mask | None = None


class _Launching:
    """Index of calls by process and correlation id; calls are in the total order. repeated: calls whose id was already used."""

    def __init__(self, calls: Numbered):
        known = None if calls.known is None or bool(calls.known.all()) else np.flatnonzero(calls.known)
        process, number = (values if known is None else values[known] for values in (calls.process, calls.number))
        self._processes = distinct_of_runs(process)
        self._low, self._high = (int(number.min()), int(number.max())) if len(number) else (0, 0)
        self._span, self._numbers = self._high - self._low + 1, None
        if len(self._processes) * self._span >= 1 << 62:  # widely spread ids: ranks need less room
            self._numbers = sorted_distinct(number)
            self._span = len(self._numbers)
        keys = self._keys(process, number)
        self._distinct, first = _first_rows(keys)
        self._first = first if known is None else known[first]
        self.repeated = len(keys) - len(self._distinct)

    def _keys(self, process: Int, number: Int) -> Int:
        """Return one integer for each process and id, -1 where no call can carry it."""
        if self._numbers is None:
            place, inside = number - self._low, (number >= self._low) & (number <= self._high)
        else:
            place, inside = _places(self._numbers, number)
        if len(self._processes) == 1:
            inside &= process == self._processes[0]
            key = place
        else:
            code, of_any = _places(self._processes, process)
            inside &= of_any
            key = place + code * self._span
        return key if bool(inside.all()) else np.where(inside, key, -1)

    def rows(self, work: Numbered) -> Int:
        """Return the row of the call that launched each row of work, -1 for none."""
        result = np.full(len(work.number), -1, dtype=np.int64)
        if not len(self._distinct) or not len(result):
            return result
        if work.known is None or bool(work.known.all()):
            return self._call(self._keys(work.process, work.number))
        known = np.flatnonzero(work.known)
        result[known] = self._call(self._keys(work.process[known], work.number[known]))
        return result

    def _call(self, wanted: Int) -> Int:
        """Return the row of the call for each key, -1 if there is none."""
        keys, rows = self._distinct, self._first
        low, span = int(keys[0]), int(keys[-1]) - int(keys[0]) + 1
        if span > _DENSE * len(keys):
            at, present = _places(keys, wanted)
            return np.where(present, rows[at], -1)
        table = np.full(span + 1, -1, dtype=np.int64)  # ids are dense in practice; the last slot is for keys outside
        table[keys - low] = rows
        place = wanted - low
        place[(wanted < low) | (wanted > keys[-1])] = span
        return table.take(place)


def _places(ordered: Int, wanted: Int) -> tuple[Int, Mask]:
    """Return the positions of values among sorted distinct values, and which values occur there."""
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return at, np.asarray(ordered[at] == wanted)


def _first_rows(keys: Int) -> tuple[Int, Int]:
    """Return the distinct keys, sorted, and the first row of each."""
    if len(keys) and bool((keys[1:] > keys[:-1]).all()):
        return keys, np.arange(len(keys), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)]
    return ordered[first], order[first]


class Enclosing:
    """Index of properly nested ranges by thread and time. crossings: how many ranges outlast the one around them."""

    def __init__(self, nested: Mask, thread: Int, start: Int, end: Int):
        self._rows = None if bool(nested.all()) else np.flatnonzero(nested)
        self._stacks = Stacks(*(values if self._rows is None else values[self._rows] for values in (thread, start, end)))
        self.crossings = self._stacks.crossings

    def rows(self, calls: Int, thread: Int, start: Int) -> Int:
        """Return the row of the innermost range around each of these calls; -1 for no range and for no call (-1).

        thread, start: of all calls.
        """
        inside = self._stacks.innermost(thread[calls], start[calls])
        if self._rows is not None:
            inside = np.where(inside >= 0, self._rows[inside], -1)
        return np.where(calls >= 0, inside, -1)


def enclosing(nested: Mask, thread: Int, start: Int, end: Int) -> Enclosing | None:
    """Return an index of the ranges that nest; None if there are none."""
    return Enclosing(nested, thread, start, end) if nested.any() else None


def launched(work: Mapping[str, Numbered], calls: Numbered) -> tuple[dict[str, Int], dict[str, int]]:
    """Return Correlation.calls for device work, and diagnostics of the calls."""
    launching = _Launching(calls)
    result = {name: launching.rows(rows) for name, rows in work.items()}
    correlated = any(len(rows.number) and (rows.known is None or rows.known.any()) for rows in work.values())
    return result, {REPEATED: launching.repeated} if correlated and launching.repeated else {}


def enclosed(
    ranges: Enclosing | None, launched: Mapping[str, Int], thread: Int, start: Int
) -> tuple[dict[str, Int], dict[str, int]]:
    """Return Correlation.ranges for launched work, and diagnostics of the ranges. thread, start: of all calls."""
    if ranges is None:
        return {}, {}
    result = {name: ranges.rows(calls, thread, start) for name, calls in launched.items() if len(thread)}
    return result, {CROSSING: ranges.crossings} if ranges.crossings else {}
