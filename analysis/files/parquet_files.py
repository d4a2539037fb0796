"""Parquet files by any path that the system allows: pyarrow takes texts for UTF-8, which paths need not be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def opened(path: Path | str) -> Any:
    """Return a file that is open to be read, for pyarrow. Raises OSError where it cannot be opened, or is a pipe or a device."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError("no plain file")
    encoded: Any = os.fsencode(path)  # which its types do not tell of
    return pa.OSFile(encoded, "rb")


def read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a file's table, or these columns of it. Raises OSError, pa.ArrowException or ValueError for what is none."""
    with opened(path) as file:
        return pq.read_table(file, columns=list(columns) if columns is not None else None)


def frame(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return what `read` does as a table of pandas; integers of which some are null become floats. Raises as `read` does.

    What pandas itself noted in the file is left aside: it may be damaged.
    """
    return read(path, columns).replace_schema_metadata(None).to_pandas()


def schema(path: Path) -> pa.Schema:
    """Return the schema of a file's table. Raises as `read` does."""
    with opened(path) as file:
        return pq.read_schema(file)


def write(table: pa.Table, path: Path, **options: Any) -> None:
    """Write a table; options are pyarrow's. Raises OSError where that fails."""
    encoded: Any = os.fsencode(path)
    with pa.OSFile(encoded, "wb") as file:
        pq.write_table(table, file, **options)
