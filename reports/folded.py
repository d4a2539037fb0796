"""Tables that fit a terminal of any width: columns side by side as far as they fit, the longest texts beneath their row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.reports.text import printable

Row = Mapping[str, Any]

_GAP = 2  # columns of the terminal between two of a table
_LEAST = 32  # columns of the terminal in which a long text is still readable


@dataclass(frozen=True)
class Folded:
    """Rows of the same keys (texts and numbers, None where not known) under a title.

    Where a row is wider than the terminal, what is the same in all rows is said once on top; then the longest text wraps
    within its column or, where that would be narrow, goes beneath the row, then the next longest, and so on. The first column
    stays. Nothing is cut.
    """

    title: str
    rows: Sequence[Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(printable(self.title), style="bold")
        if not self.rows:
            yield Text("(none)")
            return
        columns, width = list(self.rows[0]), options.max_width
        same = [column for column in columns[1:] if self._same(column)] if self._over(columns, width) > 0 else []
        if same:
            said = (_detail(column, self.rows[0][column]) for column in same if self.rows[0][column] is not None)
            yield Text(" \u00b7 ".join(said), style="dim")
        columns = [column for column in columns if column not in same]
        beside, wrapped = self._layout(columns, width)
        yield from self._drawn(columns, beside, wrapped, width)

    def _same(self, column: str) -> bool:
        """Return whether all of several rows have one value here."""
        return len(self.rows) > 1 and all(row[column] == self.rows[0][column] for row in self.rows)

    def _over(self, columns: Sequence[str], width: int) -> int:
        """Return by how much these columns are wider than the terminal."""
        return sum(self._width(column) + _GAP for column in columns) - _GAP - width

    def _layout(self, columns: Sequence[str], width: int) -> tuple[list[str], str | None]:
        """Return the columns that stand side by side, and the one of these that wraps, if one does."""
        beside = list(columns)
        while len(beside) > 1 and (over := self._over(beside, width)) > 0:
            longest = max(beside[1:], key=lambda column: (not self._numeric(column), self._width(column)))
            room = self._width(longest) - over
            if not self._numeric(longest) and room >= max(_LEAST, self._longest_word(longest)):
                return beside, longest
            beside.remove(longest)
        return beside, None

    def _longest_word(self, column: str) -> int:
        return max((cell_len(word) for row in self.rows for word in _text(row[column]).split()), default=0)

    def _drawn(self, columns: Sequence[str], beside: Sequence[str], wrapped: str | None, width: int) -> Iterator[RenderableType]:
        """Yield the rows as tables of equal columns: where something goes beneath a row, its table ends there."""
        beneath = [column for column in columns if column not in beside]
        tables = [self.rows] if not beneath else [[row] for row in self.rows]
        for number, rows in enumerate(tables):
            table = Table(
                box=box.SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), show_edge=False, pad_edge=False, header_style="bold",
                show_header=not number, collapse_padding=True,
            )  # fmt: skip
            for column in beside:
                fixed = None if column == wrapped else min(self._width(column), width)
                side: Any = "right" if self._numeric(column) else "left"
                table.add_column(_heading(column), justify=side, width=fixed, overflow="fold")
            for row in rows:
                table.add_row(*(Text(_text(row[column])) for column in beside))
            yield table
            details = [_detail(column, rows[0][column]) for column in beneath if rows[0][column] is not None]
            if details:
                yield Padding(Text(" \u00b7 ".join(details), style="dim", overflow="fold"), (0, 0, 0, 2))

    def _width(self, column: str) -> int:
        """Return what a column takes: its longest cell, or the longest word of its heading."""
        return max(map(cell_len, [*_heading(column).split(), *(_text(row[column]) for row in self.rows)]))

    def _numeric(self, column: str) -> bool:
        known = [row[column] for row in self.rows if row[column] is not None]
        return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _heading(column: str) -> str:
    return printable(column).replace("_", " ")


def _text(value: Any) -> str:
    """Return a value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.2f}" if isinstance(value, float) else printable(value, None)


def _detail(column: str, value: Any) -> str:
    """Return a cell as it is said in a line: numbers and yes or no need their heading."""
    return _text(value) if isinstance(value, str) else f"{_heading(column)} {_text(value)}"
