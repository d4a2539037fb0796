"""Programs that a killed command started: they run on, and record into the folder that it was told."""

from __future__ import annotations

import os
from pathlib import Path

from kernelscope.tracer.inside.launching.command import VARIABLE

_PROCESSES = Path("/proc")


def recording_into(folder: Path) -> int | None:
    """Return a process of ours that runs a program which records into a folder, or None: its environment names the folder."""
    named = b"\0" + os.fsencode(f"{VARIABLE}={os.path.realpath(folder)}/")
    for process in sorted(_PROCESSES.glob("[0-9]*")):
        try:
            found = named in b"\0" + (process / "environ").read_bytes()
        except OSError:
            continue  # it is gone, or somebody else's
        if found:
            return int(process.name)
    return None
