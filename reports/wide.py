"""Tables of more columns than a terminal is wide: what counts most side by side, the rest of a row beneath it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.reports.text import printable

Row = Mapping[str, Any]

_GAP = 2  # columns of the terminal between two of a table
_UNKNOWN = "-"


@dataclass(frozen=True)
class Wide:
    """Rows of the same keys (texts and numbers, None where not known) for a terminal of any width.

    name: the key that says what a row is about. first: keys that shall stand beside it, those that count most first. Where all
    columns have room they are shown as they come; else as many of `first` as have, and the rest of each row beneath it.
    """

    title: str
    rows: Sequence[Row]
    name: str
    first: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(printable(self.title), style="bold")
        if not self.rows:
            yield Text("(none)")
            return
        columns = list(self.rows[0])
        fits = sum(_width(self.rows, column, whole=True) + _GAP for column in columns) <= options.max_width + _GAP
        yield from [self._plain(columns)] if fits else self._listed(options.max_width)
        yield ""

    def _plain(self, columns: Sequence[str]) -> RenderableType:
        table = _grid()
        for column in columns:
            table.add_column(column, justify=_side(self.rows, column), no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(_text(row[column])) for column in columns))
        return table

    def _listed(self, width: int) -> Iterator[RenderableType]:
        """Yield a table of one row for each row, its name last, and across the terminal what has no room beside it."""
        beside = list(self._beside(width))
        beneath = [column for column in self.rows[0] if column not in (self.name, *beside)]
        for number, row in enumerate(self.rows):
            table = _grid(show_header=not number)
            for column in beside:
                table.add_column(column.replace("_", " "), justify=_side(self.rows, column), width=_width(self.rows, column))
            table.add_column(self.name.replace("_", " "), overflow="fold")
            table.add_row(*(Text(_text(row[column])) for column in beside), Text(_text(row[self.name]), style="bold"))
            yield table
            details = [_detail(column, row[column]) for column in beneath if row[column] is not None]
            if details:
                yield Padding(Text(" \u00b7 ".join(details), style="dim", overflow="fold"), (0, 0, 0, 2))

    def _beside(self, width: int) -> Iterator[str]:
        """Yield the keys that have room beside the name, in their order."""
        room = width - max(width // 3, 20)
        for column in self.first:
            if column in self.rows[0]:
                room -= _width(self.rows, column) + _GAP
                if room < 0:
                    return
                yield column


def _grid(**options: Any) -> Table:
    settings = {"box": box.SIMPLE_HEAD, "padding": (0, _GAP - 1, 0, 0), "show_edge": False, "pad_edge": False}
    return Table(**{**settings, "header_style": "bold", **options})


def _width(rows: Sequence[Row], column: str, whole: bool = False) -> int:
    """Return what a column takes: its longest cell, and its heading, in one line or word by word."""
    heading = [column] if whole else column.replace("_", " ").split()
    return max(map(len, [*heading, *(_text(row[column]) for row in rows)]))


def _side(rows: Sequence[Row], column: str) -> Any:
    return "right" if all(_number(row[column]) for row in rows if row[column] is not None) else "left"


def _number(value: object) -> bool:
    """Return whether a cell is a number, with a unit maybe."""
    return not isinstance(value, bool) and _text(value)[:1].isdigit()


def _text(value: object) -> str:
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.2f}" if isinstance(value, float) else printable(value, None)


def _detail(column: str, value: object) -> str:
    """Return a cell as it is said in a line: numbers and yes or no need their heading."""
    plain = isinstance(value, str) and not _number(value)
    return _text(value) if plain else f"{column.replace('_', ' ')} {_text(value)}"
