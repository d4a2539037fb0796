"""Reader of SQLite tables straight from the pages of the file, a column at a time.

SQL engines hand out rows one by one, which costs seconds for tens of millions; here whole pages are decoded by numpy. Nothing in
the file is ever run: views, triggers and virtual tables are only names. Layout: https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import refuse_unmerged
from kernelscope.analysis.files.magic import SQLITE_MAGIC
from kernelscope.analysis.files.sqlite_names import Names, folded, stored_tables

_HEADER = 100
_LEAF, _INTERIOR = 0x0D, 0x05
_MAX_DEPTH = 20
_BATCH_BYTES = 1 << 20
_WINDOW = 64  # bytes of each record's beginning, fetched at once: where records are laid out alike, columns are slices of it
_PADDING = _WINDOW + 16  # so that no fetch ends beyond the last page
_MANY = 200  # batches of a table that two threads decode at a time
_SCHEMA_STEPS = 5_000_000  # of SQLite's machine, for reading the schema: far more than any export needs
_ENCODINGS = {1: "utf8", 2: "utf-16-le", 3: "utf-16-be"}

# Serial types of a record: bytes of the value, and the shift that brings a big-endian value down from 64 bits.
_NULL, _FLOAT, _ZERO, _ONE, _FIRST_BLOB, _FIRST_TEXT = 0, 7, 8, 9, 12, 13
_SIZE = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0] + [(code - 12) // 2 for code in range(12, 128)], dtype=np.int64)
_SHIFT = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0], dtype=np.int64)

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Texts = Any  # a pa.DictionaryArray of large strings
Offset = int | Integers  # one number where it is that of all rows
Codes = int | NDArray[Any]
T = TypeVar("T")


class _Column(NamedTuple):
    position: int
    row_id: bool  # INTEGER PRIMARY KEY: the record holds null and the row's number is the value


class _StoredTable(NamedTuple):
    root: int
    names: Names  # of its columns
    columns: dict[str, _Column]  # by folded name


class Batch:
    """Some consecutive rows of a table. `size`: how many."""

    def __init__(self, size: int, columns: dict[str, _Values]):
        self.size = size
        self._columns = columns
        self._integers: dict[str, tuple[Integers, Mask | None]] = {}

    def integers(self, name: str) -> tuple[Integers, Mask | None]:
        """Return a column's integers (0 where null) and which are null, None if none is.

        A column that the table does not have is all null. Raises EvidenceError where a value is no integer.
        """
        if name not in self._integers:
            values = self._columns.get(name)
            absent = np.zeros(self.size, dtype=np.int64), np.ones(self.size, dtype=np.bool_)
            self._integers[name] = absent if values is None else values.integers()
        return self._integers[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column's numbers, NaN where null; raise EvidenceError where a value is no number."""
        values = self._columns.get(name)
        return np.full(self.size, np.nan) if values is None else values.numbers()

    def texts(self, name: str) -> Texts | None:
        """Return a column's texts (blobs too, as text), or None when all are null; raise EvidenceError where one is a number."""
        values = self._columns.get(name)
        return None if values is None else values.texts()

    def blobs(self, name: str) -> list[bytes]:
        """Return a column's bytes, none of its rows being of another type."""
        return self._columns[name].blobs()

    def of_type(self, name: str, kind: str) -> Mask:
        """Return which rows hold an integer, text or blob; a column that the table does not have holds none."""
        values = self._columns.get(name)
        return np.zeros(self.size, dtype=np.bool_) if values is None else values.of_type(kind)

    def only(self, keep: Mask) -> Batch:
        """Return the rows that a mask keeps, which must be some."""
        return Batch(int(np.count_nonzero(keep)), {name: values.only(keep) for name, values in self._columns.items()})

    def texts_at(self, name: str, rows: Integers) -> list[str]:
        """Return a column's texts in a few rows, without pyarrow; what is no text there is left out."""
        values = self._columns.get(name)
        return [] if values is None else values.texts_at(rows)


