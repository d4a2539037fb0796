"""A Trace on disk: one Parquet file per table, and info.json with facts about the capture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text, parquet_files
from kernelscope.analysis.trace import TABLES, Trace, conform
from kernelscope.analysis.trace.categories import is_null

_NEVER_NULL = ("int64", "float64", "bool")
_TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(), "Int64": pa.int64(), "Int32": pa.int32(), "float64": pa.float64(), "bool": pa.bool_(),
    "boolean": pa.bool_(), "string": pa.large_string(), "category": pa.large_string(),
}  # fmt: skip
_SAME = b"kernelscope: the same in all rows"
_NEW = ("metrics",)
_MANY = 10_000  # least rows of a table whose columns are checked for being constant
# pandas raises these if the metadata that it wrote about its types is damaged
_DAMAGED_NOTES = (KeyError, TypeError, AttributeError)
_EMPTY = {
    name: pa.schema([(column.name, _TYPES[column.dtype]) for column in columns]).empty_table() for name, columns in TABLES.items()
}


def save(trace: Trace, folder: Path, **facts: Any) -> None:
    """Write a Trace into a new folder; `facts` go into info.json with its info and diagnostics."""
    save_tables(trace, folder)
    save_facts(folder, {**facts, "info": trace.info, "diagnostics": trace.diagnostics})


def save_tables(trace: Trace, folder: Path) -> None:
    """Write a Trace's tables into a new folder; it is incomplete without `save_facts`."""
    folder.mkdir(parents=True)
    for name in TABLES:
        _write(_packed(name, getattr(trace, name)), folder / f"{name}.parquet")


def save_facts(folder: Path, content: dict[str, Any]) -> None:
    """Write info.json: a Trace's `info` and `diagnostics`, and other facts about it."""
    (folder / "info.json").write_text(json.dumps(content), encoding="utf8")


def _packed(name: str, rows: pd.DataFrame) -> pa.Table:
    """Return a table as it is written, without empty columns, of which a large capture has many; `load` adds them again.

    In long tables, a constant column is written into the file's metadata instead. A column without nulls is marked as such, so
    that no null mask is stored for its rows.
    """
    if rows.empty:
        return _EMPTY[name]
    nullable = {column.name for column in TABLES[name] if column.default is None and column.dtype not in _NEVER_NULL}
    columns: dict[str, Any] = {}
    same: dict[str, int | str] = {}
    for column in rows:
        values = rows[column].array
        if column in nullable and is_null(values):
            continue
        value = _same(values) if len(values) >= _MANY else None
        if value is None:
            columns[str(column)] = _without_mask(values)
        else:
            same[str(column)] = value
    if not columns:  # one column must give the number of rows
        first = next(iter(same))
        columns[first] = rows[first].array
    table = pa.Table.from_pandas(pd.DataFrame(columns, copy=False), preserve_index=False, nthreads=1)  # others are busy
    fields = [field.with_nullable(table[field.name].null_count > 0) for field in table.schema]
    metadata: Any = {**(table.schema.metadata or {}), _SAME: json.dumps(same)}
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, metadata))


def _same(values: pd.api.extensions.ExtensionArray) -> int | str | None:
    """Return the integer or text that all values equal; None if they differ or have another type."""
    if isinstance(values, pd.Categorical):
        code = values.codes[0]
        return str(values.categories[code]) if code >= 0 and bool((values.codes == code).all()) else None
    if values.dtype.kind not in "iub" or pd.isna(values[-1]) or values.isna().any() or values[0] != values[-1]:
        return None
    return int(values[0]) if bool((values == values[0]).all()) else None


def _without_mask(values: pd.api.extensions.ExtensionArray) -> Any:
    """Return nullable integers without nulls as plain integers, which need no search for nulls."""
    if not isinstance(values, pd.arrays.IntegerArray) or values.isna().any():
        return values
    return values.to_numpy(str(values.dtype).lower())


def _write(table: pa.Table, file: Path) -> None:
    """Write a table: integers as differences, because times ascend, in a fraction of the default's time and space.

    Other columns have few distinct texts and are compressed: they gain most from it and cost least.
    """
    integers = {field.name: "DELTA_BINARY_PACKED" for field in table.schema if pa.types.is_integer(field.type)}
    others = [field.name for field in table.schema if field.name not in integers]
    encoding: Any = {"use_dictionary": others, "column_encoding": integers or None}
    compression: Any = {field.name: "NONE" if field.name in integers else "LZ4" for field in table.schema}
    parquet_files.write(table, file, compression=compression, write_statistics=False, **encoding)


def facts(folder: Path) -> dict[str, Any]:
    """Return the content of info.json; raise EvidenceError if it cannot be read."""
    try:
        content = json_text.parsed((folder / "info.json").read_text(encoding="utf8"))
        return {**content, "info": dict(content["info"]), "diagnostics": dict(content["diagnostics"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{folder}: the trace is damaged or incomplete ({error}); make it again") from error


def load(folder: Path) -> Trace:
    """Return the Trace in a folder; raise EvidenceError if it is damaged."""
    known = facts(folder)
    try:
        files = {name: folder / f"{name}.parquet" for name in TABLES if _is_there(folder, name)}
        tables = {name: _unpacked(name, parquet_files.read(file)) for name, file in files.items()}
    except MemoryError:  # Arrow's subclass of it must not be taken for damage
        raise
    except (OSError, ValueError, pa.ArrowException, *_DAMAGED_NOTES) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvidenceError(f"{folder}: the trace is damaged ({reason}); make it again") from error
    return Trace(**tables, info=known["info"], diagnostics=known["diagnostics"])


def _is_there(folder: Path, name: str) -> bool:
    """Return whether a table should be read: folders of earlier versions lack new tables."""
    return name not in _NEW or (folder / f"{name}.parquet").exists()


def _unpacked(name: str, table: pa.Table) -> pd.DataFrame:
    """Return the table that `_packed` was given."""
    same = json_text.parsed((table.schema.metadata or {}).get(_SAME, "{}"))
    if not isinstance(same, dict):
        raise ValueError("the list of constant columns is invalid")
    if name == "calls" and table.num_rows and "name" not in {*table.column_names, *same}:
        raise ValueError("its calls have no names")
    return conform(name, table.to_pandas().assign(**{column: _repeated(value, len(table)) for column, value in same.items()}))


def _repeated(value: Any, count: int) -> Any:
    if isinstance(value, str):
        return pd.Categorical.from_codes(np.zeros(count, dtype=np.int8), pd.Index([value], dtype="str"))
    if not isinstance(value, int):
        raise ValueError("a constant column is neither text nor an integer")
    return np.full(count, value)
