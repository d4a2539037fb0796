"""numpy's threads for linear algebra: OpenBLAS starts them when it is loaded, and a process with threads must not fork.

Functions of OpenBLAS: its openblas_set_num_threads, which builds of it rename (numpy's wheels: scipy_..., ..64_).
"""

from __future__ import annotations

import contextlib
import os
import sys

_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")  # that OpenBLAS reads, in this order
_NAMES = tuple(f"{prefix}openblas_set_num_threads{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_", "_64"))


def import_numpy() -> int:
    """Import numpy without threads of its own, if it is not imported yet and nobody has said how many it shall have.

    Returns how many it would have had otherwise, for `give`; 0 where there is nothing to give.
    """
    if "numpy" in sys.modules:
        return 0
    if os.environ.get(_VARIABLES[0]) == "1":
        import numpy

        return 0
    if any(name in os.environ for name in _VARIABLES):
        return 0
    os.environ[_VARIABLES[0]] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_VARIABLES[0]]
    return len(os.sched_getaffinity(0))


def give(count: int) -> None:
    """Let every OpenBLAS that is loaded have so many threads. Files of that name that are no library do not count."""
    import ctypes

    with open("/proc/self/maps", encoding="utf8", errors="replace") as maps:
        files = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "openblas" in line}
    for file in files:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(file)
            for name in _NAMES:
                if hasattr(library, name):
                    getattr(library, name)(count)
