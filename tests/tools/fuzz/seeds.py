"""The captures that the fuzzers start from: ../shared/corpus, tests/data and folders made of the SQLite files, cut small.

Formats of which these hold none have seeds in makers.py.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import makers
import protobufs

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT.parent / "shared/corpus"
DATA = ROOT / "tests/data"
_MOST_ROWS, _MOST_ITEMS, _MOST_LINES, _MOST_BYTES = 200, 300, 600, 1 << 16
_NEEDED = ("TensorFlow-Tutorial__out.nvvp", "rank0_ascend_pt_ASCEND_PROFILER_OUTPUT_trace_view.json")  # formats' smallest


@dataclass(frozen=True)
class Seed:
    """A capture to start from. path: the small copy; source: where it comes from; kind: how it is mutated."""

    path: str
    source: str
    kind: str


def prepare(folder: Path, largest: int) -> list[Seed]:
    """Write small copies of captures to the folder; return them, and leave the list in seeds.json.

    Only captures up to `largest` bytes are taken, and larger ones of formats without smaller.
    """
    seeds = []
    for number, (source, found) in enumerate(_found(largest)):
        kind, content = _small(found, folder / "scratch")
        if not content:
            continue
        target = folder / f"{number:03d}"
        target.write_bytes(content)
        seeds.append(Seed(str(target), source, kind))
        if kind == "sqlite" and "nsys" in source:
            seeds += [Seed(str(_exported(target, form)), f"{source} as {form}", "folder") for form in ("parquet", "arrow")]
    (folder / "seeds.json").write_text(json.dumps([asdict(seed) for seed in seeds]))
    return seeds


def unreached(known: Collection[str], seeded: Collection[str], asked: str | None = None) -> str | None:
    """Return what is wrong if formats have no seed, so that they are not tried; None if nothing is.

    Without ../shared/corpus only formats that are asked for need one.
    """
    if asked is not None:
        return None if asked in seeded else f"{asked}: no seed, so that nothing of it can be tried"
    missing = [name for name in known if name not in seeded]
    if missing and CORPUS.is_dir():
        return f"no seed, so that nothing of them can be tried: {', '.join(missing)}; add some to tests/tools/fuzz/makers.py"
    return None


def _found(largest: int) -> Iterator[tuple[str, bytes]]:
    """Yield where captures come from, and their contents."""
    files = sorted(path for path in [*CORPUS.rglob("*"), *DATA.rglob("*")] if path.is_file() and path.suffix != ".md")
    files = [path for path in files if path.stat().st_size <= largest or path.name.endswith(_NEEDED)]
    yield from ((str(path.relative_to(ROOT.parent)), path.read_bytes()) for path in files)
    yield from ((f"makers.py: {name}", content) for name, content in makers.seeds())


def load(folder: Path) -> list[Seed]:
    return [Seed(**seed) for seed in json.loads((folder / "seeds.json").read_text())]


def _small(content: bytes, scratch: Path) -> tuple[str, bytes]:
    """Return a capture's kind and a smaller one of the same format."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    if content.startswith(b"SQLite format 3\x00"):
        return "sqlite", _small_database(content, scratch)
    if content[:1] in (b"{", b"["):
        try:
            return "json", json.dumps(_small_json(json.loads(content))).encode()
        except (ValueError, RecursionError):  # cut off, or nested deeper than json reads
            return "text", _small_text(content)
    if content.startswith(b"\x80"):
        return "pickle", content
    if content.startswith(b"KSCUPTI"):
        return "blocks", content
    if b"\x00" not in content[:4096] and not content.startswith(b"\x0a"):
        return "text", _small_text(content)
    try:
        return "protobuf", protobufs.write(protobufs.thin(protobufs.parse(content), 12))
    except ValueError:
        return "other", content[:_MOST_BYTES]


def _small_database(content: bytes, scratch: Path) -> bytes:
    scratch.write_bytes(content)
    database = sqlite3.connect(scratch, isolation_level=None)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall():
        # names are referred to from everywhere: keep more of them
        most = _MOST_ROWS * (10 if "String" in name or "string" in name else 1)
        database.execute(f'DELETE FROM "{name}" WHERE rowid > (SELECT rowid FROM "{name}" LIMIT 1 OFFSET {most})')
    database.execute("VACUUM")
    database.close()
    content = scratch.read_bytes()
    scratch.unlink()
    return content


def _small_json(value: Any) -> Any:
    """Keep the beginning, a stretch of the middle and the end of every long list: neighbours belong together."""
    if isinstance(value, dict):
        return {key: _small_json(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > _MOST_ITEMS:
        third, middle = _MOST_ITEMS // 3, len(value) // 2
        value = value[:third] + value[middle : middle + third] + value[-third:]
    return [_small_json(item) for item in value]


def _small_text(content: bytes) -> bytes:
    lines = content.split(b"\n")
    if len(lines) <= _MOST_LINES:
        return content[: 1 << 19]
    third, middle = _MOST_LINES // 3, len(lines) // 2
    return b"\n".join(lines[:third] + lines[middle : middle + third] + lines[-third:])


def _exported(path: Path, form: str) -> Path:
    """Write a database's tables as nsys export --type parquetdir or arrowdir does: a file for each."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    folder = path.with_name(f"{path.name}_{form}")
    folder.mkdir()
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    database.text_factory = lambda value: value.decode("utf8", "replace")
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall():
        cursor = database.execute(f'SELECT * FROM "{name}"')
        rows = cursor.fetchall()
        columns = {}
        for number, column in enumerate(item[0] for item in cursor.description):
            values = [row[number] for row in rows]
            try:
                columns[column] = pa.array(values)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                columns[column] = pa.array([None if value is None else str(value) for value in values])
        table = pa.table(columns)
        if form == "parquet":
            pa.parquet.write_table(table, folder / f"{name}.parquet")
        else:
            with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
    database.close()
    return folder
