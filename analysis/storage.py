"""A Trace on disk: one Parquet file a table, and info.json with what is known about the capture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import TABLES, Column, Trace, conform


def save(trace: Trace, folder: Path, **facts: Any) -> None:
    """Write a Trace into a folder, which is made; `facts` go into info.json beside its info and diagnostics."""
    folder.mkdir(parents=True)
    for name in TABLES:
        _write(_packed(getattr(trace, name), TABLES[name]), folder / f"{name}.parquet")
    content = {**facts, "info": trace.info, "diagnostics": trace.diagnostics}
    (folder / "info.json").write_text(json.dumps(content), encoding="utf8")


def _packed(rows: pd.DataFrame, columns: Sequence[Column]) -> pa.Table:
    """Return a table as it is written: without columns that hold nothing, as many of a large capture do, which `load` adds again.

    Of a column without nulls it is said that it has none, so that it is not told of every row.
    """
    if rows.empty:
        return pa.Table.from_pandas(rows, preserve_index=False)
    nullable = {column.name for column in columns if column.default is None and column.dtype not in ("int64", "float64", "bool")}
    empty = [name for name in nullable if rows[name].isna().all()]
    table = pa.Table.from_pandas(rows.drop(columns=empty), preserve_index=False)
    fields = [field.with_nullable(table[field.name].null_count > 0) for field in table.schema]
    metadata: Any = table.schema.metadata
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, metadata))


def _write(table: pa.Table, file: Path) -> None:
    """Write a table: integers as differences, as times ascend, in a third of the default's time and space."""
    integers = {field.name: "DELTA_BINARY_PACKED" for field in table.schema if pa.types.is_integer(field.type)}
    others = [field.name for field in table.schema if field.name not in integers]
    encoding: Any = {"use_dictionary": others, "column_encoding": integers or None}
    pq.write_table(table, file, compression="lz4", write_statistics=False, **encoding)


def facts(folder: Path) -> dict[str, Any]:
    """Return the content of info.json; raise EvidenceError when it cannot be read."""
    try:
        content = json.loads((folder / "info.json").read_text(encoding="utf8"))
        return {**content, "info": dict(content["info"]), "diagnostics": dict(content["diagnostics"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{folder}: the trace is damaged or incomplete ({error}); make it again") from error


def load(folder: Path) -> Trace:
    """Return the Trace in a folder; raise EvidenceError when it is damaged."""
    known = facts(folder)
    try:
        tables = {name: conform(name, pq.read_table(folder / f"{name}.parquet").to_pandas()) for name in TABLES}
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EvidenceError(f"{folder}: the trace is damaged ({reason}); make it again") from error
    return Trace(**tables, info=known["info"], diagnostics=known["diagnostics"])
