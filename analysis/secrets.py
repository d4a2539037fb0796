"""Find what looks like a secret in a capture, and say where it is: the place, never the value.

Profilers record the environment and the command line of what they run: Nsight Systems' exports in TARGET_INFO_SYSTEM_ENV
(DeviceEnvironment: variables joined by semicolons), META_DATA_CAPTURE (one variable a row) and StringIds (environments of all
processes, joined by zero bytes); PyTorch's traces in whatever metadata was added; logs anywhere.
"""

from __future__ import annotations

import gzip
import io
import sqlite3
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from kernelscope.analysis import secret_patterns
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.magic import GZIP_MAGIC, SQLITE_MAGIC

REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
LISTED = 20
_BLOCK = 1 << 23
_OVERLAP = secret_patterns.LONGEST + 1024
_MOST_BYTES = 1 << 29  # of a file without tables; of larger ones the first and the last half of this are looked through
_MOST_SECOND_LOOKS = 1 << 23  # bytes that look suspicious and are looked at again, with slower patterns
_MOST_ROWS = 100_000  # of each table: the first and the last so many
_MOST_TABLE = 1 << 26  # bytes of text in each end of a table
_MOST_CELL = 1 << 24


@dataclass(frozen=True)
class Finding:
    """What looks like a secret (`what`: GitHub token, value of HF_TOKEN, ...) and where it is."""

    place: str
    what: str


@dataclass(frozen=True)
class Findings:
    """What was found.

    listed: the first LISTED findings; total: how many there are in what was looked through; unread: what was not, if anything.
    """

    listed: tuple[Finding, ...] = ()
    total: int = 0
    unread: str | None = None

    def warning(self, path: Path) -> str | None:
        """Return one line that warns of the findings, or None where there are none."""
        if not self.total:
            return None
        first = self.listed[0]
        more = f" and {self.total - 1} more" if self.total > 1 else ""
        return (
            f"{path}: holds what looks like a secret: {first.what} in {first.place}{more}; "
            f"before you share it: kernelscope redact FILE -o OUT"
        )


class Hit(NamedTuple):
    """A finding in a file without tables: bytes start to end of the content (unpacked, as UTF-8)."""

    start: int
    end: int
    what: str
    value: bytes


class CellHit(NamedTuple):
    """A finding in a cell of a database: bytes start to end of what it holds."""

    table: str
    row: int
    column: str
    start: int
    end: int
    what: str
    value: bytes

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"table {shown(self.table)}, row {self.row}, column {shown(self.column)}"


def find(path: Path) -> Findings:
    """Return what looks like a secret in a capture (a file or a folder of files), and where.

    Cheap: files are screened at several hundred MB/s; of databases, text columns are looked through as far as the first and last
    100,000 rows of a table. What was not looked through is said in `unread`. Raises EvidenceError where the file cannot be read.
    """
    try:
        if path.is_dir():
            return _find_in_folder(path)
        with path.open("rb") as file:
            head = file.read(64)
        return _find_in_database(path) if head.startswith(SQLITE_MAGIC) else _find_in_file(path, head)
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error


def remarks(path: Path, unpacked: bytes | memoryview = b"") -> list[tuple[str, str]]:
    """Return what to say of secrets in a capture: (warnings or notes, a line).

    unpacked: what a packed file holds, if it is known: mostly nothing in it is suspicious, so that it suffices.
    """
    if unpacked and not secret_patterns.suspicious(unpacked):
        return []
    try:
        found = find(path)
    except EvidenceError as error:
        return [("notes", f"not looked through for secrets: {error}")]
    warning = found.warning(Path(path.name))
    said = [("warnings", warning)] if warning else []
    return [*said, ("notes", f"not looked through for secrets: {found.unread}")] if found.unread else said


def shown(name: str, most: int = 60) -> str:
    """Return a name out of a capture as it may stand in a message: printable and not long."""
    text = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    return text if len(text) <= most else text[: most - 1] + "…"


def _find_in_file(path: Path, head: bytes) -> Findings:
    budget = _Budget(path.stat().st_size, head.startswith(GZIP_MAGIC))
    found: list[Hit] = []
    total = 0
    with opened(path, head) as file:
        for hit in _hits(file, path, budget):
            total += 1
            found += [hit] if total <= LISTED else []
    if found:
        with opened(path, head) as file:
            found_at = places(file, path, [hit.start for hit in found])
    if head.startswith(REPORT_MAGIC):
        budget.unread.append("parts that the profiler compressed itself")
    listed = tuple(Finding(place, hit.what) for place, hit in zip(found_at, found, strict=True)) if found else ()
    return Findings(listed, total, "; ".join(budget.unread) or None)


