"""The one table that results are written as: plain values in columns, which each renderer shows in its medium."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows of plain values: null, text and numbers; of numbers for machines integer ns, bytes, shares of 1.

    name: identifies it, as a file or a JSON schema. title: stands above it where people read, the name if empty. first: columns
    that stay side by side where there is no room for all: the one that says what a row is about, then those that count most.
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
    """Return rows as a table, null where one has no such key. columns: those wanted, in order; all of the first row if empty."""
    given = list(rows)
    wanted = columns or tuple(given[0] if given else ())
    return Table(name, wanted, [[row.get(column) for column in wanted] for row in given], title, first)
