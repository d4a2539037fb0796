"""The names of this process's threads."""

import contextlib
import threading
from typing import Dict

from kernelscope.tracer.inside.own import open, os

MAIN = "MainThread"


def names() -> Dict[str, str]:
    """Return the names of threads by their ids (as text): Python's if it knows the thread, else the system's.

    Before Python 3.8, the ids of Python's threads are unknown, except that the main thread has the process's id.
    """
    found, folder = {}, "/proc/self/task"
    for thread in os.listdir(folder) if os.path.isdir(folder) else ():
        with contextlib.suppress(OSError):  # it ended meanwhile
            with open(os.path.join(folder, thread, "comm"), encoding="utf8", errors="replace") as file:
                found[thread] = file.read().strip()
    for known in threading.enumerate():
        if getattr(known, "native_id", None) is not None:
            found[str(known.native_id)] = known.name
    found[str(os.getpid())] = MAIN
    return found
