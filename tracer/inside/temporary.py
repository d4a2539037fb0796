"""Temporary folders and files that do not stay when their process is killed: the next one that makes some removes them.

Each is locked (flock) by the process that made it, and by those that use it (`keep`), for as long as these live. One of the same
name's beginning that nobody holds was left by a process that is gone. Names begin with PREFIX, which nothing that is not locked
has.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from typing import Dict, Iterator, Optional

PREFIX = "kernelscope.tmp-"
# Code in files below such a path runs in frames that Python's `warnings` and `logging` do not count when they look for the line
# that caused a message (stacklevel): they take them for those of the import system, which they know by these two words.
OF_IMPORTS = "importlib_bootstrap-"
UNCOUNTED = PREFIX + OF_IMPORTS
_SETTLED_S = 5.0  # between its making and its locking somebody else may look
_held: Dict[str, int] = {}


def made(prefix: str = PREFIX, parent: Optional[str] = None) -> str:
    """Make a folder and return its path; remove those of the same prefix beside it that were left. See `removed`."""
    parent = parent or tempfile.gettempdir()
    sweep(PREFIX if prefix.startswith(PREFIX) else prefix, parent)
    path = tempfile.mkdtemp(prefix=prefix, dir=parent)
    keep(path)
    return path


def made_file(prefix: str, parent: str, suffix: str = "") -> str:
    """Make an empty file and return its path, as `made` does a folder."""
    sweep(prefix, parent)
    descriptor, path = tempfile.mkstemp(suffix, prefix, parent)
    os.close(descriptor)
    keep(path)
    return path


def removed(path: str) -> None:
    """Remove what was made, if it is still there under its name, and let go of it."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)
    descriptor = _held.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


@contextlib.contextmanager
def folder(prefix: str = PREFIX, parent: Optional[str] = None) -> Iterator[str]:
    """Give a folder that is there for as long as the context is."""
    path = made(prefix, parent)
    try:
        yield path
    finally:
        removed(path)


def beside(name: str) -> str:
    """Return the prefix of what grows beside a file or folder of this name, whose place it takes when it is whole."""
    return ".%s.%s" % (name, PREFIX)


def sweep(prefix: str, parent: str) -> None:
    """Remove what processes left that are gone."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(parent):
            if entry.name.startswith(prefix) and entry.path not in _held:
                _sweep(entry.path)


def _sweep(path: str) -> None:
    with contextlib.suppress(OSError):
        state = os.lstat(path)
        if state.st_uid != os.getuid() or time.time() - state.st_mtime < _SETTLED_S:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody holds it
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        finally:
            os.close(descriptor)


def keep(path: str) -> None:
    """Lock what is used for as long as this process lives; where the file system knows no locks, nobody removes it later."""
    if path in _held:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        _held[path] = descriptor
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
