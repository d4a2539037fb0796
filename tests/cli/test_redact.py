"""`kernelscope redact`: the copy holds no secret any more and everything else; the file itself is never changed."""

import gzip
import json
import os
import random
import sqlite3
import string
from pathlib import Path

import pyarrow.parquet
import pytest

from kernelscope.analysis import secrets
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.secrets import redaction
from tests.commands import called
from tests.places import CORPUS


def drawn(length, seed=0):
    rng = random.Random(seed)
    return "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(length - 2)) + "4f"


# made here; none was ever valid
GITHUB, KEY = "gh" + "p_" + drawn(36), drawn(40, 1).lower()


def redact(*arguments):
    return called("redact", *arguments)


def changed(before, after):
    """Return where two byte strings of the same length differ, as (start, end) stretches; after must hold x there."""
    assert len(before) == len(after)
    places = [place for place in range(len(before)) if before[place] != after[place]]
    assert all(after[place] == ord("x") for place in places)
    return places


def test_json_keeps_every_other_byte(tmp_path):
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    content = json.dumps(
        {"env": {"HF_TOKEN": GITHUB, "MODE": "train"}, "traceEvents": [{"name": f"login {KEY}"}, {"name": KEY[:-3]}]}, indent=1
    )
    content = content.replace('"MODE"', f'"WANDB_API_KEY": "{KEY}",\n "MODE"')
    source.write_text(content)
    done = redact(source, "-o", target, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert target.read_text() == content.replace(GITHUB, "x" * 40).replace(KEY, "x" * 40)
    assert source.read_text() == content
    rows = json.loads(done.stdout)
    assert rows["schema"] == "kernelscope/redaction/1"
    assert [(row["what"], row["bytes"]) for row in rows["rows"]] == [
        ("GitHub token", 40),
        ("value of WANDB_API_KEY", 40),
        ("the same value again", 40),
    ]
    assert [row["place"] for row in rows["rows"]] == ["line 3", "line 4", "line 9"]
    assert "check the copy before sharing" in done.stderr
    assert GITHUB not in done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "json"])
def test_nothing_found_writes_the_same_copy(tmp_path, form):
    source, target = tmp_path / "a.csv", tmp_path / "b.csv"
    content = b"max_tokens,HF_TOKEN=\n\xff\xfe\x00,\xe9\r\n"
    source.write_bytes(content)
    done = redact(source, "-o", target, "--format", form)
    assert done.returncode == 0
    assert target.read_bytes() == content
    assert "nothing found" in done.stderr


def test_gzip_stays_gzip(tmp_path):
    source, target = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    content = f'{{"token": "{GITHUB}"}}'.encode() * 1000
    source.write_bytes(gzip.compress(content))
    assert len(redaction.redact(source, target)) == 1000
    assert target.read_bytes().startswith(b"\x1f\x8b")
    assert gzip.decompress(target.read_bytes()) == content.replace(GITHUB.encode(), b"x" * 40)


@pytest.mark.parametrize("order", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf16(tmp_path, order):
    source, target = tmp_path / "a.log", tmp_path / "b.log"
    mark = {"utf-16": "", "utf-16-le": "\ufeff", "utf-16-be": "\ufeff"}[order]
    text = mark + f"caf\u00e9 \U0001f600\r\nHF_TOKEN={GITHUB}\r\n"
    source.write_bytes(text.encode(order))
    assert [change.place for change in redaction.redact(source, target)] == ["line 2"]
    assert target.read_bytes() == text.replace(GITHUB, "x" * 40).encode(order)


def test_values_of_environments_are_overwritten_even_if_they_look_harmless(tmp_path):
    source, target = tmp_path / "a.log", tmp_path / "b.log"
    source.write_text("MODAL_TASK_SECRET=dummy\nA_TOKEN=ab\nHF_TOKEN=\nCREDENTIALS=/a/path\nUSE_TOKEN=true\n")
    assert len(redaction.redact(source, target)) == 2
    assert target.read_text() == "MODAL_TASK_SECRET=xxxxx\nA_TOKEN=xx\nHF_TOKEN=\nCREDENTIALS=/a/path\nUSE_TOKEN=true\n"


def export(path, extra=""):
    """Write a database like an export of Nsight Systems, with secrets in cells, in an index and on freed pages."""
    database = sqlite3.connect(path)
    database.executescript(
        """CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, shortName INTEGER);
        CREATE TABLE gone (value TEXT);
        CREATE INDEX i ON StringIds (value);"""
        + extra
    )
    environment = f"A=1\x00HF_TOKEN={GITHUB}\x00PASSWORD=correct horse\x00B=\xe9"
    rows = [
        (1, "volta_sgemm_128x64_nn"),
        (2, environment),
        (3, f"arguments: {KEY}"),
        (4, "x" * 20000 + f" token={KEY} " + "y" * 20000),
    ]
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", rows)
    database.execute("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)", (f'WANDB_API_KEY="{KEY}"',))
    database.execute("INSERT INTO META_DATA_CAPTURE VALUES ('BLOB', ?)", (b"\x00\xff" + GITHUB.encode() + b"\x00",))
    database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 1)", [(n, n + 1) for n in range(1000)])
    database.execute("PRAGMA secure_delete = OFF")
    database.executemany("INSERT INTO gone VALUES (?)", [(f"{GITHUB} {n}" * 100,) for n in range(10)])
    database.execute("DELETE FROM gone")
    database.commit()
    database.close()