class Database:
    """A SQLite file's own tables. Use as a context manager; raises EvidenceError for whatever is not one or is damaged.

    Names of tables and columns are found in whatever case they are asked for. tables: of those stored in the file; views and
    virtual tables are none.
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
        """Names of a table's columns; none if there is no such table."""
        return self._table(table).names if table in self.tables else Names()

    def rows(self, table: str) -> int:
        """Return how many rows the table has at most: their numbers ascend, mostly without gaps."""
        if table not in self.tables:
            return 0
        leaves = self._leaves(table)
        decoder = _Decoder(self, table, {})
        first, last = decoder.numbers(leaves[:1]), decoder.numbers(leaves[-1:])
        fit = leaves.size * (self.usable // 4)  # a row needs four bytes and its place two
        return min(int(last[-1]) - int(first[0]) + 1, fit) if first.size and last.size else fit

    def scan(self, table: str, columns: Sequence[str], convert: Callable[[Batch], T]) -> Iterator[T]:
        """Yield what `convert` makes of each batch of rows, in the table's order.

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

        if len(parts) < _MANY:  # threads would lose by contention for the interpreter what they win
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
        """Return the error for a table whose pages do not hold what they should."""
        return EvidenceError(f"{self.path}: table {table}: {what}: the file is damaged or cut short; copy or export it again")

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
        self.encoding = _ENCODINGS.get(int.from_bytes(header[56:60], "big"), "utf8")

    def _schema(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Return what is asked of the schema. SQLite parses it; no table's rows are read."""
        try:
            if not self._catalogue:  # one for all queries: SQLite parses the whole schema for the first one
                self._catalogue = sqlite3.connect(
                    f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
                )
                self._catalogue.text_factory = lambda raw: raw.decode("utf8", errors="replace")
                self._catalogue.set_progress_handler(lambda: 1, _SCHEMA_STEPS)
            return ask(self._catalogue)
        except UnicodeDecodeError as error:  # SQLite quotes what it does not understand
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
                    folded(column): _Column(position, bool(key) and keys == 1 and kind == "INTEGER")
                    for position, column, kind, key, _, _ in columns
                },
            )
        return self._tables[name]

    def _leaves(self, table: str) -> Integers:
        """Return the numbers of the table's leaf pages in the order of the rows."""
        if table not in self._pages:
            self._pages[table] = self._descended(table)
        return self._pages[table]

    def _descended(self, table: str) -> Integers:
        """Go down from the root, level by level. All leaves are equally deep."""
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
                raise self.damaged(table, "a page is none of a table")
            cells = page[12 : 12 + 2 * count].view(">u2").astype(np.int64)
            if count and cells.max() > self.usable - 4:
                raise self.damaged(table, "a page points outside of itself")
            at = np.append(cells, 8)  # the last child stands in the page's head
            yield page[at[:, None] + np.arange(4)].view(">u4").ravel().astype(np.int64)

    def pages(self, numbers: Integers, table: str) -> Bytes:
        """Return the bytes of these pages one after another, and some padding; runs of neighbours are read at once."""
        size = self._page_size
        flat = np.empty(numbers.size * size + _PADDING, dtype=np.uint8)
        flat[-_PADDING:] = 0
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
        """Bytes of a page."""
        return self._page_size


