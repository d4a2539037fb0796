"""What an nsys export holds about the machine besides the recording, and how to remove it.

While it records, nsys writes down the environment of every process that it can read, not only the program's, with all tokens
and passwords in it. No option changes that. In an export, environments are texts of variables separated by zero bytes. The
report itself is compressed: only deleting it removes them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

# Tables of names and values, and the names under which they hold the machine's environment, names and folders
_FACTS = ("TARGET_INFO_SYSTEM_ENV", "EXPORT_META_DATA", "META_DATA_EXPORT", "META_DATA_CAPTURE")
_NAMES = ("%ENV%", "%HOST%", "%USER%", "%PATH%")


def without_environments(exported: Path) -> int:
    """Blank the environments, host, user and folders in an SQLite export, in place; return how many texts were blanked.

    The file is then rewritten, because its pages keep remains of earlier texts, including ones that nsys itself moved. Raises
    sqlite3.Error for a file that cannot be changed.
    """
    with closing(sqlite3.connect(exported)) as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        blanked = 0
        if "StringIds" in tables:
            blanked += database.execute("UPDATE StringIds SET value = '' WHERE instr(CAST(value AS BLOB), x'00') > 0").rowcount
        for table in tables.intersection(_FACTS):
            for name in _NAMES:
                change = f"UPDATE {table} SET value = '' WHERE name LIKE ? AND value != ''"  # noqa: S608
                blanked += database.execute(change, (name,)).rowcount
        database.commit()
        database.execute("VACUUM")
    return blanked
