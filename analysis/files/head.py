"""The beginning of a file, from which its format is recognised."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.magic import SQLITE_MAGIC, UTF16_MARKS, container, packing
from kernelscope.analysis.files.quoting import unquoted
from kernelscope.analysis.files.sqlite_names import Names, stored_tables

SIZE = 1 << 16
_MOST_STEPS = 10_000_000  # of SQLite's virtual machine: about a second


@dataclass(frozen=True)
class Head:
    """The data by which formats are recognised. content: the first SIZE bytes, unpacked if packed; empty for a folder.

    tail: the last SIZE bytes of a larger plain file, as tools print their tables after the program's output.
    """

    path: Path
    content: bytes = field(repr=False)
    compressed: bool = False
    tail: bytes = field(default=b"", repr=False)

    @cached_property
    def text(self) -> str:
        """Beginning and end as text, with invalid UTF-8 replaced; also reads UTF-16 (as PowerShell redirects output)."""
        if self.is_utf16:
            return self.content.decode("utf-16", errors="replace")
        both = self.content + b"\n" + self.tail if self.tail and b"\x00" not in self.tail else self.content
        return both.decode("utf8", errors="replace").removeprefix("\ufeff")

    @cached_property
    def tables_text(self) -> str:
        """The text without marks of comments or quotations before its lines, for formats of printed tables."""
        return unquoted(self.text)

    @cached_property
    def is_text(self) -> bool:
        """Whether the content may be text: it has no zero bytes, unless it is UTF-16."""
        return self.is_utf16 or b"\x00" not in self.content

    @property
    def is_utf16(self) -> bool:
        """Whether the content begins like UTF-16 text."""
        return self.content.startswith(UTF16_MARKS)

    @property
    def container(self) -> str:
        """The container, packed or not, by its first bytes: a key of magic.CONTAINERS, "folder", or "file" for any other."""
        if not self.content:
            return "folder"  # no file is empty
        return container(self.content) or "file"

    @cached_property
    def tables(self) -> Names:
        """The names of a SQLite database's own tables (no views, no virtual tables); empty for other files."""
        if not self.content.startswith(SQLITE_MAGIC):
            return Names()
        with packed.plain_file(self.path) as path:
            return _tables(path)

    @cached_property
    def entries(self) -> frozenset[str]:
        """The names in a folder; empty for a file."""
        return frozenset(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else frozenset()


# Logs of changes to databases: endings of their names, and their first bytes; merged logs begin with zeros
_LOGS = {"-wal": b"\x37\x7f\x06", "-journal": b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"}
_LOG_HEADER = 32  # bytes; a log that is not longer holds no changes


def _tables(path: Path) -> Names:
    """Return the names of a database's own tables; raise EvidenceError if they cannot be read."""
    refuse_unmerged(path)
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        database.set_progress_handler(lambda: 1, _MOST_STEPS)  # no capture has a schema that takes longer
        database.text_factory = lambda raw: raw.decode("utf8", errors="replace")
        try:
            return Names(stored_tables(database))
        finally:
            database.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes the SQL in its errors
        raise EvidenceError(f"{path}: damaged SQLite file ({str(error)[:200]}); copy or export it again") from error


def refuse_unmerged(path: Path) -> None:
    """Raise EvidenceError for a database with a log beside it whose changes are not, or not all, in its file.

    Its writer is still running, or was interrupted. Layouts: https://sqlite.org/fileformat2.html, sections 3 and 4.
    """
    for ending, sign in _LOGS.items():
        log = path.with_name(path.name + ending)
        if _begins_with(log, sign):
            remedy = f"when its writer has ended, run `sqlite3 {path.name} .tables` once and try again"
            raise EvidenceError(f"{path}: {log.name} holds changes that are not in it; {remedy}")


def _begins_with(log: Path, sign: bytes) -> bool:
    """Return whether the log exists and holds changes."""
    try:
        if not log.is_file() or log.stat().st_size <= _LOG_HEADER:
            return False
        with log.open("rb") as file:
            return file.read(len(sign)) == sign
    except OSError:
        return False


def refuse_endless(path: Path) -> None:
    """Raise EvidenceError for a pipe or a device, as reading it may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise EvidenceError(f"{path}: neither a file nor a folder; name a capture")


def read_head(path: Path) -> Head:
    """Return the head of a file or folder; raise EvidenceError if it cannot be read, is empty, or is neither."""
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
        raise EvidenceError(f"{path}: packed, but empty; record or copy it again")
    return Head(path, content, compressed=True)
