"""Packed run folders: a path may name an archive of what `run`, `compare`, `sweep`, `profile`, `import` or the portable agent
wrote, or a folder in one (run.zip/pytorch).
"""

from __future__ import annotations

import zlib
from pathlib import Path

from kernelscope.analysis.recordings.unpacking import unpack

_HEAD = 4096  # bytes
_MAGIC = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ")
_GZIP = b"\x1f\x8b"

_unpacked: dict[Path, Path | None] = {}  # archives opened by this process, and our folders in them


def folder(path: Path) -> Path:
    """Return the folder to read for a path: its unpacked copy if the path names an archive or a folder in one, else the path.

    The copy is kept while the process lives. Raises EvidenceError for an archive that cannot be unpacked safely.
    """
    for archive in (path, *path.parents):
        if archive.is_dir():
            return path
        if archive.is_file():
            result = _folder_in(archive)
            return result / path.relative_to(archive) if result else path
    return path


def _folder_in(archive: Path) -> Path | None:
    if archive not in _unpacked:
        with archive.open("rb") as file:
            head = file.read(_HEAD)
        if not head.startswith(_MAGIC) and _inner(head)[257:262] != b"ustar":
            return None

        _unpacked[archive] = unpack(archive)
    return _unpacked[archive]


def _inner(head: bytes) -> bytes:
    """Return a file's first bytes, unpacked if it is a gzip file: most gzip files are captures."""
    if not head.startswith(_GZIP):
        return head

    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, 512)
    except zlib.error:
        return b""


def named(text: str) -> str:
    """Return a text with the names of unpacked folders replaced by those of their archives."""
    for archive, one in _unpacked.items():
        if one is not None:
            text = text.replace(str(one), str(archive))
    return text
