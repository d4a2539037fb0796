"""Reader of folders that Nsight Systems exports: one Parquet file (parquetdir) or Arrow stream (arrowdir) per table.

The files are named like the tables of a SQLite export and have the same columns; 2023.4 and later write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import parquet_files
from kernelscope.analysis.files.sqlite_records import decoded
from kernelscope.analysis.formats.nsys.tables import Integers, Mask, Texts

SUFFIXES = (".parquet", ".arrow")
_BATCH_ROWS = 1 << 16
_FILE_MAGIC = b"ARROW1"
T = TypeVar("T")


class Folder:
    """The tables of an exported folder. Raises EvidenceError if a file is damaged or is not a table of nsys."""

    def __init__(self, path: Path):
        self.path = path
        try:
            files = sorted(path.iterdir())
        except OSError as error:
            raise EvidenceError(f"{path}: {error.strerror or error}") from error
        self._files = {file.stem: file for suffix in reversed(SUFFIXES) for file in files if file.suffix == suffix}
        self._schemas: dict[str, pa.Schema] = {}

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; empty if there is no such table."""
        return frozenset(self._schema(table).names) if table in self._files else frozenset()

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        if table not in self._files:
            return 0
        with _opened(self._files[table], []) as (_, batches, count):
            rows = sum(batch.num_rows for batch in batches) if count is None else count
            if rows > 1_000_000 + 1000 * self._files[table].stat().st_size:
                raise EvidenceError(f"{self._files[table]}: a file of this size cannot hold {rows} rows; export it again")
            return int(rows)

    def scan(self, table: str, columns: Sequence[str], convert: Callable[[ArrowRows], T]) -> Iterator[T]:
        """Yield the result of `convert` for each batch of rows, in the table's order. Columns that the table lacks are null."""
        if table not in self._files:
            return
        known = [name for name in dict.fromkeys(columns) if name in self.columns(table)]
        place = self._files[table]
        with _opened(place, known) as (_, batches, _):
            for batch in batches:
                yield convert(ArrowRows(place, batch.num_rows, {name: _checked(batch.column(name)) for name in known}))

    def _schema(self, table: str) -> pa.Schema:
        if table not in self._schemas:
            with _opened(self._files[table], []) as (schema, _, _):
                names = schema.names
                if len(set(names)) != len(names):
                    raise EvidenceError(f"{self._files[table]}: two columns have the same name; export it again")
                self._schemas[table] = schema
        return self._schemas[table]


@contextmanager
def _opened(path: Path, columns: list[str]) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch], int | None]]:
    """Give a file's schema, its batches with these columns, and the number of rows, None if not known beforehand."""
    try:
        with parquet_files.opened(path) as file:
            if path.suffix == ".parquet":
                parquet = pyarrow.parquet.ParquetFile(file)
                batches = parquet.iter_batches(_BATCH_ROWS, columns=columns)
                yield parquet.schema_arrow, batches, parquet.metadata.num_rows
                return
            magic = file.read(len(_FILE_MAGIC))
            file.seek(0)
            if magic == _FILE_MAGIC:
                schema = pyarrow.ipc.open_file(file).schema
                reader = pyarrow.ipc.open_file(file, options=_fields(schema, columns))
                yield schema, (reader.get_batch(index) for index in range(reader.num_record_batches)), None
                return
            schema = pyarrow.ipc.open_stream(file).schema
            file.seek(0)
            yield schema, iter(pyarrow.ipc.open_stream(file, options=_fields(schema, columns))), None
    except UnicodeDecodeError as error:  # in names that pyarrow quotes
        raise EvidenceError(f"{path}: damaged (unreadable names); copy or export the folder again") from error
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise EvidenceError(f"{path}: damaged ({reason}); copy or export the folder again") from error


def _checked(column: Any) -> Any:
    """Return a validated column, safe to use whatever the file holds; texts as bytes, as they may not be UTF-8."""
    if pa.types.is_dictionary(column.type):
        column.validate(full=True)
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_binary(column.type):
        column.validate()
        column = column.cast(pa.large_binary())
    column.validate(full=True)
    return column


def _fields(schema: pa.Schema, columns: list[str]) -> pyarrow.ipc.IpcReadOptions:
    wanted = [schema.names.index(name) for name in columns] or [0]
    return pyarrow.ipc.IpcReadOptions(included_fields=wanted if schema.names else [])


class ArrowRows:
    """Some consecutive rows of a table."""

    def __init__(self, place: Path, size: int, columns: dict[str, Any]):
        self._place = place
        self._columns = columns
        self.size = size

    def integers(self, name: str) -> tuple[Integers, Mask | None]:
        """Return a column's integers (0 if null) and which are null, None if none is."""
        column = self._column(name)
        if column is None:
            return np.zeros(self.size, dtype=np.int64), np.ones(self.size, dtype=np.bool_)
        if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            raise self._wrong(name, "integers")
        null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        values = (column if null is None else column.fill_null(0)).to_numpy(zero_copy_only=False)
        # Numbers beyond 63 bits wrap, as in a SQLite export.
        return values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64), null

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column's numbers, NaN if null."""
        column = self._column(name)
        if column is None:
            return np.full(self.size, np.nan)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise self._wrong(name, "numbers")
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(values, dtype=np.float64)

    def texts(self, name: str) -> Texts | None:
        """Return a column's texts, None if all are null."""
        column = self._column(name)
        if column is None or column.null_count == len(column):
            return None
        if not pa.types.is_large_binary(column.type):
            raise self._wrong(name, "texts")
        return decoded(column.dictionary_encode(), "utf8")

    def _column(self, name: str) -> Any:
        column = self._columns.get(name)
        return None if column is None or pa.types.is_null(column.type) else column

    def _wrong(self, name: str, what: str) -> EvidenceError:
        kind = str(self._columns[name].type).replace("large_binary", "string")
        return EvidenceError(f"{self._place}: column {name} holds {kind}, not {what}; export the folder again")
