"""The figure of a breakdown: its longest rows as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from kernelscope.reports import content, units
from kernelscope.reports.figures.drawing import HOST, NAME, PALETTE, Style, bars, beside, drawing, name_rows

ROWS = 10  # rows with a bar of their own


def rows(breakdown: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw the rows of a breakdown (Breakdown.as_dict) as bars, longest first; of more than ROWS the rest is one bar."""
    style = style or Style()
    whole = max(content.whole_ns(breakdown), 1)
    unit = units.common_unit([whole])
    longest_first = sorted(breakdown["rows"], key=content.row_ns, reverse=True)
    shown, rest = longest_first[:ROWS], longest_first[ROWS:]
    by = str(breakdown["by"])
    lengths = [(_name(row, by), content.row_ns(row)) for row in shown]
    lengths += [(f"({len(rest)} more)", sum(map(content.row_ns, rest)))] if rest else []
    title = f"{content.whole(breakdown).capitalize()} by {_BY.get(by, by)}"
    with drawing(style):
        figure, axes = bars(style, len(lengths), title, unit)
        for place, (name, length) in enumerate(lengths):
            axes.barh(place, length / units.NS_PER[unit], height=0.62, color=HOST[0] if name.startswith("(") else PALETTE[0])
            beside(axes, place, length / units.NS_PER[unit], f"{units.duration(length)}, {units.percent(length / whole)}")
        name_rows(axes, [name for name, _ in lengths], NAME if style.narrow else 2 * NAME)
        axes.margins(x=0.3 if style.narrow else 0.2)
        axes.set_xlim(left=0)
    return figure


_BY = {"idle": "cause of idle time", "line": "host line"}
_NAMED_BY = {"idle": ("cause", "layer", "phase"), "line": ("line", "text")}


def _name(row: Mapping[str, Any], by: str) -> str:
    """Return what a row is called: what tells it from the others of its table."""
    return " ".join(str(row[key]) for key in _NAMED_BY.get(by, (by, "phase")) if row.get(key))
