"""The kind of recording at a path, decided in this one place."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError


class Kind(Enum):
    """The kind of recording at a path; the value names it in messages."""

    RUN = "a run folder"
    COMPARISON = "a comparison"
    SWEEP = "a sweep"
    IMPORT = "an imported capture"
    RUNS = "a folder of run folders"
    JOB = "a job of several ranks"
    SIDES = "a folder of sides, each with several recordings"
    CAPTURE = "a capture"


RUN, COMPARISON, SWEEP, IMPORT = "run.json", "compare.json", "sweep.json", "import.json"
# The files that mark a folder; if there are several, the first counts
MARKS = {SWEEP: Kind.SWEEP, IMPORT: Kind.IMPORT, RUN: Kind.RUN, COMPARISON: Kind.COMPARISON}


def kind_of(path: Path) -> Kind:
    """Return the kind of recording at a path. Anything that kernelscope did not write counts as a capture, readable or not.

    Raises EvidenceError for a folder of ours with content that we never write; see `_refuse_foreign`.
    """
    if path.name == COMPARISON and path.is_file():
        return Kind.COMPARISON
    for mark, kind in MARKS.items():
        if (path / mark).is_file():
            _refuse_foreign(path, sides=kind in (Kind.COMPARISON, Kind.SWEEP))
            return kind
    if not path.is_dir():
        return Kind.CAPTURE
    if any(path.glob(f"rank[0-9]*/{RUN}")):
        return Kind.JOB
    if any(path.glob(f"*/{RUN}")):
        return Kind.RUNS
    return Kind.SIDES if any(path.glob(f"*/*/{RUN}")) and not any(path.glob(f"*/{COMPARISON}")) else Kind.CAPTURE


def _refuse_foreign(folder: Path, sides: bool) -> None:
    """Refuse pipes and devices, which never end, and links out of the folder, whose targets would be shown as part of it.

    sides: folders in it may be links, as they are checked when they are opened themselves.
    """
    root = os.path.realpath(folder)
    for where, folders, names in os.walk(root):
        for name in [*names, *(() if sides else folders)]:
            path = os.path.join(where, name)
            if os.path.islink(path) and not os.path.realpath(path).startswith(root + os.sep):
                raise EvidenceError(f"{path}: a link out of the folder; put the file itself there, or remove the link")
            if name in names and os.path.exists(path) and not os.path.isfile(path):
                raise EvidenceError(f"{path}: not a regular file; remove it, or record the folder again")


def captures_in(folder: Path) -> list[Path]:
    """Return the runs and imports in a folder or, if there are none, all of its files; nothing for a file."""
    if not folder.is_dir():
        return []
    recorded = [one for one in folder.iterdir() if one.is_dir() and kind_of(one) in (Kind.RUN, Kind.IMPORT)]
    return sorted(recorded or [one for one in folder.iterdir() if not one.is_dir()])
