"""The machine as /proc describes it, its cores' load, and a child's memory and threads."""

import os
import platform
from typing import Any, Dict, List, Tuple

from kernelscope.tracer.inside.own import open


def describe() -> Dict[str, Any]:
    """Return processor, threads, memory and system, with the keys of run.json; None if /proc does not tell."""
    names, cores = [], set()
    physical = None
    for line in _lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if key == "model name":
            names.append(value)
        elif key == "physical id":
            physical = value
        elif key == "core id":
            cores.add((physical, value))
    memory = [int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemTotal:")]
    return {
        "processor": names[0] if names else platform.processor() or None,
        "cores": len(cores) or None,
        "threads": os.cpu_count(),
        "allowed_threads": len(os.sched_getaffinity(0)),
        "memory_bytes": memory[0] if memory else None,
        "system": "%s %s" % (platform.system(), platform.release()),
        "architecture": platform.machine(),
        "load_before": round(os.getloadavg()[0], 2),
    }


class CpuSource(object):
    """Samples each core's busy share since the previous sample, and one process's resident memory and threads."""

    def __init__(self) -> None:
        self._before = core_times()
        self._page = os.sysconf("SC_PAGE_SIZE")

    def sample(self, pid: int) -> List[Any]:
        """Return the current [(metric, value, core, device)]; those of a process only with a `pid`."""
        now, before = core_times(), self._before
        self._before = now
        rows = []
        for core in sorted(now):
            idle, total = (after - then for after, then in zip(now[core], before.get(core, (0, 0))))
            if total > 0:
                rows.append(("core_busy", min(1.0, max(0.0, 1.0 - float(idle) / total)), core, None))
        if pid is not None:
            rows += self._process(pid)
        return rows

    def _process(self, pid: int) -> List[Any]:
        for line in _lines("/proc/%d/statm" % pid):
            resident = int(line.split()[1]) * self._page
            return [("resident_bytes", resident, None, None), ("threads", len(os.listdir("/proc/%d/task" % pid)), None, None)]
        return []

    def describe(self) -> Dict[str, Any]:
        """Describe this source."""
        return {"source": "/proc", "cores": len(self._before)}


def core_times() -> Dict[int, Tuple[int, int]]:
    """Return {core: (idle, total)} in the kernel's ticks; waiting for a disk counts as idle."""
    found = {}
    for line in _lines("/proc/stat"):
        name, _, numbers = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(number) for number in numbers.split()[:8]]
            found[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks))
    return found


def _lines(path: str) -> List[str]:
    """Return the lines of a file of /proc; empty if it cannot be read."""
    try:
        with open(path, encoding="utf8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
