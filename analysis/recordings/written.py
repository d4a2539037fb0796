"""Check that files in a folder are as our command wrote them, by recorded sizes and checksums.

This detects files that were truncated, replaced or edited, but not deliberate tampering.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from isal import isal_zlib  # 16 GB a second: whoever opens a folder does not notice

from kernelscope.analysis.errors import EvidenceError

Notes = dict[str, list[int]]

_PIECE = 4 << 20
_REMEDY = "import the capture again"
_CHANGED = f"was changed since the import; {_REMEDY}"


def noted(folder: Path, files: Iterable[Path]) -> Notes:
    """Return size and checksum of each file, by its path in the folder."""
    return {file.relative_to(folder).as_posix(): [file.stat().st_size, _checksum(file)] for file in sorted(files)}


def check_notes(folder: Path, notes: Any) -> None:
    """Raise EvidenceError if this is not a result of `noted`: folders may come from anywhere."""
    if not isinstance(notes, dict) or not all(map(_is_inside, notes)) or not all(map(_is_note, notes.values())):
        raise EvidenceError(f"{folder}: the record of its files is damaged; {_REMEDY}")


def check_sizes(folder: Path, notes: Notes) -> None:
    """Raise EvidenceError if a file is missing or has another size than recorded."""
    for name, (size, _) in notes.items():
        try:
            now = (folder / name).stat().st_size
        except (OSError, ValueError) as error:
            raise EvidenceError(f"{folder / name}: was removed since the import; {_REMEDY}") from error
        if now != size:
            raise EvidenceError(f"{folder / name}: {_CHANGED}")


def check_content(folder: Path, notes: Notes) -> None:
    """Raise EvidenceError if a file's content differs from what was recorded."""
    for name, (_, checksum) in notes.items():
        try:
            same = _checksum(folder / name) == checksum
        except OSError as error:
            raise EvidenceError(f"{folder / name}: {error.strerror or error}; {_REMEDY}") from error
        if not same:
            raise EvidenceError(f"{folder / name}: {_CHANGED}")


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _is_note(note: Any) -> bool:
    return isinstance(note, list) and len(note) == 2 and all(type(value) is int for value in note)


def _checksum(file: Path) -> int:
    result = 0
    with file.open("rb") as content:
        while piece := content.read(_PIECE):
            result = isal_zlib.crc32(piece, result)
    return result
