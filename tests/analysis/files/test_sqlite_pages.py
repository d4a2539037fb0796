"""Pages decoded here against what SQLite itself reads."""

import sqlite3
import struct
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import sqlite_pages
from kernelscope.analysis.files.sqlite_pages import Database

INTEGERS = st.one_of(
    st.none(),
    st.integers(-2, 2),
    st.integers(-(1 << 15), 1 << 15),
    st.integers(-(1 << 47), 1 << 47),
    st.integers(-(1 << 63), (1 << 63) - 1),
)
TEXTS = st.one_of(st.none(), st.text(max_size=8), st.integers(0, 3000).map("ab\N{SNOWMAN}".__mul__))
ROWS = st.lists(st.tuples(INTEGERS, TEXTS, INTEGERS, st.one_of(INTEGERS, st.floats(allow_nan=False))), max_size=60)


def write(path, script=(), rows=(), columns="a INTEGER, t TEXT, b INTEGER, r REAL"):
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    for line in script:
        database.execute(line)
    database.execute(f"CREATE TABLE x ({columns})")
    marks = ",".join("?" * len(columns.split(",")))
    database.executemany(f"INSERT INTO x VALUES ({marks})", rows)
    database.commit()
    database.close()
    return path


def columns(path, integers=(), texts=(), numbers=(), table="x"):
    """All rows as lists by column."""

    def convert(batch):
        part = {}
        for name in integers:
            values, null = batch.integers(name)
            part[name] = [None if null is not None and null[i] else int(value) for i, value in enumerate(values)]
        for name in texts:
            found = batch.texts(name)
            part[name] = [None] * batch.size if found is None else found.to_pylist()
        for name in numbers:
            part[name] = batch.numbers(name).tolist()
        return part

    with Database(path) as database:
        parts = list(database.scan(table, (*integers, *texts, *numbers), convert))
        count = database.rows(table)
    merged = {name: [value for part in parts for value in part[name]] for name in (*integers, *texts, *numbers)}
    assert all(len(values) <= count for values in merged.values())
    return merged


def plain(path, name):
    with sqlite3.connect(path) as database:
        return [row[0] for row in database.execute(f"SELECT {name} FROM x ORDER BY rowid")]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, page=st.sampled_from([512, 1024, 4096, 65536]), encoding=st.sampled_from(["UTF-8", "UTF-16le", "UTF-16be"]))
def test_every_value_is_as_sqlite_reads_it(tmp_path, rows, page, encoding):
    path = write(tmp_path / "x.sqlite", [f"PRAGMA page_size={page}", f"PRAGMA encoding='{encoding}'"], rows)
    found = columns(path, ["a", "b"], ["t"], ["r"])
    assert found["a"] == plain(path, "a")
    assert found["b"] == plain(path, "b")
    assert found["t"] == plain(path, "t")
    expected = [float("nan") if value is None else float(value) for value in plain(path, "r")]
    assert found["r"] == pytest.approx(expected, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("page", [512, 4096])
def test_many_pages_in_order_with_gaps_and_short_rows(tmp_path, page, monkeypatch):
    monkeypatch.setattr(sqlite_pages, "_BATCH_BYTES", 8 * page)
    rows = [(i * 7 - 100, "n" * (i % 90), None if i % 5 else i << (i % 40), i / 3) for i in range(20_000)]
    path = write(tmp_path / "x.sqlite", [f"PRAGMA page_size={page}", "PRAGMA auto_vacuum=FULL"], rows)
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM x WHERE a % 3 = 0")
        database.execute("ALTER TABLE x ADD COLUMN late INTEGER")
        database.execute("INSERT INTO x VALUES (1, 'after', 2, 3.5, 4)")
    found = columns(path, ["a", "b", "late", "absent"], ["t"], ["r"])
    for name in ("a", "b", "late", "t", "r"):
        assert found[name] == plain(path, name)
    assert found["absent"] == [None] * len(found["a"])


def test_a_primary_key_is_the_row_number(tmp_path):
    rows = [(5, "five"), (900, "many"), (70_000, "more"), (1 << 60, "most"), (-3, "less")]
    path = write(tmp_path / "x.sqlite", rows=rows, columns="id INTEGER NOT NULL PRIMARY KEY, value TEXT")
    found = columns(path, ["id"], ["value"])
    assert dict(zip(found["id"], found["value"], strict=True)) == dict(rows)


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    path = write(tmp_path / "x.sqlite", rows=[(1, b"\xff\xfe", 2, 3), (2, "fine", 2, 3)])
    assert columns(path, texts=["t"])["t"] == ["\ufffd\ufffd", "fine"]


@pytest.mark.parametrize(
    ("values", "what"), [((1.5,), "not an integer"), (("text",), "not an integer"), ((b"blob",), "not an integer")]
)
def test_values_of_another_type_are_told(tmp_path, values, what):
    path = write(tmp_path / "x.sqlite", rows=[(1,), *[(value,) for value in values]], columns="a")
    with pytest.raises(EvidenceError, match=f"table x, column a holds a value that is {what}"):
        columns(path, ["a"])


def test_numbers_where_texts_belong_are_told(tmp_path):
    path = write(tmp_path / "x.sqlite", rows=[("text",), (3,)], columns="t")
    with pytest.raises(EvidenceError, match="column t holds a value that is not a text"):
        columns(path, texts=["t"])


def test_views_and_virtual_tables_are_no_tables_and_computed_columns_are_refused(tmp_path):
    endless = "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start FROM n"
    path = write(tmp_path / "x.sqlite", [endless], [(1, "a", 2, 3)])
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE computed (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1) STORED)")
    with Database(path) as database:
        assert database.tables == {"x", "computed"}
        assert database.columns("v") == frozenset()
        assert list(database.scan("v", ["start"], lambda batch: batch.size)) == []
        with pytest.raises(EvidenceError, match="table computed has computed columns"):
            database.columns("computed")


