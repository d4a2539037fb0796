"""Read the file that a collector left in the folder of a kernels pass, as a Trace on our clock with our thread ids.

| collector | files | clock |
|---|---|---|
| nsys | nsys.sqlite, else nsys.nsys-rep (an installed nsys exports it) | by ranges, else the session's start in UTC |
| nvprof | nvprof.sqlite | by ranges, else the wall clock |
| cupti | cupti.records | already ours: the file holds readings of both clocks |
| framework | the framework's own trace: Kineto's, or an XSpace | the wall clock |

The readers of capture formats read these files. Ranges: see `clock_correlation`; the wall clock: see `Clock`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Clock, Context, clock_correlation
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats import format_named
from kernelscope.analysis.formats.nsys.tables import small_table
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.clocks import set_aside_impossible

# If there are several files, the run's collector comes first, then this order
_FILES = {
    "nsys": ("nsys.sqlite", "nsys.nsys-rep"),
    "nvprof": ("nvprof.sqlite",),
    "cupti": ("cupti.records",),
    "framework": (r".*\.pt\.trace\.json(\.gz)?", r".*\.xplane\.pb"),
}
_ON_A_CPU = ("nsys",)  # the others add nothing that the framework's module does not read
_TIMES = ("start_ns", "end_ns", "time_ns")
_TIMED = ("kernels", "graphs", "copies", "syncs", "calls", "memory")
_TID_BITS = (1 << 24) - 1  # the thread id within nsys's global id
# Only the loop's thread makes these calls; XSpace files number threads on their own
_LOOP_CALLS = re.compile(r"TFE_Py_Execute|EagerExecute|EagerLocalExecute|PjitFunction")


def find(folder: Path, context: Context) -> tuple[str, Path] | None:
    """Return the collector that recorded the device's work (on a CPU: the system's calls) and its file; None without one."""
    order = [name for name in _FILES if context.device != "cpu" or name in _ON_A_CPU]
    order.sort(key=lambda name: name != context.collector)
    there = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    for collector in order:
        for pattern in _FILES[collector]:
            match = next((name for name in there if re.fullmatch(pattern, name)), None)
            if match:
                return collector, folder / match
    return None


def read(collector: str, path: Path, context: Context, captured: Trace | None = None) -> Trace:
    """Return the content of a collector's file, without relations. Its ranges are left out: the pass's records have them.

    captured: the content of the framework's own trace, if it has been read; it is changed. Raises EvidenceError if the file
    cannot be read or its clock cannot be related to ours.
    """
    if collector == "framework":
        trace, clock, threads = _framework(path, context, captured)
    else:
        trace, clock, threads = _READERS[path.suffix if collector == "nsys" else collector](path, context)
    set_aside_impossible(trace)
    for name in _TIMED:
        table = getattr(trace, name)
        shifted = {column: _shifted(table[column], clock) for column in _TIMES if column in table}
        if name in ("calls", "memory"):
            shifted["thread"] = _renamed(table["thread"], threads)
        setattr(trace, name, table.assign(**shifted))
    trace.ranges = conform("ranges", pd.DataFrame())
    return trace


def _captured(path: Path, form: str) -> Trace:
    """Return a file's Trace as its format's module reads it."""
    return format_named(form).read(path)


_Read = tuple[Trace, Clock, Mapping[int, int]]  # a file's content, its clock, and our thread ids by its own


def _nsys_sqlite(path: Path, context: Context) -> _Read:
    trace = _captured(path, "nsys-sqlite")
    with Database(path) as database:
        started = small_table(database, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    start_ns = next((row["utcEpochNs"] for row in started if row["utcEpochNs"]), None)
    wall = None if start_ns is None else Clock(context.clock.monotonic_ns, context.clock.wall_ns - start_ns)
    return _on_our_clock(path, trace, context, wall)


def _nsys_report(path: Path, context: Context) -> _Read:
    return _on_our_clock(path, _captured(path, "nsys-report"), context, None)


def _nvprof(path: Path, context: Context) -> _Read:
    return _on_our_clock(path, _captured(path, "nvprof-sqlite"), context, context.clock)


def _on_our_clock(path: Path, trace: Trace, context: Context, otherwise: Clock | None) -> _Read:
    """Put a capture on our clock by the ranges in it, or else by another clock."""
    correlation = clock_correlation.by_ranges(trace.ranges, context.ranges)
    numbers = pd.unique(trace.calls["thread"])
    threads = {number: number & _TID_BITS for number in numbers.tolist()} if trace.info["source"]["tool"] == "nsys" else {}
    if correlation is None and otherwise is None:
        raise EvidenceError(f"{path}: has none of our ranges to relate its clock to the run's; record it again with NVTX on")
    trace.diagnostics["ranges that tie its clock to ours"] = correlation.ranges if correlation else 0
    if correlation is None:
        assert otherwise is not None
        return trace, otherwise, threads
    trace.diagnostics["spread of their offsets, ns"] = correlation.spread_ns
    return trace, correlation.clock, {**threads, **correlation.threads}


def _cupti(path: Path, _: Context) -> _Read:
    trace = _captured(path, "cupti")
    if trace.info["clock"] != "monotonic":
        raise EvidenceError(f"{path}: has no reading of our clock, so it cannot be related to the run's; record it again")
    ours = np.zeros(1, dtype=np.int64)
    return trace, Clock(ours, ours), {}


def _framework(path: Path, context: Context, captured: Trace | None) -> _Read:
    xspace = path.suffix == ".pb"
    trace = _captured(path, "xplane" if xspace else "kineto") if captured is None else captured
    threads = _loop_thread(trace, context) if xspace else {}
    if trace.info["clock"] != "wall":
        raise EvidenceError(f"{path}: its clock cannot be related to the run's; record it again")
    return trace, context.clock, threads


def _loop_thread(trace: Trace, context: Context) -> Mapping[int, int]:
    """Return the loop's thread by its number in an XSpace; empty if several threads are possible."""
    names = trace.ranges["name"].cat
    calling = np.append([bool(_LOOP_CALLS.match(str(name))) for name in names.categories], False)[names.codes.to_numpy()]
    theirs, ours = trace.ranges.loc[calling, "thread"].unique(), context.steps["thread"].unique()
    return {int(theirs[0]): int(ours[0])} if len(theirs) == 1 and len(ours) == 1 else {}


_READERS = {".sqlite": _nsys_sqlite, ".nsys-rep": _nsys_report, "nvprof": _nvprof, "cupti": _cupti}


def _shifted(times: pd.Series, clock: Clock) -> Any:
    """Return times on our clock; nulls stay null."""
    if times.dtype != "Int64":
        return clock.from_wall(times.to_numpy(np.int64))
    missing = times.isna().to_numpy()
    return pd.arrays.IntegerArray(
        np.where(missing, 0, clock.from_wall(times.to_numpy(np.int64, na_value=clock.wall_ns[0]))), missing
    )


def _renamed(threads: pd.Series, names: Mapping[int, int]) -> pd.Series:
    """Return our thread ids where they are known."""
    numbers, distinct = pd.factorize(threads.to_numpy(np.int64, na_value=-1))
    renamed = np.array([names.get(number, number) for number in distinct.tolist()], dtype=np.int64)
    result = renamed[numbers] if len(numbers) else numbers
    return pd.Series(result, index=threads.index).astype(threads.dtype).where(threads.notna())
