"""Reader of SQLite tables directly from the pages of the file, one column at a time.

SQL engines return rows one by one, which takes seconds for tens of millions; here numpy decodes whole pages. Nothing in the
file is ever run: views, triggers and virtual tables are only names. Layout: https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import numpy as np

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import refuse_unmerged
from kernelscope.analysis.files.magic import SQLITE_MAGIC
from kernelscope.analysis.files.sqlite_names import Names, folded, stored_tables
from kernelscope.analysis.files.sqlite_records import (
    PADDING,
    Batch,
    Bytes,
    Cells,
    Integers,
    RecordsFile,
    StoredColumn,
    read,
    skip_varints,
    varints,
)

_HEADER = 100
_LEAF, _INTERIOR = 0x0D, 0x05
_MAX_DEPTH = 20
_BATCH_BYTES = 1 << 20
_MANY = 200  # batches in a table from which on two threads decode it
_SCHEMA_STEPS = 5_000_000  # of SQLite's virtual machine, to read the schema: far more than any export needs
_ENCODINGS = {1: "utf8", 2: "utf-16-le", 3: "utf-16-be"}

T = TypeVar("T")


class _StoredTable(NamedTuple):
    root: int
    names: Names  # of its columns
    columns: dict[str, StoredColumn]  # by folded name


class Database:
    """A SQLite file's own tables. Use as a context manager; raises EvidenceError if the file is another or is damaged.

    Names of tables and columns are looked up in any case. tables: the names of the tables stored in the file, without views and
    virtual tables.
    """

    def __init__(self, path: Path):
        self.path = path
        self._tables: dict[str, _StoredTable] = {}
        self._pages: dict[str, Integers] = {}
        refuse_unmerged(path)
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise EvidenceError(f"{path}: {error.strerror or error}") from error
        self._catalogue: sqlite3.Connection | None = None
        try:
            self._read_header()
            stored = self._schema(stored_tables)
            self.tables = Names(stored)
            self._roots = {folded(name): page for name, page in stored.items()}
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        self._file.close()
        if self._catalogue:
            self._catalogue.close()

    def columns(self, table: str) -> Names:
        """Return the names of a table's columns; empty if there is no such table."""
        return self._table(table).names if table in self.tables else Names()

    def rows(self, table: str) -> int:
        """Return an upper bound on the table's number of rows, from their row ids, which ascend mostly without gaps."""
        if table not in self.tables:
            return 0
        leaves = self._leaves(table)
        decoder = _Decoder(self, table, {})
        first, last = decoder.numbers(leaves[:1]), decoder.numbers(leaves[-1:])
        fit = leaves.size * (self.usable // 4)  # a row needs four bytes, and its offset two
        return min(int(last[-1]) - int(first[0]) + 1, fit) if first.size and last.size else fit

    def scan(self, table: str, columns: Sequence[str], convert: Callable[[Batch], T]) -> Iterator[T]:
        """Yield the result of `convert` for each batch of rows, in the table's order.

        Columns that the table lacks are null; a table that does not exist has no rows.
        """
        if table not in self.tables:
            return
        known = self._table(table).columns
        wanted = {name: known[folded(name)] for name in columns if folded(name) in known}
        leaves = self._leaves(table)
        step = max(1, _BATCH_BYTES // self._page_size)
        parts = [leaves[start : start + step] for start in range(0, leaves.size, step)]

        def work(part: Integers) -> T:
            return convert(_Decoder(self, table, wanted).decode(part))

        if len(parts) < _MANY:  # contention for the interpreter would cost as much as threads gain
            yield from map(work, parts)
            return
        with ThreadPoolExecutor(2) as pool:
            waiting = deque(pool.submit(work, part) for part in parts[:4])
            try:
                for part in parts[4:]:
                    done = waiting.popleft().result()
                    waiting.append(pool.submit(work, part))
                    yield done
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def damaged(self, table: str, what: str) -> EvidenceError:
        """Return the error for a table with damaged pages."""
        return self.source.damaged(table, what)

    def _read_header(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        header = os.pread(self._file.fileno(), _HEADER, 0)
        if len(header) < _HEADER or not header.startswith(SQLITE_MAGIC):
            raise EvidenceError(f"{self.path}: not a SQLite file; name an SQLite export")
        self._page_size = int.from_bytes(header[16:18], "big")
        self._page_size = 1 << 16 if self._page_size == 1 else self._page_size
        self.usable = self._page_size - header[20]
        if self._page_size not in {1 << bits for bits in range(9, 17)} or self.usable < 480:
            raise EvidenceError(f"{self.path}: damaged SQLite header; copy or export it again")
        self.page_count = size // self._page_size
        stated, current = int.from_bytes(header[28:32], "big"), header[24:28] == header[92:96]
        if current and stated > self.page_count:
            raise EvidenceError(f"{self.path}: cut short: {self.page_count} of {stated} pages are there; copy or export it again")
        self.source = RecordsFile(self.path, _ENCODINGS.get(int.from_bytes(header[56:60], "big"), "utf8"))

    def _schema(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of a query on the schema. SQLite parses it; no table's rows are read."""
        try:
            if not self._catalogue:  # one connection for all queries, as SQLite parses the whole schema for the first one
                self._catalogue = sqlite3.connect(
                    f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
                )
                self._catalogue.text_factory = lambda raw: raw.decode("utf8", errors="replace")
                self._catalogue.set_progress_handler(lambda: 1, _SCHEMA_STEPS)
            return ask(self._catalogue)
        except UnicodeDecodeError as error:  # SQLite quotes the schema in its errors
            raise EvidenceError(f"{self.path}: damaged SQLite file (unreadable schema); copy or export it again") from error
        except sqlite3.Error as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise EvidenceError(f"{self.path}: damaged SQLite file ({reason}); copy or export it again") from error

    def _table(self, name: str) -> _StoredTable:
        if name not in self._tables:
            described = "SELECT cid, name, upper(type), pk, hidden, dflt_value FROM pragma_table_xinfo(?)"
            columns = self._schema(lambda database: database.execute(described, (name,)).fetchmany(100_000))
            if any(hidden for *_, hidden, _ in columns):
                raise EvidenceError(f"{self.path}: table {name} has computed columns, which no profiler writes; record it again")
            keys = sum(1 for _, _, _, key, _, _ in columns if key)
            self._tables[name] = _StoredTable(
                int(self._roots[folded(name)]),
                Names(column for _, column, *_ in columns),
                {
                    folded(column): StoredColumn(position, bool(key) and keys == 1 and kind == "INTEGER")
                    for position, column, kind, key, _, _ in columns
                },
            )
        return self._tables[name]

    def _leaves(self, table: str) -> Integers:
        """Return the numbers of the table's leaf pages, in order of rows."""
        if table not in self._pages:
            self._pages[table] = self._descended(table)
        return self._pages[table]

    def _descended(self, table: str) -> Integers:
        """Descend from the root, level by level; all leaves are at the same depth."""
        level = np.array([self._table(table).root], dtype=np.int64)
        for _ in range(_MAX_DEPTH):
            if level.min() < 1 or level.max() > self.page_count:
                raise self.damaged(table, "a page is missing")
            seen = np.zeros(self.page_count + 1, dtype=np.bool_)
            seen[level] = True
            if np.count_nonzero(seen) != level.size:
                raise self.damaged(table, "a page is used twice")
            if self.pages(level[:1], table)[0] == _LEAF:
                return level
            children = []
            step = max(1, _BATCH_BYTES // self._page_size)
            for start in range(0, level.size, step):
                part = level[start : start + step]
                children += list(self._children(self.pages(part, table)[: part.size * self._page_size], table))
            level = np.concatenate(children)
        raise self.damaged(table, "pages are nested too deep")

    def _children(self, flat: Bytes, table: str) -> Iterator[Integers]:
        for page in flat.reshape(-1, self._page_size):
            count = int(page[3]) << 8 | int(page[4])
            if page[0] != _INTERIOR or 12 + 2 * count > self.usable:
                raise self.damaged(table, "a page does not belong to a table")
            cells = page[12 : 12 + 2 * count].view(">u2").astype(np.int64)
            if count and cells.max() > self.usable - 4:
                raise self.damaged(table, "a page points outside itself")
            at = np.append(cells, 8)  # the last child is in the page's header
            yield page[at[:, None] + np.arange(4)].view(">u4").ravel().astype(np.int64)

    def pages(self, numbers: Integers, table: str) -> Bytes:
        """Return the bytes of these pages, concatenated and padded; runs of neighbours are read at once."""
        size = self._page_size
        flat = np.empty(numbers.size * size + PADDING, dtype=np.uint8)
        flat[-PADDING:] = 0
        view = memoryview(flat)  # type: ignore[arg-type]
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        for start, end in zip([0, *breaks.tolist()], [*breaks.tolist(), numbers.size], strict=True):
            try:
                got = os.preadv(self._file.fileno(), [view[start * size : end * size]], (int(numbers[start]) - 1) * size)
            except OSError as error:
                raise EvidenceError(f"{self.path}: {error.strerror or error}") from error
            if got != (end - start) * size:
                raise self.damaged(table, "a page is missing")
        return flat

    @property
    def page_size(self) -> int:
        """The size of a page in bytes."""
        return self._page_size


class _Decoder:
    """Decodes leaf pages of one table into columns."""

    def __init__(self, database: Database, table: str, columns: dict[str, StoredColumn]):
        self._database = database
        self._table = table
        self._columns = columns

    def _damaged(self, what: str) -> EvidenceError:
        return self._database.damaged(self._table, what)

    def decode(self, leaves: Integers) -> Batch:
        flat = self._database.pages(leaves, self._table)
        cells = self._cells(flat, leaves.size)
        if not cells.size:
            return Batch(0, {})
        needs_rows = any(column.row_id for column in self._columns.values())
        length, at = varints(flat, cells)
        rows, record = varints(flat, at) if needs_rows else (None, skip_varints(flat, at))
        if length.min() < 0 or length.max() > self._database.page_count * self._database.page_size:
            raise self._damaged("a row is longer than the file")
        flat, record = self._gathered(flat, record, length)
        return read(self._database.source, self._table, self._columns, flat, Cells(record, length, rows))

    def numbers(self, leaves: Integers) -> Integers:
        """Return the row ids."""
        flat = self._database.pages(leaves, self._table)
        _, at = varints(flat, self._cells(flat, leaves.size))
        return varints(flat, at)[0]

    def _cells(self, flat: Bytes, count: int) -> Integers:
        """Return where the rows begin."""
        size, usable = self._database.page_size, self._database.usable
        pages = flat[: count * size].reshape(count, size)
        if (pages[:, 0] != _LEAF).any():
            raise self._damaged("a page does not belong to a table")
        counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
        widest = int(counts.max())
        if 8 + 2 * widest > usable:
            raise self._damaged("a page holds more rows than fit")
        within = np.arange(widest) < counts[:, None]
        offsets = pages[:, 8 : 8 + 2 * widest].view(">u2")[within].astype(np.int64)
        if offsets.size and (offsets.min() < 8 or offsets.max() > usable - 4):
            raise self._damaged("a page points outside itself")
        return offsets + np.repeat(np.arange(count) * size, counts)

    def _gathered(self, flat: Bytes, record: Integers, length: Integers) -> tuple[Bytes, Integers]:
        """Return bytes in which every record is contiguous, and where each begins: long records continue on other pages."""
        page_size, usable = self._database.page_size, self._database.usable
        page = record & -page_size
        long = np.flatnonzero(length > usable - 35)
        least = (usable - 12) * 32 // 255 - 23
        local = length.copy()
        kept = least + (length[long] - least) % (usable - 4)
        local[long] = np.where(kept <= usable - 35, kept, least)
        stop = record - page + local
        if stop.max() > usable or (long.size and stop[long].max() > usable - 4):
            raise self._damaged("a row reaches beyond its page")
        if not long.size:
            return flat, record
        pieces, end = [flat[:-PADDING]], flat.size - PADDING
        record = record.copy()
        for row in long.tolist():  # rows longer than a page are few
            begin = int(record[row])
            whole = self._whole(flat[begin : begin + int(local[row]) + 4], int(length[row]))
            record[row] = end
            end += whole.size
            pieces.append(whole)
        return np.concatenate([*pieces, np.zeros(PADDING, dtype=np.uint8)]), record

    def _whole(self, start: Bytes, length: int) -> Bytes:
        """Return a record from its beginning, which ends with the number of the first overflow page, and the chain of pages."""
        pieces, missing = [start[:-4]], length - (start.size - 4)
        link = start[-4:]
        while missing > 0:
            number = int.from_bytes(link.tobytes(), "big")
            if not 1 <= number <= self._database.page_count:
                raise self._damaged("a page is missing")
            page = self._database.pages(np.array([number]), self._table)
            pieces.append(page[4 : 4 + min(missing, self._database.usable - 4)])
            missing -= pieces[-1].size
            link = page[:4]
        return np.concatenate(pieces)
