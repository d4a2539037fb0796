"""A thread that asks all sources at a steady rate while one child runs its turn."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

RATE_HZ = 10.0


class Sample(NamedTuple):
    """One reading: what, how much, and of which core or GPU."""

    metric: str
    value: float
    core: int | None = None


class Source(Protocol):
    """Something that can be sampled."""

    name: str

    def sample(self, pid: int | None) -> list[Sample]:
        """Return the readings of now."""

    def describe(self) -> dict[str, Any]:
        """Say what the source is and what it cannot give."""


class Sampler:
    """Samples while a window is open; readings at a window's edges are taken by the caller's thread, the rest by its own.

    Between windows it sleeps. The rate that was asked for stands beside the one that was reached (`describe`).
    """

    def __init__(self, sources: list[Source], rate_hz: float = RATE_HZ):
        self._sources = sources
        self._period = 1.0 / rate_hz
        self._rows: dict[int, list[tuple[int, int, int | None, str, float]]] = {}
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
        """Start to sample for this child's window; the first reading only resets what is counted since the last one."""
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
        for source in self._sources:
            for sample in source.sample(pid):
                row = (now, window, sample.core, sample.metric, float(sample.value))
                self._rows.setdefault(pid, []).append(row)

    def write(self, pid: int, path: Path) -> None:
        """Write the readings of one child as parquet, in the columns of the Trace's samples."""
        rows = self._rows.pop(pid, [])
        times, windows, cores, metrics, values = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        table = pa.table(
            {
                "time_ns": pa.array(times, pa.int64()),
                "window": pa.array(windows, pa.int64()),
                "core": pa.array(cores, pa.int64()),
                "metric": pa.array(metrics, pa.string()).dictionary_encode(),
                "value": pa.array(values, pa.float64()),
            }
        )
        pq.write_table(table, path)

    def describe(self) -> dict[str, Any]:
        """Say what was sampled, at which rate, and how far apart readings really were (median of the timer's, in ns)."""
        ticks = sorted(self._ticks)
        reached = ticks[len(ticks) // 2] if ticks else None
        sources = [source.describe() for source in self._sources]
        return {"asked_period_ns": round(self._period * 1e9), "median_period_ns": reached, "sources": sources}
