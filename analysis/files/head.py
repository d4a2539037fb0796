"""The beginning of a file, from which its format is recognised."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.magic import SQLITE_MAGIC, UTF16_MARKS, container, packing
from kernelscope.analysis.files.sqlite_names import Names, stored_tables

SIZE = 1 << 16
_MOST_STEPS = 10_000_000  # of SQLite's virtual machine: a second or so


@dataclass(frozen=True)
class Head:
    """What formats are recognised by. content: the first SIZE bytes, unpacked where the file is packed; empty for a folder.

    tail: the last SIZE bytes of a larger plain file: tools print their tables after whatever the program printed.
    """

    path: Path
    content: bytes = field(repr=False)
    compressed: bool = False
    tail: bytes = field(default=b"", repr=False)

    @cached_property
    def text(self) -> str:
        """Beginning and end as text, bytes that are no UTF-8 replaced; UTF-16 (as PowerShell redirects output) is understood."""
        if self.is_utf16:
            return self.content.decode("utf-16", errors="replace")
        both = self.content + b"\n" + self.tail if self.tail and b"\x00" not in self.tail else self.content
        return both.decode("utf8", errors="replace").removeprefix("\ufeff")

    @cached_property
    def is_text(self) -> bool:
        """Whether the content can be text: no zero bytes, unless it is UTF-16."""
        return self.is_utf16 or b"\x00" not in self.content

    @property
    def is_utf16(self) -> bool:
        """Whether the content begins as text in UTF-16 does."""
        return self.content.startswith(UTF16_MARKS)

    @property
    def container(self) -> str:
        """What it is, packed or not, by its first bytes: a key of magic.CONTAINERS, a folder, or any other file."""
        if not self.content:
            return "folder"  # no file is empty
        return container(self.content) or "file"

    @cached_property
    def tables(self) -> Names:
        """The names of a SQLite database's own tables (no views, no virtual ones); empty for anything else."""
        if not self.content.startswith(SQLITE_MAGIC):
            return Names()
        with packed.plain_file(self.path) as path:
            return _tables(path)

    @cached_property
    def entries(self) -> frozenset[str]:
        """The names in a folder; empty for a file."""
        return frozenset(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else frozenset()


# Logs of changes to databases: how their names end, and how what is in them begins; what was merged begins with zeros
_LOGS = {"-wal": b"\x37\x7f\x06", "-journal": b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"}
_LOG_HEADER = 32  # bytes; a log that is no longer holds no change


def _tables(path: Path) -> Names:
    """Return the names of a database's own tables; raise EvidenceError where they cannot be read."""
    refuse_unmerged(path)
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        database.set_progress_handler(lambda: 1, _MOST_STEPS)  # a schema that takes longer is no capture's
        database.text_factory = lambda raw: raw.decode("utf8", errors="replace")
        try:
            return Names(stored_tables(database))
        finally:
            database.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes what it does not understand
        raise EvidenceError(f"{path}: damaged SQLite file ({str(error)[:200]}); copy or export it again") from error


def refuse_unmerged(path: Path) -> None:
    """Raise EvidenceError for a database beside which lies a log of changes that are not in its file, or not wholly.

    What writes it is not done, or ended in the middle. Layouts: https://sqlite.org/fileformat2.html, sections 3 and 4.
    """
    for ending, sign in _LOGS.items():
        log = path.with_name(path.name + ending)
        if _begins_with(log, sign):
            remedy = f"when what writes it has ended, open it once, as `sqlite3 {path.name} .tables` does, and name it again"
            raise EvidenceError(f"{path}: changes are in {log.name} that are not in it; {remedy}")


def _begins_with(log: Path, sign: bytes) -> bool:
    """Return whether a log is there that holds changes."""
    try:
        if not log.is_file() or log.stat().st_size <= _LOG_HEADER:
            return False
        with log.open("rb") as file:
            return file.read(len(sign)) == sign
    except OSError:
        return False


def refuse_endless(path: Path) -> None:
    """Raise EvidenceError for a pipe or a device, which reading might never come to the end of."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise EvidenceError(f"{path}: neither a file nor a folder; name a capture")


def read_head(path: Path) -> Head:
    """Return the head of a file or folder; raise EvidenceError when it cannot be read, is empty or no plain file."""
    try:
        if path.is_dir():
            return Head(path, b"")
        refuse_endless(path)
        with path.open("rb") as file:
            raw = file.read(SIZE)
            rest = file.seek(0, 2) - len(raw)
            file.seek(-min(rest, SIZE), 2)
            tail = file.read(SIZE) if rest > 0 else b""
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    if not raw:
        raise EvidenceError(f"{path}: empty; record or copy it again")
    if not packing(raw):
        return Head(path, raw, tail=tail)
    content = packed.beginning(path)[:SIZE]
    if not content:
        raise EvidenceError(f"{path}: holds nothing; record or copy it again")
    return Head(path, content, compressed=True)