def rows(path):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return {
            name: database.execute(
                f'SELECT *, typeof(value) FROM "{name}"' if "value" in text else f'SELECT * FROM "{name}"'
            ).fetchall()
            for name, text in database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name")
        }


def test_databases_keep_all_other_rows(tmp_path):
    source, target = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    export(source)
    before = source.read_bytes()
    assert GITHUB.encode() in before
    changes = redaction.redact(source, target)
    assert source.read_bytes() == before
    after = target.read_bytes()
    for secret in (GITHUB, KEY, "correct horse"):
        assert secret.encode() not in after
    expected = rows(source)
    for content in expected.values():
        for number, row in enumerate(content):
            new = list(row)
            for place, value in enumerate(new):
                for secret in (GITHUB, KEY, "correct horse"):
                    if isinstance(value, str):
                        value = value.replace(secret, "x" * len(secret))
                    elif isinstance(value, bytes):
                        value = value.replace(secret.encode(), b"x" * len(secret))
                new[place] = value
            content[number] = tuple(new)
    assert rows(target) == expected
    with sqlite3.connect(target) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert {(change.place, change.what) for change in changes} == {
        ("table StringIds, row 2, column value", "GitHub token"),
        ("table StringIds, row 2, column value", "value of PASSWORD"),
        ("table StringIds, row 3, column value", "the same value again"),
        ("table StringIds, row 4, column value", "value of token"),
        ("table META_DATA_CAPTURE, row 1, column value", "value of WANDB_API_KEY"),
        ("table META_DATA_CAPTURE, row 2, column value", "GitHub token"),
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite", "b.sqlite"]


def test_databases_without_secrets_lose_their_freed_pages(tmp_path):
    source, target = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    database = sqlite3.connect(source)
    database.execute("PRAGMA secure_delete = OFF")
    database.executescript("CREATE TABLE t (a TEXT); CREATE TABLE u (a)")
    database.executemany("INSERT INTO t VALUES (?)", [(GITHUB * 200,)] * 5)
    database.execute("DELETE FROM t")
    database.commit()
    database.close()
    assert GITHUB.encode() in source.read_bytes()
    assert redaction.redact(source, target) == []
    assert GITHUB.encode() not in target.read_bytes()


def test_triggers_do_not_run(tmp_path):
    source, target = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    export(source, 'CREATE TRIGGER "boom\x1b" AFTER UPDATE ON StringIds BEGIN DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; END;')
    changes = redaction.redact(source, target)
    assert changes[0].what.startswith("removed")
    assert changes[0].place.isprintable()
    assert len(rows(target)["CUPTI_ACTIVITY_KIND_KERNEL"]) == 1000
    with sqlite3.connect(target) as database:
        assert database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (0,)


def test_secrets_of_one_length_differ_where_values_must(tmp_path):
    source, target = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    other = GITHUB[:-1] + ("a" if GITHUB[-1] != "a" else "b")
    with sqlite3.connect(source) as database:  # as nvprof's table of names
        database.executescript(
            f"CREATE TABLE t (a TEXT UNIQUE); INSERT INTO t VALUES ('{GITHUB}'), ('{other}'), ('{'x' * len(GITHUB)}')"
        )
    database.close()
    assert len(redaction.redact(source, target)) == 2
    with sqlite3.connect(target) as database:
        left = [row[0] for row in database.execute("SELECT a FROM t")]
    assert len(set(left)) == 3
    assert all(set(text.lower()) == {"x"} and len(text) == len(GITHUB) for text in left)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (f"CREATE TABLE t (k TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO t VALUES ('{GITHUB}')", "no numbered rows"),
        (f"CREATE TABLE t (a TEXT, b TEXT AS (a || a)); INSERT INTO t VALUES ('{GITHUB}')", "computed columns"),
        (f"CREATE TABLE t (a TEXT DEFAULT '{GITHUB}')", "definition"),
        (f"PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('{GITHUB}')", "UTF-16"),
    ],
)
def test_databases_that_cannot_be_rewritten_are_refused(tmp_path, script, reason):
    source, target = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    with sqlite3.connect(source) as database:
        database.executescript(script)
    database.close()
    done = redact(source, "-o", target)
    assert done.returncode == 3
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]


