"""Write a copy of a capture in which values that look like secrets are overwritten with x, at the same length.

The copy is made under another name beside the target, which is replaced only when no finding is left in the copy. Text, CSV and
JSON keep every other byte. A database is changed through SQLite; its freed pages are overwritten and the file is rebuilt, as
deleted rows and old pages also hold values. Its triggers are removed first, so nothing in it runs.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import IO, TypeVar

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.magic import SQLITE_MAGIC, UTF16_MARKS, packing
from kernelscope.analysis.secrets import cells as secret_cells
from kernelscope.analysis.secrets import screens as secret_screens
from kernelscope.analysis.secrets import texts as secret_texts
from kernelscope.analysis.secrets.search import REPORT_MAGIC
from kernelscope.tracer.inside import durable, secret_values, temporary

_MOST_FINDINGS = 1_000_000
_MOST_UNPACKED = packed.PLAIN_SIZE  # bytes, or packed.PACKING times the packed size if that is more, as in all commands
_PASSES = 4  # overwriting one value may reveal another
_AGAIN = "the same value again"
_TABLES = (b"PAR1", b"ARROW1")  # of which a capture is a folder
_BINARY = (REPORT_MAGIC, *_TABLES, b"PK\x03\x04", b"\x80")
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_Found = TypeVar("_Found")


_ALIKE = 1 << 12  # attempts to keep the values of a UNIQUE column distinct


@dataclass(frozen=True)
class Overwrite:
    """An overwritten value that looked like a secret: size bytes."""

    place: str
    what: str
    size: int


def redact(source: Path, target: Path) -> list[Overwrite]:
    """Write a copy of source without values that look like secrets to target, replacing it; return what was overwritten.

    The source is only read. Raise EvidenceError if it cannot be read or cannot be rewritten safely (binary formats other than
    SQLite), and OSError if there is no room for the copy; the target then stays as it was.
    """
    try:
        if source.is_dir():
            raise EvidenceError(f"{source}: a folder; redact its files of text and databases, or {_advice(source)}")
        with source.open("rb") as file:
            head = file.read(1 << 16)
        if not target.parent.is_dir():
            raise EvidenceError(f"{target}: no folder {target.parent}; create it first")
        real = Path(os.path.realpath(target))
        copy = Path(temporary.made_file(temporary.beside(real.name), str(real.parent)))
        try:
            changes = _redact_database(source, copy) if head.startswith(SQLITE_MAGIC) else _redact_file(source, head, copy)
            shutil.copymode(source, copy)
            durable.replace(copy, real)
        finally:
            temporary.removed(str(copy))
    except OSError as error:
        if error.errno in _OF_WRITING:  # when copying, the error names the file that is read
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise EvidenceError(f"{error.filename or source}: {error.strerror or error}") from error
    return changes


# Files without tables


def _redact_file(source: Path, head: bytes, copy: Path) -> list[Overwrite]:
    kind, wide = packing(head), head.startswith(UTF16_MARKS)
    with secret_texts.opened(source, head) as file, copy.open("wb") as out:
        _unpack(file, out, source, kind is not None)
    with copy.open("rb") as file:
        _refuse_binary(source, file.read(1 << 16))
    if wide and _as_utf16(copy, head) != source.read_bytes():
        raise EvidenceError(f"{source}: UTF-16 text that would not stay the same; convert it to UTF-8")
    changes = _overwrite(copy, source)
    if kind:
        _pack(copy, kind)
    elif wide:
        copy.write_bytes(_as_utf16(copy, head))
    return changes


def _unpack(file: IO[bytes], out: IO[bytes], source: Path, is_packed: bool) -> None:
    """Copy content; raise EvidenceError if packed content is damaged or unpacks to an absurd size."""
    most = max(_MOST_UNPACKED, source.stat().st_size * packed.PACKING)
    size = 0
    while piece := file.read(1 << 20):
        size += len(piece)
        if is_packed and size > most:
            raise EvidenceError(f"{source}: unpacks to more than {most} bytes; unpack it first if it is a capture")
        out.write(piece)


def _refuse_binary(source: Path, head: bytes) -> None:
    """Raise EvidenceError for content that does not show where texts end: overwriting too much would break it."""
    if head.startswith(SQLITE_MAGIC):
        raise EvidenceError(f"{source}: a packed database; unpack it first")
    if packing(head) or head.startswith(_BINARY) or re.search(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]", head):
        capture = source.parent if head.startswith(_TABLES) else source
        raise EvidenceError(f"{source}: a binary file, which cannot be rewritten safely; {_advice(capture)}")


def _advice(capture: Path) -> str:
    """Return what to do with a capture that cannot be rewritten."""
    return f"share what `kernelscope import {capture} -o DIR` writes, where secrets that are recognised are overwritten"


def _as_utf16(copy: Path, head: bytes) -> bytes:
    """Return a UTF-8 file as UTF-16 in the byte order of this head."""
    order = "utf-16-le" if head.startswith(UTF16_MARKS[0]) else "utf-16-be"
    return head[:2] + copy.read_bytes().decode("utf8", "surrogatepass").encode(order, "surrogatepass")


def _pack(copy: Path, kind: str) -> None:
    """Replace a file by its packed form."""
    target = copy.with_name(f"{copy.name}.packed")
    try:
        with copy.open("rb") as file, target.open("xb") as out:
            packed.pack(file, out, kind)
        target.replace(copy)
    finally:
        target.unlink(missing_ok=True)


def _overwrite(copy: Path, source: Path) -> list[Overwrite]:
    """Overwrite findings in a text file, and the same values elsewhere in it, until there are none; return them in order."""
    result: list[tuple[int, int, str]] = []
    values: set[bytes] = set()
    for _ in range(_PASSES):
        with copy.open("rb") as file:
            hits = _few(secret_texts.hits(file, copy), source)
        new = [(hit.start, hit.end, hit.what) for hit in hits]
        _patch(copy, new)
        values.update(hit.value for hit in hits if secret_values.telling(hit.value))
        again = _few(_occurrences(copy, values), source)
        _patch(copy, again)
        if not new and not again:
            break
        result = sorted([*result, *new, *again])
    else:
        raise _stubborn(source)
    with copy.open("rb") as file:
        named = secret_texts.places(file, copy, [start for start, _, _ in result]) if result else []
    return [Overwrite(place, what, end - start) for place, (start, end, what) in zip(named, result, strict=True)]


def _few(result: Iterator[_Found], source: Path) -> list[_Found]:
    """Return findings as a list; raise EvidenceError if there are absurdly many."""
    listed = list(islice(result, _MOST_FINDINGS + 1))
    if len(listed) > _MOST_FINDINGS:
        raise EvidenceError(f"{source}: more than {_MOST_FINDINGS} findings; look at the file, it cannot be a capture")
    return listed


def _stubborn(source: Path) -> EvidenceError:
    return EvidenceError(
        f"{source}: after {_PASSES} passes something still looks like a secret; nothing was written, do not share it"
    )


def _patch(copy: Path, places: list[tuple[int, int, str]]) -> None:
    if not places:
        return
    with copy.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for start, end, _ in places:
            content[start:end] = b"x" * (end - start)


def _occurrences(path: Path, values: set[bytes]) -> Iterator[tuple[int, int, str]]:
    """Yield where these values occur in a file's bytes."""
    for screen, exact in _searches(values):
        reached = 0
        with path.open("rb") as file:
            for start, data, _ in secret_texts.blocks(file, path):
                for low, high in secret_screens.suspicious(data, [screen]):
                    for match in exact.finditer(data, low, high):
                        if start + match.start() >= reached:
                            reached = start + match.end()
                            yield start + match.start(), reached, _AGAIN


