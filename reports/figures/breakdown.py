"""The figure of a breakdown: its longest rows as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from kernelscope.reports import breakdown_words, units
from kernelscope.reports.colours import KINDS, OTHER, PHASES, PLAIN, of_label, of_owner
from kernelscope.reports.figures.drawing import NAME, Style, bars, beside, drawing, name_rows

ROWS = 10  # rows with their own bar
_MORE = " more)"  # how the bar of the others is named
# Keys that name rows, if not the table's key and phase; rows of the same name share a bar
_NAMED_BY = {
    "kernel": ("kernel", "phase"), "operator": ("operator", "layer", "phase"), "range": ("range", "activity", "phase"),
    "idle": ("cause",), "line": ("line", "text"),
}  # fmt: skip
_TITLES = {"idle": "what happened while no kernel ran", "line": "host line"}


def rows(breakdown: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw the rows of a breakdown (Breakdown.as_dict) as bars, longest first; rows beyond ROWS become one bar."""
    style = style or Style()
    whole = max(breakdown_words.whole_ns(breakdown), 1)
    unit = units.common_unit([whole])
    by = str(breakdown["by"])
    shown = lengths(breakdown)
    with drawing(style):
        figure, axes = bars(style, len(shown), f"{breakdown_words.whole(breakdown).capitalize()} by {_TITLES.get(by, by)}", unit)
        for place, (name, length) in enumerate(shown):
            axes.barh(place, length / units.NS_PER[unit], height=0.62, color=_colour(name, by))
            beside(axes, place, length / units.NS_PER[unit], f"{units.duration(length)}, {units.percent(length / whole)}")
        name_rows(axes, [name for name, _ in shown], NAME if style.narrow else 44, lines=2)
        axes.margins(x=0.3 if style.narrow else 0.2)
        axes.set_xlim(left=0)
    return figure


def _colour(name: str, by: str) -> str:
    """Return a bar's colour: kinds, phases, causes and names in parentheses have their own, all others are plain."""
    if name.startswith("("):
        return OTHER if name.endswith(_MORE) else of_label(name)
    if by == "idle":
        return of_owner(name)
    named = KINDS if by == "kind" else PHASES if by == "phase" else {}
    return named.get(max((key for key in named if name.startswith(key)), key=len, default=""), PLAIN)


def lengths(breakdown: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the names and ns of the bars of `rows`, longest first, the rest last; rows of the same name are added up.

    A phase that all of the rows share is no part of their names.
    """
    sums: dict[str, int] = {}
    by = str(breakdown["by"])
    phases = {row.get("phase") for row in breakdown["rows"] if not str(row.get(by)).startswith("(")}
    for row in breakdown["rows"]:
        name = _name(row if by == "phase" or len(phases) > 1 else {**row, "phase": None}, by)
        sums[name] = sums.get(name, 0) + breakdown_words.row_ns(row)
    longest_first = sorted(((name, ns) for name, ns in sums.items() if ns), key=lambda item: -item[1])
    shown, rest = longest_first[:ROWS], longest_first[ROWS:]
    return [*shown, *([(f"({len(rest)}{_MORE}", sum(ns for _, ns in rest))] if rest else [])]


def _name(row: Mapping[str, Any], by: str) -> str:
    """Return a row's name, without a phase that it already contains."""
    parts = [str(row[key]) for key in dict.fromkeys(_NAMED_BY.get(by, (by, "phase"))) if row.get(key)]
    first, others = (parts[0], parts[1:]) if parts else ("(unknown)", [])
    said = {first.strip("()"), first.rpartition(" ")[2], "unattributed", *(("other",) if first.startswith("(") else ())}
    return " ".join([first, *(part for part in others if part.strip("()") not in said)])
