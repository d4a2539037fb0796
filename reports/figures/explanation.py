"""Figures of an explanation: the parts of the difference, and its causes. Each add up to the difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernelscope.reports import content, explanation, units
from kernelscope.reports.colours import FASTER, HOST, SLOWER
from kernelscope.reports.figures.drawing import NAME, Style, bars, beside, drawing, name_rows
from kernelscope.reports.text import printable


def waterfall(result: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw an explanation's parts as bars, each starting where the last one ended; together they are the difference.

    Bars to the right show where B takes longer; hatched bars to the left show where it takes less.
    """
    title = "Parts of the difference" + (f", by {printable(result['parts_by'])}" if result.get("parts_by") else "")
    steps = [(part.label, part.delta_ns, part.label == content.INSTRUMENTATION) for part in explanation.parts(result)]
    return _descent(result, title, steps, style or Style())


def causes(result: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw an explanation's causes as bars, each starting where the last one ended, then the unexplained rest.

    Bars are as in `waterfall`; the unexplained one is grey.
    """
    ranked, unexplained = explanation.causes(result)
    steps = [(f"{cause.number}. {cause.title}", cause.delta_ns, False) for cause in ranked]
    steps.append((explanation.UNEXPLAINED, unexplained, True))
    return _descent(result, "Causes of the difference", steps, style or Style())


def _descent(result: Mapping[str, Any], title: str, steps: list[tuple[str, int, bool]], style: Style) -> Figure:
    """Draw bars (name, ns, whether grey), each starting where the last one ended, and below them their sum."""
    shown = explanation.scale(result)
    scale = units.NS_PER[shown.unit]
    with drawing(style):
        figure, axes = bars(style, len(steps) + 1, title, f"{shown.unit}, B - A: {explanation.title(result)}")
        left = 0
        for place, (_, delta_ns, grey) in enumerate(steps):
            _step(axes, place, (left, left + delta_ns), scale, grey)
            left += delta_ns
            axes.vlines(left / scale, place - 0.31, place + 1.31, color=style.ink, lw=0.6)
            beside(axes, place, max(left, left - delta_ns) / scale, shown.signed(delta_ns))
        axes.barh(len(steps), left / scale, height=0.62, color=HOST[0])
        beside(axes, len(steps), max(left, 0) / scale, f"{shown.signed(left)} {shown.unit}")
        axes.axvline(0, color=style.faint, lw=1.4, zorder=0.5)
        name_rows(axes, [*(name for name, _, _ in steps), "difference"], NAME if style.narrow else 40, lines=2)
        axes.use_sticky_edges = False  # leave room for labels beside bars to the left, too
        axes.margins(x=0.2 if style.narrow else 0.12)
    return figure


def _step(axes: Axes, place: int, ends: tuple[int, int], scale: int, grey: bool) -> None:
    start, end = (value / scale for value in ends)
    colour = HOST[1] if grey else SLOWER if end > start else FASTER
    hatch = "////" if end < start else ""
    axes.barh(place, end - start, left=start, height=0.62, color=colour, hatch=hatch, edgecolor="#ffffff", lw=0.4)
