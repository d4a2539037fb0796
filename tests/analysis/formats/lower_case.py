"""Databases whose names of tables and columns are in lower case, as some tools rewrite them: to SQLite they are the same."""

import sqlite3
from pathlib import Path


def lowered(path: Path, to: Path) -> Path:
    """Copy a database with all its names in lower case."""
    to.write_bytes(path.read_bytes())
    database = sqlite3.connect(to)
    database.execute("PRAGMA writable_schema = 1")
    database.execute("UPDATE sqlite_master SET name = lower(name), tbl_name = lower(tbl_name), sql = lower(sql)")
    database.commit()
    database.close()
    database = sqlite3.connect(to)
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    database.close()
    assert names == [name.lower() for name in names]
    return to
