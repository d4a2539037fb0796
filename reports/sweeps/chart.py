"""Building blocks of a sweep's figures: the figure's function, its numbers as a table, and what was left out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from kernelscope.reports.figures import Style
from kernelscope.reports.table import Table

ACROSS = 3  # panels side by side on a wide page
_PANEL_IN = 2.6  # width in inches that a panel needs with letters of 8 points
_LEGEND_ROWS = 2  # rows of a legend that figures have room for


@dataclass(frozen=True)
class Chart:
    """A figure. key: its name in files and links. notes: what it leaves out and why. alternative: its content in words."""

    key: str
    title: str
    table: Table
    draw: Callable[[Style], Figure]
    notes: tuple[str, ...] = ()
    alternative: str = ""


@dataclass(frozen=True)
class Missing:
    """A figure that cannot be drawn, and why."""

    key: str
    title: str
    reason: str


def panels(
    count: int, style: Style, height_in: float, share_y: bool = False, across: int = ACROSS, least: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels in rows of `across`, or one below the other in narrow styles.

    least: a row has room for at least so many panels, even if there are fewer, so that panels do not get too wide.
    """
    room = max(int(style.width_in * 8 / style.font_pt / _PANEL_IN), 1)
    across = min(2 if count == 4 else across, room)
    across = 1 if style.narrow else min(max(count, least), across)
    down = -(-count // across)
    figure = Figure(figsize=(style.width_in, down * height_in + 0.7), layout="constrained", facecolor="none")
    grid: list[Axes] = list(np.ravel(figure.subplots(down, across, sharey=share_y, squeeze=False)))
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def plain_log(axes: Axes, which: str) -> None:
    """Make an axis ("x" or "y") logarithmic, with plain numbers at 1, 2 and 5: pages show the text of figures literally."""
    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = getattr(axes, f"get_{which}lim")()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def few_ticks(axes: Axes) -> None:
    """Put few numbers at the x axis, with separators, so they do not overlap in small panels."""
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def legend(figure: Figure, handles: Sequence[object], style: Style, longest: int) -> None:
    """Put a legend below all panels, with as many columns of this name length as fit."""
    columns = max(1, min(len(handles), int(style.width_in / (0.075 * style.font_pt / 8 * longest + 0.45))))
    rows = -(-len(handles) // columns)
    columns = -(-len(handles) // rows)  # balance the rows
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + max(rows - _LEGEND_ROWS, 0) * 0.19 * style.font_pt / 8)
    figure.legend(handles=list(handles), loc="outside lower center", ncols=columns, frameon=False)


def heading(axes: Axes, text: str, style: Style, beside_in: float = 0.5) -> None:
    """Set a panel's title, wrapped to fit above it. beside_in: width of what is beside the panel."""
    place = axes.get_subplotspec()
    across = place.get_gridspec().ncols if place else 1
    room = int((style.width_in / across - beside_in) / (0.085 * style.font_pt / 8))
    axes.set_title("\n".join(textwrap.wrap(text, max(room, 18))), loc="left")
