"""The files of a job: captures that are named, and those in folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.kinds import Kind, captures_in, kind_of
from kernelscope.analysis.recordings.run import Run


def of_paths(paths: Sequence[Path]) -> list[Path]:
    """Return the captures: files themselves, and the contents of folders. Raises EvidenceError if there are none."""
    found = []
    for path in paths:
        if not path.exists():
            raise EvidenceError(f"{path}: does not exist; name the captures of the ranks, or a folder of them")
        found += _of_folder(path) if path.is_dir() else [path]
    return found


def _of_folder(path: Path) -> list[Path]:
    """Return a recording itself, or the files and recordings in any other folder."""
    kind = kind_of(path)
    if kind in (Kind.RUN, Kind.IMPORT):
        return (Run(path).ranks() if kind is Kind.RUN else []) or [path]
    found = captures_in(path)
    if not found:
        below = sorted(one.name for one in path.iterdir() if one.is_dir() and captures_in(one))
        likely = f"one of the folders in it: {', '.join(below)}" if below else "the captures of the ranks"
        raise EvidenceError(f"{path}: holds no recordings; name {likely}")
    return found
