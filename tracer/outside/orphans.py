"""Programs that a killed command started: they go on running and recording into its folder."""

from __future__ import annotations

import os
from pathlib import Path

from kernelscope.tracer.inside.launching.command import VARIABLE

_PROCESSES = Path("/proc")


def recording_into(folder: Path) -> int | None:
    """Return a process that still runs a program recording into a folder, which its environment names; None without one."""
    named = b"\0" + os.fsencode(f"{VARIABLE}={os.path.realpath(folder)}/")
    for process in sorted(_PROCESSES.glob("[0-9]*")):
        try:
            found = named in b"\0" + (process / "environ").read_bytes()
        except OSError:
            continue  # it has ended, or belongs to another user
        if found:
            return int(process.name)
    return None
