"""Keeps what libraries print to the C library's stdout, one line per call, apart from what the script prints.

Descriptor 1 is pointed at a file, whose new content is split at each end of a step: lines of oneDNN and MKL and the marks of
ranges go into stdout.raw; every other byte goes, in order, to the script's output. sys.stdout is not touched. If the process
dies in between, the profiler that started it forwards the rest (see LEFT). Before the script redirects or closes descriptor 1
with one of Python's functions, a callback makes libraries stop printing.
"""

import contextlib
import ctypes
import errno
import functools
import re
import resource
import select
import sys
from typing import Any, Callable, Collection, Iterable, Iterator, List, Optional, Tuple

from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling.descriptors import is_still, moved
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.streams import STDOUT_FILE

SPOOL_FILE = "stdout.spool"
LEFT = "stdout.forwarded"  # bytes of the spool split so far, and words of `Printed.own`: "123 MKL timed"
LIMIT = 64 << 20  # bytes printed in one step that end the pass: they stay on disk until the step ends
ROOM = LIMIT  # bytes that must be free: on a full disk the script's own output fails
CHUNK = 4 << 20  # bytes split at a time
CLOSED = "the program closed its stdout, where libraries print: what they printed was not recorded; let it stay open"
LOST = "the program closed its stdout or sent it elsewhere, where libraries print: what they printed then was not recorded"
UNTIMED = (
    "oneDNN prints without times of day, as the environment (ONEDNN_VERBOSE) or the program had it print before: what it "
    "printed has no place in the steps; ONEDNN_VERBOSE_TIMESTAMP=1 beside ONEDNN_VERBOSE lets it be recorded"
)
_HIGH = 512  # the kernel's table of descriptors is as long as the largest number in use
_PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE of <linux/falloc.h>
ONEDNN, MKL = "oneDNN", "MKL"
VARIABLES = {ONEDNN: ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE"), MKL: ("MKL_VERBOSE",)}
STAMPS = ("ONEDNN_VERBOSE_TIMESTAMP", "DNNL_VERBOSE_TIMESTAMP")
TIMED = "timed"  # in `own`: oneDNN's lines without a time are the program's; those for us have one
# At the beginning of a line, a match of _BEGINNINGS is a library's; behind the program's own text, only a match of _WHOLE is
_BEGINNINGS = {ONEDNN: rb"(?:one|mkl)?dnnl?_verbose,", MKL: rb"MKL_VERBOSE +(?:Intel\(R\)|oneMKL|\w+\()"}
_WHOLE = {
    ONEDNN: rb"(?:one|mkl)?dnnl?_verbose,(?:v\d+,)?(?:\d+(?:\.\d+)?,)?(?:[a-z]+,)?(?:info|exec|create[^,\n]*),",
    MKL: rb"MKL_VERBOSE +(?:Intel\(R\)|oneMKL|\w+\([^\n]*\) [\d.]+[num]?s )",
}
_WITH_TIME = rb"(?:one|mkl)?dnnl?_verbose,(?:v\d+,)?(?:\d+(?:\.\d+)?,|(?:[a-z]+,)?info,)"
_MARK = rb"@kernelscope \d+ [BE] "
_STAMPED = re.compile(rb"dnnl?_verbose,(?:v\d+,)?\d+(?:\.\d+)?,(?:primitive,)?exec,")
_BEGINNING = re.compile(rb"(?:(?:one|mkl)?dnnl?_verbose,|MKL_VERBOSE |@kernelscope )[^\n]*\Z")
_SIGNS = (b"_verbose,", b"MKL_VERBOSE ", b"@kernelscope ")
# Functions that start processes without forking; the recording is told of forks by itself
_STARTING = (
    ("_posixsubprocess", "fork_exec"), ("subprocess", "_fork_exec"), ("os", "posix_spawn"), ("os", "posix_spawnp"),
    ("os", "system"),
)  # fmt: skip
# Functions that may redirect or close descriptor 1, and whether they do with these arguments
_MOVING: Tuple[Tuple[str, Callable[..., bool]], ...] = (
    ("dup2", lambda fd, fd2, inheritable=True: fd2 == 1 != fd),
    ("close", lambda fd: fd == 1),
    ("closerange", lambda low, high: low <= 1 < high),
)
_LINE_BUFFERED, _FULLY_BUFFERED, _UNBUFFERED = 1, 0, 2  # _IOLBF, _IOFBF and _IONBF of <stdio.h> on Linux


class Unrecorded(Exception):
    """The libraries' output is not recorded, for this reason."""


def asked_for() -> List[str]:
    """Return the libraries whose calls the program's environment has them print: those lines are the program's own."""
    return [library for library, names in VARIABLES.items() if _is_set(names)]


def stamped() -> bool:
    """Return whether the program's environment has oneDNN print the time of each call."""
    return _is_set(STAMPS)


def _is_set(names: Iterable[str]) -> bool:
    return any(os.environ.get(name) not in (None, "", "0") for name in names)


@functools.lru_cache(maxsize=None)
def _patterns(own: Collection[str]) -> Any:
    """Return two patterns: lines of libraries and marks, and those of them that are not the program's own as well."""
    whole, beginnings = dict(_WHOLE), dict(_BEGINNINGS)
    if TIMED in own:
        whole[ONEDNN] = beginnings[ONEDNN] = _WITH_TIME

    def made(libraries: List[str]) -> Any:
        lines = [whole[one] for one in libraries] + [rb"(?<![^\n])" + beginnings[one] for one in libraries] + [_MARK]
        return re.compile(rb"(?:" + rb"|".join(lines) + rb")[^\n]*\n")

    return made([ONEDNN, MKL]), made([one for one in (ONEDNN, MKL) if one not in own])


def parted(content: bytes, own: Collection[str] = ()) -> Any:
    """Return (lines of libraries and marks, the script's own bytes, the incomplete last line).

    own: libraries whose lines the script's environment asked for too, so that they are its own as well; and TIMED.
    """
    if not any(sign in content for sign in _SIGNS):
        return b"", content, b""  # spares a script that prints much three searches
    beginning = _BEGINNING.search(content)
    end = beginning.start() if beginning else len(content)
    ready, waiting = content[:end], content[end:]
    ours, hidden = _patterns(frozenset(own))
    return b"".join(ours.findall(ready)), hidden.sub(b"", ready), waiting


def chunks(descriptor: int, start: int, end: int, own: Collection[str] = ()) -> Iterator[Tuple[bytes, bytes, int]]:
    """Split the file's bytes from `start` to `end`, in chunks: yield (lines, own bytes, where the rest begins)."""
    while start < end:
        size = min(CHUNK, end - start)
        while True:
            content = os.pread(descriptor, size, start)
            lines, kept, waiting = parted(content, own)
            if len(waiting) < len(content) or start + size >= end:
                break
            size = min(2 * size, end - start)  # a line longer than what was read
        start += len(content) - len(waiting)
        yield lines, kept, start
        if not content or start + len(waiting) >= end:
            return


def write_all(descriptor: int, content: Any) -> None:
    """Write every byte, even to a non-blocking pipe; a reader that went away is the script's own affair."""
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError:
            return


def lacks_disk(folder: str) -> Optional[str]:
    """Return why a file in this folder cannot hold the output of a step, or None."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < ROOM:
        return "%.3g MB are free where it is recorded" % (disk.f_bavail * disk.f_frsize / 1e6)
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if most != resource.RLIM_INFINITY and most < ROOM:
        return "files may not be larger than %.3g MB (ulimit -f)" % (most / 1e6)
    return None


def _out_of_the_way(descriptor: int) -> int:
    """Move a descriptor to a number that a program which closes all descriptors, ours too, will not soon reuse."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return moved(descriptor, _HIGH if most < 0 else min(_HIGH, most // 2))


def _held_by_others(state: Any) -> bool:
    """Return whether another process, such as one started meanwhile, prints to the file with this fstat result."""
    try:
        others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:
        return True  # unknown: the file stays until the program has ended
    return any(_is_file("/proc/%s/fd/%d" % (process, number), state) for process in others for number in (1, 2))


def _is_file(path: str, state: Any) -> bool:
    try:
        return os.path.samestat(os.stat(path), state)
    except OSError:  # it has ended, or is another user's
        return False


class Printed(object):
    """Descriptor 1 while libraries print; `marker_fd` is where ranges write their marks.

    moving: called before the script redirects or closes descriptor 1; it must switch printing off and close this object.
    """

    def __init__(self, folder: str, moving: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self.own = asked_for()  # libraries whose lines are the script's own as well, and TIMED
        self._done = 0
        self.kept = 0  # bytes of libraries' lines in the folder
        self._libc = ctypes.CDLL(None)
        self._fallocate = getattr(self._libc, "fallocate64", None)
        self._stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
        self._buffering = self._found_buffering()
        self.lost = False  # whether a descriptor was no longer ours
        try:
            self._kept = _out_of_the_way(os.dup(1))
        except OSError as error:
            if error.errno == errno.EBADF:
                raise Unrecorded(CLOSED) from error
            raise
        self._libc.fflush(None)
        spool = os.open(os.path.join(folder, SPOOL_FILE), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.marker_fd = _out_of_the_way(spool)
        self._states = {number: os.fstat(number) for number in (self.marker_fd, self._kept)}
        os.dup2(self.marker_fd, 1)
        self._starting = Patches()
        for owner, name in _STARTING:
            if hasattr(sys.modules.get(owner), name):
                self._starting.wrap(sys.modules[owner], name, self._as_without_us)
        self._moving = Patches()
        for name, moves in _MOVING:
            self._moving.wrap(sys.modules["os"], name, functools.partial(self._told_before, moves=moves, moving=moving))
        # with full buffering, lines and marks would be out of order
        self._libc.setvbuf(self._stdout, None, _LINE_BUFFERED, 0)

    def _found_buffering(self) -> int:
        """Return how the C library buffers stdout; an unbuffered one (python -u) has a buffer of one byte."""
        size = getattr(self._libc, "__fbufsize")
        size.restype = ctypes.c_size_t
        if size(self._stdout) == 1:
            return _UNBUFFERED
        return _LINE_BUFFERED if getattr(self._libc, "__flbf")(self._stdout) else _FULLY_BUFFERED

    def timed(self) -> bool:
        """Return whether oneDNN's lines have the time of each call; if they are printed only for us, the first one shows it."""
        if ONEDNN in self.own:
            return stamped()
        self._libc.fflush(None)
        if _STAMPED.search(os.pread(self.marker_fd, CHUNK, self._done)):
            self.own.append(TIMED)
        return TIMED in self.own

    def drain(self) -> bool:
        """Forward what was printed since the last time; return whether it was little enough to go on."""
        if not self._are_ours():
            self.lost = True
            return False
        size, before = os.fstat(self.marker_fd).st_size, self._done
        for lines, own, done in chunks(self.marker_fd, before, size, self.own):
            write_all(self._kept, own)
            self._done = done  # set at once: whatever happens to our files, nothing is printed twice
            with open(os.path.join(self.folder, LEFT), "w") as out:
                out.write(" ".join([str(done)] + self.own))
            with open(os.path.join(self.folder, STDOUT_FILE), "ab") as out:
                out.write(lines)
            self.kept += len(lines)
        self._give_back()
        return size - before < LIMIT

    def _as_without_us(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Let a process that is started print to the script's output, after what was printed before."""

        def started(*arguments: Any, **keywords: Any) -> Any:
            if not self._is_pointed_here():
                return original(*arguments, **keywords)
            with contextlib.suppress(OSError):  # a full disk: pending output comes later
                self.drain()
            os.dup2(self._kept, 1)
            try:
                return original(*arguments, **keywords)
            finally:  # another thread may have redirected it meanwhile
                if self._are_ours() and is_still(1, self._states[self._kept]):
                    os.dup2(self.marker_fd, 1)

        return started

    def _told_before(self, original: Callable[..., Any], moves: Callable[..., bool], moving: Callable[[], None]) -> Any:
        """Wrap a function of os so that `moving` is called before it redirects descriptor 1, while that is still ours."""

        def called(*arguments: Any, **keywords: Any) -> Any:
            try:
                told = moves(*arguments, **keywords) and self._is_pointed_here()
            except Exception:  # the script's own mistake: the original raises it below
                told = False
            if told:
                moving()
            return original(*arguments, **keywords)

        return called

    def _is_pointed_here(self) -> bool:
        """Return whether descriptor 1 is our file and has not been redirected by the program."""
        return self._are_ours() and is_still(1, self._states[self.marker_fd])

    def _are_ours(self) -> bool:
        """Return whether our descriptors are still ours: a program may close them and reuse their numbers for its own files."""
        return all(is_still(number, state) for number, state in self._states.items())

    def _give_back(self) -> None:
        """Free the disk space of what has been forwarded; if the file system cannot, it stays until the pass ends."""
        if self._fallocate is not None and self._done:
            self._fallocate(self.marker_fd, _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(self._done))

    def release(self) -> None:
        """Point descriptor 1 back, unless the script has redirected it; for a forked process, which must not drain."""
        self._starting.undo()
        self._moving.undo()
        self.lost = not self._is_pointed_here()
        if not self.lost:
            os.dup2(self._kept, 1)
        if self._are_ours():
            with contextlib.suppress(OSError):  # no /proc, or no free descriptor to read it
                self._give_copies_back()

    def _give_copies_back(self) -> None:
        """Restore the program's copies of descriptor 1 too: it may later point descriptor 1 back with one of them."""
        for number in map(int, os.listdir("/proc/self/fd")):
            if number != self.marker_fd and is_still(number, self._states[self.marker_fd]):
                inherited = os.get_inheritable(number)
                os.dup2(self._kept, number, inheritable=inherited)

    def close(self) -> None:
        """End the capture and forward what is left."""
        self._libc.fflush(None)
        self.release()
        self._libc.setvbuf(self._stdout, None, self._buffering, 0)
        if not self._are_ours():  # whoever started the program forwards what is left
            return
        try:
            self.drain()
        except OSError:
            pass  # the folder is gone or the disk full: the rest must still reach the script's output
        for _, own, done in chunks(self.marker_fd, self._done, os.fstat(self.marker_fd).st_size, self.own):
            write_all(self._kept, own)
            self._done = done
        size = os.fstat(self.marker_fd).st_size
        write_all(self._kept, os.pread(self.marker_fd, size - self._done, self._done))
        held = _held_by_others(self._states[self.marker_fd])
        os.close(self._kept)
        os.close(self.marker_fd)
        if held:  # what these print from now on is forwarded when the program has ended
            with open(os.path.join(self.folder, LEFT), "w") as out:
                out.write(" ".join([str(size)] + self.own))
            return
        for name in (SPOOL_FILE, LEFT):
            with contextlib.suppress(FileNotFoundError):  # if nothing was printed
                os.unlink(os.path.join(self.folder, name))
