"""Labels for recordings of the same name that are shown together: the folder names in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def told_apart(paths: Sequence[Path]) -> list[str] | None:
    """Return, for each path, the last part in which all differ: "before", "after" for before/1, after/1. None without one."""
    parts = [path.absolute().parts[::-1] for path in paths]
    for same_depth in zip(*parts, strict=False):
        if len(set(same_depth)) == len(paths):
            return list(same_depth)
    return None
