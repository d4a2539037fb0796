"""Secrets in files and databases: where they are, what is left out, and that nothing of a hostile file is evaluated."""

import bz2
import gzip
import json
import lzma
import random
import sqlite3

import pyarrow
import pytest

from kernelscope.analysis import secrets
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import packed
from kernelscope.analysis.files.magic import packing
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.secrets import cells as secret_cells
from kernelscope.analysis.secrets import screens as secret_screens
from kernelscope.analysis.secrets import texts as secret_texts
from kernelscope.analysis.secrets.redaction import redact
from kernelscope.tracer.inside import secret_values
from tests.places import CORPUS

from .test_secrets import ALL, HEX, TOKENS, drawn


def test_places_in_text_json_and_gzip(tmp_path):
    token = ALL[0][1]
    log = tmp_path / "train.log"
    log.write_text("first\nsecond\nlogin " + token + "\n")
    assert secrets.find(log) == secrets.SearchResult((secrets.Secret("line 3", "GitHub token"),), 1)
    one_line = json.dumps({"traceEvents": [{"name": "a" * 50}] * 100, "env": {"HF_TOKEN": token}})
    plain = tmp_path / "a.json"
    plain.write_text(one_line)
    expected = secrets.Secret(f"byte {one_line.index(token)}", "GitHub token")
    assert secrets.find(plain).listed == (expected,)
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(one_line.encode()))
    assert secrets.find(packed).listed == (expected,)
    wide = tmp_path / "wide.txt"
    wide.write_text(f"a\r\nb {token}\r\n", encoding="utf-16")
    assert secrets.find(wide).listed == (secrets.Secret("line 2", "GitHub token"),)
    assert token not in (secrets.find(plain).warning(plain) or "")


@pytest.mark.parametrize("offset", [*range(secret_screens.CHUNK - 50, secret_screens.CHUNK + 3), 3 * secret_screens.CHUNK - 7])
def test_secrets_over_the_edges_of_chunks(offset):
    token = ALL[0][1]
    text = b" " * offset + token.encode() + b" " * 20_000
    low, high = secret_screens.suspicious(text)[0]
    assert [text[low + span.start : low + span.end].decode() for span in secret_values.spans(text[low:high])] == [token]


def test_secrets_over_the_edges_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(secret_texts, "_BLOCK", 1 << 16)
    path = tmp_path / "a.log"
    tokens = ["gh" + "p_" + drawn(36, seed=number) for number in range(200)]
    rng = random.Random(1)
    text = "".join(" " * rng.randrange(3000) + token + "\n" for token in tokens)
    path.write_text(text)
    with path.open("rb") as file:
        hits = list(secret_texts.hits(file, path))
    assert [hit.value.decode() for hit in hits] == tokens
    assert [text[hit.start : hit.end] for hit in hits] == tokens
    assert secrets.find(path).total == 200
    assert len(secrets.find(path).listed) == secrets.LISTED


def test_what_is_left_out_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(secret_texts, "_BLOCK", 1 << 16)
    monkeypatch.setattr(secret_texts, "_MOST_BYTES", 1 << 19)
    token = ALL[0][1].encode()
    path = tmp_path / "a.log"
    path.write_bytes(token + b" " * (1 << 20) + token + b" " * (1 << 20) + b"\n" + token)
    result = secrets.find(path)
    assert result.total == 2
    assert result.unread == f"bytes {1 << 18} to {path.stat().st_size - (1 << 18)}"
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    result = secrets.find(packed)
    assert result.total == 1
    assert result.unread.endswith("of the unpacked content")
    many = tmp_path / "many.json"
    many.write_text("".join(f'{{"password": "{drawn(8, seed=number)}"}}\n' for number in range(20_000)))
    monkeypatch.setattr(secret_texts, "_MOST_SECOND_LOOKS", 1 << 18)
    result = secrets.find(many)
    assert result.total > 1000
    assert "too much of it looks suspicious" in result.unread


def database(path, script, rows=()):
    """Make a database; rows: (statement, values) pairs."""
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
        for statement, values in rows:
            connection.execute(statement, values)
    connection.close()
    return path


