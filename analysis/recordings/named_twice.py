"""Captures that were named together but are one: the same path, or files with the same content, packed or not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.packed import opened

_BEGINNING = 1 << 16  # bytes: only captures that begin alike are read completely
_PIECE = 1 << 20


def refuse(paths: Sequence[Path]) -> None:
    """Raise EvidenceError if two of the paths are one capture, which would count twice. Unreadable paths are skipped."""
    named: dict[Path, Path] = {}
    for path in paths:
        if (other := named.setdefault(path.resolve(), path)) is not path:
            raise EvidenceError(f"{path}: is named twice" + (f", also as {other}" if str(other) != str(path) else ""))
    for alike in _grouped(paths, lambda path: _digest(path, _BEGINNING)):
        for same in _grouped(alike, _digest):
            raise EvidenceError(f"{same[1]}: has the same content as {same[0]} once unpacked; name one of them")


def _grouped(paths: Sequence[Path], key: Callable[[Path], str | None]) -> Iterator[list[Path]]:
    """Yield groups of several paths with the same key."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        if (value := key(path)) is not None:
            groups.setdefault(value, []).append(path)
    return (group for group in groups.values() if len(group) > 1)


def _digest(path: Path, most: int | None = None) -> str | None:
    """Return the digest of a file's unpacked content, or of all files in a folder; None if it cannot be read.

    most: bytes that are read of each file. Pipes can be read only once, and are left to the capture's reader.
    """
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path] if path.is_file() else []
    digest = hashlib.sha256()
    try:
        for file in files:
            digest.update(f"{file.relative_to(path)}\0".encode("utf8", "surrogateescape"))
            with opened(file) as content:
                while piece := content.read(_PIECE if most is None else most):
                    digest.update(piece)
                    if most is not None:
                        break
    except (OSError, EvidenceError):
        return None
    return digest.hexdigest() if files else None
