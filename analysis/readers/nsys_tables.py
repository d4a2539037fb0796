"""Tables of an Nsight Systems export, whatever holds them: a SQLite file or a folder of Parquet or Arrow files.

All exports have the same tables and columns (User Guide, "SQLite Schema Reference"); which exist depends on the version and on
what was traced. Texts stand inline or as numbers of StringIds; small sets of numbers become text by a label for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
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

    def texts(self, name: str) -> pa.DictionaryArray | None:
        """Return a column's texts, None when all are null."""


class Tables(Protocol):
    """An export's tables. Every method raises EvidenceError for what cannot be read."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    def columns(self, table: str) -> frozenset[str]:
        """Names of a table's columns; none if there is no such table."""

    def scan(self, table: str, columns: Sequence[str], convert: Callable[[Any], T]) -> list[T]:
        """Return what `convert` makes of each batch of Rows, in the table's order; it is called in several threads."""


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

    def texts(self, name: str) -> pa.DictionaryArray | None:
        """Return as Rows does."""
        column = self._rows.texts(name)
        return None if column is None else column.filter(pa.array(self._keep))


def small_table(tables: Tables, table: str, integers: Sequence[str] = (), texts: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return a table of few rows as dictionaries; the first 10,000 rows of a table that has more."""

    def convert(rows: Rows) -> list[dict[str, Any]]:
        columns: dict[str, list[Any]] = {}
        for name in integers:
            values, null = rows.integers(name)
            columns[name] = np.where(null, None, values).tolist() if null is not None else values.tolist()
        for name in texts:
            column = rows.texts(name)
            columns[name] = [None] * rows.size if column is None else column.to_pylist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    return [row for part in tables.scan(table, (*integers, *texts), convert) for row in part][:10_000]


class Strings:
    """The texts of StringIds."""

    def __init__(self, tables: Tables):
        parts = tables.scan("StringIds", ("id", "value"), lambda rows: (rows.integers("id")[0], rows.texts("value"), rows.size))
        empty = pa.array([], type=pa.large_string())
        texts = [pa.nulls(size, pa.large_string()) if text is None else text.dictionary_decode() for _, text, size in parts]
        self.texts = pa.concat_arrays([*(text.cast(pa.large_string()) for text in texts), empty])
        ids = np.concatenate([*(ids for ids, _, _ in parts), np.zeros(0, dtype=np.int64)])
        self._order = np.argsort(ids, kind="stable").astype(np.int32)
        self._ids = ids[self._order]
        # Numbers count up from 0 in practice: then one lookup does.
        self._lookup = np.full(0, -1, dtype=np.int32)
        if ids.size and self._ids[0] >= 0 and self._ids[-1] < 4 * ids.size + 1024:
            self._lookup = np.full(int(self._ids[-1]) + 1, -1, dtype=np.int32)
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
            found[found == -1] = -2
        else:
            at = np.minimum(np.searchsorted(self._ids, ids), self._ids.size - 1)
            found = np.where(self._ids[at] == ids, self._order[at], np.int32(-2)).astype(np.int32)
        if null is not None:
            found[null] = -1
        return found


# A column of names in some rows: where in Strings.texts each is, and texts that stand in the column itself, which go first.
Names = tuple[NDArray[np.int32], pa.DictionaryArray | None]


def named(strings: Strings, parts: Sequence[Names], drop: str = "") -> tuple[pd.Categorical, int]:
    """Return the parts as one categorical, and how many numbers StringIds lacks. drop: a pattern to be cut out of the names."""
    positions = np.concatenate([*(part[0] for part in parts), np.zeros(0, dtype=np.int32)])
    unknown = int(np.count_nonzero(positions == -2))
    used = np.zeros(len(strings.texts) + 2, dtype=np.bool_)
    used[positions] = True
    kept = np.flatnonzero(used[:-2])
    inline = [
        pa.DictionaryArray.from_arrays(pa.nulls(len(places), pa.int32()), pa.array([], type=pa.large_string()))
        if texts is None
        else pa.DictionaryArray.from_arrays(texts.indices.cast(pa.int32()), texts.dictionary.cast(pa.large_string()))
        for places, texts in parts
    ]
    own = any(texts is not None for _, texts in parts)
    joined = pa.chunked_array(inline).unify_dictionaries().combine_chunks() if own else None
    distinct = strings.texts.take(pa.array(kept))
    if joined is not None:
        distinct = pa.concat_arrays([distinct, joined.dictionary])
    encoded = (pc.replace_substring_regex(distinct, drop, "") if drop else distinct).dictionary_encode()
    new = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    kind = np.min_scalar_type(-max(len(encoded.dictionary), 1))
    lookup = np.full(used.size, -1, dtype=kind)
    lookup[kept] = new[: kept.size]
    codes = lookup.take(positions, mode="wrap")
    if joined is not None:
        given = joined.indices.is_valid().to_numpy(zero_copy_only=False)
        codes[given] = new[kept.size :].astype(kind)[joined.indices.drop_null().to_numpy()]
    return pd.Categorical.from_codes(codes, categories=pd.Index(encoded.dictionary.to_pandas()), validate=False), unknown


# Combinations of small sets of numbers in some rows: a code for each row, and what the codes stand for.
Combinations = tuple[Codes, list[tuple[int | None, ...]]]


def combinations(*columns: tuple[Integers, Mask | None]) -> Combinations:
    """Return which combination of the columns' values each row has; null is a value too."""
    size = columns[0][0].size
    codes, found = np.zeros(size, dtype=np.int64), 1
    values: list[tuple[Integers, Mask | None]] = list(columns)
    for column, null in values:
        if null is None and size and column.min() == column.max():
            continue
        code, unique = pd.factorize(column)
        if null is not None:
            code[null] = len(unique)
        codes = codes * (len(unique) + 1) + code
        codes, kept = pd.factorize(codes)
        found = len(kept)
    first = np.zeros(found, dtype=np.int64)
    first[codes[::-1]] = np.arange(size)[::-1]  # of several writes to one place the last one stays
    rows = first.tolist() if size else []
    distinct = [
        tuple(None if null is not None and null[row] else int(column[row]) for column, null in values) for row in rows
    ]
    return codes.astype(np.int16 if found < 1 << 15 else np.int32), distinct


def labelled(parts: Iterable[Combinations], label: Callable[..., str | None]) -> pd.Categorical:
    """Return the parts as one categorical, `label` giving the text of each combination, None for null."""
    texts: dict[str, int] = {}
    columns = []
    for codes, distinct in parts:
        new = [-1 if text is None else texts.setdefault(text, len(texts)) for text in (label(*values) for values in distinct)]
        kind = np.min_scalar_type(-max(len(texts), 1))
        columns.append(np.array(new, dtype=kind).take(codes) if new else np.zeros(0, dtype=np.int8))
    codes = np.concatenate(columns) if columns else np.zeros(0, dtype=np.int8)
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(texts), dtype="str"), validate=False)
