"""Tables of an Nsight Systems export, whatever holds them: a SQLite file or a folder of Parquet or Arrow files.

All exports have the same tables and columns (User Guide, "SQLite Schema Reference"); which exist depends on the version and on
what was traced. Texts stand inline or as numbers of StringIds; small sets of numbers become text by a label for each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Texts = Any  # a pa.DictionaryArray of large strings
Codes = NDArray[np.signedinteger[Any]]
T = TypeVar("T")


class Rows(Protocol):
    """Some consecutive rows of a table. Columns that the table does not have are null."""

    @property
    def size(self) -> int:
        """How many rows."""

    def integers(self, name: str) -> tuple[Integers, Mask | None]:
        """Return a column's integers (0 where null) and which are null, None if none is."""

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column's numbers, NaN where null."""

    def texts(self, name: str) -> Texts | None:
        """Return a column's texts, None when all are null."""


class Tables(Protocol):
    """An export's tables. Every method raises EvidenceError for what cannot be read."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    def columns(self, table: str) -> frozenset[str]:
        """Names of a table's columns; none if there is no such table."""

    def rows(self, table: str) -> int:
        """Return how many rows a table has at most."""

    def scan(self, table: str, columns: Sequence[str], convert: Callable[[Any], T]) -> Iterator[T]:
        """Yield what `convert` makes of each batch of Rows, in the table's order."""


class Chosen:
    """The rows of some Rows that a mask tells."""

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
        return None if column is None else column.filter(pa.array(self._keep))


