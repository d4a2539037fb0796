"""How much memory processes have resident, and how much is left."""

from typing import Any, Dict, Optional

from kernelscope.tracer.inside.own import open


def resident(processes: Any = ("self",)) -> Dict[str, Optional[int]]:
    """Return peak and present resident memory of all these processes together, in bytes; nothing where /proc does not tell.

    processes: ids, or "self". Pages that several of them share count once for each; the sum of peaks is that of each one's own.
    """
    found: Dict[Any, Any] = {}
    for process in processes:
        for name, size in _of(process).items():
            found[name] = found.get(name, 0) + size
    return found


def available() -> Optional[int]:
    """Return how many bytes the system can still give without swapping; nothing where /proc does not tell."""
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
