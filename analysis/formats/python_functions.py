"""Python functions that a profiler records: which one the loop's thread was in at each instant.

Users look for their own code, but most time passes in the functions that it calls. So an instant belongs to the innermost open
function of the program; if none is open, to the innermost one of a library; else to the innermost of all, which is the
framework's or Python's. A function of the program that has nearly all of the time says nothing, such as one that only calls a
library's pipeline: then the library functions that it calls take precedence over it.

Profilers do not record which line of a function runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import conform, intervals

Int = npt.NDArray[np.int64]

METHOD = "python functions"  # the method in breakdowns

# Owners of functions, in ascending order of precedence
FRAMEWORK, AROUND, LIBRARY, PROGRAM = range(4)
_ALL = 0.9  # of the time: a function with more than that is around everything that the program does


@dataclass(frozen=True)
class Place:
    """A Python function: its file, its first line, and its owner: FRAMEWORK, LIBRARY or PROGRAM."""

    file: str
    function: str
    line: int
    owner: int


def describe(lines: pd.DataFrame, info: dict[str, Any], missing: str) -> None:
    """Set in a capture's info how its host lines were found, or, without any, `missing`: how to record some."""
    if len(lines):
        info["host_lines"] = METHOD
    else:
        info["unavailable"]["lines"] = missing


def longest_thread(rows: pd.DataFrame, thread: Int, chosen: npt.NDArray[np.bool_]) -> int:
    """Return the thread with the longest time between the first start and the last end of its chosen rows.

    rows: functions, with start_ns and duration_ns. thread: the thread of each.
    """
    start = rows["start_ns"].to_numpy()
    first, last = pd.Series(start[chosen]), pd.Series((start + rows["duration_ns"].to_numpy())[chosen])
    lasted = last.groupby(thread[chosen]).max() - first.groupby(thread[chosen]).min()
    return int(lasted.index.to_numpy()[lasted.to_numpy().argmax()])


def host_lines(rows: pd.DataFrame, thread: int, place_of: Callable[[str], Place | None]) -> pd.DataFrame:
    """Return the function to which each instant of a thread belongs, as the table `host_lines`: pieces that do not overlap.

    rows: the thread's events: a categorical name, start_ns, duration_ns. place_of: returns the place that a name describes, None
    for functions without a file, such as built-in ones: their time counts for the function around them.
    """
    places, at = _places(rows["name"], place_of)
    known = at >= 0
    if not known.any():
        return conform("host_lines", pd.DataFrame())
    at, start, end = at[known], rows["start_ns"].to_numpy()[known], (rows["start_ns"] + rows["duration_ns"]).to_numpy()[known]
    owners = np.array([place.owner for place in places], dtype=np.int64)
    row, begun, over = _innermost(owners[at], start, end)
    if _all_in_one(at[row], begun, over, owners):  # then its callers are around everything, too
        around = at[(end - start > _ALL * (over - begun).sum()) & (owners[at] == PROGRAM)]
        owners[around] = AROUND
        row, begun, over = _innermost(owners[at], start, end)
    place, begun, over = _joined(at[row], begun, over)
    columns = {
        name: pd.Categorical.from_codes(*_coded([getattr(one, name) for one in places], place)) for name in ("file", "function")
    }
    line = np.array([one.line for one in places], dtype=np.int64)[place]
    table = pd.DataFrame({**columns, "line": line, "start_ns": begun, "end_ns": over})
    return conform("host_lines", table.assign(thread=thread))


def _all_in_one(place: Int, start: Int, end: Int, owners: Int) -> bool:
    """Return whether one function of the program has nearly all of the time."""
    times = np.bincount(place, weights=(end - start).astype(float), minlength=len(owners))
    longest = int(times.argmax())
    return bool(owners[longest] == PROGRAM and times[longest] > _ALL * times.sum())


def _places(names: pd.Series, place_of: Callable[[str], Place | None]) -> tuple[list[Place], Int]:
    """Return the functions that names describe, and each row's index among them, -1 if its name describes none."""
    places = [place_of(name) for name in names.cat.categories]
    known = np.array([place is not None for place in places] + [False])  # the last: events without a name
    number = np.where(known, np.cumsum(known) - 1, -1)
    return [place for place in places if place is not None], number[names.cat.codes.to_numpy()]


def _innermost(owner: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Return the pieces of the innermost functions: the program's first, others' only where none of higher precedence is open.

    A function of the program is open nearly always, so most rows of the framework and Python need not be examined.
    """
    free = start.min(keepdims=True), end.max(keepdims=True)
    pieces = []
    for wanted in (PROGRAM, LIBRARY, AROUND, FRAMEWORK):
        rows = np.flatnonzero((owner == wanted) & intervals.reaching(start, end, *free))
        row, begun, over = intervals.leaves(np.zeros(len(rows), dtype=np.int64), start[rows], end[rows])
        index, _, begun, over = intervals.split_at(begun, over, *free)
        pieces.append((rows[row[index]], begun, over))
        free = intervals.uncovered(begun, over, *free)
    row, begun, over = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    order = np.argsort(begun, kind="stable")
    return row[order], begun[order], over[order]


def _joined(place: Int, start: Int, end: Int) -> tuple[Int, Int, Int]:
    """Merge adjacent pieces of the same function."""
    changes = (place[1:] != place[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(np.append(True, changes)[: len(place)])
    last = np.append(first[1:], len(place))[: len(first)] - 1
    return place[first], start[first], end[last]


def _coded(texts: list[str], rows: Int) -> tuple[Int, pd.Index]:
    """Return the texts of rows as codes, and the texts by code."""
    codes, distinct = pd.factorize(np.array(texts, dtype=object))
    return codes[rows], pd.Index(distinct, dtype="object")
