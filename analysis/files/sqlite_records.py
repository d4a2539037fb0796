"""Records of SQLite tables as columns: values are read from the bytes of many rows at once, on demand.

Layout: https://sqlite.org/fileformat2.html, section 2.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError

_WINDOW = 64  # bytes of each record's beginning, fetched at once: if records share a layout, columns are slices of it
PADDING = _WINDOW + 16  # bytes after the last record, so no fetch reaches beyond the buffer

# Serial types of a record: bytes of the value, and the shift that reduces a big-endian value from 64 bits.
_NULL, _FLOAT, _ZERO, _ONE, _FIRST_BLOB, _FIRST_TEXT = 0, 7, 8, 9, 12, 13
_SIZE = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0] + [(code - 12) // 2 for code in range(12, 128)], dtype=np.int64)
_SHIFT = np.array([0, 56, 48, 40, 32, 16, 0, 0, 0, 0], dtype=np.int64)

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Texts = Any  # a pa.DictionaryArray of large strings
Offset = int | Integers  # one number if it is the same for all rows
Codes = int | NDArray[Any]


class RecordsFile(NamedTuple):
    """The file of the records. encoding: that of its texts, under Python's name."""

    path: Path
    encoding: str

    def damaged(self, table: str, what: str) -> EvidenceError:
        """Return the error for a table with damaged pages."""
        return EvidenceError(f"{self.path}: table {table}: {what}: the file is damaged or cut short; copy or export it again")


class StoredColumn(NamedTuple):
    """The position of a column in the records of its table."""

    position: int
    row_id: bool  # INTEGER PRIMARY KEY: the record holds null, and the row id is the value


class Cells(NamedTuple):
    """Rows of a table: where their records start in some bytes, their lengths, and, if needed, the row ids."""

    start: Integers
    length: Integers
    rows: Integers | None


