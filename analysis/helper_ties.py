"""What a helper process tells of ties between the tables of an export of nsys (see analysis.ties), as helper_messages puts it.

{"task": ..., "ties": {"sizes": {table: rows}, "calls": {table: array}, "ranges": {table: array} or null,
                       "counts": {name: number}}}
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelscope.analysis.helper_values import Memory, checked, shared
from kernelscope.analysis.readers.nsys_columns import process_of
from kernelscope.analysis.readers.nsys_tables import Column, Gathered
from kernelscope.analysis.ties import DEVICE_TABLES, Enclosing, Int, Numbered, Ties, enclosed, enclosing, launched


def tied(gathered: Mapping[str, Gathered]) -> Ties:
    """Return the ties of what was decoded; ranges are looked at if they were, and if all of them were closed."""
    calls, ranges = gathered["calls"], gathered.get("ranges")
    thread, start = calls["thread"].stored(), calls["start"].stored()
    work = {
        name: _numbered(rows["process"].stored(), rows["correlation"], rows["process"].stored_null())
        for name, rows in gathered.items()
        if name in DEVICE_TABLES and _size(rows)
    }
    found, odd = launched(work, _numbered(process_of(thread), calls["correlation"]))
    sizes = {name: _size(part) for name, part in gathered.items() if name in (*DEVICE_TABLES, "calls")}
    if ranges is None or ranges["open"].stored().any():
        return Ties(sizes, found, None, odd)
    inside, crossing = enclosed(_enclosing(ranges), found, thread, start)
    return Ties({**sizes, "ranges": _size(ranges)}, found, inside, odd | crossing)


def _size(rows: Gathered) -> int:
    return rows["start"].stored().size


def _numbered(process: Int, number: Column, no_process: Any = None) -> Numbered:
    nulls = [null for null in (number.stored_null(), no_process) if null is not None]
    return Numbered(process, number.stored(), ~np.logical_or.reduce(nulls) if nulls else None)


def _enclosing(ranges: Gathered) -> Enclosing | None:
    nested = ranges["nested"].stored() & (ranges["mark"].stored() == 0)
    return enclosing(nested, *(ranges[name].stored() for name in ("thread", "start", "end")))


def described(ties: Ties, memory: Memory) -> dict[str, Any]:
    """Return what a message says of ties, which are put into this memory."""
    calls, ranges = (
        None if rows is None else {name: _described(part, memory) for name, part in rows.items()}
        for rows in (ties.calls, ties.ranges)
    )
    return {"ties": {"sizes": ties.sizes, "calls": calls, "ranges": ranges, "counts": ties.counts}}


def _described(rows: Int, memory: Memory) -> list[Any]:
    room = memory.room(len(rows), rows.dtype)
    room[:] = rows
    return memory.array(room)


def content(told: dict[str, Any], memory: Sequence[mmap.mmap]) -> Ties:
    """Return the ties that a message tells of, in the memory that came along; raise ValueError where it is not as agreed."""
    sizes, counts = (
        {name: checked(int, number) for name, number in checked(dict, told[part]).items()} for part in ("sizes", "counts")
    )
    calls = _rows(told["calls"], sizes, "calls", memory)
    ranges = None if told["ranges"] is None else _rows(told["ranges"], sizes, "ranges", memory)
    return Ties(sizes, calls, ranges, counts)


def _rows(told: Any, sizes: dict[str, int], table: str, memory: Sequence[mmap.mmap]) -> dict[str, Int]:
    """Return for tables of device work rows of another table."""
    found = {}
    for name, described in checked(dict, told).items():
        rows = shared(memory, *checked(list, described))
        if name not in DEVICE_TABLES or rows.dtype != np.int64 or len(rows) != sizes[name]:
            raise ValueError("not the rows of a table")
        if len(rows) and not -1 <= int(rows.min()) <= int(rows.max()) < sizes[table]:
            raise ValueError("rows that are not there")
        found[name] = rows
    return found
