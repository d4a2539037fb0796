"""Columns that `formats.nsys.tables` decoded, with their texts, as pandas columns of a Trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kernelscope.analysis.formats.nsys.tables import GrowingColumn, Tables, Texts


class Strings:
    """The texts of StringIds, in the order of its rows."""

    def __init__(self, tables: Tables):
        parts = list(tables.scan("StringIds", ("value",), lambda rows: (rows.texts("value"), rows.size)))
        empty = pa.array([], type=pa.large_string())
        texts = [pa.nulls(size, pa.large_string()) if text is None else text.dictionary_decode() for text, size in parts]
        self.texts = pa.concat_arrays([*(text.cast(pa.large_string()) for text in texts), empty])


def integers(column: GrowingColumn, kind: Any = np.int64) -> pd.arrays.IntegerArray:
    """Return the rows' values as nullable integers of this type; values that do not fit are null."""
    values, null = column.values(), column.null()
    null = np.zeros(values.size, dtype=np.bool_) if null is None else null
    if kind is not np.int64:
        fits = (values >= np.iinfo(kind).min) & (values <= np.iinfo(kind).max)
        values, null = np.where(fits, values, 0).astype(kind), null | ~fits
    return pd.arrays.IntegerArray(values, null)


def labelled(column: GrowingColumn, label: Callable[..., str | None]) -> pd.Categorical:
    """Return a column of combinations as one categorical; `label` gives the text of each, None for null."""
    texts: dict[str, int] = {}
    result = (label(*values) for values in column.distinct)
    new = [-1 if text is None else texts.setdefault(text, len(texts)) for text in result]
    lookup = np.array([*new, -1], dtype=_code_type(len(texts)))
    stored = column.stored()
    codes = lookup.take(stored) if stored.strides != (0,) else np.full(stored.size, lookup[stored[:1]])
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(texts), dtype="str"), validate=False)


def named(column: GrowingColumn, strings: Strings, drop: str = "") -> tuple[pd.Categorical, int]:
    """Return a column of names as one categorical, and how many ids StringIds lacks. drop: a pattern to remove from the names."""
    positions = column.values()
    used = np.zeros(len(strings.texts) + 2, dtype=np.bool_)
    used[positions] = True  # the last two positions stand for null and for unknown ids
    kept = np.flatnonzero(used[:-2])
    indices: Any = pa.array(kept)
    distinct, own = strings.texts.take(indices), _own_texts(column)
    if own is not None:
        distinct = pa.concat_arrays([distinct, own.dictionary])
    encoded = (pc.replace_substring_regex(distinct, drop, "") if drop else distinct).dictionary_encode()
    new = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    lookup = np.full(used.size, -1, dtype=_code_type(len(encoded.dictionary)))
    lookup[kept] = new[: kept.size]
    codes = lookup.take(positions, mode="wrap")
    if own is not None:
        _fill(column, codes, own, new[kept.size :])
    unknown = int(np.count_nonzero(positions == -2))
    return pd.Categorical.from_codes(codes, categories=pd.Index(encoded.dictionary.to_pandas()), validate=False), unknown


def _own_texts(column: GrowingColumn) -> Texts | None:
    """Return the texts that the column itself holds, with one dictionary for all."""
    if not column.texts:
        return None
    parts = [
        pa.DictionaryArray.from_arrays(part.indices.cast(pa.int32()), part.dictionary.cast(pa.large_string()))
        for _, part in column.texts
    ]
    return pa.concat_arrays(pa.chunked_array(parts).unify_dictionaries().chunks)


def _fill(column: GrowingColumn, codes: NDArray[Any], own: Texts, new: NDArray[Any]) -> None:
    """Write the codes of the column's own texts to their rows."""
    at = 0
    for start, part in column.texts:
        indices = own.indices.slice(at, len(part))
        rows = np.flatnonzero(indices.is_valid().to_numpy(zero_copy_only=False))
        codes[start + rows] = new[indices.drop_null().to_numpy()]
        at += len(part)


def _code_type(count: int) -> Any:
    """Return the smallest type for this many codes."""
    return np.min_scalar_type(-max(count, 1))