def _searches(values: set[bytes]) -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """Yield patterns for some of the values at a time: a fast one that finds their beginnings, and an exact one."""
    ordered = sorted(values, key=lambda value: (-len(value), value))
    for some in (ordered[start : start + 200] for start in range(0, len(ordered), 200)):
        beginnings = sorted({re.escape(value[:100].decode("ascii")) for value in some})
        yield "|".join(beginnings), re.compile(b"|".join(map(re.escape, some)))


# Databases


def _redact_database(source: Path, copy: Path) -> list[Overwrite]:
    for suffix in ("-wal", "-journal"):
        beside = source.with_name(source.name + suffix)
        if beside.exists() and beside.stat().st_size:
            raise EvidenceError(f"{source}: {beside.name} holds pending changes; open the file once with sqlite3, then redact it")
    shutil.copyfile(source, copy)
    try:
        with closing(_writable(copy)) as database:
            changes, values = _change_cells(database, source)
            database.execute("VACUUM")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise EvidenceError(f"{source}: cannot be rewritten ({secret_values.shown(str(error), 200)}); export it again") from error
    if next(_occurrences(copy, values), None):
        raise EvidenceError(f"{source}: a secret value is left outside the tables' cells; nothing was written, do not share it")
    return changes


def _writable(copy: Path) -> sqlite3.Connection:
    """Open the copy so that nothing in it runs, and no overwritten value stays on its freed pages."""
    size = copy.stat().st_size
    database = secret_cells.prepared(
        sqlite3.connect(copy, isolation_level=None), size, most_cell=max(1 << 24, min(size, 1 << 30))
    )
    for setting in (
        "trusted_schema = OFF", "journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF", "secure_delete = ON",
        "foreign_keys = OFF", "ignore_check_constraints = ON", "cell_size_check = ON",
    ):  # fmt: skip
        database.execute(f"PRAGMA {setting}").fetchall()
    return database


