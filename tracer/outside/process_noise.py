"""How much processes of one program differ on this machine, by framework, as measured by `kernelscope doctor --noise`.

    <environments.home()>/noise/<framework>-<key>.json

The key is a hash of the machine. Every recording stores what is known when it begins, so that it can be explained elsewhere.
"""

from __future__ import annotations

from typing import Any

from kernelscope.tracer.outside import machine_cache
from kernelscope.tracer.outside.errors import InputError

SCHEMA = 1
MACHINE = ("processor", "cores", "allowed_threads", "memory_bytes", "architecture")

Noise = dict[str, Any]


def keep(framework: str, measured: Noise) -> None:
    """Store a measurement; raise InputError if it cannot be written.

    measured: "wall" and "processor", the shares of a step by which two processes of one program may differ (95%), "programs" and
    "processes" that were measured, and "measured", the time.
    """
    file = machine_cache.folder("noise") / f"{framework}-{_machine()}.json"
    try:
        machine_cache.write(file, {"schema": SCHEMA, **measured})
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}; set KERNELSCOPE_HOME to a writable folder") from error


def known() -> dict[str, Noise]:
    """Return the measurements of this machine, by framework; unreadable files count as missing."""
    suffix = f"-{_machine()}"
    files = sorted(machine_cache.folder("noise").glob(f"*{suffix}.json"))
    contents = {file.stem.removesuffix(suffix): machine_cache.read(file, SCHEMA) for file in files}
    return {framework: content for framework, content in contents.items() if content is not None}


def _machine() -> str:
    return machine_cache.key(SCHEMA, machine_cache.machine(MACHINE))
