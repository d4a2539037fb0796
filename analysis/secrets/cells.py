"""Search databases for values that look like secrets: text cells, judged by content, their row's name and the row before."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.sqlite_names import stored_tables
from kernelscope.analysis.secrets import screens as secret_screens
from kernelscope.tracer.inside import secret_values
from kernelscope.tracer.inside.secret_values import shown

_MOST_ROWS = 100_000  # at each end of a table
_MOST_TABLE = 1 << 26  # bytes of text in each end of a table
_MOST_CELL = 1 << 24
_SCREENED = 1 << 23  # bytes of cells to screen at once


class CellHit(NamedTuple):
    """A finding in a cell of a database: bytes start to end of its value."""

    table: str
    row: int
    column: str
    start: int
    end: int
    what: str
    value: bytes

    @property
    def place(self) -> str:
        """The place, for messages."""
        return f"table {shown(self.table)}, row {self.row}, column {shown(self.column)}"


def open_database(path: Path) -> closing[sqlite3.Connection]:
    """Open a SQLite file read-only, with text as bytes; nothing in it can run, and no cell of absurd size is loaded."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise damaged(path, error) from error
    return closing(prepared(database, path.stat().st_size, _MOST_CELL))


def prepared(database: sqlite3.Connection, size: int, most_cell: int) -> sqlite3.Connection:
    """Make a database of this size return text as bytes, and neither larger cells nor endless rows."""
    database.text_factory = bytes
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most_cell)
    steps = iter(range(100 + size // 10_000))
    # pages that point at each other can make a small file's tables endless: so steps are limited by the file's size
    database.set_progress_handler(lambda: next(steps, None) is None, 100_000)
    return database


def damaged(path: Path, error: sqlite3.Error) -> EvidenceError:
    """Return the error for a database that cannot be read."""
    return EvidenceError(f"{path}: damaged SQLite file ({shown(str(error), 200)}); copy or export it again")


def tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables stored in the database itself."""
    return sorted(stored_tables(database))


def quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


class StoredColumns(NamedTuple):
    """A table's stored columns. text: those declared for text or blobs, or without a type; key: the name of the row number.

    computed: whether there are also columns that are computed when read.
    """

    names: list[str]
    text: list[str]
    key: str | None
    computed: bool = False

    def rewritable(self, path: Path, table: str) -> str:
        """Return the name of the row number; raise EvidenceError if rows cannot be rewritten by it."""
        if self.key is None or self.computed:
            why = "computed columns" if self.computed else "no numbered rows"
            raise EvidenceError(f"{path}: table {shown(table)} has {why}, as no profiler's has; it cannot be rewritten safely")
        return self.key


def columns(database: sqlite3.Connection, table: str) -> StoredColumns:
    """Return a table's columns, without generated ones (computed when read)."""
    rows = database.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    stored = [(str(row[1], "utf8", "replace"), str(row[2] or b"", "utf8", "replace").upper()) for row in rows if row[6] == 0]
    names = [name for name, _ in stored]
    taken = {name.lower() for name in names}
    key = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if key:
        try:
            database.execute(f"SELECT {key} FROM {quoted(table)} LIMIT 0")  # noqa: S608
        except (sqlite3.OperationalError, UnicodeDecodeError):  # the latter from SQL that SQLite quotes in its error
            key = None  # a table WITHOUT ROWID
    text = [name for name, kind in stored if not kind or any(word in kind for word in ("CHAR", "TEXT", "CLOB", "BLOB"))]
    return StoredColumns(names, text, key, computed=any(row[6] in (2, 3) for row in rows))


class StoredCell(NamedTuple):
    """A cell with text or a blob. name: the name in its row, if the row has one."""

    table: str
    row: int
    column: str
    value: bytes
    name: bytes | None = None


def partial_cells(database: sqlite3.Connection, partly: list[str]) -> Iterator[list[StoredCell]]:
    """Yield cells of text columns; add to `partly` the names of tables that are not read completely."""
    for table in tables(database):
        described = columns(database, table)
        if not described.text:
            continue
        selected = f"SELECT {described.key or 0}, {', '.join(map(quoted, described.text))} FROM {quoted(table)}"  # noqa: S608
        ends, whole = _ends(database, table, described.key)
        for end in ends:
            part = _TablePart(_MOST_ROWS, _MOST_TABLE)
            try:
                cursor = database.execute(f"{selected} WHERE ({_holding_text(described.text)}) AND {end}")
                yield from _cells(cursor, table, described.text, part)
            except sqlite3.DataError:  # a cell is larger than the limit
                part.size = 0
            whole = whole and not part.full
        if not whole:
            partly.append(shown(table))


def _ends(database: sqlite3.Connection, table: str, key: str | None) -> tuple[list[str], bool]:
    """Return conditions for the rows to search (in a large table the first and the last ones), and whether these are all."""
    if key is None:
        return ["1"], True
    # one at a time: for both at once SQLite scans the whole table
    low, high = (database.execute(f"SELECT {edge}({key}) FROM {quoted(table)}").fetchone()[0] for edge in ("min", "max"))  # noqa: S608
    if low is None:
        return [], True
    if high - low < 2 * _MOST_ROWS:
        return [f"{key} BETWEEN {low} AND {high}"], True
    return [f"{key} < {low + _MOST_ROWS}", f"{key} > {high - _MOST_ROWS}"], False


def _holding_text(names: list[str]) -> str:
    """Return a condition that SQLite itself checks: most rows of profilers hold only numbers, or nulls, skipped fastest."""
    return " OR ".join(f"({quoted(name)} IS NOT NULL AND typeof({quoted(name)}) IN ('text', 'blob'))" for name in names)


def all_cells(database: sqlite3.Connection) -> Iterator[list[StoredCell]]:
    """Yield all cells of all tables that hold text or blobs, whatever the column's type."""
    for table in tables(database):
        described = columns(database, table)
        if not described.names:
            continue
        some = _holding_text(described.names)
        names = ", ".join(map(quoted, described.names))
        cursor = database.execute(f"SELECT {described.key or 0}, {names} FROM {quoted(table)} WHERE {some}")  # noqa: S608
        yield from _cells(cursor, table, described.names, None)


@dataclass
class _TablePart:
    """The rows and bytes of text that may still be read from a part of a table."""

    rows: int
    size: int

    @property
    def full(self) -> bool:
        """Whether the limit is reached, so the table may hold more."""
        return self.rows <= 0 or self.size <= 0


def _cells(cursor: sqlite3.Cursor, table: str, names: list[str], part: _TablePart | None) -> Iterator[list[StoredCell]]:
    """Yield a query's cells, in batches of a few hundred rows; the first column is the row number."""
    lowered = [name.lower() for name in names]
    named = lowered.index("name") + 1 if "name" in lowered and "value" in lowered else None
    while rows := cursor.fetchmany(min(500, part.rows) if part else 500):
        cells = [
            StoredCell(table, row[0], name, row[place], row[named] if named and lowered[place - 1] == "value" else None)
            for place, name in enumerate(names, 1)
            for row in rows
            if isinstance(row[place], bytes) and row[place]
        ]
        yield cells
        if part:
            part.rows -= len(rows)
            part.size -= sum(len(cell.value) for cell in cells)
            if part.full:
                return


def screened(batches: Iterator[list[StoredCell]], path: Path, thorough: bool = False) -> Iterator[CellHit]:
    """Yield the findings in cells. Cells are screened many at a time, as starting a screening costs more than a small table."""
    pending: list[StoredCell] = []
    size = 0
    option = False
    try:
        for cells in batches:
            pending += cells
            size += sum(len(cell.value) for cell in cells)
            if len(pending) >= 20_000 or size >= _SCREENED:
                option = yield from _judged(pending, option, thorough)
                pending, size = [], 0
        yield from _judged(pending, option, thorough)
    except sqlite3.Error as error:
        raise damaged(path, error) from error


def _judged(cells: list[StoredCell], option: bool, thorough: bool) -> Generator[CellHit, None, bool]:
    """Yield the findings in cells; return whether the last cell is an option whose argument comes next.

    A cell is judged by its content, by its row's name (columns name and value, in environments) and, if command lines are stored
    with one argument per row, by the option in the row before.
    """
    spans = secret_screens.spans_of([cell.value for cell in cells], thorough)
    for place, cell in enumerate(cells):
        result = spans.get(place, [])
        if cell.name is not None:
            if not result:
                result = _judged_by_name(cell, option, thorough)
            option = secret_values.secret_option(cell.value)
        for span in result:
            yield CellHit(cell.table, cell.row, cell.column, span.start, span.end, span.what, cell.value[span.start : span.end])
    return option


def _judged_by_name(cell: StoredCell, option: bool, thorough: bool) -> list[secret_values.Span]:
    name = cell.name if isinstance(cell.name, bytes) and secret_values.secret_name(cell.name) else b""
    if (not name and not option) or not secret_values.value_counts(name or b"--password", cell.value, True, thorough):
        return []
    edge = 1 if len(cell.value) > 2 and cell.value[:1] == cell.value[-1:] and cell.value[:1] in b"\"'" else 0
    what = f"value of {shown(name.decode('ascii', 'replace'))}" if name else "argument of a secret option"
    return [secret_values.Span(edge, len(cell.value) - edge, what)]
