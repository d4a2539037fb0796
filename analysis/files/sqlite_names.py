"""Names of tables and columns in SQLite databases: the stored tables, and comparison that ignores case, as in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Set

# Views and virtual tables have no pages of their own. No capture has a schema with more tables.
_STORED = "SELECT CAST(name AS TEXT), rootpage FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT 10000"


def folded(name: str) -> str:
    """Return the form of a name that is compared: for SQLite, StringIds and stringids are the same."""
    return name.lower()


class Names(Set[str]):
    """Names that are iterated as written and looked up in any case, also by `&`, `<=` and `>=`."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._written = {folded(name): name for name in names}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and folded(name) in self._written

    def __iter__(self) -> Iterator[str]:
        return iter(self._written.values())

    def __len__(self) -> int:
        return len(self._written)

    def beginning(self, prefix: str) -> list[str]:
        """Return the names that begin with the prefix, as written."""
        return [name for known, name in self._written.items() if known.startswith(folded(prefix))]


def stored_tables(database: sqlite3.Connection) -> dict[str, int]:
    """Return the first pages of the tables stored in the database itself, by name; raise as sqlite3 does.

    The connection may return text or bytes; invalid UTF-8 is replaced.
    """
    rows = database.execute(_STORED).fetchall()
    named = [(name.decode("utf8", "replace") if isinstance(name, bytes) else name, page) for name, page in rows]
    return {name: page for name, page in named if isinstance(name, str)}
