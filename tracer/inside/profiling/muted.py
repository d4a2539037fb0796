"""Drops a library's lines on descriptor 2 that the program would not print without us, and no others."""

import contextlib
from typing import Any, Iterator, Tuple

from kernelscope.tracer.inside.own import os
from kernelscope.tracer.inside.profiling.printed import write_all

SPOOL_FILE = "stderr.spool"


@contextlib.contextmanager
def without(beginning: Any, folder: str) -> Iterator[None]:
    """Drop lines that match at their beginning from the output to descriptor 2 in the block; pass on the rest when it ends.

    beginning: a compiled pattern. folder: holds the output meanwhile. If descriptor 2 is closed, or no other is available,
    nothing is dropped.
    """
    try:
        kept, spool = _redirect(os.path.join(folder, SPOOL_FILE))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        written = _restore(kept, spool)
        lines = written.splitlines(True)
        write_all(kept, b"".join(line for line in lines if not beginning.match(line)))
        os.close(kept)


def _redirect(path: str) -> Tuple[int, int]:
    """Point descriptor 2 at a file; return a copy of its former target and the file's own descriptor."""
    kept = os.dup(2)
    try:
        spool = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        os.close(kept)
        raise
    os.unlink(path)
    os.dup2(spool, 2)
    return kept, spool


def _restore(kept: int, spool: int) -> bytes:
    """Point descriptor 2 back, unless the program has redirected it meanwhile; return what was written."""
    state: Any = os.fstat(spool)
    with contextlib.suppress(OSError):  # another thread of the program closed it
        if os.path.samestat(os.fstat(2), state):
            os.dup2(kept, 2)
    written = os.pread(spool, os.fstat(spool).st_size, 0)
    os.close(spool)
    return written
