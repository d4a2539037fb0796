"""Take each file and each rank of a job once: duplicates are left out and named."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, Protocol, TypeVar


class _OfFile(Protocol):
    @property
    def path(self) -> str:
        """The file from which it was read."""


One = TypeVar("One", bound=_OfFile)


class Distinct(Generic[One]):
    """One recording of each rank. notes: what was left out, and why."""

    def __init__(self) -> None:
        self.of_rank: dict[int, One] = {}
        self.notes: list[str] = []
        self._names: dict[str, str] = {}  # file names by digest
        self._work: dict[str, tuple[int, str, bool]] = {}  # rank, file and whether it states its rank, by work

    def is_new(self, name: str, digest: str) -> bool:
        """Return whether no earlier file has this content. name: the file's."""
        if digest in self._names:
            self.notes.append(f"{name} is left out: the same file as {self._names[digest]}")
            return False
        self._names[digest] = name
        return True

    def add(self, rank: int, one: One, work: str = "", told: bool = False) -> None:
        """Take a rank's recording unless its rank or its work is there already.

        work: equal for two recordings of the same work, "" if unknown. told: whether the file states its rank: two that state
        different ranks are different, however alike; so are two devices of one file.
        """
        name = Path(one.path).name
        other, file, both = self._work.setdefault(work, (rank, one.path, told)) if work else (rank, one.path, told)
        if file != one.path and not (told and both and rank != other):
            self.notes.append(f"{name} is left out: the same work at the same times as {Path(file).name}")
            return
        kept = self.of_rank.setdefault(rank, one)
        if kept is not one:
            self.notes.append(f"{name} is left out: rank {rank} is {Path(kept.path).name} already")
