"""What libraries print to the C library's stdout while each of their calls is printed, kept apart from what the script prints.

Descriptor 1 is pointed at a file, and at each end of a step its new content is taken apart: lines of oneDNN and MKL and the
marks of ranges go into stdout.raw, every other byte goes, in its order, to where the script's output goes. sys.stdout is not
touched. If the process dies in between, the profiler that started it forwards what is left (see LEFT).
"""

import ctypes
import os
import re
import select

from kernelscope.tracer.inside.streams import STDOUT_FILE

SPOOL_FILE = "stdout.spool"
LEFT = "stdout.forwarded"  # how many bytes of the spool have been taken apart, as a decimal number
LIMIT = 64 << 20  # bytes in the spool after which the pass ends: a script that prints so much would fill the disk
_OURS = re.compile(rb"(?:(?:one|mkl)?dnnl?_verbose,[^\n]*|MKL_VERBOSE [^\n]*|@kernelscope \d+ [BE] [^\n]*)\n")
_MARK = re.compile(rb"@kernelscope \d+ [BE] [^\n]*\n")
_BEGINNING = re.compile(rb"(?:(?:one|mkl)?dnnl?_verbose,|MKL_VERBOSE |@kernelscope )[^\n]*\Z")
_LINE_BUFFERED, _FULLY_BUFFERED = 1, 0  # _IOLBF and _IOFBF of <stdio.h> on Linux


def parted(content, echo=False):
    """Return (lines of libraries and marks, the script's own bytes, what has to wait for the rest of its line).

    echo: the script's environment asked for the libraries' lines too, so that they are its own as well.
    """
    beginning = _BEGINNING.search(content)
    end = beginning.start() if beginning else len(content)
    ready, waiting = content[:end], content[end:]
    lines = b"".join(_OURS.findall(ready))
    return lines, (_MARK if echo else _OURS).sub(b"", ready), waiting


def write_all(descriptor, content):
    """Write every byte, also to a pipe that does not block; a reader that went away is the script's own affair."""
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:
            return


class Printed(object):
    """Descriptor 1 while libraries print; `marker_fd` is where ranges put their marks."""

    def __init__(self, folder, echo=False):
        self.folder = folder
        self._echo = echo
        self._done = 0
        self._libc = ctypes.CDLL(None)
        self._stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
        self._was_line_buffered = bool(getattr(self._libc, "__flbf")(self._stdout))
        self._kept = os.dup(1)
        self._libc.fflush(None)
        self.marker_fd = os.open(os.path.join(folder, SPOOL_FILE), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(self.marker_fd, 1)
        # in blocks, lines would come out of order with the marks
        self._libc.setvbuf(self._stdout, None, _LINE_BUFFERED, 0)

    def drain(self):
        """Hand on what was printed since the last time; return whether there is room for more."""
        size = os.fstat(self.marker_fd).st_size
        content = b""
        while self._done + len(content) < size:
            content += os.pread(self.marker_fd, size - self._done - len(content), self._done + len(content))
        lines, own, waiting = parted(content, self._echo)
        write_all(self._kept, own)
        with open(os.path.join(self.folder, STDOUT_FILE), "ab") as out:
            out.write(lines)
        self._done = size - len(waiting)
        with open(os.path.join(self.folder, LEFT), "w") as out:
            out.write(str(self._done))
        return size < LIMIT

    def release(self):
        """Point descriptor 1 back, unless the script has pointed it elsewhere; for a forked process, which must not drain."""
        try:
            if os.path.samestat(os.fstat(1), os.fstat(self.marker_fd)):
                os.dup2(self._kept, 1)
        except OSError:
            pass  # the script closed it

    def close(self):
        """End the capture; what is left is handed on."""
        self._libc.fflush(None)
        self.release()
        self._libc.setvbuf(self._stdout, None, _LINE_BUFFERED if self._was_line_buffered else _FULLY_BUFFERED, 0)
        self.drain()
        rest = os.pread(self.marker_fd, LIMIT, self._done)
        write_all(self._kept, rest)
        os.close(self._kept)
        os.close(self.marker_fd)
        for name in (SPOOL_FILE, LEFT):
            os.unlink(os.path.join(self.folder, name))
