"""The roofline: attained rates below the ceilings of the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from kernelscope.reports import units
from kernelscope.reports.colours import OTHER, PHASES
from kernelscope.reports.figures.drawing import Style, canvas, drawing, short

_NAMED = 8  # rows with a name beside their mark
_MARKERS = dict(zip(PHASES, "os^Dv", strict=True))
_OTHER = "P"  # the mark of rows without a phase


def roofline(found: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw a roofline (Roofline.as_dict): attained Gflop/s over flop per byte, a mark per row, whose area is the row's time.

    The roof is the product of the most frequent type, and the largest copy: data in caches moves faster, so marks can lie above
    the sloping part, and those of shorter types above the flat one. Rows without operations or bytes cannot be drawn.
    """
    style = style or Style()
    rows = [row for row in found["rows"] if row["gflops_per_s"] and row["intensity"]]
    with drawing(style):
        figure = canvas(style, 0.6 * style.width_in)
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", xlabel="operations per byte (algorithmic)", ylabel="Gflop/s")
        for axis in (axes.xaxis, axes.yaxis):  # as plain text, which pages show literally
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
        left = len(found["rows"]) - len(rows)
        more = f", {left} rows without both numbers left out" if left else ""
        axes.set_title(f"Roofline by {found['by']}{more}", loc="left")
        _marks(axes, rows, style)
        _roof(axes, found, rows, style)
        _names(axes, rows, style)
        _legend(figure, {str(row.get("phase")) for row in rows}, style)
    return figure


def _marks(axes: Axes, rows: Sequence[Mapping[str, Any]], style: Style) -> None:
    whole = max(sum(row["duration_ns"] for row in rows), 1)
    edge = {"edgecolors": style.ink, "linewidths": 0.5} if style.hatched else {"linewidths": 0}
    for row in rows:
        phase, at = str(row.get("phase")), (row["intensity"], row["gflops_per_s"])
        area, colour = 20 + 900 * row["duration_ns"] / whole, PHASES.get(phase, OTHER)
        axes.scatter(*at, s=area, color=colour, marker=_MARKERS.get(phase, _OTHER), alpha=0.75, **edge)


def _names(axes: Axes, rows: Sequence[Mapping[str, Any]], style: Style) -> None:
    """Write the names of the first rows beside their marks, where they do not overlap."""
    height, width = style.font_pt * 1.2, style.font_pt * 0.56  # of a line and of a letter
    taken: list[tuple[float, float, float]] = []  # start, end and height of names, in points
    for row in rows[:_NAMED]:
        at = (row["intensity"], row["gflops_per_s"])
        keys = ("layer", "kind") if row.get("layer") else ("name",)
        name = short(" ".join(str(row[key]) for key in keys if row.get(key)))
        x, y = axes.transData.transform(at) * 72 / axes.figure.dpi
        for side, (dx, dy) in (("left", (4, 4)), ("right", (-4, 4)), ("left", (4, -height)), ("right", (-4, -height))):
            start = x + dx - (width * len(name) if side == "right" else 0)
            end = start + width * len(name)
            if all(end < left or start > right or abs(y + dy - other) > height for left, right, other in taken):
                taken.append((start, end, y + dy))
                axes.annotate(name, at, (dx, dy), textcoords="offset points", ha=side)
                break


def _legend(figure: Figure, used: set[str], style: Style) -> None:
    edge = style.ink if style.hatched else "none"
    handles = [
        Line2D([], [], ls="none", marker=_MARKERS[phase], color=colour, markeredgecolor=edge, label=phase)
        for phase, colour in PHASES.items()
        if phase in used
    ]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def _roof(axes: Axes, found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], style: Style) -> None:
    """Draw the ceilings over the marks, if there are any."""
    ceilings = found["ceilings"] or {}
    products = {entry["dtype"]: entry["flops_per_s"] / 1e9 for entry in ceilings.get("products", [])}
    if not rows or not products or not ceilings["copies"]:
        return
    types = [str(row.get("dtype")) for row in rows if str(row.get("dtype")) in products]
    kind = max(set(types), key=types.count) if types else next(iter(products))
    copy = max(ceilings["copies"], key=lambda entry: entry["bytes"])
    slope, flat = copy["bytes_per_s"] / 1e9, products[kind]
    low = min(*(row["intensity"] for row in rows), flat / slope) / 2
    high = max(*(row["intensity"] for row in rows), flat / slope) * 2
    axes.plot([low, flat / slope, high], [low * slope, flat, flat], color=style.ink, lw=1.2, zorder=0.5)
    whose = "" if ceilings["source"] == "measured" else ", vendor's numbers"
    label = f"{kind} product {flat:,.0f} Gflop/s; copy of {units.size(copy['bytes'])} {slope:,.1f} GB/s{whose}"
    axes.annotate(label, (high, flat), (0, 4), textcoords="offset points", ha="right")