def opened(path: Path, head: bytes) -> IO[bytes]:
    """Open a file, unpacking gzip while it is read; UTF-16 is turned into UTF-8."""
    if head.startswith(GZIP_MAGIC):
        return gzip.open(path)  # type: ignore[return-value]
    if not head.startswith(UTF16):
        return path.open("rb")
    if path.stat().st_size > _MOST_BYTES:
        raise EvidenceError(f"{path}: too large for text in UTF-16; turn it into UTF-8")
    try:
        return io.BytesIO(path.read_bytes().decode("utf-16", "surrogatepass").encode("utf8", "surrogatepass"))
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path}: damaged text in UTF-16 (byte {error.start}); copy it again") from error


class _Budget:
    """How much of a file is looked through, so that it costs a fraction of reading it. unread: what was left out, in words."""

    def __init__(self, size: int, packed: bool) -> None:
        self.skip = (_MOST_BYTES // 2, size - _MOST_BYTES // 2) if size > _MOST_BYTES and not packed else None
        self.bytes = _MOST_BYTES if packed else size
        self.second_looks = _MOST_SECOND_LOOKS
        self.unread = [f"bytes {self.skip[0]} to {self.skip[1]}"] if self.skip else []

    def exceeded(self, at: int, second_looks: int) -> bool:
        """Count bytes that are looked at twice; return whether to stop at byte `at`."""
        self.second_looks -= second_looks
        if self.second_looks < 0:
            self.unread.append(f"what follows byte {at}, as too much of it looks suspicious")
        elif at > self.bytes:
            self.unread.append(f"what follows byte {at} of the unpacked content")
        return self.second_looks < 0 or at > self.bytes


def all_hits(file: IO[bytes], path: Path) -> Iterator[Hit]:
    """Yield what may be a secret in all of a file's content, in order, rather too much than too little."""
    return _hits(file, path, None)


def _hits(file: IO[bytes], path: Path, budget: _Budget | None) -> Iterator[Hit]:
    """Yield findings as far as the budget goes; without one, all of them, thoroughly."""
    reached = 0
    for start, data, own in blocks(file, path, budget.skip if budget else None):
        if budget and budget.exceeded(start, 0):
            return
        for low, high in secret_patterns.suspicious(data):
            if budget and budget.exceeded(start + low, high - low):
                return
            for span in secret_patterns.spans(data[low:high], thorough=budget is None):
                at, to = low + span.start, low + span.end
                if at < own and start + at >= reached:
                    reached = start + to
                    yield Hit(start + at, start + to, span.what, data[at:to])


def blocks(file: IO[bytes], path: Path, skip: tuple[int, int] | None = None) -> Iterator[tuple[int, bytes, int]]:
    """Yield a file's content in blocks: where each begins, its bytes, and how many of them are its own.

    The other bytes begin the next block too: what is found there may go on. skip: bytes that are left out. Raises EvidenceError
    where packed content is damaged.
    """
    before, start = b"", 0
    while True:
        try:
            block = file.read(_BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise EvidenceError(f"{path}: compressed data is damaged or cut short ({error}); copy it again") from error
        data = before + block
        last = len(block) < _BLOCK
        own = len(data) if last else len(data) - _OVERLAP
        yield start, data, own
        if last:
            return
        before, start = data[own:], start + own
        if skip and skip[0] <= start < skip[1]:
            before, start = b"", skip[1]
            file.seek(start)


def places(file: IO[bytes], path: Path, offsets: list[int]) -> list[str]:
    """Return where the bytes at these offsets, in order, are: their lines, or the offsets where lines are long."""
    found: list[str] = []
    lines = 1
    for start, data, own in blocks(file, path):
        counted = 0
        while len(found) < len(offsets) and offsets[len(found)] < start + own:
            offset = offsets[len(found)]
            lines += data.count(b"\n", counted, offset - start)
            counted = offset - start
            found.append(f"line {lines}" if offset < 1000 * lines else f"byte {offset}")
        if len(found) == len(offsets):
            break
        lines += data.count(b"\n", counted, own)
    return found


def _find_in_database(path: Path) -> Findings:
    """Look through text columns, of large tables their first and last rows."""
    found: list[Finding] = []
    total = 0
    partly: list[str] = []
    with open_database(path) as database:
        for hit in screened(_partial_cells(database, partly), path):
            total += 1
            if len(found) < LISTED:
                found.append(Finding(hit.place, hit.what))
    names = ", ".join(partly[:3]) + (f" and {len(partly) - 3} more" if len(partly) > 3 else "")
    return Findings(tuple(found), total, f"parts of table {names}" if partly else None)


def open_database(path: Path) -> closing[sqlite3.Connection]:
    """Open a SQLite file read-only, its text as bytes; nothing in it can run and no cell of absurd size is loaded."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    except sqlite3.Error as error:
        raise damaged(path, error) from error
    return closing(prepared(database, path.stat().st_size, _MOST_CELL))


def prepared(database: sqlite3.Connection, size: int, most_cell: int) -> sqlite3.Connection:
    """Make a database of so many bytes give text as bytes, and neither larger cells nor endless rows."""
    database.text_factory = bytes
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most_cell)
    steps = iter(range(100 + size // 10_000))
    # pages that point at each other can make a small file's tables endless: each row that is stored takes some bytes
    database.set_progress_handler(lambda: next(steps, None) is None, 100_000)
    return database


def damaged(path: Path, error: sqlite3.Error) -> EvidenceError:
    """Return the error for a database that cannot be read."""
    return EvidenceError(f"{path}: damaged SQLite file ({shown(str(error), 200)}); copy or export it again")


def tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables that are stored in the database itself."""
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name LIMIT 10000")
    return [str(row[0], "utf8", "replace") for row in rows if isinstance(row[0], bytes)]


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Columns:
    """A table's stored columns. text: those declared for text or blobs, or for nothing; key: name of the row's number.

    computed: whether there are others, which are computed when they are read.
    """

    names: list[str]
    text: list[str]
    key: str | None
    computed: bool = False

    def rewritable(self, path: Path, table: str) -> str:
        """Return the name of the row's number; raise EvidenceError where rows cannot be rewritten by it."""
        if self.key is None or self.computed:
            why = "computed columns" if self.computed else "no numbered rows"
            raise EvidenceError(f"{path}: table {shown(table)} has {why}; no profiler makes such, it cannot be rewritten safely")
        return self.key


def columns(database: sqlite3.Connection, table: str) -> Columns:
    """Return what columns a table has; generated ones (computed when read) are left out."""
    rows = database.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    stored = [(str(row[1], "utf8", "replace"), str(row[2] or b"", "utf8", "replace").upper()) for row in rows if row[6] == 0]
    names = [name for name, _ in stored]
    taken = {name.lower() for name in names}
    key = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if key:
        try:
            database.execute(f"SELECT {key} FROM {quoted(table)} LIMIT 0")  # noqa: S608
        except sqlite3.OperationalError:
            key = None  # a table WITHOUT ROWID
    text = [name for name, kind in stored if not kind or any(word in kind for word in ("CHAR", "TEXT", "CLOB", "BLOB"))]
    return Columns(names, text, key, computed=any(row[6] in (2, 3) for row in rows))


class Cell(NamedTuple):
    """A cell that holds text or a blob. name: what its row calls it, where the row has a name."""

    table: str
    row: int
    column: str
    value: bytes
    name: bytes | None = None


def _partial_cells(database: sqlite3.Connection, partly: list[str]) -> Iterator[list[Cell]]:
    """Yield cells of text columns; add the names of tables to `partly` that are not read whole."""
    for table in tables(database):
        described = columns(database, table)
        if not described.text:
            continue
        selected = f"SELECT {described.key or 0}, {', '.join(map(quoted, described.text))} FROM {quoted(table)}"  # noqa: S608
        ends, whole = _ends(database, table, described.key)
        for end in ends:
            part = _Part(_MOST_ROWS, _MOST_TABLE)
            try:
                cursor = database.execute(f"{selected} WHERE ({_holding_text(described.text)}) AND {end}")
                yield from _cells(cursor, table, described.text, part)
            except sqlite3.DataError:  # a cell is larger than all that is looked at
                part.size = 0
            whole = whole and not part.full
        if not whole:
            partly.append(shown(table))


def _ends(database: sqlite3.Connection, table: str, key: str | None) -> tuple[list[str], bool]:
    """Return conditions for the rows to look at, of a large table the first and the last ones, and whether these are all."""
    if key is None:
        return ["1"], True
    # one at a time: for both at once SQLite walks through the whole table
    low, high = (database.execute(f"SELECT {edge}({key}) FROM {quoted(table)}").fetchone()[0] for edge in ("min", "max"))  # noqa: S608
    if low is None:
        return [], True
    if high - low < 2 * _MOST_ROWS:
        return [f"{key} BETWEEN {low} AND {high}"], True
    return [f"{key} < {low + _MOST_ROWS}", f"{key} > {high - _MOST_ROWS}"], False


def _holding_text(names: list[str]) -> str:
    """Return a condition that SQLite checks by itself: most rows of profilers hold numbers only, or nothing (told fastest)."""
    return " OR ".join(f"({quoted(name)} IS NOT NULL AND typeof({quoted(name)}) IN ('text', 'blob'))" for name in names)


def all_cells(database: sqlite3.Connection) -> Iterator[list[Cell]]:
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
class _Part:
    """A part of a table: at most so many rows and bytes of text."""

    rows: int
    size: int

    @property
    def full(self) -> bool:
        """Whether there may be more in the table."""
        return self.rows <= 0 or self.size <= 0


def _cells(cursor: sqlite3.Cursor, table: str, names: list[str], part: _Part | None) -> Iterator[list[Cell]]:
    """Yield a query's cells, in batches of some hundred rows; the first column is the row's number."""
    lowered = [name.lower() for name in names]
    named = lowered.index("name") + 1 if "name" in lowered and "value" in lowered else None
    while rows := cursor.fetchmany(min(500, part.rows) if part else 500):
        cells = [
            Cell(table, row[0], name, row[place], row[named] if named and lowered[place - 1] == "value" else None)
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


def screened(batches: Iterator[list[Cell]], path: Path, thorough: bool = False) -> Iterator[CellHit]:
    """Yield the findings in cells. Cells are screened many at a time: to begin a screening costs more than a small table."""
    pending: list[Cell] = []
    size = 0
    option = False
    try:
        for cells in batches:
            pending += cells
            size += sum(len(cell.value) for cell in cells)
            if len(pending) >= 20_000 or size >= _BLOCK:
                option = yield from _judged(pending, option, thorough)
                pending, size = [], 0
        yield from _judged(pending, option, thorough)
    except sqlite3.Error as error:
        raise damaged(path, error) from error


def _judged(cells: list[Cell], option: bool, thorough: bool) -> Generator[CellHit, None, bool]:
    """Yield the findings in cells; return whether the last one is an option whose argument comes next.

    A cell is judged by what it holds, by its row's name (columns name and value, of environments) and, where command lines are
    kept one argument a row, by the option in the row before.
    """
    held = secret_patterns.spans_of([cell.value for cell in cells], thorough)
    for place, cell in enumerate(cells):
        found = held.get(place, [])
        if cell.name is not None:
            if not found:
                found = _judged_by_name(cell, option, thorough)
            option = secret_patterns.secret_option(cell.value)
        for span in found:
            yield CellHit(cell.table, cell.row, cell.column, span.start, span.end, span.what, cell.value[span.start : span.end])
    return option


def _judged_by_name(cell: Cell, option: bool, thorough: bool) -> list[secret_patterns.Span]:
    name = cell.name if isinstance(cell.name, bytes) and secret_patterns.secret_name(cell.name) else b""
    if (not name and not option) or not secret_patterns.value_counts(name or b"--password", cell.value, True, thorough):
        return []
    edge = 1 if len(cell.value) > 2 and cell.value[:1] == cell.value[-1:] and cell.value[:1] in b"\"'" else 0
    what = f"value of {shown(name.decode('ascii', 'replace'))}" if name else "argument of a secret option"
    return [secret_patterns.Span(edge, len(cell.value) - edge, what)]


def _find_in_folder(path: Path) -> Findings:
    """Look through the files of a folder: exports of a table each, or anything else."""
    found: list[Finding] = []
    total = 0
    unread: list[str] = []
    for entry in sorted(item for item in path.iterdir() if item.is_file()):
        with entry.open("rb") as file:
            head = file.read(8)
        inner = _find_in_columns(entry, head) if head.startswith((b"PAR1", b"ARROW1")) else find(entry)
        total += inner.total
        found += [Finding(f"{shown(entry.name)}, {item.place}", item.what) for item in inner.listed]
        if inner.unread:
            unread.append(f"{inner.unread} of {shown(entry.name)}")
    return Findings(tuple(found[:LISTED]), total, "; ".join(unread[:3]) or None)


def _find_in_columns(path: Path, head: bytes) -> Findings:
    """Look through the different texts of a Parquet or Arrow file's columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: list[Finding] = []
    try:
        for name, column in _text_columns(path, head):
            values = [value for value in pc.unique(column.cast(pa.large_binary())).to_pylist() if value is not None]
            for which in secret_patterns.suspicious_values(values):
                found += [Finding(f"column {shown(name)}", span.what) for span in secret_patterns.spans(values[which])]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise EvidenceError(f"{path}: damaged ({shown(str(error), 200)}); export it again") from error
    return Findings(tuple(found[:LISTED]), len(found))


def _text_columns(path: Path, head: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the columns of text that a Parquet or Arrow file has, by name."""
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet

    if head.startswith(b"PAR1"):
        names = [field.name for field in pa.parquet.read_schema(path) if _is_text(field.type)]
        for name in names:
            yield name, pa.parquet.read_table(path, columns=[name])[name]
        return
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)  # offsets in a damaged file point anywhere
        yield from ((field.name, table[field.name]) for field in table.schema if _is_text(field.type))


def _is_text(kind: Any) -> bool:
    """Return whether a column holds text or blobs, as they are or numbered."""
    from pyarrow import types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    return any(test(inner) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary))
