"""A thread that reads all sources at a steady rate while one child has its turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

RATE_HZ = 10.0


class Sample(NamedTuple):
    """One reading: the metric, the value, and the core or GPU (as its source counts them).

    time_ns: when, on our clock, if the source knows it better than "now": the middle of a query that took spread_ns.
    source_time_ns: the source's own time stamp, ns since the epoch.
    """

    metric: str
    value: float
    core: int | None = None
    gpu: int | None = None
    time_ns: int | None = None
    spread_ns: int | None = None
    source_time_ns: int | None = None


class _Row(NamedTuple):
    """One reading in a window, at a time on our clock."""

    time_ns: int
    window: int
    sample: Sample


class SampleSource(Protocol):
    """Something that can be sampled."""

    name: str

    def sample(self, pid: int | None) -> list[Sample]:
        """Return the current readings."""

    def describe(self) -> dict[str, Any]:
        """Describe the source and what it cannot give."""


class Sampler:
    """Samples while a window is open. The caller's thread reads at a window's edges, the sampler's own thread in between.

    Between windows it sleeps. `describe` gives the requested rate and the one that was reached.
    """

    def __init__(self, sources: list[SampleSource], rate_hz: float = RATE_HZ):
        self._sources = sources
        self._period = 1.0 / rate_hz
        self._rows: dict[int, list[_Row]] = {}
        self._watched: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = False
        self._ticks: list[int] = []
        self._thread = threading.Thread(target=self._loop, name="kernelscope-sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over = True
        self._wake.set()
        self._thread.join()

    def open(self, pid: int, window: int) -> None:
        """Start sampling for this child's window; the first reading only resets what is counted since the previous one."""
        with self._lock:
            for source in self._sources:
                source.sample(None)
            self._watched = (pid, window)
        self._wake.set()

    def close(self) -> None:
        """Take the window's last reading and stop."""
        self._wake.clear()
        with self._lock:
            self._read()
            self._watched = None

    def _loop(self) -> None:
        while not self._over:
            self._wake.wait()
            before = time.monotonic_ns()
            time.sleep(self._period)
            with self._lock:
                if self._watched is not None and not self._over:
                    self._read()
                    self._ticks.append(time.monotonic_ns() - before)

    def _read(self) -> None:
        if self._watched is None:
            return
        pid, window = self._watched
        now = time.monotonic_ns()
        rows = self._rows.setdefault(pid, [])
        for source in self._sources:
            rows += [_Row(sample.time_ns or now, window, sample) for sample in source.sample(pid)]

    def since(self, pid: int, time_ns: int, metric: str, gpu: int | None = None) -> list[tuple[int, int | None, float]]:
        """Return (time, core, value) of one child's readings of a metric since then, oldest first; only of one GPU if given."""
        result = []
        with self._lock:
            for row in reversed(self._rows.get(pid, [])):
                if row.time_ns < time_ns:
                    break
                if row.sample.metric == metric and gpu in (None, row.sample.gpu):
                    result.append((row.time_ns, row.sample.core, row.sample.value))
        return result[::-1]

    def write(self, pid: int, path: Path, gpus: Mapping[int, str] | None = None) -> None:
        """Write one child's readings as Parquet: the columns of the Trace's samples, spread_ns and source_time_ns.

        gpus: the child's name for each GPU (cuda:0), by NVML's index; readings of other GPUs are left out. If None, all are
        kept, under NVML's indices.
        """
        import pyarrow as pa  # slow to import, and needed only at a pass's end
        import pyarrow.parquet as pq

        rows = [row for row in self._rows.pop(pid, []) if row.sample.gpu is None or gpus is None or row.sample.gpu in gpus]
        names = {row.sample.gpu: f"cuda:{row.sample.gpu}" for row in rows} | {None: None} | dict(gpus or {})
        table = pa.table(
            {
                "time_ns": pa.array([row.time_ns for row in rows], pa.int64()),
                "window": pa.array([row.window for row in rows], pa.int64()),
                "core": pa.array([row.sample.core for row in rows], pa.int64()),
                "device": pa.array([names[row.sample.gpu] for row in rows], pa.string()).dictionary_encode(),
                "metric": pa.array([row.sample.metric for row in rows], pa.string()).dictionary_encode(),
                "value": pa.array([float(row.sample.value) for row in rows], pa.float64()),
                "spread_ns": pa.array([row.sample.spread_ns for row in rows], pa.int64()),
                "source_time_ns": pa.array([row.sample.source_time_ns for row in rows], pa.int64()),
            }
        )
        with open(path, "wb") as out:  # pyarrow assumes that paths are UTF-8, which they may not be
            pq.write_table(table, out)

    def describe(self) -> dict[str, Any]:
        """Describe what was sampled, at which rate, and the real distance between readings (median of the timer's, in ns)."""
        ticks = sorted(self._ticks)
        reached = ticks[len(ticks) // 2] if ticks else None
        sources = [source.describe() for source in self._sources]
        return {"asked_period_ns": round(self._period * 1e9), "median_period_ns": reached, "sources": sources}
