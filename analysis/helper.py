"""A second process that reads ahead: it decodes a capture's tables and searches it for secrets while this one imports libraries.

Decoding takes numpy (see readers.nsys_columns and readers.kineto_columns), but a Trace takes pandas and pyarrow, which take
longer to import than a capture of 100 MB takes to be decoded. So the fork comes after numpy's import, which would start threads
(see blas_threads), and before theirs: a process with threads must not fork, and these libraries start some. Columns come over in
memory that both processes share (see helper_messages).

Nothing depends on the helper: what it does not deliver, because it died or could not be started, is done in this process. After
the first message that is not as agreed it is not listened to any more.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import select
import signal
import socket
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernelscope.analysis import blas_threads
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.magic import GZIP_MAGIC, SQLITE_MAGIC

if TYPE_CHECKING:
    from kernelscope.analysis.helper_messages import Content, Remarks
    from kernelscope.analysis.helper_values import Memory
    from kernelscope.analysis.kernel_lookup import Told
    from kernelscope.analysis.readers.kineto_columns import Columns
    from kernelscope.analysis.readers.nsys_tables import Gathered
    from kernelscope.analysis.ties import Ties

_WORTHWHILE = 1 << 20  # bytes of a file for which a helper wins more than it costs
_LARGE = 1 << 28  # bytes of a database whose tables take longer than the imports: two helpers share them
_MOST_KEPT = 1 << 27  # bytes of unpacked text that are kept until they are searched
_PACKING = 16  # how many times larger a packed trace is taken to be
_BEGINNING = 1 << 16  # bytes of a text by which its format is guessed
_SECRETS, _EVENTS, _TIES, _NAMES, _DIGEST = "secrets", "events", "ties", "names", "digest"
_TABLES = ("kernels", "graphs", "copies", "syncs", "memory", "samples", "calls", "ranges")  # of nsys_columns.GATHERED, in order
_HEAD = struct.Struct("<QI")  # of a message: bytes of its body, and how many descriptors of shared memory come with it
_MOST_DESCRIPTORS = 250  # that the kernel passes on with a message


@contextlib.contextmanager
def started(path: Path, digest: bool = False) -> Iterator[Helper | None]:
    """Give a helper that reads ahead in a capture; None where one cannot be had, or would cost more than it wins.

    digest: let it take the file's digest too, when all else is done.
    """
    helper, threads = None, 0
    if _possible() and _worthwhile(path):
        threads = blas_threads.import_numpy()  # once for all processes
        shares = _shares(path)
        if digest and shares:
            shares[0] = (*shares[0], _DIGEST)
        helper = Helper(path, shares if _is_alone() else [])
    try:
        yield helper
    finally:
        if helper:
            helper.close()
        if threads:
            blas_threads.give(threads)  # not before: for their first 50 ms they wait busily


def _possible() -> bool:
    """Return whether this process may fork: it has no other thread, by the system's count, as libraries start their own."""
    if not (hasattr(os, "fork") and hasattr(os, "memfd_create") and hasattr(os, "sched_getaffinity")):
        return False
    try:
        return _is_alone() and len(os.sched_getaffinity(0)) > 1
    except OSError:
        return False


def _is_alone() -> bool:
    return len(os.listdir("/proc/self/task")) == 1 and threading.active_count() == 1


