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
        self._work: dict[str, tuple[int, str, bool]] = {}  # rank, file and whether it tells its rank, by what it holds

    def is_new(self, name: str, digest: str) -> bool:
        """Return whether no file of this content was there before. name: of the file."""
        if digest in self._names:
            self.notes.append(f"{name} is left out: the same file as {self._names[digest]}")
            return False
        self._names[digest] = name
        return True

    def add(self, rank: int, one: One, work: str = "", told: bool = False) -> None:
        """Take what was recorded of a rank, unless it or its work is there already.

        work: tells whether two hold the same, "" unknown. told: whether the file says which rank it is: two that say otherwise
        hold two ranks, however alike, as do two devices of one file.
        """
        name = Path(one.path).name
        other, file, both = self._work.setdefault(work, (rank, one.path, told)) if work else (rank, one.path, told)
        if file != one.path and not (told and both and rank != other):
            self.notes.append(f"{name} is left out: the same work at the same times as {Path(file).name}")
            return
        kept = self.of_rank.setdefault(rank, one)
        if kept is not one:
            self.notes.append(f"{name} is left out: rank {rank} is {Path(kept.path).name} already")
