"""Databases beside which lies a log of changes that are not in them are refused, and read when these were merged."""

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.files.sqlite_pages import Database

CHANGES = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = " + sys.argv[2])
database.execute("PRAGMA cache_size = 2")
database.execute("PRAGMA wal_autocheckpoint = 0")
if sys.argv[2] == "delete":
    database.execute("BEGIN")
database.execute("UPDATE kernels SET length = length + 1000")
os._exit(0)
"""


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "capture.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE kernels (length INTEGER, name TEXT)")
        made.executemany("INSERT INTO kernels VALUES (?, ?)", [(5, "x" * 500)] * 1000)
    made.close()
    return path


def lengths(path):
    with Database(path) as opened:
        return {
            int(value) for batch in opened.scan("kernels", ["length"], lambda one: one.integers("length")[0]) for value in batch
        }


@pytest.mark.parametrize(("mode", "ending", "after"), [("wal", "-wal", 1005), ("delete", "-journal", 5)])
def test_what_is_not_merged_is_refused_until_it_is(database, mode, ending, after):
    subprocess.run([sys.executable, "-c", CHANGES, database, mode], check=True)
    for read in (lambda path: read_head(path).tables, Database):
        with pytest.raises(EvidenceError, match=f"capture.sqlite{ending} holds changes that are not in it"):
            read(database)
    with sqlite3.connect(database) as opened:
        opened.execute("SELECT count(*) FROM kernels").fetchone()
    opened.close()
    assert lengths(database) == {after}


def test_empty_logs_are_in_nobodys_way(database):
    for ending in ("-wal", "-journal"):
        database.with_name(database.name + ending).write_bytes(b"")
    assert lengths(database) == {5}
    shutil.copy(database, database.with_name("capture.sqlite-journal"))
    assert os.path.getsize(database) > 512
    assert lengths(database) == {5}, "it is no log"