NSYS = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, correlationId INTEGER);
"""


def test_places_in_nsight_systems_exports(tmp_path):
    token, key = ALL[0][1], drawn(40, HEX)
    path = database(
        tmp_path / "a.sqlite",
        NSYS,
        [
            ("INSERT INTO StringIds VALUES (7, ?)", (f"A=1\x00HF_TOKEN={token}\x00HOME=/root\x00B=2",)),
            ("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'cli', 'Hostname', 1, 'host')", ()),
            (
                "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'cli', 'DeviceEnvironment', 2, ?)",
                (f"A=1;WANDB_API_KEY={key};B=2",),
            ),
            ("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)", (f'JUPYTER_TOKEN="{key}"',)),
            ("INSERT INTO META_DATA_CAPTURE VALUES ('WANDB_API_KEY', ?)", (key,)),
            ("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ARGUMENT_1', '--password')", ()),
            ("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ARGUMENT_2', 'hunter2')", ()),
            ("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ARGUMENT_3', 'harmless')", ()),
        ],
    )
    assert {(finding.place, finding.what) for finding in secrets.find(path).listed} == {
        ("table StringIds, row 7, column value", "GitHub token"),
        ("table TARGET_INFO_SYSTEM_ENV, row 2, column value", "value of WANDB_API_KEY"),
        ("table META_DATA_CAPTURE, row 1, column value", "value of JUPYTER_TOKEN"),
        ("table META_DATA_CAPTURE, row 2, column value", "value of WANDB_API_KEY"),
        ("table META_DATA_CAPTURE, row 4, column value", "argument of a secret option"),
    }


def test_large_tables_are_looked_through_at_both_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(secret_cells, "_MOST_ROWS", 100)
    token = ALL[0][1]
    path = database(tmp_path / "a.sqlite", "CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT)")
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO t VALUES (?, ?)", [(n, token if n in (1, 500, 1000) else None) for n in range(1, 1001)]
        )
    connection.close()
    result = secrets.find(path)
    assert [finding.place for finding in result.listed] == ["table t, row 1, column value", "table t, row 1000, column value"]
    assert result.unread == "parts of table t"


def test_names_out_of_captures_are_harmless_in_messages(tmp_path):
    token = ALL[0][1]
    path = database(
        tmp_path / "a.sqlite",
        'CREATE TABLE "a\x1b[31m\n<b>" ("c\x1b" TEXT)',
        [('INSERT INTO "a\x1b[31m\n<b>" VALUES (?)', (token,))],
    )
    place = secrets.find(path).listed[0].place
    assert place.isprintable()
    assert "row 1" in place


def test_views_and_computed_columns_are_not_evaluated(tmp_path):
    start, end = ALL[0][1][:3], ALL[0][1][3:]
    path = database(
        tmp_path / "a.sqlite",
        f"""CREATE TABLE t (a TEXT, b TEXT AS ('{start}' || '{end}'));
        INSERT INTO t (a) VALUES ('x');
        CREATE VIEW StringIds AS WITH RECURSIVE r(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM r) SELECT value FROM r;""",
    )
    assert secrets.find(path) == secrets.SearchResult()


def test_tables_without_row_numbers(tmp_path):
    path = database(
        tmp_path / "a.sqlite", "CREATE TABLE t (k TEXT PRIMARY KEY) WITHOUT ROWID", [("INSERT INTO t VALUES (?)", (ALL[0][1],))]
    )
    assert secrets.find(path).total == 1


def test_folders_of_tables(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    token = ALL[0][1]
    table = pa.table(
        {"id": [1, 2], "value": pa.array(["harmless", f"HF_TOKEN={token}"]), "name": pa.array(["a", token]).dictionary_encode()}
    )
    pa.parquet.write_table(table, tmp_path / "StringIds.parquet")
    with pa.OSFile(str(tmp_path / "Other.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    places = [finding.place for finding in secrets.find(tmp_path).listed]
    assert places == [
        "Other.arrow, column value", "Other.arrow, column name",
        "StringIds.parquet, column value", "StringIds.parquet, column name",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content", [b"SQLite format 3\x00" + b"\xff" * 200, gzip.compress(b"a" * 100, mtime=0)[:-9], b"\xff\xfea"]
)
def test_damaged_files_are_refused_in_one_line(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match="damaged") as caught:
        secrets.find(path)
    assert str(caught.value).isprintable()


@pytest.mark.long
def test_nothing_but_session_cookies_in_the_corpus():
    """What was overwritten there is not reported again; kernel names and Python stacks are no secrets."""
    if not CORPUS.is_dir():
        pytest.skip("this test needs ../shared/corpus")
    found = {}
    for path in sorted(CORPUS.rglob("*")):
        if path.is_file() and path.stat().st_size < 1 << 20:
            result = secrets.find(path)
            if result.total:
                found[path.name] = {finding.what for finding in result.listed}
    assert all(whats == {"value of SNAP_CONTEXT"} for whats in found.values()), found


def packed_copies(content):
    """Return the content packed in every way that is read, by name."""
    target = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(target, "zstd") as out:
        out.write(content)
    return {
        "a.gz": gzip.compress(content),
        "a.zst": target.getvalue().to_pybytes(),
        "a.xz": lzma.compress(content),
        "a.bz2": bz2.compress(content),
    }


def test_packed_text_is_searched_and_redacted_whatever_packed_it(tmp_path):
    token = TOKENS["GitHub token"][0]
    for name, content in packed_copies(f"one\nHF={token}\n".encode()).items():
        (tmp_path / name).write_bytes(content)
        assert secrets.find(tmp_path / name).listed[0] == ("line 2", "GitHub token")
        redact(tmp_path / name, tmp_path / f"out-{name}")
        assert read_content(tmp_path / f"out-{name}") == b"one\nHF=" + b"x" * len(token) + b"\n"
        assert packing((tmp_path / f"out-{name}").read_bytes()) == packing(content)


def test_packed_databases_are_searched(tmp_path):
    token = TOKENS["GitHub token"][0]
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        database.execute("INSERT INTO META_DATA_CAPTURE VALUES ('x', ?)", (token,))
    database.close()
    for name, content in packed_copies((tmp_path / "a.sqlite").read_bytes()).items():
        (tmp_path / name).write_bytes(content)
        found = secrets.find(tmp_path / name)
        assert (found.total, found.unread) == (1, None)
        with pytest.raises(EvidenceError, match="a packed database; unpack it"):
            redact(tmp_path / name, tmp_path / "out")


def test_what_unpacks_out_of_all_proportion_is_refused_as_other_commands_refuse_it(tmp_path):
    source, target = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    with gzip.open(source, "wb", 1) as file:  # a two hundredth, or less
        for _ in range(packed.PLAIN_SIZE >> 20):
            file.write(b" " * (1 << 20))
        file.write(b" ")
    with pytest.raises(EvidenceError, match="unpacks to more than 268435456 bytes"):
        redact(source, target)
    with pytest.raises(EvidenceError, match="unpacks to over 150 times its size"):
        read_content(source)
    assert not target.exists()
