"""The machine and the settings of a measurement, and what may be recorded of the environment."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil

from kernelscope.tracer.inside.disclosure import HIDDEN, command, recorded, without_home

__all__ = ["HIDDEN", "command", "machine", "recorded", "without_home"]


def machine() -> dict[str, Any]:
    """Return the machine's facts: processor, cores, memory, operating system; no host or user name."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "allowed_threads": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None
