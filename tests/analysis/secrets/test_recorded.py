"""Secrets in files that a recorder looks through for what it knows alone: overwritten, and what is left can be read."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from pathlib import Path

import pytest

from kernelscope.analysis.secrets import recorded
from kernelscope.tracer.inside import scrubbing

TOKEN = "gh" + "p_" + "".join(str(number) * 2 for number in range(18))


def trace(note: str, events: int = 12) -> str:
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::mm {note}", "ts": at, "dur": 1, "pid": 1, "tid": 1} for at in range(events)
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": rows})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels" / "1").mkdir(parents=True)
    return tmp_path / "kernels" / "1"


def test_packed_traces_large_texts_and_databases(folder: Path, tmp_path: Path) -> None:
    packed, large, small = folder / "a.pt.trace.json.gz", folder / "b.json", folder / "c.json"
    packed.write_bytes(gzip.compress(trace(TOKEN).encode(), mtime=0))
    large.write_text(trace(TOKEN, 20_000))
    small.write_text(trace(TOKEN))
    assert large.stat().st_size > scrubbing.SMALL > small.stat().st_size
    with sqlite3.connect(folder / "d.sqlite") as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute("INSERT INTO StringIds VALUES (1, ?)", (f"step {TOKEN}",))
    database.close()
    (folder / "link.json.gz").symlink_to(packed)
    assert recorded.overwrite(tmp_path) == []
    assert TOKEN not in gzip.decompress(packed.read_bytes()).decode()
    assert len(json.loads(gzip.decompress(packed.read_bytes()))["traceEvents"]) == 12
    assert TOKEN not in large.read_text()
    assert len(json.loads(large.read_text())["traceEvents"]) == 20_000
    with sqlite3.connect(folder / "d.sqlite") as database:
        assert TOKEN not in str(database.execute("SELECT * FROM StringIds").fetchall())
    database.close()
    assert (folder / "link.json.gz").is_symlink()
    assert TOKEN in small.read_text(), "its recorder has looked through it"
    assert sorted(os.listdir(folder)) == ["a.pt.trace.json.gz", "b.json", "c.json", "d.sqlite", "link.json.gz"]


def test_what_holds_none_stays_as_it_is(folder: Path, tmp_path: Path) -> None:
    files = {"a.json.gz": gzip.compress(trace("").encode()), "b.json.gz": b"\x1f\x8b damaged", "c.records": bytes(range(256))}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    assert recorded.overwrite(tmp_path) == []
    assert {name: (folder / name).read_bytes() for name in files} == files


def test_what_cannot_be_rewritten_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "host.xplane.pb").write_bytes(b"\x0a\x30\x00\x01" + TOKEN.encode() + b"\x00\x12\x07")
    (said,) = recorded.overwrite(tmp_path)
    assert said == f"{folder}/host.xplane.pb: holds what looks like a secret: GitHub token; do not share it"
