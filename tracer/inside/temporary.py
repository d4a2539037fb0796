"""Temporary folders and files that do not stay after their process is killed: the next process that makes some removes them.

The process that made one, and those that use it (`keep`), hold a lock on it (flock) as long as they live. One with the same
prefix and without a lock was left by a process that is gone. Names begin with PREFIX, which nothing without a lock has.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from typing import Dict, Iterator, Optional

PREFIX = "kernelscope.tmp-"
# Python's `warnings` and `logging` skip the frames of code below such a path when they look for the line that caused a message
# (stacklevel): they take them for frames of the import system, which they recognise by these two words.
OF_IMPORTS = "importlib_bootstrap-"
UNCOUNTED = PREFIX + OF_IMPORTS
_SETTLED_S = 5.0  # somebody else may look between its creation and its locking
_held: Dict[str, int] = {}


def made(prefix: str = PREFIX, parent: Optional[str] = None) -> str:
    """Make a folder and return its path; remove abandoned ones of the same prefix beside it. See `removed`."""
    parent = parent or tempfile.gettempdir()
    sweep(PREFIX if prefix.startswith(PREFIX) else prefix, parent)
    path = tempfile.mkdtemp(prefix=prefix, dir=parent)
    keep(path)
    return path


def made_file(prefix: str, parent: str, suffix: str = "") -> str:
    """Make an empty file and return its path, as `made` does for a folder."""
    sweep(prefix, parent)
    descriptor, path = tempfile.mkstemp(suffix, prefix, parent)
    os.close(descriptor)
    keep(path)
    return path


def removed(path: str) -> None:
    """Remove such a folder or file, if it still exists under its name, and release its lock."""
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
    """Provide a folder that exists as long as the context."""
    path = made(prefix, parent)
    try:
        yield path
    finally:
        removed(path)


def beside(name: str) -> str:
    """Return the prefix of what is built beside a file or folder of this name and replaces it when complete."""
    return ".%s.%s" % (name, PREFIX)


def sweep(prefix: str, parent: str) -> None:
    """Remove what processes that are gone left behind."""
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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if somebody holds it
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        finally:
            os.close(descriptor)


def keep(path: str) -> None:
    """Lock a path as long as this process lives; on a file system without locks, nobody removes it later."""
    if path in _held:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        _held[path] = descriptor
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