class Batch:
    """Some consecutive rows of a table. size: their number."""

    def __init__(self, size: int, columns: dict[str, _Values]):
        self.size = size
        self._columns = columns
        self._integers: dict[str, tuple[Integers, Mask | None]] = {}

    def integers(self, name: str) -> tuple[Integers, Mask | None]:
        """Return a column's integers (0 if null) and which are null, None if none is.

        A column that the table lacks is all null. Raise EvidenceError if a value is not an integer.
        """
        if name not in self._integers:
            values = self._columns.get(name)
            absent = np.zeros(self.size, dtype=np.int64), np.ones(self.size, dtype=np.bool_)
            self._integers[name] = absent if values is None else values.integers()
        return self._integers[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column's numbers, NaN if null; raise EvidenceError if a value is not a number."""
        values = self._columns.get(name)
        return np.full(self.size, np.nan) if values is None else values.numbers()

    def texts(self, name: str) -> Texts | None:
        """Return a column's texts (blobs too, as text), or None if all are null; raise EvidenceError if one is a number."""
        values = self._columns.get(name)
        return None if values is None else values.texts()

    def blobs(self, name: str) -> list[bytes]:
        """Return a column's bytes; all its rows must be blobs."""
        return self._columns[name].blobs()

    def of_type(self, name: str, kind: str) -> Mask:
        """Return which rows hold an integer, text or blob, as `kind` says; none if the table lacks the column."""
        values = self._columns.get(name)
        return np.zeros(self.size, dtype=np.bool_) if values is None else values.of_type(kind)

    def only(self, keep: Mask) -> Batch:
        """Return the rows that a mask keeps, which must not be empty."""
        return Batch(int(np.count_nonzero(keep)), {name: values.only(keep) for name, values in self._columns.items()})

    def texts_at(self, name: str, rows: Integers) -> list[str]:
        """Return a column's texts in a few rows, without pyarrow; other values are left out."""
        values = self._columns.get(name)
        return [] if values is None else values.texts_at(rows)


def read(source: RecordsFile, table: str, columns: dict[str, StoredColumn], flat: Bytes, cells: Cells) -> Batch:
    """Parse the records' headers, all rows at once, and return where the columns' values are.

    Offsets count from the record's beginning; one number stands for all rows as long as they share a layout. columns: by their
    names in the result. Raise EvidenceError if a record is damaged.
    """
    records = _Records(flat, cells.start)
    header, at = records.varints(0)
    stop: Offset = _alike(header)
    data: Offset = stop
    shortest = int(cells.length.min())
    if _beyond(at, stop) or _beyond(stop, cells.length):
        raise source.damaged(table, "a row's head is longer than the row")
    wanted = {column.position: name for name, column in columns.items()}
    result: dict[str, _Values] = {}
    for position in range(max(wanted, default=-1) + 1):
        code, after = records.codes(at)
        if _beyond(at + 1, stop):  # columns that were added after the row was written
            short = at >= stop
            code, after = np.where(short, _NULL, code), np.where(short, stop, after)
        at = after
        if _least(code) < 0 or _beyond(at, stop):
            raise source.damaged(table, "a row's head is longer than the row")
        if position in wanted:
            name = wanted[position]
            given = cells.rows if columns[name].row_id else None
            result[name] = _Values(source, f"{table}, column {name}", records, code, data, given)
        data = data + _sizes(code)
        if _beyond(data, shortest if isinstance(data, int) else cells.length):
            raise source.damaged(table, "a value is longer than its row")
    return Batch(cells.start.size, result)


class _Records:
    """Records in some bytes: the values at an offset from the beginning of each."""

    def __init__(self, flat: Bytes, start: Integers):
        self.flat = flat
        self.start = start
        self._alike: dict[int, bool] = {}
        self._window: Bytes = _windows(flat, _WINDOW)[start].view(np.uint8).reshape(start.size, _WINDOW)

    def codes(self, offset: Offset) -> tuple[Codes, Offset]:
        """Return the serial type at each record's offset, one number if all are the same, and the offsets after them."""
        if isinstance(offset, int) and offset < _WINDOW:
            if self._eight_alike(offset // 8) and self._window[0, offset] < 128:
                return int(self._window[0, offset]), offset + 1
            codes: NDArray[Any] = self._window[:, offset].copy()  # contiguous, as they are read several times
        else:
            codes = self.flat[self.start + offset]
        if codes.max() >= 128:
            codes, after = self.varints(offset)
            return _alike(codes), after
        return _alike(codes), offset + 1

    def _eight_alike(self, index: int) -> bool:
        """Return whether eight bytes of the window are the same in all records, as types of columns mostly are."""
        if index not in self._alike:
            words = self._window.view(np.uint64)[:, index]
            self._alike[index] = bool((words == words[0]).all())
        return self._alike[index]

    def words(self, offset: Offset, kind: str) -> NDArray[Any]:
        """Return the eight bytes at each record's offset as numbers of this type."""
        if isinstance(offset, int) and offset <= _WINDOW - 8:
            return np.ndarray(self.start.shape, kind, buffer=self._window, offset=offset, strides=(_WINDOW,))
        words: NDArray[Any] = _windows(self.flat, 8)[self.start + offset].view(kind)
        return words

    def varints(self, offset: Offset) -> tuple[Integers, Offset]:
        """Return the integers of one to nine bytes at each record's offset, and the offsets after them."""
        values, after = varints(self.flat, self.start + offset)
        return values, _alike(after - self.start)


def _windows(flat: Bytes, size: int) -> NDArray[Any]:
    """Return the `size` bytes that start at each byte, without copying."""
    return np.ndarray((flat.size - size + 1,), dtype=f"V{size}", buffer=flat, strides=(1,))


def _least(numbers: Offset | Codes) -> int:
    """Return the smallest of the numbers."""
    return numbers if isinstance(numbers, int) else int(numbers.min())


def _beyond(at: Offset, end: Offset) -> bool:
    """Return whether an offset is beyond its end in any row."""
    return at > _least(end) if isinstance(at, int) else bool((at > end).any())


def _alike(numbers: NDArray[Any]) -> Any:
    """Return the number that all are, or the numbers if they differ."""
    low = int(numbers.min())
    return low if low == int(numbers.max()) else numbers


def _sizes(code: Codes) -> Any:
    """Return the sizes in bytes of values of these serial types."""
    if isinstance(code, int):
        return int(_SIZE[code]) if code < 128 else (code - 12) // 2
    return _SIZE.take(code) if code.max() < 128 else np.where(code < 12, _SIZE.take(np.minimum(code, 12)), (code - 12) // 2)


class _Values:
    """Values of one column in some rows: serial types and offsets, from which they are read on demand."""

    def __init__(self, source: RecordsFile, place: str, records: _Records, code: Codes, at: Offset, rows: Integers | None):
        self._source = source
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
        rest = _Values(self._source, self._place, self._records, np.where(floats, _NULL, self._code), self._at, self._rows)
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
        return _Values(self._source, self._place, records, code, at, None if self._rows is None else self._rows[keep])

    def texts_at(self, rows: Integers) -> list[str]:
        code, at = (np.broadcast_to(np.asarray(numbers), (self._size,))[rows] for numbers in (self._code, self._at))
        rows, code, at = (numbers[code >= _FIRST_BLOB] for numbers in (rows, code, at))
        if not rows.size:
            return []
        start, flat = self._records.start[rows] + at, self._records.flat
        edges = zip(start.tolist(), (start + _sizes(code)).tolist(), strict=True)
        return [flat[first:end].tobytes().decode(self._source.encoding, errors="replace") for first, end in edges]

    def _words(self, kind: str) -> NDArray[Any]:
        return self._records.words(self._at, kind)

    def _encoded(self, start: Integers, end: Integers, rows: Integers) -> Texts:
        """Return the texts between these positions as a dictionary array, without copying each: gaps count as values."""
        order = np.argsort(start, kind="stable")
        bounds = np.column_stack([start[order], end[order]]).ravel()
        if (np.diff(bounds) < 0).any():
            raise self._source.damaged(self._place, "rows overlap")
        offsets: Any = np.ascontiguousarray(bounds)
        content: Any = self._records.flat
        pieces: Any = pa.Array.from_buffers(
            pa.large_binary(), bounds.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        )
        taken, null = np.zeros(self._size, dtype=np.int64), np.ones(self._size, dtype=np.bool_)
        taken[rows[order]], null[rows] = np.arange(0, bounds.size, 2), False
        codes: Any = pa.array(taken, mask=null if null.any() else None)
        return decoded(pieces.take(codes).dictionary_encode(), self._source.encoding)

    def _wrong(self, what: str) -> EvidenceError:
        return EvidenceError(f"{self._source.path}: table {self._place} holds a value that is {what}; export the capture again")


def decoded(array: Any, encoding: str) -> Texts:
    """Return a dictionary array of bytes as one of texts; text that is invalid in the file's encoding is replaced."""
    values = array.dictionary
    try:
        if encoding != "utf8":
            raise pa.ArrowInvalid("")
        texts = values.cast(pa.large_string())
    except pa.ArrowInvalid:
        decoded = [bytes(value or b"").decode(encoding, errors="replace") for value in values.to_pylist()]
        texts = pa.array(decoded, type=pa.large_string())
    return pa.DictionaryArray.from_arrays(array.indices, texts)


def varints(flat: Bytes, at: Integers) -> tuple[Integers, Integers]:
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


def skip_varints(flat: Bytes, at: Integers) -> Integers:
    """Return the positions after the integers at these positions; fast if all have the same length, as they mostly do."""
    first = int(at[0])
    length = next((index + 1 for index in range(8) if flat[first + index] < 0x80), 9)
    words = _windows(flat, 8)[at].view(np.uint64)
    mask = int.from_bytes(b"\x80" * length + bytes(8 - length), "little") if length < 9 else 0
    pattern = int.from_bytes(b"\x80" * (length - 1) + bytes(9 - length), "little") if length < 9 else 1
    if ((words & np.uint64(mask)) == np.uint64(pattern)).all():
        return at + length
    return varints(flat, at)[1]
