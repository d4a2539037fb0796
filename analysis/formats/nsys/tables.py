"""Tables of an Nsight Systems export, from a SQLite file or a folder of Parquet or Arrow files.

All exports have the same tables and columns (User Guide, "SQLite Schema Reference"); which exist depends on the version and on
what was traced. Texts are inline or ids of StringIds; small sets of numbers stay combinations of numbers here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.combinations import Combinations

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Texts = Any  # a pa.DictionaryArray of large strings
T = TypeVar("T")


class Rows(Protocol):
    """Some consecutive rows of a table. Columns that the table does not have are null."""

    @property
    def size(self) -> int:
        """The number of rows."""

    def integers(self, name: str) -> tuple[Integers, Mask | None]:
        """Return a column's integers (0 if null) and which are null, None if none is."""

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column's numbers, NaN if null."""

    def texts(self, name: str) -> Texts | None:
        """Return a column's texts, None if all are null."""


class Tables(Protocol):
    """An export's tables. Every method raises EvidenceError if they cannot be read."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    def columns(self, table: str) -> Set[str]:
        """Return the names of a table's columns; empty if there is no such table."""

    def rows(self, table: str) -> int:
        """Return an upper bound on a table's number of rows."""

    def scan(self, table: str, columns: Sequence[str], convert: Callable[[Any], T]) -> Iterator[T]:
        """Yield the result of `convert` for each batch of Rows, in the table's order."""


class Chosen:
    """The rows of some Rows that a mask selects."""

    def __init__(self, rows: Rows, keep: Mask):
        self._rows = rows
        self._keep = keep
        self.size = int(np.count_nonzero(keep))

    def integers(self, name: str) -> tuple[Integers, Mask | None]:
        """Return as Rows does."""
        values, null = self._rows.integers(name)
        return values[self._keep], None if null is None else null[self._keep]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return as Rows does."""
        return self._rows.numbers(name)[self._keep]

    def texts(self, name: str) -> Texts | None:
        """Return as Rows does."""
        column = self._rows.texts(name)
        if column is None:
            return None

        return column.filter(pa.array(self._keep))


def small_table(tables: Tables, table: str, integers: Sequence[str] = (), texts: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a small table's rows as dictionaries, at most the first 10,000."""

    def convert(rows: Rows) -> list[dict[str, Any]]:
        columns: dict[str, list[Any]] = {}
        for name in integers:
            values, null = rows.integers(name)
            none = np.zeros(rows.size, dtype=np.bool_) if null is None else null
            columns[name] = [None if no else value for value, no in zip(values.tolist(), none.tolist(), strict=True)]
        for name in texts:
            column = rows.texts(name)
            columns[name] = [None] * rows.size if column is None else column.to_pylist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    return [row for part in tables.scan(table, (*integers, *texts), convert) for row in part][:10_000]


class Ids:
    """The ids of StringIds, by which all other tables refer to texts."""

    def __init__(self, tables: Tables):
        parts = list(tables.scan("StringIds", ("id",), lambda rows: rows.integers("id")[0]))
        ids = np.concatenate([*parts, np.zeros(0, dtype=np.int64)])
        self._order = np.argsort(ids, kind="stable").astype(np.int32)
        self._ids = ids[self._order]
        # In practice ids count up from 0: then a lookup table suffices.
        self._lookup = np.zeros(0, dtype=np.int32)
        if ids.size and self._ids[0] >= 0 and self._ids[-1] < 4 * ids.size + 1024:
            self._lookup = np.full(int(self._ids[-1]) + 1, -2, dtype=np.int32)
            self._lookup[self._ids] = self._order

    def positions(self, ids: Integers, null: Mask | None) -> NDArray[np.int32]:
        """Return the rows of these ids in StringIds; -1 for null, -2 for ids that StringIds lacks."""
        if not self._ids.size:
            result = np.full(ids.size, -2, dtype=np.int32)
        elif self._lookup.size:
            inside = ids.size == 0 or (ids.min() >= 0 and ids.max() < self._lookup.size)
            result = self._lookup.take(ids if inside else np.clip(ids, 0, self._lookup.size - 1))
            if not inside:
                result[(ids < 0) | (ids >= self._lookup.size)] = -2
        else:
            at = np.minimum(np.searchsorted(self._ids, ids), self._ids.size - 1)
            result = np.where(self._ids[at] == ids, self._order[at], np.int32(-2)).astype(np.int32)
        if null is not None:
            result[null] = -1
        return result


class Nullable(NamedTuple):
    """Integers of some rows, and which of them are null; None if none is."""

    values: Integers
    null: Mask | None


class RowNames(NamedTuple):
    """Names of some rows: the row of each in StringIds (see Ids), and texts in the column itself, which take precedence."""

    positions: NDArray[np.int32]
    texts: Texts | None = None


Part = NDArray[Any] | Nullable | RowNames | Combinations