class _Decoder:
    """Decodes leaf pages of one table into columns."""

    def __init__(self, database: Database, table: str, columns: dict[str, _Column]):
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
        length, at = _varints(flat, cells)
        rows, record = _varints(flat, at) if needs_rows else (None, _skip_varints(flat, at))
        if length.min() < 0 or length.max() > self._database.page_count * self._database.page_size:
            raise self._damaged("a row is longer than the file")
        flat, record = self._gathered(flat, record, length)
        return self._record_columns(flat, record, length, rows)

    def numbers(self, leaves: Integers) -> Integers:
        """Return the rows' numbers."""
        flat = self._database.pages(leaves, self._table)
        _, at = _varints(flat, self._cells(flat, leaves.size))
        return _varints(flat, at)[0]

    def _cells(self, flat: Bytes, count: int) -> Integers:
        """Return where the rows begin."""
        size, usable = self._database.page_size, self._database.usable
        pages = flat[: count * size].reshape(count, size)
        if (pages[:, 0] != _LEAF).any():
            raise self._damaged("a page is none of a table")
        counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
        widest = int(counts.max())
        if 8 + 2 * widest > usable:
            raise self._damaged("a page holds more rows than fit")
        within = np.arange(widest) < counts[:, None]
        offsets = pages[:, 8 : 8 + 2 * widest].view(">u2")[within].astype(np.int64)
        if offsets.size and (offsets.min() < 8 or offsets.max() > usable - 4):
            raise self._damaged("a page points outside of itself")
        return offsets + np.repeat(np.arange(count) * size, counts)

    def _gathered(self, flat: Bytes, record: Integers, length: Integers) -> tuple[Bytes, Integers]:
        """Return bytes in which every record is in one piece, and where each begins: long ones continue on other pages."""
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
        pieces, end = [flat[:-_PADDING]], flat.size - _PADDING
        record = record.copy()
        for row in long.tolist():  # rows longer than a page are few
            begin = int(record[row])
            whole = self._whole(flat[begin : begin + int(local[row]) + 4], int(length[row]))
            record[row] = end
            end += whole.size
            pieces.append(whole)
        return np.concatenate([*pieces, np.zeros(_PADDING, dtype=np.uint8)]), record

    def _whole(self, start: Bytes, length: int) -> Bytes:
        """Return a record from its beginning and the chain of pages whose first number follows it."""
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

    def _record_columns(self, flat: Bytes, record: Integers, length: Integers, rows: Integers | None) -> Batch:
        """Walk through the records' headers, all rows at once, and remember where the values of wanted columns are.

        Offsets count from the record's beginning; one number stands for all rows as long as they are laid out alike.
        """
        records = _Records(flat, record)
        header, at = records.varints(0)
        stop: Offset = _alike(header)
        data: Offset = stop
        shortest = int(length.min())
        if _beyond(at, stop) or _beyond(stop, length):
            raise self._damaged("a row's head is longer than the row")
        wanted = {column.position: name for name, column in self._columns.items()}
        result: dict[str, _Values] = {}
        for position in range(max(wanted, default=-1) + 1):
            code, after = records.codes(at)
            if _beyond(at + 1, stop):  # columns that were added after the row was written
                short = at >= stop
                code, after = np.where(short, _NULL, code), np.where(short, stop, after)
            at = after
            if _least(code) < 0 or _beyond(at, stop):
                raise self._damaged("a row's head is longer than the row")
            if position in wanted:
                name = wanted[position]
                given = rows if self._columns[name].row_id else None
                result[name] = _Values(self._database, f"{self._table}, column {name}", records, code, data, given)
            data = data + _sizes(code)
            if _beyond(data, shortest if isinstance(data, int) else length):
                raise self._damaged("a value is longer than its row")
        return Batch(record.size, result)


