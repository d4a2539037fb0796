"""What recordings of one name are called where they stand beside each other: by the folders that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def told_apart(paths: Sequence[Path]) -> list[str] | None:
    """Return of each path the last part by which all differ: before/1 and after/1 are "before" and "after". None without one."""
    parts = [path.absolute().parts[::-1] for path in paths]
    for same_depth in zip(*parts, strict=False):
        if len(set(same_depth)) == len(paths):
            return list(same_depth)
    return None
