"""Unpack archives from anywhere: zip files and tar archives, plain or compressed.

Members are written one by one into a temporary folder of our own; only regular files and folders whose names stay inside it are
accepted. Sizes are counted while writing rather than believed, and are limited.
"""

from __future__ import annotations

import atexit
import bz2
import functools
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.kinds import MARKS
from kernelscope.tracer.inside import temporary

MOST_MEMBERS = 100_000
MOST_BYTES = 1 << 30  # limit of the unpacked size for small archives
MOST_RATIO = 100  # limit as a multiple of the archive's size: traces pack to a twentieth or so
_SPARE = 64 << 20  # bytes that stay free on the disk
_PIECE = 1 << 20
_LONGEST_READ = 16 << 20  # bytes of one of tar's own records (names, attributes), which Python reads at once
_TAR_BLOCK = 512
_ZIP = b"PK\x03\x04"
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError,
    LookupError, OverflowError, OSError,
)  # fmt: skip


class _Member(NamedTuple):
    """A regular file of an archive, or a folder (open is None)."""

    name: str
    open: Callable[[], Any] | None


class _Stream:
    """The stream for tarfile, which asks for as many bytes as a record claims to have, true or not.

    Without this, tarfile takes a truncated file for the archive's end, except inside a member's content.
    """

    def __init__(self, file: IO[bytes]):
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = _TAR_BLOCK) -> bytes:
        if not 0 <= size <= _LONGEST_READ:
            raise tarfile.ReadError("one of its records is larger than any name can be")
        result = self._file.read(size)
        if len(result) < size:
            raise tarfile.ReadError("it is cut off")
        return result


def unpack(archive: Path) -> Path | None:
    """Unpack an archive of a folder of ours into a temporary folder, and return that folder; None for any other file.

    Raises EvidenceError for an archive that cannot be unpacked safely. The temporary folder is removed when the process ends.
    """
    form = _form(archive)
    if form is None:
        return None
    with _explained(archive):
        return _unpacked(archive, form)


def _form(path: Path) -> str | None:
    """Return "zip" or "tar" by a file's first bytes, unpacked if it is compressed; None for other files."""
    with path.open("rb") as file:
        head = file.read(_TAR_BLOCK)
    if head.startswith(_ZIP):
        return "zip"
    opener = _opener(head)
    if opener:
        try:
            with opener(path, "rb") as file:
                head = file.read(_TAR_BLOCK)
        except _BROKEN:
            return None  # maybe a broken capture, which its reader will report
    return "tar" if head[257:262] == b"ustar" else None


def _opener(head: bytes) -> Any:
    return next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)


@contextmanager
def _explained(archive: Path) -> Iterator[None]:
    """Turn any fault of an archive into one line that names it."""
    try:
        yield
    except EvidenceError:
        raise
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise EvidenceError(f"{archive}: cannot be unpacked ({reason}); pack the folder again, as .zip or .tar.gz") from error


def _unpacked(archive: Path, form: str) -> Path | None:
    if form == "zip" and _top([member.name for member in _members(archive, form)]) is None:
        return None
    target = Path(temporary.made())
    atexit.register(temporary.removed, str(target))
    names, written, available = [], 0, shutil.disk_usage(target).free - _SPARE
    for member in _members(archive, form):
        names.append(member.name)
        place = target / _inside(archive, member.name)
        if member.open is None:
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as content, place.open("xb") as out:
            while piece := content.read(_PIECE):
                written += len(piece)
                _bound(archive, len(names), written)
                if written > available:
                    raise EvidenceError(f"{archive}: no room to unpack it in {target.parent}; set TMPDIR to a larger place")
                out.write(piece)
    top = _top(names)
    return target / top if top is not None else None


def _members(archive: Path, form: str) -> Iterator[_Member]:
    """Yield the files and folders of an archive; refuse other members, and more of them than a run folder can hold."""
    if form == "zip":
        with zipfile.ZipFile(archive) as packed:
            for count, entry in enumerate(packed.infolist(), start=1):
                _bound(archive, count, 0)  # its stated sizes are not trusted
                _plain(archive, entry.filename, stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR))
                yield _Member(entry.filename, None if entry.is_dir() else functools.partial(packed.open, entry))
        return
    with archive.open("rb") as file:
        opener = _opener(file.read(_TAR_BLOCK)) or open
    with opener(archive, "rb") as file, tarfile.open(fileobj=_Stream(file), mode="r:") as packed:  # type: ignore[call-overload]
        for count, member in enumerate(packed, start=1):
            _bound(archive, count, member.offset_data + member.size)  # before its content is skipped
            _plain(archive, member.name, member.isreg() or member.isdir())
            yield _Member(member.name, functools.partial(packed.extractfile, member) if member.isreg() else None)


def _bound(archive: Path, members: int, size: int) -> None:
    """Refuse an archive that holds more than a run folder can."""
    if members > MOST_MEMBERS or size > max(MOST_BYTES, MOST_RATIO * archive.stat().st_size):
        raise EvidenceError(f"{archive}: unpacks to far more than its size; if you trust it, unpack it and name the folder")


def _plain(archive: Path, name: str, plain: bool) -> None:
    if not plain:
        raise EvidenceError(f"{archive}: {name!r} is a link or not a regular file; pack the folder without it")


def _inside(archive: Path, name: str) -> PurePosixPath:
    """Return a member's name as a relative path; refuse one that leads outside."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise EvidenceError(f"{archive}: {name!r} would be written outside its folder; do not trust this archive")
    return path


def _top(names: Iterable[str]) -> PurePosixPath | None:
    """Return the folder with the mark nearest to the top, or the common parent if there are several; None without a mark."""
    marks = [path for path in map(PurePosixPath, names) if path.name in MARKS]
    if not marks:
        return None
    depth = min(len(mark.parts) for mark in marks)
    tops = {mark.parent for mark in marks if len(mark.parts) == depth}
    return tops.pop() if len(tops) == 1 else PurePosixPath(os.path.commonpath(tops))
