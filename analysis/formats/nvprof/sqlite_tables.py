"""Reader of nvprof's SQLite files (.nvprof, .nvvp, .sql): CUPTI activity records, one table a kind of record.

The columns are those of CUPTI's activity structures at the file's version (cupti_activity.h); versions differ in which tables
and columns there are, so columns are asked for by name. SQLite keeps any type of value in any column and a damaged or hostile
file can say it has more rows than it has bytes: only values of the asked type are returned, and reading is bounded by the size.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import sqlite_pages
from kernelscope.analysis.files.magic import SQLITE_MAGIC

PREFIX = "CUPTI_ACTIVITY_KIND_"
STRINGS = "StringTable"

_CHUNK = 1 << 16
_TICK = 1 << 20  # instructions of SQLite's machine between two looks at how many there were
_STEPS_PER_BYTE = 16  # a row of n columns has more than n bytes, and takes about 8 instructions a column
_HIDDEN = (2, 3)  # as PRAGMA table_xinfo marks generated columns, whose expressions would run
_TYPES = {"int": "integer", "int?": "integer", "text": "text", "blob": "blob"}


class NvprofDatabase:
    """One file, opened read-only; use it in a `with` statement. Every failure is an EvidenceError that names the file.

    columns: of each table of activity records and names. unreadable: table -> rows that were left out (see `select`).
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            self._size = self.path.stat().st_size
            with self.path.open("rb") as file:
                if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
                    raise EvidenceError(f"{path}: no SQLite file; name the file that nvprof -o wrote")
            self._connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        except OSError as error:
            raise EvidenceError(f"{path}: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise self._damaged("header", error) from error
        self._connection.text_factory = lambda raw: raw.decode("utf8", errors="replace")
        self._ticks = 0
        self.unreadable: dict[str, int] = {}
        self._connection.set_progress_handler(self._tick, _TICK)
        try:
            self.columns = self._schema()
        except EvidenceError:
            self._connection.close()
            raise

    def __enter__(self) -> NvprofDatabase:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()

    def _tick(self) -> int:
        """Stop a statement that runs longer than a file of this size can ask for."""
        self._ticks += 1
        return int(self._ticks * _TICK > self._size * _STEPS_PER_BYTE + 16 * _TICK)

    def _damaged(self, place: str, error: object) -> EvidenceError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return EvidenceError(f"{self.path}: {place}: damaged SQLite file ({reason}); copy it again or record it again")

    def _chunks(self, place: str, statement: str, limit: int) -> Iterator[list[tuple[object, ...]]]:
        """Return a statement's rows in pieces; refuse more of them than the file can hold."""
        self._ticks = count = 0
        try:
            cursor = self._connection.execute(statement)
            while chunk := cursor.fetchmany(_CHUNK):
                count += len(chunk)
                if count > limit:
                    raise self._damaged(place, "more rows than the file has bytes for")
                yield chunk
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise self._damaged(place, error) from error

    def _rows(self, place: str, statement: str, limit: int = 10_000) -> list[tuple[object, ...]]:
        return [row for chunk in self._chunks(place, statement, limit) for row in chunk]

    def _schema(self) -> dict[str, frozenset[str]]:
        """Return the columns of each table of the file's own: views and virtual tables are none, as they can run anything."""
        columns = {}
        for (name,) in self._rows("sqlite_master", "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"):
            if not isinstance(name, str) or not name.startswith((PREFIX, STRINGS, "Version")):
                continue
            described = self._rows(name, f"PRAGMA table_xinfo({_quoted(name)})")
            if any(row[6] in _HIDDEN for row in described):
                raise EvidenceError(f"{self.path}: table {name}: has generated columns, which nvprof never writes; not read")
            columns[name] = frozenset(str(row[1]) for row in described)
        return columns

    def select(self, table: str, columns: Mapping[str, str]) -> pd.DataFrame:
        """Return columns of a table; rows in which one of them has another type are left out and counted in `unreadable`.

        columns: their types, "int" (int64), "text" or "blob", or "int?" (Int64) where the table need not have the column: it is
        null then. A table that is absent, or has not all of the others, gives no rows.
        """
        present = self.columns.get(table, frozenset())
        wanted = {name: kind for name, kind in columns.items() if name in present or kind != "int?"}
        parts: dict[str, list[Any]] = {name: [] for name in wanted}
        if present.issuperset(wanted) and not self._integers(table, wanted, parts):
            self._typed(table, wanted, parts)
        result = pd.DataFrame({name: _column(part, wanted[name]) for name, part in parts.items()})
        absent = pd.Series(pd.NA, index=result.index, dtype="Int64")
        return result.assign(**{name: absent for name in columns if name not in wanted})

    def _integers(self, table: str, wanted: Mapping[str, str], parts: dict[str, list[Any]]) -> bool:
        """Read columns of nothing but whole numbers from the file's pages, many times faster; return whether they are that."""
        if not all(kind.startswith("int") for kind in wanted.values()):
            return False
        try:
            with sqlite_pages.Database(self.path) as pages:
                batches = list(pages.scan(table, list(wanted), lambda batch: [batch.integers(name) for name in wanted]))
        except EvidenceError:
            return False  # SQL tells which rows are at fault
        if any(null is not None for batch in batches for _, null in batch):
            return False
        for batch in batches:
            for part, (values, _) in zip(parts.values(), batch, strict=True):
                part.append(values)
        return True

    def _typed(self, table: str, wanted: Mapping[str, str], parts: dict[str, list[Any]]) -> None:
        """Read columns of any types, leaving out and counting the rows that have others."""
        typed = " AND ".join(f"typeof({_quoted(name)}) = '{_TYPES[kind]}'" for name, kind in wanted.items())
        listed = ", ".join(_quoted(name) for name in wanted)
        # a row has at least a byte for the type of each value, and one for itself
        limit = self._size // (len(wanted) + 1)
        for chunk in self._chunks(table, f"SELECT {listed} FROM {_quoted(table)} WHERE {typed}", limit):  # noqa: S608
            for name, values in zip(wanted, zip(*chunk, strict=True), strict=True):
                parts[name].append(np.array(values, dtype=np.int64) if wanted[name].startswith("int") else values)
        left_out = self._rows(table, f"SELECT count(*) FROM {_quoted(table)} WHERE NOT ({typed})")[0][0]  # noqa: S608
        if isinstance(left_out, int) and left_out:
            self.unreadable[table] = left_out

    def maximum(self, table: str, column: str) -> int | None:
        """Return the largest whole number in a column; None where there is none."""
        if column not in self.columns.get(table, ()):
            return None
        name = _quoted(column)
        value = self._rows(table, f"SELECT max({name}) FROM {_quoted(table)} WHERE typeof({name}) = 'integer'")[0][0]  # noqa: S608
        return value if isinstance(value, int) else None

    def strings(self) -> dict[int, str]:
        """Return the texts by their ids; id 0 stands for none."""
        table = self.select(STRINGS, {"_id_": "int", "value": "text"})
        result = dict(zip(table["_id_"].tolist(), table["value"].tolist(), strict=True))
        return {number: text for number, text in result.items() if number != 0}

    def version(self) -> int | None:
        """Return the version of the schema, as nvprof counts them: 8 is of CUDA 8, 12 of CUDA 10.1 and later."""
        table = self.select("Version", {"version": "int"})
        return int(table["version"].iloc[0]) if len(table) else None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _column(parts: list[Any], kind: str) -> Any:
    if not kind.startswith("int"):
        return pd.Series([value for part in parts for value in part], dtype=object)
    values = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    return pd.array(values, dtype="Int64") if kind == "int?" else values
