"""By how much processes of one program differ on this machine, by framework, as `kernelscope doctor --noise` measured it.

    <environments.home()>/noise/<framework>-<key>.json

The key is a hash of the machine. Every recording carries what is known when it begins, so that it can be explained elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from kernelscope.tracer.outside import conditions, environments
from kernelscope.tracer.outside.errors import InputError

SCHEMA = 1
MACHINE = ("processor", "cores", "allowed_threads", "memory_bytes", "architecture")

Noise = dict[str, Any]


def keep(framework: str, measured: Noise) -> None:
    """Keep what was measured; raise InputError where it cannot be written.

    measured: "wall" and "processor", the shares of a step by which two processes of one program may differ (95%), "programs" and
    "processes", what they were measured of, and "measured", when.
    """
    file = _folder() / f"{framework}-{_machine()}.json"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps({"schema": SCHEMA, **measured}, indent=1), encoding="utf8")
        os.replace(temporary, file)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}; set KERNELSCOPE_HOME to a folder that can be written") from error


def known() -> dict[str, Noise]:
    """Return what was measured on this machine, by framework; files that cannot be read count as not there."""
    result = {}
    suffix = f"-{_machine()}"
    for file in sorted(_folder().glob(f"*{suffix}.json")):
        try:
            content = json.loads(file.read_text(encoding="utf8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and content.get("schema") == SCHEMA:
            result[file.stem.removesuffix(suffix)] = content
    return result


def _folder() -> Path:
    return environments.home() / "noise"


def _machine() -> str:
    machine = {name: value for name, value in conditions.machine().items() if name in MACHINE}
    return hashlib.sha256(json.dumps([SCHEMA, machine], sort_keys=True).encode()).hexdigest()[:16]
