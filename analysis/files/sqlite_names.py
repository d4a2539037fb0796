"""Names of a SQLite database's tables and columns: which are stored in it, and compared as SQLite does, whatever their case."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Set

# Views and virtual tables have no pages of their own. A schema with more tables is no capture's.
_STORED = "SELECT CAST(name AS TEXT), rootpage FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT 10000"


def folded(name: str) -> str:
    """Return a name as it is compared: SQLite takes StringIds and stringids for one."""
    return name.lower()


class Names(Set[str]):
    """Names, iterated as they are written and found in whatever case they are asked for, also by `&`, `<=` and `>=`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._written = {folded(name): name for name in names}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and folded(name) in self._written

    def __iter__(self) -> Iterator[str]:
        return iter(self._written.values())

    def __len__(self) -> int:
        return len(self._written)

    def beginning(self, prefix: str) -> list[str]:
        """Return those that begin so, as they are written."""
        return [name for known, name in self._written.items() if known.startswith(folded(prefix))]


def stored_tables(database: sqlite3.Connection) -> dict[str, int]:
    """Return the tables that are stored in the database itself, by name, and their first pages; raise as sqlite3 does.

    The connection may give text as text or as bytes: bytes that are no UTF-8 are replaced.
    """
    rows = database.execute(_STORED).fetchall()
    named = [(name.decode("utf8", "replace") if isinstance(name, bytes) else name, page) for name, page in rows]
    return {name: page for name, page in named if isinstance(name, str)}
