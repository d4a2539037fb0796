"""Utilisation per core, resident memory and threads, read from /proc through psutil."""

from __future__ import annotations

from typing import Any

import psutil

from kernelscope.tracer.outside.samplers.sampler import Sample

Times = list[tuple[float, float]]


class CpuSource:
    """Samples the machine's cores and one process.

    core_busy is the share of time since the previous sample in which the core was not idle. The kernel counts in ticks of 10
    ms, so single samples are coarse, and only their mean over a run is meaningful.
    """

    name = "cpu"

    def __init__(self) -> None:
        self._before: Times = _core_times()

    def sample(self, pid: int | None) -> list[Sample]:
        """Return the current samples; resident memory and thread count only while a process is watched."""
        now = _core_times()
        rows = [Sample("core_busy", busy, core) for core, busy in enumerate(_busy(self._before, now)) if busy is not None]
        self._before = now
        if pid is not None:
            rows += _process(pid)
        return rows

    def describe(self) -> dict[str, Any]:
        """Describe this source."""
        return {"source": "psutil", "cores": len(self._before)}


def _core_times() -> Times:
    """Return (idle, total) seconds of each core; waiting for a disk counts as idle, as in the kernel's own tools."""
    return [(times.idle + getattr(times, "iowait", 0.0), sum(times)) for times in psutil.cpu_times(percpu=True)]


def _busy(before: Times, after: Times) -> list[float | None]:
    shares: list[float | None] = []
    for (idle, total), (idle_now, total_now) in zip(before, after, strict=True):
        elapsed = total_now - total
        shares.append(min(1.0, max(0.0, 1.0 - (idle_now - idle) / elapsed)) if elapsed > 0 else None)
    return shares


def _process(pid: int) -> list[Sample]:
    try:
        process = psutil.Process(pid)
        return [Sample("resident_bytes", process.memory_info().rss), Sample("threads", process.num_threads())]
    except psutil.Error:
        return []