def test_changes_that_wait_beside_a_database_are_refused(tmp_path):
    source = tmp_path / "a.sqlite"
    export(source)
    (tmp_path / "a.sqlite-wal").write_bytes(b"something")
    with pytest.raises(EvidenceError, match=r"a\.sqlite-wal holds pending changes"):
        redaction.redact(source, tmp_path / "b.sqlite")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x04\x95\x00\x00", "a binary file"),
        (b"NVIDIA Tegra Profiler Report 2025@", "a binary file"),
        (b"\n\x04\x08\x01\x12\x00" * 10, "a binary file"),
        (gzip.compress(gzip.compress(b"abc", mtime=0), mtime=0), "a binary file"),
        (gzip.compress(b"abc" * 1000, mtime=0)[:-9], "damaged or cut short"),
        (b"SQLite format 3\x00" + b"\xff" * 100, "cannot be rewritten"),
    ],
)
def test_what_cannot_be_rewritten_is_refused(tmp_path, content, reason):
    source = tmp_path / "a"
    source.write_bytes(content)
    done = redact(source, "-o", tmp_path / "b")
    assert done.returncode == 3
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_advice_for_tables_in_a_folder_can_be_followed(tmp_path):
    """Neither the folder nor a file in it can be rewritten: what `import` makes of it can be shared."""
    folder = tmp_path / "tables"
    folder.mkdir()
    kernel = {"start": [1, 5], "end": [3, 9], "shortName": [1, 2], "deviceId": [0, 0], "streamId": [7, 7]}
    for name, columns in (
        ("StringIds", {"id": [1, 2], "value": ["volta_sgemm_128x64_nn", f"login_{GITHUB}"]}),
        ("CUPTI_ACTIVITY_KIND_KERNEL", kernel),
    ):
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"{name}.parquet")
    for place in (folder, next(folder.iterdir())):
        done = redact(place, "-o", tmp_path / "b")
        assert done.returncode == 3
        assert f"share what `kernelscope import {folder} -o DIR` writes" in done.stderr
    assert called("import", folder, "-o", tmp_path / "out").returncode == 0
    assert all(GITHUB.encode() not in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())


def test_gzip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(redaction, "_MOST_UNPACKED", 1 << 22)
    source = tmp_path / "a.gz"
    with gzip.open(source, "wb") as file:
        for _ in range(40):
            file.write(bytes(1 << 20))
    with pytest.raises(EvidenceError, match="unpacks to more than"):
        redaction.redact(source, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz"]


def test_the_source_is_never_the_target(tmp_path):
    source = tmp_path / "a.log"
    source.write_text(GITHUB)
    (tmp_path / "symbolic").symlink_to(source)
    os.link(source, tmp_path / "hard")
    for target in ("a.log", "symbolic", "hard", "../" + tmp_path.name + "/a.log"):
        done = redact(source, "-o", tmp_path / target, "--force")
        assert done.returncode == 2, target
        assert "is the input" in done.stderr
    assert source.read_text() == GITHUB


def test_devices_and_pipes_stay_and_links_keep_what_they_name(tmp_path):
    source, pipe, kept = tmp_path / "a.log", tmp_path / "pipe", tmp_path / "kept"
    source.write_text(GITHUB)
    os.mkfifo(pipe)
    done = redact(source, "-o", pipe, "--force")
    assert done.returncode == 2
    assert "not a regular file" in done.stderr
    assert pipe.is_fifo()
    kept.write_text("before")
    (tmp_path / "link").symlink_to(kept)
    assert redact(source, "-o", tmp_path / "link", "--force").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert kept.read_text() == "x" * 40


def test_an_existing_file_needs_force(tmp_path):
    source, target = tmp_path / "a.log", tmp_path / "b.log"
    source.write_text(f"{GITHUB}\n")
    target.write_text("precious")
    assert redact(source, "-o", target).returncode == 2
    assert target.read_text() == "precious"
    assert redact(source, "-o", target, "--force").returncode == 0
    assert target.read_text() == "x" * 40 + "\n"


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["nowhere", "-o", "b"], 3, "nowhere: No such file"),
        ([".", "-o", "b"], 3, "a folder"),
        (["/dev/zero", "-o", "b"], 2, "neither a file nor a folder"),
        (["a.log", "-o", "no/folder/b"], 3, "no folder"),
        (["a.log", "-o", "."], 2, "a folder"),
        (["a.log"], 2, "-o"),
    ],
)
def test_wrong_use(tmp_path, monkeypatch, arguments, status, reason):
    monkeypatch.chdir(tmp_path)
    Path("a.log").write_text("a")
    done = redact(*arguments)
    assert done.returncode == status
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_captures_of_the_corpus_with_secrets_put_back(tmp_path):
    """An environment that was overwritten gets a key again: it is gone from the copy, and nothing else changed."""
    source = CORPUS / "nsys/zx3xyy__assignment2-systems__result.sqlite"
    if not source.exists():
        pytest.skip("this test needs ../shared/corpus")
    copy, target = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    content = source.read_bytes()
    copy.write_bytes(content.replace(b"_API_KEY=" + b"x" * 64, b"_API_KEY=" + drawn(64).encode()))
    assert drawn(64).encode() in copy.read_bytes()
    changes = redaction.redact(copy, target)
    assert len(changes) > 10
    assert drawn(64).encode() not in target.read_bytes()
    assert secrets.find(target).total == 0
    with sqlite3.connect(target) as new, sqlite3.connect(source) as old:
        for (name,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            assert new.execute(f'SELECT * FROM "{name}"').fetchall() == old.execute(f'SELECT * FROM "{name}"').fetchall()