def small_table(tables: Tables, table: str, integers: Sequence[str] = (), texts: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a table of few rows as dictionaries; the first 10,000 rows of a table that has more."""

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


class Strings:
    """The texts of StringIds."""

    def __init__(self, tables: Tables):
        found = tables.scan("StringIds", ("id", "value"), lambda rows: (rows.integers("id")[0], rows.texts("value"), rows.size))
        parts = list(found)
        empty = pa.array([], type=pa.large_string())
        texts = [pa.nulls(size, pa.large_string()) if text is None else text.dictionary_decode() for _, text, size in parts]
        self.texts = pa.concat_arrays([*(text.cast(pa.large_string()) for text in texts), empty])
        ids = np.concatenate([*(ids for ids, _, _ in parts), np.zeros(0, dtype=np.int64)])
        self._order = np.argsort(ids, kind="stable").astype(np.int32)
        self._ids = ids[self._order]
        # Numbers count up from 0 in practice: then one lookup does.
        self._lookup = np.zeros(0, dtype=np.int32)
        if ids.size and self._ids[0] >= 0 and self._ids[-1] < 4 * ids.size + 1024:
            self._lookup = np.full(int(self._ids[-1]) + 1, -2, dtype=np.int32)
            self._lookup[self._ids] = self._order

    def positions(self, ids: Integers, null: Mask | None) -> NDArray[np.int32]:
        """Return where in `texts` these numbers' texts are; -1 for null, -2 for numbers that StringIds does not have."""
        if not self._ids.size:
            found = np.full(ids.size, -2, dtype=np.int32)
        elif self._lookup.size:
            inside = ids.size == 0 or (ids.min() >= 0 and ids.max() < self._lookup.size)
            found = self._lookup.take(ids if inside else np.clip(ids, 0, self._lookup.size - 1))
            if not inside:
                found[(ids < 0) | (ids >= self._lookup.size)] = -2
        else:
            at = np.minimum(np.searchsorted(self._ids, ids), self._ids.size - 1)
            found = np.where(self._ids[at] == ids, self._order[at], np.int32(-2)).astype(np.int32)
        if null is not None:
            found[null] = -1
        return found


@dataclass(frozen=True)
class Nullable:
    """Integers of some rows, and which of them are null; None if none is."""

    values: Integers
    null: Mask | None


@dataclass(frozen=True)
class Names:
    """Names of some rows: where in Strings.texts each is, and texts that stand in the column itself, which go first."""

    positions: NDArray[np.int32]
    texts: Texts | None = None


@dataclass(frozen=True)
class Combinations:
    """Which of some combinations of numbers each row has."""

    codes: NDArray[np.intp]
    distinct: list[tuple[int | None, ...]]


def combinations(*columns: tuple[Integers, Mask | None]) -> Combinations:
    """Return which combination of the columns' values each row has; null is a value too."""
    size = columns[0][0].size
    codes, found = np.zeros(size, dtype=np.intp), 1
    for column, null in columns:
        if null is None and size and column.min() == column.max():
            continue
        code, unique = pd.factorize(column)
        if null is not None:
            code[null] = len(unique)
        codes, kept = pd.factorize(codes * (len(unique) + 1) + code)
        found = len(kept)
    first = np.zeros(found, dtype=np.int64)
    first[codes[::-1]] = np.arange(size)[::-1]  # of several writes to one place the last one stays
    rows = first.tolist() if size else []
    return Combinations(
        codes,
        [tuple(None if null is not None and null[row] else int(column[row]) for column, null in columns) for row in rows],
    )


Part = NDArray[Any] | Nullable | Names | Combinations


class Column:
    """A column that grows by parts of rows, in memory that is had once."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._size = 0
        self._values: NDArray[Any] | None = None
        self._null: Mask | None = None
        self._distinct: dict[tuple[int | None, ...], int] = {}
        self._texts: list[tuple[int, Texts]] = []

    def add(self, part: Part) -> None:
        """Append some rows; raise ValueError where there are more than fit."""
        values: NDArray[Any]
        if isinstance(part, Combinations):
            codes = [self._distinct.setdefault(values, len(self._distinct)) for values in part.distinct]
            values = np.array(codes, dtype=np.int32).take(part.codes) if codes else np.zeros(0, dtype=np.int32)
        elif isinstance(part, Names):
            values = part.positions
            if part.texts is not None:
                self._texts.append((self._size, part.texts))
        else:
            values = part.values if isinstance(part, Nullable) else part
        stop = self._size + values.size
        if stop > self._capacity:
            raise ValueError("rows' numbers do not ascend")
        if self._values is None:
            self._values = np.empty(self._capacity, dtype=values.dtype)
        self._values[self._size : stop] = values
        if isinstance(part, Nullable) and part.null is not None:
            if self._null is None:
                self._null = np.zeros(self._capacity, dtype=np.bool_)
            self._null[self._size : stop] = part.null
        self._size = stop

    def values(self) -> NDArray[Any]:
        """Return the rows' values."""
        return np.zeros(0, dtype=np.int64) if self._values is None else self._values[: self._size]

    def integers(self, kind: Any = np.int64) -> pd.arrays.IntegerArray:
        """Return the rows' values, nulls among them, as integers of this kind; what it cannot hold is null."""
        null = np.zeros(self._size, dtype=np.bool_) if self._null is None else self._null[: self._size]
        values = self.values()
        if kind is not np.int64:
            fits = (values >= np.iinfo(kind).min) & (values <= np.iinfo(kind).max)
            values, null = np.where(fits, values, 0).astype(kind), null | ~fits
        return pd.arrays.IntegerArray(values, null)

    def labelled(self, label: Callable[..., str | None]) -> pd.Categorical:
        """Return combinations as one categorical, `label` giving the text of each, None for null."""
        texts: dict[str, int] = {}
        found = (label(*values) for values in self._distinct)
        new = [-1 if text is None else texts.setdefault(text, len(texts)) for text in found]
        lookup = np.array([*new, -1], dtype=_code_type(len(texts)))
        return pd.Categorical.from_codes(
            lookup.take(self.values()), categories=pd.Index(list(texts), dtype="str"), validate=False
        )

    def named(self, strings: Strings, drop: str = "") -> tuple[pd.Categorical, int]:
        """Return names as one categorical, and how many numbers StringIds lacks. drop: a pattern cut out of the names."""
        positions = self.values()
        used = np.zeros(len(strings.texts) + 2, dtype=np.bool_)
        used[positions] = True  # the last two places are those of null and of unknown numbers
        kept = np.flatnonzero(used[:-2])
        indices: Any = pa.array(kept)
        distinct, own = strings.texts.take(indices), self._own_texts()
        if own is not None:
            distinct = pa.concat_arrays([distinct, own.dictionary])
        encoded = (pc.replace_substring_regex(distinct, drop, "") if drop else distinct).dictionary_encode()
        new = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        lookup = np.full(used.size, -1, dtype=_code_type(len(encoded.dictionary)))
        lookup[kept] = new[: kept.size]
        codes = lookup.take(positions, mode="wrap")
        if own is not None:
            self._fill(codes, own, new[kept.size :])
        unknown = int(np.count_nonzero(positions == -2))
        return pd.Categorical.from_codes(codes, categories=pd.Index(encoded.dictionary.to_pandas()), validate=False), unknown

    def _own_texts(self) -> Texts | None:
        """Return the texts that stand in the column itself, with one dictionary for all."""
        if not self._texts:
            return None
        parts = [
            pa.DictionaryArray.from_arrays(part.indices.cast(pa.int32()), part.dictionary.cast(pa.large_string()))
            for _, part in self._texts
        ]
        return pa.concat_arrays(pa.chunked_array(parts).unify_dictionaries().chunks)

    def _fill(self, codes: NDArray[Any], own: Texts, new: NDArray[Any]) -> None:
        """Write the codes of the column's own texts to their rows."""
        at = 0
        for start, part in self._texts:
            indices = own.indices.slice(at, len(part))
            rows = np.flatnonzero(indices.is_valid().to_numpy(zero_copy_only=False))
            codes[start + rows] = new[indices.drop_null().to_numpy()]
            at += len(part)


def _code_type(count: int) -> Any:
    """Return the smallest type for so many codes."""
    return np.min_scalar_type(-max(count, 1))


@dataclass(frozen=True)
class Gathered:
    """Columns by name, and numbers that were told of parts, added up. Columns of tables without rows are empty."""

    columns: defaultdict[str, Column]
    counts: Counter[str]

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


# A table, columns to be read, and what makes parts of columns from its Rows, or numbers to be added up.
Source = tuple[str, Sequence[str], Callable[[Any], Mapping[str, Part | int]]]


def gather(tables: Tables, *sources: Source) -> Gathered:
    """Return the columns that are made of the rows of some tables, one table after the other.

    A column's memory is had at once: many freed pieces would stay with the process. Raises EvidenceError where it is too little.
    """
    capacity = sum(tables.rows(table) for table, _, _ in sources)
    columns, counts = defaultdict[str, Column](lambda: Column(0)), Counter[str]()
    for table, names, convert in sources:
        for parts in tables.scan(table, names, convert):
            for name, part in parts.items():
                if isinstance(part, int):
                    counts[name] += part
                    continue
                try:
                    columns.setdefault(name, Column(capacity)).add(part)
                except MemoryError as error:
                    raise EvidenceError(f"{tables.path}: table {table} does not fit into memory; export fewer tables") from error
                except ValueError as error:
                    raise EvidenceError(f"{tables.path}: table {table}: {error}; copy or export it again") from error
    return Gathered(columns, counts)
