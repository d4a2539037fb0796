"""The figure of a single run: its steps one by one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kernelscope.reports import units
from kernelscope.reports.colours import SERIES
from kernelscope.reports.figures.drawing import Style, canvas, drawing

_MARKERS = "os^Dv<>pP*"
_HIGHEST = 3  # medians: longer steps are drawn at the upper edge


def steps(restarts: Sequence[Sequence[int]], style: Style | None = None) -> Figure:
    """Draw the wall time of every measured step of the clean pass over its number, and the median of each restart.

    restarts: ns of the steps of each, in order; restarts without steps are left out. Very long steps are at the upper edge, and
    the title says how many.
    """
    style = style or Style()
    restarts = [times for times in restarts if times]
    unit = units.common_unit(median(times) for times in restarts)
    scale = units.NS_PER[unit]
    limit = _HIGHEST * max((median(times) for times in restarts), default=1.0)
    above = sum(time > limit for times in restarts for time in times)
    with drawing(style):
        figure = canvas(style, 0.32 * style.width_in + 0.6)
        axes = figure.subplots()
        more = f"; {above} of more than {units.duration(limit)} at the upper edge" if above else ""
        axes.set_title(f"Steps of the clean pass{more}", loc="left")
        axes.set(xlabel="step", ylabel=unit)
        axes.grid(axis="y")
        for number, times in enumerate(restarts):
            colour, marker = SERIES[number % len(SERIES)], _MARKERS[number % len(_MARKERS)]
            label = f"restart {number + 1}: median {units.duration(median(times))}"
            heights = [min(time, limit) / scale for time in times]
            axes.plot(heights, ls="none", marker=marker, markersize=3.5, color=colour, label=label, clip_on=False)
            axes.axhline(median(times) / scale, color=colour, lw=0.8, ls=(0, (4 + 2 * number, 2)))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        if restarts:
            figure.legend(loc="outside lower center", ncols=1 if style.narrow else 3, frameon=False)
    return figure
