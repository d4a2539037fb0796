"""Building blocks of tables and sections for the terminal; rich draws them, and its console decides on width and colours.

All names pass through `text.printable` and are never read as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.reports.text import SENTENCE, printable


@dataclass
class Sections:
    """Renderables that are made when the width is known."""

    make: Callable[[int], Iterator[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.make(options.max_width)


def heading(title: str) -> RenderableType:
    """Return a section's heading, with an empty line before it."""
    return Padding(Text(title, style="bold cyan"), (1, 0, 0, 0))


def bullet(name: object, sentence: object, style: str = "bold") -> RenderableType:
    """Return a line `name: sentence`. style: of the name."""
    line = Text(printable(name), style=style)
    return Padding(line.append(f": {printable(sentence, SENTENCE)}", style="not bold default"), (0, 0, 0, 2))


def grid(**options: Any) -> Table:
    """Return a table without a frame. options: of rich's Table."""
    settings = {"box": box.SIMPLE_HEAD, "padding": (0, 0), "show_edge": False, "pad_edge": False, "header_style": "bold"}
    return Table(**{**settings, **options})
