"""Keeps the environment out of reports: nsys writes all variables that it was started with, secrets too, into what it records.

    python launch.py nsys profile ... python launch.py program ...

The first runs nsys with the few variables that nsys needs and keeps the others in memory; the second, which nsys starts, gives
them back to the program, with what nsys has set. Both replace themselves, so that process ids stay. Standard library only: the
file is run by its path, isolated from the environment's PYTHON variables.
"""

from __future__ import annotations

import os
import sys

KEPT = (b"PATH", b"HOME", b"LANG", b"LC_ALL", b"LD_LIBRARY_PATH", b"XDG_RUNTIME_DIR")
TEMPORARY = b"KERNELSCOPE_NSYS_TMPDIR"  # becomes nsys's TMPDIR; the program keeps its own
_DESCRIPTOR = b"KERNELSCOPE_NSYS_ENVIRONMENT"


def hide(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the environment for nsys; the whole one is in memory behind a descriptor that the program inherits."""
    descriptor = os.memfd_create("environment", 0)
    whole = {name: value for name, value in environment.items() if name != TEMPORARY}
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(b"\0".join(name + b"=" + value for name, value in whole.items()))
    os.set_inheritable(descriptor, True)
    kept = {name: environment[name] for name in KEPT if name in environment}
    return {**kept, b"TMPDIR": environment[TEMPORARY], _DESCRIPTOR: str(descriptor).encode()}


def restore(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the environment for the program: the hidden one, and what nsys added or changed."""
    descriptor = int(environment[_DESCRIPTOR])
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb") as memory:
        pairs = (entry.partition(b"=") for entry in memory.read().split(b"\0") if entry)
        whole = {name: value for name, _, value in pairs}
    for name, value in environment.items():
        if name == b"LD_PRELOAD" and name in whole:
            whole[name] = value + b":" + whole[name]
        elif name not in (b"TMPDIR", _DESCRIPTOR):
            whole[name] = value
    return whole


def main(arguments: list[str]) -> int:
    """Replace this process by the command; the exit status is that of a shell that cannot run it."""
    change = restore if _DESCRIPTOR in os.environb else hide
    try:
        os.execvpe(arguments[0], arguments, change(dict(os.environb)))  # noqa: S606
    except (OSError, KeyError) as error:
        print(f"{arguments[0]}: cannot be started under nsys: {error}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
