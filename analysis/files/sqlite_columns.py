"""Columns of SQLite tables as pandas columns, read from the file's pages: nothing stored in the file is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.files.sqlite_records import Batch


def load(
    database: Database, table: str, needed: Sequence[str], others: Sequence[str] = (), numbers_as_texts: bool = False
) -> pd.DataFrame:
    """Return columns of whole numbers (Int64), or of texts if a name begins with "text:".

    needed: columns that the table must have; otherwise raise EvidenceError. others: columns that are null if the table lacks
    them. A table that does not exist has no rows. numbers_as_texts: whether numbers may be stored as texts; other texts are
    null then.
    """
    present = database.columns(table)
    missing = [name for name in needed if present and name.removeprefix("text:") not in present]
    if missing:
        lacking = missing[0].removeprefix("text:")
        raise EvidenceError(f"{database.path}: table {table}: has no column {lacking}; export or record it again")
    names = [*needed, *others]
    plain = [name.removeprefix("text:") for name in names]

    def convert(rows: Batch) -> list[Any]:
        return [_texts(rows, name[5:]) if name.startswith("text:") else _numbers(rows, name, numbers_as_texts) for name in names]

    parts = list(database.scan(table, plain, convert)) if present else []
    columns: dict[str, Any] = {}
    for place, (name, column) in enumerate(zip(names, plain, strict=True)):
        pieces = [part[place] for part in parts]
        columns[column] = _joined_texts(pieces) if name.startswith("text:") else _joined_numbers(pieces)
    return pd.DataFrame(columns)


def _numbers(rows: Batch, name: str, as_texts: bool) -> tuple[Any, Any]:
    try:
        values, null = rows.integers(name)
    except EvidenceError:
        if not as_texts:
            raise
        counted = text_tables.counts(_texts(rows, name).to_pandas().astype("str"))
        return counted.to_numpy(np.int64, na_value=0), counted.isna().to_numpy(bool)
    return values, np.zeros(rows.size, dtype=bool) if null is None else null


def _joined_numbers(pieces: list[tuple[Any, Any]]) -> Any:
    values = np.concatenate([np.zeros(0, dtype=np.int64), *(values for values, _ in pieces)])
    null = np.concatenate([np.zeros(0, dtype=bool), *(null for _, null in pieces)])
    return pd.arrays.IntegerArray(values, null)


def _texts(rows: Batch, name: str) -> Any:
    result = rows.texts(name)
    return pa.nulls(rows.size, pa.large_string()) if result is None else result.cast(pa.large_string())


def _joined_texts(pieces: list[Any]) -> Any:
    joined: Any = pa.chunked_array(pieces, type=pa.large_string()).to_pandas()
    return joined.astype("str").astype("category").array


def names(database: Database, table: str, column: str = "string") -> dict[int, str | None]:
    """Return the texts of a table by id."""
    rows = load(database, table, ("id", f"text:{column}"))
    result: list[Any] = rows[column].astype("object").tolist()
    return dict(zip(rows["id"].tolist(), (text if isinstance(text, str) else None for text in result), strict=True))


def count(database: Database, table: str) -> int:
    """Return the number of rows of a table; 0 if it does not exist."""
    return sum(database.scan(table, (), lambda rows: rows.size))
