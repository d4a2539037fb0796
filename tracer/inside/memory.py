"""How much memory processes have resident."""

from typing import Any, Dict, Optional


def resident(processes: Any = ("self",)) -> Dict[str, Optional[int]]:
    """Return peak and present resident memory of all these processes together, in bytes; nothing where /proc does not tell.

    processes: ids, or "self". Pages that several of them share count once for each; the sum of peaks is that of each one's own.
    """
    found: Dict[Any, Any] = {}
    for process in processes:
        for name, size in _of(process).items():
            found[name] = found.get(name, 0) + size
    return found


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