def test_a_table_without_row_numbers_is_refused(tmp_path):
    path = write(tmp_path / "x.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE w (a INTEGER PRIMARY KEY) WITHOUT ROWID")
    with pytest.raises(EvidenceError, match=r"table w: a page does not belong to a table.*copy or export it again"):
        columns(path, ["a"], table="w")


def test_files_that_are_cut_short(tmp_path):
    path = write(tmp_path / "x.sqlite", rows=[(i, "t" * 50, i, i) for i in range(1000)])
    whole = path.read_bytes()
    for size in (0, 50, 100, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(EvidenceError, match=f"^{path}: "):
            columns(path, ["a"])


def test_a_page_that_is_its_own_child_ends(tmp_path):
    path = write(tmp_path / "x.sqlite", rows=[(i, "t" * 50, i, i) for i in range(1000)])
    content = bytearray(path.read_bytes())
    with sqlite3.connect(path) as database:
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'x'").fetchone()[0]
    start = (root - 1) * 4096
    assert content[start] == 5
    content[start + 8 : start + 12] = struct.pack(">I", root)
    for index in range(struct.unpack_from(">H", content, start + 3)[0]):
        cell = struct.unpack_from(">H", content, start + 12 + 2 * index)[0]
        content[start + cell : start + cell + 4] = struct.pack(">I", root)
    path.write_bytes(content)
    began = time.monotonic()
    with pytest.raises(EvidenceError, match="used twice"):
        columns(path, ["a"])
    assert time.monotonic() - began < 10


def test_a_chain_of_pages_that_never_ends(tmp_path):
    path = write(tmp_path / "x.sqlite", rows=[(1, "t" * 50_000, 1, 1)])
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        if content[page * 4096 : page * 4096 + 4] != b"\0\0\0\0" and content[page * 4096] not in (5, 13):
            content[page * 4096 : page * 4096 + 4] = struct.pack(">I", page + 1)  # each follows itself
    path.write_bytes(content)
    assert len(columns(path, texts=["t"])["t"]) == 1  # as long as the row says, whatever stands there


def test_no_database_and_no_file(tmp_path):
    for content in (b"", b"text" * 100, b"SQLite format 3\x00" + bytes(200)):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(EvidenceError, match="SQLite"):
            Database(tmp_path / "x")
    with pytest.raises(EvidenceError, match="No such file"):
        Database(tmp_path / "nothing")