def _change_cells(database: sqlite3.Connection, source: Path) -> tuple[list[Overwrite], set[bytes]]:
    """Overwrite findings in cells, and the same values in other cells, until there are none; return them, and the values."""
    changes: list[Overwrite] = []
    values: set[bytes] = set()
    for _ in range(_PASSES):
        hits = _few(secret_cells.screened(secret_cells.all_cells(database), source, thorough=True), source)
        changes += _write(database, source, hits, not changes)
        values.update(hit.value for hit in hits if secret_values.telling(hit.value))
        again = _few(_cells_with(database, values), source)
        changes += _write(database, source, again, not changes)
        if not hits and not again:
            break
    else:
        raise _stubborn(source)
    for name, text in database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
        if isinstance(text, bytes) and secret_values.spans(text):
            what = secret_values.shown(str(name, "utf8", "replace"))
            raise EvidenceError(f"{source}: {what}: its definition holds what looks like a secret; do not share it")
    return changes, values


def _cells_with(database: sqlite3.Connection, values: set[bytes]) -> Iterator[secret_cells.CellHit]:
    """Yield where these values occur in cells."""
    for screen, exact in _searches(values):
        for cells in secret_cells.all_cells(database):
            for place in secret_screens.suspicious_values([cell.value for cell in cells], [screen]):
                cell = cells[place]
                for match in exact.finditer(cell.value):
                    yield secret_cells.CellHit(cell.table, cell.row, cell.column, *match.span(), _AGAIN, match[0])


def _write(database: sqlite3.Connection, source: Path, hits: list[secret_cells.CellHit], first: bool) -> list[Overwrite]:
    """Overwrite findings in cells; before the first of them, remove triggers. Return what was done."""
    changes = _drop_triggers(database, source) if hits and first else []
    for _, group in groupby(hits, key=lambda hit: (hit.table, hit.row, hit.column)):
        result = list(group)
        _rewrite_cell(database, source, result)
        changes += [Overwrite(hit.place, hit.what, hit.end - hit.start) for hit in result]
    return changes


def _drop_triggers(database: sqlite3.Connection, source: Path) -> list[Overwrite]:
    if database.execute("PRAGMA encoding").fetchone()[0] != b"UTF-8":
        raise EvidenceError(f"{source}: a database in UTF-16; dump it and load it into a new one")
    names = [str(row[0], "utf8") for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()]
    for name in names:
        database.execute(f"DROP TRIGGER {secret_cells.quoted(name)}")
    return [Overwrite(f"trigger {secret_values.shown(name)}", "removed, as it would run", 0) for name in names]


def _rewrite_cell(database: sqlite3.Connection, source: Path, hits: list[secret_cells.CellHit]) -> None:
    """Overwrite findings in one cell, whose value keeps its type and its other bytes."""
    table, row, column, *_ = hits[0]
    key = secret_cells.columns(database, table).rewritable(source, table)
    name, cell = secret_cells.quoted(column), f"{secret_cells.quoted(table)} WHERE {key} = ?"
    content, kind = database.execute(f"SELECT CAST({name} AS BLOB), typeof({name}) FROM {cell}", (row,)).fetchone()  # noqa: S608
    value = "CAST(? AS TEXT)" if kind == b"text" else "?"
    for number in range(_ALIKE):
        new = bytearray(content)
        for hit in hits:
            new[hit.start : hit.end] = _crosses(hit.end - hit.start, number)
        try:
            database.execute(f"UPDATE {secret_cells.quoted(table)} SET {name} = {value} WHERE {key} = ?", (bytes(new), row))  # noqa: S608
        except sqlite3.IntegrityError:
            continue  # a UNIQUE column that had another secret of this length
        return
    raise _stubborn(source)


def _crosses(length: int, number: int) -> bytes:
    """Return the replacement for a secret: a row of x whose last ones encode a number in binary, with X for 1."""
    return f"{number:0{length}b}"[-length:].encode().translate(bytes.maketrans(b"01", b"xX"))
