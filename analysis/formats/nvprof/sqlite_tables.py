"""Reader of nvprof's SQLite files (.nvprof, .nvvp, .sql): CUPTI activity records, one table per kind of record.

The columns are the fields of CUPTI's activity structures in the file's version (cupti_activity.h). Versions differ in their
tables and columns, so columns are selected by name. SQLite stores any type of value in any column: only values of the requested
type are returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.files.sqlite_records import Batch

PREFIX = "CUPTI_ACTIVITY_KIND_"
STRINGS = "StringTable"

_TYPES = {"int": "integer", "int?": "integer", "text": "text", "blob": "blob"}


class NvprofDatabase(Database):
    """One file; use it in a `with` statement. unreadable: table -> rows that were left out (see `select`)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.unreadable: dict[str, int] = {}

    def select(self, table: str, columns: Mapping[str, str]) -> pd.DataFrame:
        """Return columns of a table; rows in which one of them has another type are left out and counted in `unreadable`.

        columns: their types: "int" (int64), "text", "blob", or "int?" (Int64) for an optional column, null if the table lacks
        it. An absent table yields no rows. Nor does one that lacks any other column: its rows count as left out.
        """
        present = self.columns(table)
        wanted = {name: kind for name, kind in columns.items() if name in present or kind != "int?"}
        complete = bool(wanted) and present >= wanted.keys()
        parts = list(self.scan(table, list(wanted), lambda rows: _typed(rows, wanted) if complete else ([], rows.size)))
        left_out = sum(count for _, count in parts)
        if left_out:
            self.unreadable[table] = left_out
        pieces = [values for values, _ in parts if values]
        result = pd.DataFrame(
            {name: _column([part[place] for part in pieces], kind) for place, (name, kind) in enumerate(wanted.items())}
        )
        absent = pd.Series(pd.NA, index=result.index, dtype="Int64")
        return result.assign(**{name: absent for name in columns if name not in wanted})

    def maximum(self, table: str, column: str) -> int | None:
        """Return the largest whole number in a column; None if there is none."""
        parts = self.scan(table, (column,), lambda rows: _typed(rows, {column: "int"})[0])
        return max((int(part[0].max()) for part in parts if part), default=None)

    def strings(self) -> dict[int, str]:
        """Return the texts by their ids; id 0 stands for none."""
        table = self.select(STRINGS, {"_id_": "int", "value": "text"})
        result = dict(zip(table["_id_"].tolist(), table["value"].tolist(), strict=True))
        return {number: text for number, text in result.items() if number != 0}

    def version(self) -> int | None:
        """Return the version of the schema, in nvprof's numbering: 8 is CUDA 8's, 12 that of CUDA 10.1 and later."""
        table = self.select("Version", {"version": "int"})
        return int(table["version"].iloc[0]) if len(table) else None


def _typed(rows: Batch, wanted: Mapping[str, str]) -> tuple[list[Any], int]:
    """Return the columns of the rows whose values all have the wanted types, and the number of other rows."""
    good = np.logical_and.reduce([rows.of_type(name, _TYPES[kind]) for name, kind in wanted.items()])
    left_out = rows.size - int(np.count_nonzero(good))
    if left_out == rows.size:
        return [], left_out
    chosen = rows.only(good) if left_out else rows
    return [_values(chosen, name, kind) for name, kind in wanted.items()], left_out


def _values(rows: Batch, name: str, kind: str) -> Any:
    if kind == "blob":
        return rows.blobs(name)
    texts = rows.texts(name) if kind == "text" else None
    return rows.integers(name)[0] if texts is None else texts.to_pylist()


def _column(parts: list[Any], kind: str) -> Any:
    if not kind.startswith("int"):
        return pd.Series([value for part in parts for value in part], dtype=object)
    values = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return pd.array(values, dtype="Int64") if kind == "int?" else values
