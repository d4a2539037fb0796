"""Which files of a folder belong to the recording in it, so that no command's output may replace them."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.recordings import kinds

# The top-level content of runs, comparisons, imports and sweeps; the user put everything else there
_OURS = frozenset({
    *kinds.MARKS, "check", "clean", "layers", "kernels", "lines", "trace", "breakdowns", "energy", "sources", "confirm",
    "tables", "cells", "results.parquet", "profile.json", "profile.json.seen", "profile.json.failed", "owner", "now",
    "notes.jsonl", "faults.log",
})  # fmt: skip


def belongs(file: Path, folder: Path) -> bool:
    """Return whether an existing file is part of the recording in a folder, or in one of its subfolders."""
    real, root = file.resolve(), folder.resolve()
    if not real.is_file() or not real.is_relative_to(root):
        return False
    within = [one for one in real.parents if one.is_relative_to(root)]
    marked = next((one for one in within if any((one / mark).is_file() for mark in kinds.MARKS)), None)
    if marked is not None:
        return real.relative_to(marked).parts[0] in _OURS
    return kinds.kind_of(root) is kinds.Kind.CAPTURE and real.suffix != ".html"  # of captures, all but pages
