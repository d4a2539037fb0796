"""How many kernels a capture holds, counted by other libraries than the readers': what is lost must be said.

A mutated capture that is still read has as many kernels as its format's own library counts in it, or the reader says of which
it made nothing. Formats that no other library counts are not checked.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.feather
import pyarrow.parquet

from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import Trace

_NSYS = ("CUPTI_ACTIVITY_KIND_KERNEL",)
_NVPROF = ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL")


def check(path: Path, name: str, trace: Trace) -> None:
    """Raise AssertionError where kernels of a capture of the format are neither in its Trace nor told as lost."""
    counted = _COUNTERS[name](path) if name in _COUNTERS else None
    if counted is None:
        return
    on_device = trace.kernels["device"] != "cpu"  # kernels of a host's own recording are its operators
    kept = int(trace.kernels.loc[on_device, "count"].sum())
    told = sum({**captures.lost(trace), **captures.twice(trace)}.values())
    if kept > counted:
        raise AssertionError(f"{name}: {kept} kernels are read, {counted} are there")
    if kept + told < counted:
        raise AssertionError(f"{name}: {kept} of {counted} kernels are read, and {told} things are told as lost")


def _of_database(*tables: str) -> Callable[[Path], int | None]:
    def counted(path: Path) -> int | None:
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
                known = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                return sum(
                    database.execute(f'SELECT count(start) FROM "{name}"').fetchone()[0] for name in known.intersection(tables)
                )
        except (sqlite3.Error, UnicodeDecodeError):
            return None

    return counted


def _of_folder(path: Path) -> int | None:
    total = 0
    for name in _NSYS:
        for file in path.glob(f"{name}.*"):
            try:
                read = pyarrow.parquet.read_table if file.suffix == ".parquet" else pyarrow.feather.read_table
                total += read(file).num_rows
            except (OSError, ValueError, pyarrow.ArrowException):
                return None
    return total


def _of_kineto(path: Path) -> int | None:
    content = path.read_bytes()
    try:
        found: Any = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
    except (OSError, EOFError, ValueError, RecursionError):
        return None
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        return None
    return sum(
        isinstance(event, dict) and event.get("ph") == "X" and str(event.get("cat")).lower() == "kernel" for event in events
    )


_COUNTERS: dict[str, Callable[[Path], int | None]] = {
    "nsys-sqlite": _of_database(*_NSYS),
    "nvprof-sqlite": _of_database(*_NVPROF),
    "nsys-folder": _of_folder,
    "kineto": _of_kineto,
}
