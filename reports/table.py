"""The common table of results: plain values in columns, which each renderer writes in its format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows of plain values: null, text and numbers; numbers for programs are integer ns, bytes, shares of 1.

    name: identifies it, as a file or a JSON schema. title: heading for readers, the name if empty. first: columns that stay side
    by side if there is no room for all: the one that names a row, then the most important ones.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    title: str = ""
    first: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rows that do not fit the columns: numbers under the wrong heading are worse than none."""
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"table {self.name}: a row has another number of cells than there are columns")

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def of_rows(name: str, rows: Iterable[Row], columns: tuple[str, ...] = (), title: str = "", first: tuple[str, ...] = ()) -> Table:
    """Return rows as a table, null for missing keys. columns: the columns, in order (default: the keys of the first row)."""
    given = list(rows)
    wanted = columns or tuple(given[0] if given else ())
    return Table(name, wanted, [[row.get(column) for column in wanted] for row in given], title, first)
