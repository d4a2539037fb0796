"""Tables that fit a terminal of any width: as many columns as fit side by side, and the rest of each row beneath it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from kernelscope.reports.table import Table
from kernelscope.reports.text import printable

_GAP = 2  # terminal columns between two table columns
_BREAKING = 52  # terminal columns: longer words, such as paths, may be broken
_LEAST = 32  # terminal columns: a long text is still readable in them
_NUMBER = re.compile(r"[<>]?[-+±]?[\d,]+(\.\d+)?( ?[%\u00d7]| [\w/]+)?")  # possibly with a unit


@dataclass(frozen=True)
class Fitted:
    """A table under its title.

    If rows are wider than the terminal, values that all rows share are stated once on top. Then a table with ranked columns
    (`first`) keeps as many of them as fit. In other tables the longest text wraps within its column or, if that would be too
    narrow, goes beneath the row, then the next longest, and so on. The first column stays. Nothing is cut.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(printable(self.table.title or self.table.name), style="bold")
        if not self.table.rows:
            yield Text("(none)")
            return
        width = options.max_width
        columns = list(self.table.columns)
        if self._over(columns, width) > 0:
            first = self.table.first[:1] or columns[:1]
            same = [column for column in columns if column not in first and self._same(column)]
            said = [_detail(column, value) for column in same if (value := self.table.column(column)[0]) is not None]
            if said:
                yield Text(" \u00b7 ".join(said), style="dim")
            columns = [column for column in columns if column not in same]
        beside, wrapped = self._layout(columns, width)
        yield from self._drawn(columns, beside, wrapped, width)
        if self.table.first:
            yield ""

    def _same(self, column: str) -> bool:
        """Return whether there are several rows and all have the same value in this column."""
        values = self.table.column(column)
        return len(values) > 1 and all(value == values[0] for value in values)

    def _over(self, columns: Sequence[str], width: int) -> int:
        """Return how much wider these columns are than the terminal."""
        return sum(self._widths[column] + _GAP for column in columns) - _GAP - width

    def _layout(self, columns: Sequence[str], width: int) -> tuple[list[str], str | None]:
        """Return the columns to show side by side, and the one that wraps, if any."""
        if self.table.first and self._over(columns, width) > 0:
            name = self.table.first[0]
            return [name, *self._beside(columns, width)], name
        beside = list(columns)
        while len(beside) > 1 and (over := self._over(beside, width)) > 0:
            longest = max(beside[1:], key=lambda column: (column not in self._numeric, self._widths[column]))
            room = self._widths[longest] - over
            if longest not in self._numeric and room >= max(_LEAST, min(self._longest_word(longest), _BREAKING)):
                return beside, longest
            beside.remove(longest)
        return beside, None

    def _beside(self, columns: Sequence[str], width: int) -> Iterator[str]:
        """Yield the ranked columns, in order, that fit beside the name."""
        room = width - max(width // 3, 20)
        for column in self.table.first[1:]:
            if column in columns:
                room -= self._widths[column] + _GAP
                if room < 0:
                    return
                yield column

    def _longest_word(self, column: str) -> int:
        return max((cell_len(word) for value in self.table.column(column) for word in shown(value).split()), default=0)

    def _drawn(self, columns: Sequence[str], beside: Sequence[str], wrapped: str | None, width: int) -> Iterator[RenderableType]:
        """Yield the rows as tables with equal columns: a table ends where something goes beneath a row."""
        beneath = [column for column in columns if column not in beside]
        spelled = {column: max(self._widths[column], cell_len(heading(column))) for column in beside}
        one_line = sum(spelled.values()) + _GAP * (len(beside) - 1) <= width  # headings too
        others = sum(self._widths[column] + _GAP for column in beside if column != wrapped)
        rows = [dict(zip(self.table.columns, row, strict=True)) for row in self.table.rows]
        for number, part in enumerate([[row] for row in rows] if beneath else [rows]):
            drawn = Drawn(
                box=box.SIMPLE_HEAD, padding=(0, _GAP - 1, 0, 0), show_edge=False, pad_edge=False, header_style="bold",
                show_header=not number, collapse_padding=True,
            )  # fmt: skip
            for column in beside:
                own = spelled[column] if one_line else self._widths[column]
                size = min(own, max(width - others, 1)) if column == wrapped else min(own, width)
                side: Any = "right" if column in self._numeric else "left"
                drawn.add_column(heading(column), justify=side, width=size, overflow="fold")
            for row in part:
                drawn.add_row(*(Text(shown(row[column])) for column in beside))
            yield drawn
            details = [_detail(column, part[0][column]) for column in beneath if part[0][column] is not None]
            if details:
                yield Padding(Text(" \u00b7 ".join(details), style="dim", overflow="fold"), (0, 0, 0, 2))

    @cached_property
    def _widths(self) -> dict[str, int]:
        """The width of each column: its longest cell, or the longest word of its heading."""
        return {
            column: max(map(cell_len, [*heading(column).split(), *map(shown, self.table.column(column))]), default=0)
            for column in self.table.columns
        }

    @cached_property
    def _numeric(self) -> set[str]:
        """The columns with numbers."""
        known = {name: [value for value in self.table.column(name) if value is not None] for name in self.table.columns}
        return {name for name, values in known.items() if values and all(map(_number, values))}


def heading(column: str) -> str:
    """Return a column's name for reading."""
    return printable(column).replace("_", " ")


def shown(value: Any) -> str:
    """Return a value for reading, in full."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.2f}" if isinstance(value, float) else printable(value, None)


def _number(value: Any) -> bool:
    """Return whether a cell is a number, possibly with a unit."""
    return not isinstance(value, bool) and (isinstance(value, int | float) or bool(_NUMBER.fullmatch(str(value))))


def _detail(column: str, value: Any) -> str:
    """Return a cell for a line of details: numbers and yes or no need their heading."""
    plain = isinstance(value, str) and not value[:1].isdigit()
    return shown(value) if plain else f"{heading(column)} {shown(value)}"
