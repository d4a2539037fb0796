"""The resident memory of processes, and the memory still available."""

from typing import Any, Dict, Optional

from kernelscope.tracer.inside.own import open


def resident(processes: Any = ("self",)) -> Dict[str, Optional[int]]:
    """Return the summed peak and current resident memory of these processes, in bytes; empty if /proc does not tell.

    processes: ids, or "self". Shared pages count once for each process; the peaks may have occurred at different times.
    """
    found: Dict[Any, Any] = {}
    for process in processes:
        for name, size in _of(process).items():
            found[name] = found.get(name, 0) + size
    return found


def available() -> Optional[int]:
    """Return how many bytes the system can still provide without swapping; None if /proc does not tell."""
    try:
        with open("/proc/meminfo") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


def _of(process: Any) -> Dict[str, int]:
    found = {}
    try:
        with open("/proc/%s/status" % process) as status:
            for line in status:
                if line.startswith(("VmHWM:", "VmRSS:")):
                    name = {"VmHWM": "peak_resident_bytes", "VmRSS": "resident_bytes"}[line[:5]]
                    found[name] = int(line.split()[1]) * 1024
    except OSError:
        pass
    return found
