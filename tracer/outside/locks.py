"""A lock between processes on one file. The kernel releases it when its holders are gone, however they ended."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelscope.tracer.outside.errors import InputError


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the lock on `path`; call `waiting` once if another process has it, or raise BlockingIOError without `waiting`.

    Yields the file's descriptor: a child process that inherits it keeps the lock while it lives, so no one builds beside an
    orphan. Raises InputError if the file cannot be created or locked.
    """
    descriptor = _acquire(path, waiting)
    try:
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


@contextmanager
def exclusive_folder(path: Path) -> Iterator[None]:
    """Hold the lock on a folder itself; raise InputError if another process has it. Some file systems do not support locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise in_use(path) from error
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)


def in_use(folder: Path) -> InputError:
    """Return the error for a folder that another process holds."""
    return InputError(f"{folder}: another command is writing to it; wait until it ends, or name another folder")


def _acquire(path: Path, waiting: Callable[[], None] | None) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(f"{path}: cannot be opened for locking ({error.strerror})") from error
        try:
            _lock(descriptor, path, waiting)
            if _is_still(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the holder removed the file while we waited: lock the new one


def _lock(descriptor: int, path: Path, waiting: Callable[[], None] | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if waiting is None:
            raise
        waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        reason = f"this file system does not support locks ({error.strerror})"
        raise InputError(f"{path}: {reason}; set KERNELSCOPE_HOME to another") from error


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock on `path` now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
