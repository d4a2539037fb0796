"""How much memory this machine has for us, and how many processes its kernel has killed for lack of it."""

from __future__ import annotations

from pathlib import Path

import psutil

_VMSTAT = Path("/proc/vmstat")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # version 2 and 1


def total() -> int:
    """Return the machine's memory in bytes, or the container's limit if that is lower."""
    return min([psutil.virtual_memory().total, *(limit for limit in map(_limit, _CGROUP_LIMITS) if limit)])


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since it started; 0 if unknown."""
    try:
        lines = _VMSTAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