def _worthwhile(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size >= _WORTHWHILE
    except OSError:
        return False  # said by who reads it


class Helper:
    """One or two processes at work on a capture. searches: whether they look for secrets too.

    Results are taken in order: those of _TABLES, `ties` and `names`, or `events`; `remarks`; `digest`.
    """

    def __init__(self, path: Path, shares: list[tuple[str, ...]]):
        self._path = path
        self._workers: list[_Worker] = []
        self.searches = any(_SECRETS in tasks for tasks in shares)
        try:
            for tasks in shares:
                self._workers.append(_Worker(path, tasks, self._workers))
        except OSError:
            self.close()  # no more processes or descriptors: this process does the rest

    def is_gathering(self) -> bool:
        """Return whether `events` are still to come: who waits for them has time for what will be needed later."""
        worker = self._doing(_EVENTS)
        return worker is not None and not worker.is_heard()

    def decoded(self, name: str) -> Gathered | None:
        """Return the columns that readers.nsys_columns.GATHERED[name] makes of the capture; None if they are not to be had.

        Raises EvidenceError where the tables are damaged.
        """
        from kernelscope.analysis.readers.nsys_tables import Gathered

        found = self._take(name)
        return found if isinstance(found, Gathered) else None

    def events(self) -> Columns | None:
        """Return the columns that readers.kineto_columns.gather makes of the capture; None if they are not to be had.

        Raises EvidenceError where the capture is damaged.
        """
        from kernelscope.analysis.readers.kineto_columns import Columns

        found = self._take(_EVENTS)
        return found if isinstance(found, Columns) else None

    def ties(self) -> Ties | None:
        """Return the ties between decoded tables, to ranges only if one process decoded all; None if they are not to be had."""
        from kernelscope.analysis.ties import Ties

        found = self._take(_TIES)
        return found if isinstance(found, Ties) else None

    def names(self) -> dict[str, Told]:
        """Return what kernels' names tell, as far as it is to be had."""
        found = self._take(_NAMES)
        return found if isinstance(found, dict) else {}

    def remarks(self) -> Remarks | None:
        """Return what secrets.remarks says of the capture; None if it is not to be had."""
        found = self._take(_SECRETS)
        return found if isinstance(found, list) else None

    def digest(self) -> str | None:
        """Return the file's digest as digest_of does; None if it was not asked for, or is not to be had."""
        found = self._take(_DIGEST)
        return found if isinstance(found, str) else None

    def close(self) -> None:
        """End the processes, whatever they do."""
        while self._workers:
            self._workers.pop().close()

    def _doing(self, task: str) -> _Worker | None:
        return next((worker for worker in self._workers if task in worker.tasks), None)

    def _take(self, task: str) -> Content | None:
        worker = self._doing(task)
        return worker.take(task) if worker else None


def _shares(path: Path) -> list[tuple[str, ...]]:
    """Return the tasks of each process: of a large database one decodes the ranges, mostly the largest table."""
    try:
        with path.open("rb") as file:
            head = file.read(_BEGINNING)
        size = path.stat().st_size
    except OSError:
        return []
    if not head.startswith(SQLITE_MAGIC):
        if not _is_torch(head):
            return [(_SECRETS,)]
        # of a large one the process that waits for the events searches meanwhile
        small = size <= (_MOST_KEPT // _PACKING if head.startswith(GZIP_MAGIC) else _MOST_KEPT)
        return [(_EVENTS, _SECRETS) if small else (_EVENTS,)]
    *device, ranges = _TABLES
    found = (_TIES, _NAMES)
    return [(*_TABLES, *found, _SECRETS)] if size < _LARGE else [(*device, *found), (ranges, _SECRETS)]


def _is_torch(head: bytes) -> bool:
    """Return whether a file's first bytes seem to begin a trace of torch.profiler."""
    from kernelscope.analysis.readers import kineto_categories

    if head.startswith(GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _BEGINNING)
        except zlib.error:
            return False
    return kineto_categories.is_told(head)


class _Worker:
    """A process that does some tasks, in order, and sends what came out of each."""

    def __init__(self, path: Path, tasks: tuple[str, ...], others: Sequence[_Worker]):
        self.tasks = tasks
        self._arrived: dict[str, Content] = {}
        self._socket, remote = socket.socketpair()
        try:
            self._process = os.fork()
        except OSError:
            self._socket.close()
            remote.close()
            raise
        if not self._process:
            for worker in (*others, self):
                worker._socket.close()  # so that a process whose parent is gone notices
            _run(path, tasks, remote)
        remote.close()

    def is_heard(self) -> bool:
        """Return whether something has come, or the process has ended."""
        if self._arrived or self._socket.fileno() < 0:
            return True
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def take(self, task: str) -> Content | None:
        """Return what came out of a task, once; None where nothing came before the process ended."""
        while task not in self._arrived:
            message = self._received()
            if message is None:
                self._socket.close()  # nobody knows where a next message would begin
                return None
            self._arrived[message[0]] = message[1]
        found = self._arrived.pop(task)
        if isinstance(found, EvidenceError):
            raise found
        return found

    def _received(self) -> tuple[str, Content] | None:
        from kernelscope.analysis.helper_messages import unpacked

        try:
            head, descriptors, _, _ = socket.recv_fds(self._socket, _HEAD.size, _MOST_DESCRIPTORS)
            try:
                if len(head) < _HEAD.size:
                    return None
                size, expected = _HEAD.unpack(head)
                body = bytearray(size)
                if len(descriptors) != expected or not _filled(self._socket, memoryview(body)):
                    return None
                memory = list(map(_mapped, descriptors))
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        except (OSError, ValueError, OverflowError, MemoryError):  # the last three: of absurd sizes
            return None
        return unpacked(body, memory)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        try:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # somebody else waited for it


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mapped(descriptor: int) -> mmap.mmap:
    """Map shared memory, all of its pages at once."""
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)


def _filled(source: socket.socket, room: memoryview) -> bool:
    """Fill all of the room from a socket; return whether there was enough."""
    while room:
        count = source.recv_into(room)
        if not count:
            return False
        room = room[count:]
    return True


# --- in the helper ------------------------------------------------------------------------------------------------------------


def _run(path: Path, tasks: tuple[str, ...], parent: socket.socket) -> None:
    """Do the tasks and end this process; it says nothing, as what goes wrong here is done, and told, by the parent."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.disable()  # nothing that is made here has cycles worth looking for, and all of it ends soon
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for numpy, if it is not imported yet: threads are of no use here
        unpacked = _gather(path, parent) if _EVENTS in tasks else memoryview(b"")
        if tasks[0] in _TABLES:
            _decode(path, tasks, parent)
        if _SECRETS in tasks:
            _search(path, unpacked, parent)
        if _DIGEST in tasks:
            os.nice(19)  # it is needed last, and the tables that are made and written meanwhile keep two processors busy
            _digest(path, parent)
    finally:
        os._exit(0)


def _decode(path: Path, tasks: Sequence[str], parent: socket.socket) -> None:
    """Send the columns of an export of nsys, table by table, or why they cannot be read, and what else is found in them.

    Nothing is sent of any other database.
    """
    from kernelscope.analysis import helper_tables, helper_ties
    from kernelscope.analysis.helper_messages import failed, found, looked_up
    from kernelscope.analysis.helper_values import Memory
    from kernelscope.analysis.readers.nsys_columns import GATHERED, SIGNS
    from kernelscope.analysis.readers.nsys_tables import Ids
    from kernelscope.analysis.readers.sqlite_pages import Database

    names = [task for task in tasks if task in _TABLES]
    try:
        with Database(path) as database:
            if "StringIds" not in database.tables or not database.tables & SIGNS:
                return
            ids, gathered = Ids(database), {}
            for name in names:
                memory = Memory()
                gathered[name] = GATHERED[name](database, ids, memory.room)
                _send(parent, found(name, helper_tables.described(gathered[name], memory)), memory)
            if _TIES in tasks:
                memory = Memory()
                _send(parent, found(_TIES, helper_ties.described(helper_ties.tied(gathered), memory)), memory)
            if _NAMES in tasks:
                _send(parent, looked_up(_NAMES, helper_tables.looked_up(database, gathered["kernels"]["name"])), Memory())
    except EvidenceError as error:
        for name in names:
            _send(parent, failed(name, str(error)), Memory())


def _gather(path: Path, parent: socket.socket) -> memoryview:
    """Send the columns of a trace of torch.profiler, or why it cannot be read; return what was unpacked, if it is not much."""
    from kernelscope.analysis import helper_events
    from kernelscope.analysis.helper_messages import failed, found
    from kernelscope.analysis.helper_values import Memory
    from kernelscope.analysis.readers import kineto_categories, kineto_columns

    memory, unpacked = Memory(), _Kept()
    try:
        columns = kineto_columns.gather(path, kineto_categories.GROUPS, room=memory.room, keep=unpacked.keep)
        _send(parent, found(_EVENTS, helper_events.described(columns, memory)), memory)
    except EvidenceError as error:
        _send(parent, failed(_EVENTS, str(error)), Memory())
        return memoryview(b"")
    return unpacked.content()


class _Kept:
    """Text that is kept, one block behind the other, unless it gets much."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _MOST_KEPT, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._full = False

    def keep(self, block: bytes) -> None:
        """Append a block, or give up all."""
        self._full = self._full or self._memory.tell() + len(block) > _MOST_KEPT
        if not self._full:
            self._memory.write(block)

    def content(self) -> memoryview:
        """Return what is kept: all blocks, or nothing."""
        return memoryview(self._memory)[: 0 if self._full else self._memory.tell()]


def _search(path: Path, unpacked: memoryview, parent: socket.socket) -> None:
    """Send what is to be said of secrets. unpacked: what the file holds, if it was unpacked already."""
    from kernelscope.analysis import secrets
    from kernelscope.analysis.helper_messages import searched
    from kernelscope.analysis.helper_values import Memory

    _send(parent, searched(_SECRETS, secrets.remarks(path, unpacked)), Memory())


def _digest(path: Path, parent: socket.socket) -> None:
    """Send the file's digest."""
    from kernelscope.analysis.helper_messages import digested
    from kernelscope.analysis.helper_values import Memory

    _send(parent, digested(_DIGEST, digest_of(path)), Memory())


def _send(parent: socket.socket, body: bytes, memory: Memory) -> None:
    socket.send_fds(parent, [_HEAD.pack(len(body), len(memory.passed))], memory.passed)
    parent.sendall(body)
    memory.close()
