"""Capture what libraries print on file descriptors 1 and 2, apart from Python's own output.

oneDNN, MKL and CNTK report to the C library's stdout or stderr. Their descriptors are redirected to files in the pass's folder,
while `sys.stdout` and `sys.stderr` keep their old targets. Output of an application's C code ends up between the libraries'
lines; the readers separate it line by line.
"""

import ctypes
import io
import os
import sys

STDOUT_FILE = "stdout.raw"
STDERR_FILE = "stderr.raw"
_LINE_BUFFERED = 1  # _IOLBF of <stdio.h> on Linux


class StreamCapture(object):
    """Redirects descriptors 1 and 2 to files. Range markers go to `marker_fd`, where they keep their order in the stream."""

    def __init__(self, folder: str) -> None:
        self.marker_fd = self._redirect(1, os.path.join(folder, STDOUT_FILE), "stdout")
        self._redirect(2, os.path.join(folder, STDERR_FILE), "stderr")
        # a C stdout that is a file would be written in blocks of 4096 bytes, out of order with the markers
        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, 0)

    @staticmethod
    def _redirect(descriptor: int, path: str, name: str) -> int:
        getattr(sys, name).flush()
        kept = os.dup(descriptor)
        setattr(sys, name, io.open(kept, "w", buffering=1, encoding="utf8", errors="backslashreplace"))
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, descriptor)
        os.close(target)
        return descriptor