class _Growing:
    """Values that arrive in parts: kept as a single value while all are equal, else in memory that is allocated once."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._size = 0
        self._one: NDArray[Any] | None = None
        self._all: NDArray[Any] | None = None

    def add(self, part: NDArray[Any]) -> None:
        """Append values; raise ValueError if they exceed the capacity."""
        stop = self._size + part.size
        if stop > self._capacity:
            raise ValueError("rows' numbers do not ascend")
        if self._one is None or not self._size:
            self._one = part[:1].copy()
        if self._all is None and not (part == self._one).all():
            self._all = np.empty(self._capacity, self._one.dtype)
            self._all[: self._size] = self._one
        if self._all is not None:
            self._all[self._size : stop] = part
        self._size = stop

    def stored(self) -> NDArray[Any]:
        """Return the values; if all are equal, a view of one with a stride of 0."""
        if self._all is not None:
            return self._all[: self._size]
        return np.zeros(0, dtype=np.int64) if self._one is None else np.broadcast_to(self._one[: self._size], self._size)


class GrowingColumn:
    """A column that grows in parts.

    distinct: the codes of Combinations. texts: texts in the column itself, with the row where they begin.
    """

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._values = _Growing(capacity)
        self._null: _Growing | None = None
        self.distinct: dict[tuple[int | None, ...], int] = {}
        self.texts: list[tuple[int, Texts]] = []

    def add(self, part: Part) -> None:
        """Append some rows; raise ValueError if they exceed the capacity."""
        size, values = self.stored().size, _numbers(part, self.distinct)
        if isinstance(part, RowNames) and part.texts is not None:
            self.texts.append((size, part.texts))
        null = part.null if isinstance(part, Nullable) else None
        if null is not None and self._null is None:
            self._null = _Growing(self._capacity)
            self._null.add(np.zeros(size, dtype=np.bool_))
        self._values.add(values)
        if self._null is not None:
            self._null.add(np.zeros(values.size, dtype=np.bool_) if null is None else null)

    def stored(self) -> NDArray[Any]:
        """Return the rows' values as stored: if all are equal, a view of one with a stride of 0."""
        return self._values.stored()

    def stored_null(self) -> Mask | None:
        """Return which rows are null, stored in the same way; None if none is."""
        return None if self._null is None else self._null.stored()

    def reorder(self, order: Integers) -> None:
        """Reorder the rows in place; texts of the column itself stay where they are."""
        for kept in (self.stored(), self.stored_null()):
            if kept is not None and kept.strides != (0,):
                kept[:] = kept[order]

    def values(self) -> NDArray[Any]:
        """Return the rows' values."""
        return _spread(self.stored())

    def null(self) -> Mask | None:
        """Return which rows are null, None if none is."""
        null = self.stored_null()
        return None if null is None else _spread(null)


def _numbers(part: Part, distinct: dict[tuple[int | None, ...], int]) -> NDArray[Any]:
    """Return the values that a column stores for a part; a combination keeps the code that it got before."""
    if isinstance(part, Combinations):
        codes = [distinct.setdefault(values, len(distinct)) for values in part.distinct]
        return np.array(codes, dtype=np.int32).take(part.codes) if codes else np.zeros(0, dtype=np.int32)
    if isinstance(part, RowNames):
        return part.positions
    return part.values if isinstance(part, Nullable) else part


def _spread(stored: NDArray[Any]) -> NDArray[Any]:
    """Return writable values."""
    return stored.copy() if stored.strides == (0,) else stored


@dataclass(frozen=True)
class Gathered:
    """Columns by name, and what parts report by name: numbers summed, lists joined. Columns without rows are empty."""

    columns: Mapping[str, GrowingColumn]
    counts: Counter[str]
    lists: dict[str, list[Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> GrowingColumn:
        return self.columns.get(name) or GrowingColumn(0)


# A table, the columns to read, and a function that makes from its Rows parts of columns, numbers to sum or lists to join.
Source = tuple[str, Sequence[str], Callable[[Any], Mapping[str, Part | int | list[Any]]]]


def gather(tables: Tables, *sources: Source) -> Gathered:
    """Return the columns made from the rows of some tables, one table after the other.

    A column's memory is allocated at once: freed pieces would stay with the process. Raise EvidenceError if memory runs out.
    """
    capacity = sum(tables.rows(table) for table, _, _ in sources)
    columns: dict[str, GrowingColumn] = {}
    counts, lists = Counter[str](), defaultdict[str, list[Any]](list)
    for table, names, convert in sources:
        for parts in tables.scan(table, names, convert):
            for name, part in parts.items():
                if isinstance(part, int):
                    counts[name] += part
                    continue
                if isinstance(part, list):
                    lists[name] += part
                    continue
                try:
                    columns.setdefault(name, GrowingColumn(capacity)).add(part)
                except MemoryError as error:
                    raise EvidenceError(f"{tables.path}: table {table} does not fit into memory; export fewer tables") from error
                except ValueError as error:
                    raise EvidenceError(f"{tables.path}: table {table}: {error}; copy or export it again") from error
    return Gathered(columns, counts, dict(lists))
