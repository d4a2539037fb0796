"""Each file and each rank of a job once: what is there twice is left out and named."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, Protocol, TypeVar


class _OfFile(Protocol):
    @property
    def path(self) -> str:
        """The file that it was read from."""


One = TypeVar("One", bound=_OfFile)


class Distinct(Generic[One]):
    """What was recorded of each rank. notes: what was left out, and why."""

    def __init__(self) -> None:
        self.of_rank: dict[int, One] = {}
        self.notes: list[str] = []
        self._names: dict[str, str] = {}  # of files by their digests

    def is_new(self, name: str, digest: str) -> bool:
        """Return whether no file of this content was there before. name: of the file."""
        if digest in self._names:
            self.notes.append(f"{name} is left out: the same file as {self._names[digest]}")
            return False
        self._names[digest] = name
        return True

    def add(self, rank: int, one: One) -> None:
        """Take what was recorded of a rank, unless it is there already."""
        kept = self.of_rank.setdefault(rank, one)
        if kept is not one:
            self.notes.append(f"{Path(one.path).name} is left out: rank {rank} is {Path(kept.path).name} already")
