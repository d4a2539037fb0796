"""The captures of a job: read, a process each, and put in the order of their ranks."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks.recording import RankRecording, read

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class _Read:
    """A file: its digest, and what it tells or why it tells nothing."""

    path: Path
    digest: str
    recordings: list[RankRecording]
    reason: str


def recordings(paths: Sequence[Path], workers: int | None = None) -> tuple[list[RankRecording], list[str]]:
    """Return the ranks that captures hold, by their numbers and each once, and what is to be known of what was left out.

    workers: processes that read (default: as many as processors). Raises EvidenceError for fewer than two ranks.
    """
    return _ordered(_read_all(sorted(paths, key=_natural), workers))


def _read_all(paths: Sequence[Path], workers: int | None) -> list[_Read]:
    """Read the captures, a process each; what one of them holds stays in its process but for the summary."""
    count = min(workers or os.cpu_count() or 1, len(paths))
    if count < 2:
        return [_read(path) for path in paths]
    with ProcessPoolExecutor(count) as pool:
        return list(pool.map(_read, paths))


def _read(path: Path) -> _Read:
    digest = str(path)
    try:
        digest = digest if path.is_dir() else _digest(path)
        return _Read(path, digest, read(path), "")
    except (EvidenceError, OSError) as error:
        return _Read(path, digest, [], str(error))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _natural(path: Path) -> list[Any]:
    """Return a key that puts rank_2 before rank_10."""
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(str(path))]


def _ordered(files: Sequence[_Read]) -> tuple[list[RankRecording], list[str]]:
    """Return the recordings by rank, each rank once, and what was left out (see `recordings`)."""
    notes = [f"left out: {one.reason}" for one in files if one.reason]
    kept: dict[int, RankRecording] = {}
    digests: dict[str, Path] = {}
    for one in files:
        if one.digest in digests:
            notes.append(f"{one.path.name} is left out: the same file as {digests[one.digest].name}")
            continue
        digests[one.digest] = one.path
        for recording in one.recordings:
            rank = recording.rank if recording.rank is not None else len(kept)
            if rank in kept:
                notes.append(f"{one.path.name} is left out: rank {rank} is {Path(kept[rank].path).name} already")
                continue
            kept[rank] = recording
    found = [recording for _, recording in sorted(kept.items())]
    if len(found) < 2:
        more = f"; of {len(notes)} others the first is {notes[0]}" if notes else "; name more"
        raise EvidenceError(f"a job takes the captures of two ranks at least, and {len(found)} can be compared{more}")
    return found, notes
