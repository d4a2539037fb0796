"""Parquet files under any path that the system allows: pyarrow assumes UTF-8, which paths may not be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def opened(path: Path | str) -> Any:
    """Open a file for pyarrow to read. Raise OSError if it cannot be opened, or is a pipe or a device."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError("not a regular file")
    encoded: Any = os.fsencode(path)  # pyarrow's type stubs do not allow bytes
    return pa.OSFile(encoded, "rb")


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Raise pa.ArrowInvalid where pyarrow raises an error of Python's, as for names of columns that are no UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"a column's name is no text: {error}") from error


def read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a file's table, or these columns of it. Raise OSError, pa.ArrowException or ValueError if it cannot be read."""
    with opened(path) as file, _named():
        table = pq.read_table(file, columns=list(columns) if columns is not None else None)
        _ = table.column_names  # pyarrow decodes names only when they are asked for
        return table


def frame(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the table of `read` as a pandas data frame; integers with nulls become floats. Raise as `read` does.

    Metadata of pandas in the file is ignored, as it may be damaged.
    """
    return read(path, columns).replace_schema_metadata(None).to_pandas()


def schema(path: Path) -> pa.Schema:
    """Return the schema of a file's table. Raise as `read` does."""
    with opened(path) as file, _named():
        return pq.read_schema(file)


def write(table: pa.Table, path: Path, **options: Any) -> None:
    """Write a table; options are pyarrow's. Raise OSError if that fails."""
    encoded: Any = os.fsencode(path)
    with pa.OSFile(encoded, "wb") as file:
        pq.write_table(table, file, **options)
