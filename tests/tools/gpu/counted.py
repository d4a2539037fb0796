"""Kernels as their files say, counted without the project's readers: plain SQL on what nsys and nvprof wrote, JSON, and struct.

What `kernelscope` makes of the same files is compared with it. Groups are pairs (count, summed ns) of kernels of one name, in
ascending order: names are written in more than one way, sums are not.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside.cupti_check import read_rows

Groups = list[tuple[int, int]]

_KERNELS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
_NSYS = 'SELECT count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY demangledName'
_NVPROF = 'SELECT count(*), sum("end" - start) FROM {table} GROUP BY name'
# Ranges of measured steps, in nsys's file and in nvprof's
_NSYS_STEPS = """SELECT {name} name, e.start, e."end" FROM NVTX_EVENTS e
    LEFT JOIN StringIds s ON s.id = {number} WHERE e.eventType IN (59, 60)"""
_NVPROF_STEPS = """SELECT t.value name, a.timestamp start, b.timestamp "end" FROM CUPTI_ACTIVITY_KIND_MARKER a
    JOIN CUPTI_ACTIVITY_KIND_MARKER b ON a.id = b.id AND b.flags & 4 JOIN StringTable t ON t._id_ = a.name WHERE a.flags & 2"""
_REACHING = """SELECT count(*), coalesce(sum(k."end" - k.start), 0) FROM {table} k
    WHERE EXISTS (SELECT 1 FROM measured s WHERE k.start < s."end" + ? AND k."end" > s.start - ?)"""


def groups(path: Path) -> Groups | None:
    """Return the groups of a whole file; None for formats that only the project's readers know (XSpace)."""
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            table = _table(database)
            if table is None:
                return []
            query = _NSYS if _has(database, "StringIds") else _NVPROF.format(table=table)
            return sorted((int(count), int(total)) for count, total in database.execute(query))
    if path.name == "cupti.records":
        return _grouped((row["name"], row["end_ns"] - row["start_ns"]) for row in read_rows(str(path), "kernels"))
    if ".pt.trace.json" in path.name:
        return _grouped(_kineto(path))
    return None


def _kineto(path: Path) -> Iterable[tuple[str, int]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        events = json.load(file)["traceEvents"]
    for event in events:
        if event.get("ph") == "X" and event.get("cat") == "kernel":
            yield event["name"], round(float(event["dur"]) * 1000)


def _grouped(rows: Iterable[tuple[Any, int]]) -> Groups:
    found: dict[Any, list[int]] = defaultdict(list)
    for name, duration in rows:
        found[name].append(duration)
    return sorted((len(durations), sum(durations)) for durations in found.values())


def in_steps(path: Path, steps: Sequence[int], margin_ns: int) -> tuple[int, int] | None:
    """Return how many kernels reach into the ranges of these steps, widened by the margin (narrowed if negative), and their ns.

    None for a file without NVTX ranges. Plain SQL, on the file's own clock.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        table, ranges = _table(database), _steps(database)
        if table is None or ranges is None:
            return None
        database.execute("CREATE TEMP TABLE wanted (name TEXT PRIMARY KEY)")
        database.executemany("INSERT INTO wanted VALUES (?)", [(f"step {step}",) for step in steps])
        database.execute(f"CREATE TEMP TABLE measured AS SELECT r.* FROM ({ranges}) r JOIN wanted USING (name)")
        count, total = database.execute(_REACHING.format(table=table), (margin_ns, margin_ns)).fetchone()
        return int(count), int(total)


def _steps(database: sqlite3.Connection) -> str | None:
    if _has(database, "CUPTI_ACTIVITY_KIND_MARKER"):
        return _NVPROF_STEPS
    if not _has(database, "NVTX_EVENTS"):
        return None
    columns = {row[1] for row in database.execute("PRAGMA table_info(NVTX_EVENTS)")}
    texts = [name for column, name in (("text", "e.text"), ("textId", "s.value")) if column in columns]
    return _NSYS_STEPS.format(name=f"coalesce({', '.join(texts)}, '')", number="e.textId" if "textId" in columns else "NULL")


def _table(database: sqlite3.Connection) -> str | None:
    return next((name for name in _KERNELS if _has(database, name)), None)


def _has(database: sqlite3.Connection, table: str) -> bool:
    return database.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone() is not None
