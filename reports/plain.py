"""Tables of breakdowns and of what captures hold, for a file or another program: as rich would write them, without running it.

rich takes longer to be imported and to draw a table than a stored breakdown takes to be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from kernelscope.reports import breakdown_grid, captures
from kernelscope.reports.breakdown_grid import TALL, Column
from kernelscope.reports.text import printable


def breakdown(result: Mapping[str, Any], width: int) -> str | None:
    """Return the text that a rich Console without colours writes of terminal.breakdown; None where something has to wrap."""
    _, beneath = breakdown_grid.keys(result)
    return None if beneath else _fitting([*breakdown_grid.heading(result), *_table(result, TALL, width)], width)


def capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]], width: int) -> str | None:
    """Return the same of terminal.capture; None for samples, too, whose table is rarely long."""
    if record.get("samples"):
        return None
    facts = [(name, printable(value, None)) for name, value in captures.facts(record, breakdowns)]
    names, values = (max(map(cell_len, column)) for column in zip(*facts, strict=True))
    lines = [printable(captures.headline(record, breakdowns), None)]
    lines += [f"{set_cell_size(name, names)} {set_cell_size(value, values)}" for name, value in facts]
    for title, sentences in captures.findings(record):
        said = [f"{printable(name)}: {printable(line)}" if name else printable(line, None) for name, line in sentences]
        lines += _section(title, [f"  {line}" for line in said], width)
    table = captures.longest_first(breakdowns)
    if table is not None:
        lines += [*_section(captures.title(table), [], width), *_table(table, captures.ROWS, width)]
    return _fitting(lines, width)


def _section(title: str, lines: list[str], width: int) -> list[str]:
    """Return a section as rich pads it: each line as wide as the console."""
    return [" " * width, *(line + " " * (width - cell_len(line)) for line in (title, *lines))]


def _table(result: Mapping[str, Any], most: int, width: int) -> list[str]:
    grid = breakdown_grid.grid(result, most, width)
    widths = grid.widths()
    whole = sum(widths) + len(widths) - 1
    names, totals = ([getattr(column, part) for column in grid.columns] for part in ("heading", "footer"))
    first, *lines = (
        " ".join(_sized(text, size, column) for text, size, column in zip(texts, widths, grid.columns, strict=True))
        for texts in (names, *grid.lines, totals)
    )
    return [first, "─" * whole, *lines[:-1], " " * whole, lines[-1]]


def _sized(text: str, width: int, column: Column) -> str:
    return " " * (width - cell_len(text)) + text if column.right else set_cell_size(text, width)


def _fitting(lines: Sequence[str], width: int) -> str | None:
    """Return the text of lines, if each fits."""
    return "".join(f"{line}\n" for line in lines) if max(map(cell_len, lines)) <= width else None
