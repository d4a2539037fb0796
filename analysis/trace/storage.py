"""A Trace on disk: one Parquet file a table, and info.json with what is known about the capture."""

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
_MANY = 10_000  # rows of a table in which it is worth while to look for columns that hold the same
# Which pandas raises where what it noted in a file of its types is damaged
_DAMAGED_NOTES = (KeyError, TypeError, AttributeError)
_EMPTY = {
    name: pa.schema([(column.name, _TYPES[column.dtype]) for column in columns]).empty_table() for name, columns in TABLES.items()
}


def save(trace: Trace, folder: Path, **facts: Any) -> None:
    """Write a Trace into a folder, which is made; `facts` go into info.json beside its info and diagnostics."""
    save_tables(trace, folder)
    save_facts(folder, {**facts, "info": trace.info, "diagnostics": trace.diagnostics})


def save_tables(trace: Trace, folder: Path) -> None:
    """Write a Trace's tables into a folder, which is made; without `save_facts` it is incomplete."""
    folder.mkdir(parents=True)
    for name in TABLES:
        _write(_packed(name, getattr(trace, name)), folder / f"{name}.parquet")


def save_facts(folder: Path, content: dict[str, Any]) -> None:
    """Write info.json: a Trace's `info` and `diagnostics`, and what else is to be known of it."""
    (folder / "info.json").write_text(json.dumps(content), encoding="utf8")


def _packed(name: str, rows: pd.DataFrame) -> pa.Table:
    """Return a table as it is written: without columns that hold nothing, as many of a large capture do, which `load` adds again.

    Nor are columns written that hold the same in all of many rows: it stands in the file's metadata. Of a column without nulls it
    is said that it has none, so that it is not stored for every row.
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
    if not columns:  # one says how many rows there are
        first = next(iter(same))
        columns[first] = rows[first].array
    table = pa.Table.from_pandas(pd.DataFrame(columns, copy=False), preserve_index=False, nthreads=1)  # others have other work
    fields = [field.with_nullable(table[field.name].null_count > 0) for field in table.schema]
    metadata: Any = {**(table.schema.metadata or {}), _SAME: json.dumps(same)}
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, metadata))


def _same(values: pd.api.extensions.ExtensionArray) -> int | str | None:
    """Return the integer or text that all values are, None where they differ or are of another type."""
    if isinstance(values, pd.Categorical):
        code = values.codes[0]
        return str(values.categories[code]) if code >= 0 and bool((values.codes == code).all()) else None
    if values.dtype.kind not in "iub" or pd.isna(values[-1]) or values.isna().any() or values[0] != values[-1]:
        return None
    return int(values[0]) if bool((values == values[0]).all()) else None


def _without_mask(values: pd.api.extensions.ExtensionArray) -> Any:
    """Return integers that may be null but are not as plain ones, which need not be looked through for nulls."""
    if not isinstance(values, pd.arrays.IntegerArray) or values.isna().any():
        return values
    return values.to_numpy(str(values.dtype).lower())


def _write(table: pa.Table, file: Path) -> None:
    """Write a table: integers as differences, as times ascend, in a fraction of the default's time and space.

    What else there is are few distinct texts: those are compressed, as they gain most by it and cost least.
    """
    integers = {field.name: "DELTA_BINARY_PACKED" for field in table.schema if pa.types.is_integer(field.type)}
    others = [field.name for field in table.schema if field.name not in integers]
    encoding: Any = {"use_dictionary": others, "column_encoding": integers or None}
    compression: Any = {field.name: "NONE" if field.name in integers else "LZ4" for field in table.schema}
    parquet_files.write(table, file, compression=compression, write_statistics=False, **encoding)


def facts(folder: Path) -> dict[str, Any]:
    """Return the content of info.json; raise EvidenceError when it cannot be read."""
    try:
        content = json_text.parsed((folder / "info.json").read_text(encoding="utf8"))
        return {**content, "info": dict(content["info"]), "diagnostics": dict(content["diagnostics"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{folder}: the trace is damaged or incomplete ({error}); make it again") from error


def load(folder: Path) -> Trace:
    """Return the Trace in a folder; raise EvidenceError when it is damaged."""
    known = facts(folder)
    try:
        files = {name: folder / f"{name}.parquet" for name in TABLES if _is_there(folder, name)}
        tables = {name: _unpacked(name, parquet_files.read(file)) for name, file in files.items()}
    except MemoryError:  # which Arrow raises as an error of its own, too
        raise
    except (OSError, ValueError, pa.ArrowException, *_DAMAGED_NOTES) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvidenceError(f"{folder}: the trace is damaged ({reason}); make it again") from error
    return Trace(**tables, info=known["info"], diagnostics=known["diagnostics"])


def _is_there(folder: Path, name: str) -> bool:
    """Return whether a table is to be read: folders of earlier versions lack those that are new."""
    return name not in _NEW or (folder / f"{name}.parquet").exists()


def _unpacked(name: str, table: pa.Table) -> pd.DataFrame:
    """Return what `_packed` was given."""
    same = json_text.parsed((table.schema.metadata or {}).get(_SAME, "{}"))
    if not isinstance(same, dict):
        raise ValueError("columns that hold the same are not told as agreed")
    if name == "calls" and table.num_rows and "name" not in {*table.column_names, *same}:
        raise ValueError("its calls have no names")
    return conform(name, table.to_pandas().assign(**{column: _repeated(value, len(table)) for column, value in same.items()}))


def _repeated(value: Any, count: int) -> Any:
    if isinstance(value, str):
        return pd.Categorical.from_codes(np.zeros(count, dtype=np.int8), pd.Index([value], dtype="str"))
    if not isinstance(value, int):
        raise ValueError("what all rows hold is neither text nor an integer")
    return np.full(count, value)
