"""A breakdown as text for a file or another program: what rich would write there, without importing or running it.

rich takes longer to be imported and to draw a table than a stored breakdown takes to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.cells import cell_len, set_cell_size

from kernelscope.reports import breakdown_grid
from kernelscope.reports.breakdown_grid import TALL, Column


def breakdown(result: Mapping[str, Any], width: int) -> str | None:
    """Return the text that a rich Console without colours writes of terminal.breakdown; None where something has to wrap."""
    heading, (_, beneath) = breakdown_grid.heading(result), breakdown_grid.keys(result)
    if beneath:
        return None
    grid = breakdown_grid.grid(result, TALL, width)
    widths = grid.widths()
    whole = sum(widths) + len(widths) - 1
    if max(whole, *map(cell_len, heading)) > width:
        return None
    names, totals = ([getattr(column, part) for column in grid.columns] for part in ("heading", "footer"))
    lines = [
        " ".join(_sized(text, size, column) for text, size, column in zip(texts, widths, grid.columns, strict=True))
        for texts in (names, *grid.lines, totals)
    ]
    return "\n".join([*heading, lines[0], "─" * whole, *lines[1:-1], " " * whole, lines[-1], ""])


def _sized(text: str, width: int, column: Column) -> str:
    return " " * (width - cell_len(text)) + text if column.right else set_cell_size(text, width)