class _Records:
    """Records in some bytes: what stands at an offset from the beginning of each."""

    def __init__(self, flat: Bytes, start: Integers):
        self.flat = flat
        self.start = start
        self._alike: dict[int, bool] = {}
        self._window: Bytes = _windows(flat, _WINDOW)[start].view(np.uint8).reshape(start.size, _WINDOW)

    def codes(self, offset: Offset) -> tuple[Codes, Offset]:
        """Return the serial type at the offset of each, one number where all are alike, and the offsets after them."""
        if isinstance(offset, int) and offset < _WINDOW:
            if self._eight_alike(offset // 8) and self._window[0, offset] < 128:
                return int(self._window[0, offset]), offset + 1
            codes: NDArray[Any] = self._window[:, offset].copy()  # side by side: they are looked at several times
        else:
            codes = self.flat[self.start + offset]
        if codes.max() >= 128:
            codes, after = self.varints(offset)
            return _alike(codes), after
        return _alike(codes), offset + 1

    def _eight_alike(self, index: int) -> bool:
        """Return whether eight bytes of the window are the same in all records: mostly eight types of columns are."""
        if index not in self._alike:
            words = self._window.view(np.uint64)[:, index]
            self._alike[index] = bool((words == words[0]).all())
        return self._alike[index]

    def words(self, offset: Offset, kind: str) -> NDArray[Any]:
        """Return the eight bytes from the offset of each on, as numbers of this kind."""
        if isinstance(offset, int) and offset <= _WINDOW - 8:
            return np.ndarray(self.start.shape, kind, buffer=self._window, offset=offset, strides=(_WINDOW,))
        words: NDArray[Any] = _windows(self.flat, 8)[self.start + offset].view(kind)
        return words

    def varints(self, offset: Offset) -> tuple[Integers, Offset]:
        """Return the integers of one to nine bytes at the offset of each, and the offsets after them."""
        values, after = _varints(self.flat, self.start + offset)
        return values, _alike(after - self.start)


def _windows(flat: Bytes, size: int) -> NDArray[Any]:
    """Return the `size` bytes from each byte on, without copying."""
    return np.ndarray((flat.size - size + 1,), dtype=f"V{size}", buffer=flat, strides=(1,))


def _least(numbers: Offset | Codes) -> int:
    """Return the smallest of the numbers."""
    return numbers if isinstance(numbers, int) else int(numbers.min())


def _beyond(at: Offset, end: Offset) -> bool:
    """Return whether an offset is beyond its end in any row."""
    return at > _least(end) if isinstance(at, int) else bool((at > end).any())


def _alike(numbers: NDArray[Any]) -> Any:
    """Return the one number that all are, if so."""
    low = int(numbers.min())
    return low if low == int(numbers.max()) else numbers


def _sizes(code: Codes) -> Any:
    """Return how many bytes values of these serial types have."""
    if isinstance(code, int):
        return int(_SIZE[code]) if code < 128 else (code - 12) // 2
    return _SIZE.take(code) if code.max() < 128 else np.where(code < 12, _SIZE.take(np.minimum(code, 12)), (code - 12) // 2)


class _Values:
    """Values of one column in some rows: serial types and offsets, from which they are taken as asked."""

    def __init__(self, database: Database, place: str, records: _Records, code: Codes, at: Offset, rows: Integers | None):
        self._database = database
        self._place = place
        self._records = records
        self._size = records.start.size
        self._code = code
        self._at = at
        self._rows = rows

    def integers(self) -> tuple[Integers, Mask | None]:
        code = self._code
        if isinstance(code, int):
            return self._alike_integers(code)
        highest = int(code.max())
        if highest > _ONE or (highest >= _FLOAT and (code == _FLOAT).any()):
            raise self._wrong("not an integer")
        values = self._words(">i8").astype(np.int64)
        values >>= _SHIFT.take(code)
        if highest < _FLOAT and code.min() > _NULL:
            return values, None
        null = code == _NULL
        values[null | (code == _ZERO)] = 0
        values[code == _ONE] = 1
        return values, null if null.any() else None

    def _alike_integers(self, code: int) -> tuple[Integers, Mask | None]:
        if code > _ONE or code == _FLOAT:
            raise self._wrong("not an integer")
        if code == _NULL:
            none = np.zeros(self._size, dtype=np.int64)
            return (none, np.ones(self._size, dtype=np.bool_)) if self._rows is None else (self._rows, None)
        if code >= _ZERO:
            return np.full(self._size, code - _ZERO, dtype=np.int64), None
        values = self._words(">i8").astype(np.int64)
        values >>= int(_SHIFT[code])
        return values, None

    def numbers(self) -> NDArray[np.float64]:
        floats = np.broadcast_to(np.asarray(self._code) == _FLOAT, (self._size,))
        rest = _Values(self._database, self._place, self._records, np.where(floats, _NULL, self._code), self._at, self._rows)
        integers, null = rest.integers()
        values = integers.astype(np.float64)
        if null is not None:
            values[null] = np.nan
        values[floats] = self._words(">f8")[floats]
        return values

    def texts(self) -> Texts | None:
        code = np.broadcast_to(np.asarray(self._code), (self._size,))
        given = code != _NULL
        if not given.any():
            return None
        if (code[given] < _FIRST_BLOB).any():
            raise self._wrong("not a text")
        rows = np.flatnonzero(given)
        start = (self._records.start + self._at)[rows]
        return self._encoded(start, start + _sizes(code[rows]), rows)

    def blobs(self) -> list[bytes]:
        start = self._records.start + self._at
        end = start + np.broadcast_to(np.asarray(_sizes(self._code)), (self._size,))
        return [self._records.flat[first:last].tobytes() for first, last in zip(start.tolist(), end.tolist(), strict=True)]

    def of_type(self, kind: str) -> Mask:
        code = np.broadcast_to(np.asarray(self._code), (self._size,))
        if kind != "integer":
            return np.asarray((code >= _FIRST_BLOB) & (code % 2 == (kind == "text")))
        least = _NULL if self._rows is not None else _NULL + 1
        return np.asarray((code >= least) & (code <= _ONE) & (code != _FLOAT))

    def only(self, keep: Mask) -> _Values:
        code, at = (values if isinstance(values, int) else _alike(values[keep]) for values in (self._code, self._at))
        records = _Records(self._records.flat, self._records.start[keep])
        return _Values(self._database, self._place, records, code, at, None if self._rows is None else self._rows[keep])

    def texts_at(self, rows: Integers) -> list[str]:
        code, at = (np.broadcast_to(np.asarray(numbers), (self._size,))[rows] for numbers in (self._code, self._at))
        rows, code, at = (numbers[code >= _FIRST_BLOB] for numbers in (rows, code, at))
        if not rows.size:
            return []
        start, flat = self._records.start[rows] + at, self._records.flat
        edges = zip(start.tolist(), (start + _sizes(code)).tolist(), strict=True)
        return [flat[first:end].tobytes().decode(self._database.encoding, errors="replace") for first, end in edges]

    def _words(self, kind: str) -> NDArray[Any]:
        return self._records.words(self._at, kind)

    def _encoded(self, start: Integers, end: Integers, rows: Integers) -> Texts:
        """Return the texts between these positions as a dictionary array, without copying each: gaps are values of their own."""
        order = np.argsort(start, kind="stable")
        bounds = np.column_stack([start[order], end[order]]).ravel()
        if (np.diff(bounds) < 0).any():
            raise self._database.damaged(self._place, "rows overlap")
        offsets: Any = np.ascontiguousarray(bounds)
        content: Any = self._records.flat
        pieces: Any = pa.Array.from_buffers(
            pa.large_binary(), bounds.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        )
        taken, null = np.zeros(self._size, dtype=np.int64), np.ones(self._size, dtype=np.bool_)
        taken[rows[order]], null[rows] = np.arange(0, bounds.size, 2), False
        codes: Any = pa.array(taken, mask=null if null.any() else None)
        return decoded(pieces.take(codes).dictionary_encode(), self._database.encoding)

    def _wrong(self, what: str) -> EvidenceError:
        return EvidenceError(f"{self._database.path}: table {self._place} holds a value that is {what}; export the capture again")


def decoded(array: Any, encoding: str) -> Texts:
    """Return a dictionary of bytes as one of texts; what is no text in the file's encoding is replaced."""
    values = array.dictionary
    try:
        if encoding != "utf8":
            raise pa.ArrowInvalid("")
        texts = values.cast(pa.large_string())
    except pa.ArrowInvalid:
        decoded = [bytes(value or b"").decode(encoding, errors="replace") for value in values.to_pylist()]
        texts = pa.array(decoded, type=pa.large_string())
    return pa.DictionaryArray.from_arrays(array.indices, texts)


def _varints(flat: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Return the integers of one to nine bytes at these positions, and the positions after them."""
    byte = flat[at]
    values = (byte & 0x7F).astype(np.int64)
    after = at + 1
    more = np.flatnonzero(byte >= 0x80)
    for index in range(1, 9):
        if not more.size:
            break
        byte = flat[after[more]]
        after[more] += 1
        values[more] = values[more] << 8 | byte if index == 8 else values[more] << 7 | (byte & 0x7F)
        more = more[byte >= 0x80]
    return values, after


def _skip_varints(flat: Bytes, at: Integers) -> Integers:
    """Return the positions after the integers at these positions: neighbours' are mostly equally long."""
    first = int(at[0])
    length = next((index + 1 for index in range(8) if flat[first + index] < 0x80), 9)
    words = _windows(flat, 8)[at].view(np.uint64)
    mask = int.from_bytes(b"\x80" * length + bytes(8 - length), "little") if length < 9 else 0
    pattern = int.from_bytes(b"\x80" * (length - 1) + bytes(9 - length), "little") if length < 9 else 1
    if ((words & np.uint64(mask)) == np.uint64(pattern)).all():
        return at + length
    return _varints(flat, at)[1]
