"""Damage to SQLite databases that stay databases: other types in cells, missing columns and tables, views in their places."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

# as SQL, so that text that is no UTF-8 and infinities can be written
VALUES = (
    "NULL", "0", "-1", "1", "9223372036854775807", "-9223372036854775808", "4294967296", "1e308", "9e999", "-9e999", "0.5",
    "''", "'abc'", "'12'", "'NaN'", "'-1'", "x'00'", "x''", "x'fffefdfc'", "CAST(x'fffe80' AS TEXT)", "CAST(x'610062' AS TEXT)",
    "'<script>'", "char(27) || '[31m'", "zeroblob(100000)", "hex(zeroblob(50000))", "rowid", "-rowid", "rowid * 1000000000000",
    "'[1,2'", "'{\"a\": [}'", "'9' || hex(zeroblob(20))", "1e18", "9007199254740993.0",
)  # fmt: skip
_ENDLESS = "WITH RECURSIVE t(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM t) SELECT"
_IMPORTANT = ("KERNEL", "MEMCPY", "RUNTIME", "NVTX", "StringIds", "MARKER", "META_DATA", "INFO_GPU", "ThreadNames", "GRAPH")


def change(rng: Random, path: Path) -> list[str]:
    """Change a database in place; return what was done. What SQLite refuses to do is left out."""
    database = sqlite3.connect(path, isolation_level=None)
    done = []
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        for _ in range(rng.choice((1, 1, 2, 4))):
            action = rng.choice(ACTIONS)
            try:
                done.append(f"{action.__name__}: {action(rng, database)}")
            except (sqlite3.Error, IndexError) as error:
                done.append(f"{action.__name__} refused ({error})")
    except sqlite3.Error as error:
        done.append(str(error))
    finally:
        database.close()
    return done


def _table(rng: Random, database: sqlite3.Connection) -> str:
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")
    names = [row[0] for row in rows]
    important = [name for name in names if any(word in name for word in _IMPORTANT)]
    filled = [name for name in important if database.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()]
    return rng.choice(filled if filled and rng.random() < 0.8 else names)


def _column(rng: Random, database: sqlite3.Connection, table: str) -> str:
    return rng.choice([row[1] for row in database.execute(f'PRAGMA table_info("{table}")')])


def change_cells(rng: Random, database: sqlite3.Connection) -> str:
    """Write one value into a column, in one row, some rows or all."""
    table = _table(rng, database)
    column, value = _column(rng, database, table), rng.choice(VALUES)
    last = int(database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]) or 1  # rowid can be a column of any values
    where = rng.choice((f"rowid = {rng.randint(1, last)}", f"rowid % {rng.choice((2, 3, 10))} = 0", "1"))
    database.execute(f'UPDATE "{table}" SET "{column}" = {value} WHERE {where}')
    return f"{table}.{column} = {value} where {where}"


def remake(rng: Random, database: sqlite3.Connection) -> str:
    """Make a table again without types, so that the columns take every type of value as it is, and write one there."""
    table = _table(rng, database)
    column, value = _column(rng, database, table), rng.choice(VALUES)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    database.execute(f'ALTER TABLE "{table}" RENAME TO "_old"')
    names = ", ".join(f'"{name}"' for name in columns)
    database.execute(f'CREATE TABLE "{table}" ({names})')
    database.execute(f'INSERT INTO "{table}" SELECT * FROM "_old"')
    database.execute('DROP TABLE "_old"')
    database.execute(f'UPDATE "{table}" SET "{column}" = {value} WHERE rowid % {rng.choice((1, 2, 50))} = 0')
    return f"{table}.{column} = {value}"


def drop_column(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    column = _column(rng, database, table)
    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    return f"{table}.{column}"


def rename_column(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    column, name = _column(rng, database, table), rng.choice(("start", "end", "a\nb", "X", "value", "rowid"))
    database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{name}"')
    return f"{table}.{column} to {name!r}"


def drop_table(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    database.execute(f'DROP TABLE "{table}"')
    return table


def rename_table(rng: Random, database: sqlite3.Connection) -> str:
    table, other = _table(rng, database), _table(rng, database)
    database.execute(f'ALTER TABLE "{table}" RENAME TO "_swap"')
    if table != other:
        database.execute(f'ALTER TABLE "{other}" RENAME TO "{table}"')
        database.execute(f'ALTER TABLE "_swap" RENAME TO "{other}"')
    return f"{table} and {other}"


def empty_table(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    database.execute(f'DELETE FROM "{table}"')
    return table


def double_rows(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")') if not row[5]]
    names = ", ".join(f'"{name}"' for name in columns)
    database.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM "{table}"')
    return table


def view_for_table(rng: Random, database: sqlite3.Connection) -> str:
    """Put an endless view in a table's place."""
    table = _table(rng, database)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    database.execute(f'DROP TABLE "{table}"')
    names = ", ".join(f'start AS "{name}"' for name in columns)
    database.execute(f'CREATE VIEW "{table}" AS {_ENDLESS} {names} FROM t')
    return table


def virtual_table(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    columns = ", ".join(row[1] for row in database.execute(f'PRAGMA table_info("{table}")'))
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'CREATE VIRTUAL TABLE "{table}" USING fts5({columns})')
    return table


def generated_column(rng: Random, database: sqlite3.Connection) -> str:
    """Make a column one that is computed when it is read."""
    table = _table(rng, database)
    column = _column(rng, database, table)
    rest = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")') if row[1] != column]
    database.execute(f'DROP TABLE "{table}"')
    names = ", ".join(f'"{name}"' for name in rest)
    database.execute(f'CREATE TABLE "{table}" ({names}, "{column}" AS (hex(zeroblob(100000000))))')
    database.execute(f'INSERT INTO "{table}" DEFAULT VALUES')
    return f"{table}.{column}"


def trigger(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    database.execute(f'CREATE TRIGGER "boom" AFTER UPDATE ON "{table}" BEGIN DELETE FROM "{table}"; END')
    return table


def without_rowid(rng: Random, database: sqlite3.Connection) -> str:
    table = _table(rng, database)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    names = ", ".join(f'"{name}"' for name in columns)
    database.execute(f'CREATE TABLE "_new" ({names}, PRIMARY KEY ({names})) WITHOUT ROWID')
    database.execute(f'INSERT OR IGNORE INTO "_new" SELECT * FROM "{table}"')
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'ALTER TABLE "_new" RENAME TO "{table}"')
    return table


ACTIONS: tuple[Callable[[Random, sqlite3.Connection], str], ...] = (
    *[change_cells] * 8, *[remake] * 4, drop_column, drop_column, rename_column, drop_table, drop_table, rename_table,
    empty_table, double_rows, view_for_table, virtual_table, generated_column, trigger, without_rowid,
)  # fmt: skip
