"""Common parts of figures: styles, fills, bars and names.

Colours are those of reports.colours; hatches distinguish parts without colours, as in print. Nothing here touches pyplot or
matplotlib's global state.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kernelscope.reports.colours import PHASES
from kernelscope.reports.text import printable

_NARROW_TITLE = 30  # characters of a line
NAME = 28  # characters of a name
# lines only: dots and circles make large files
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "||||", "++++", "//--", "\\\\||", "----||")
_LIGHT = (0.0, 0.55, 0.75, 0.35, 0.65, 0.45, 0.85, 0.25, 0.55, 0.15)  # how much a hatched part's colour is blended with white


@dataclass(frozen=True)
class Style:
    """The style of a figure.

    width_in: inches. font_pt: points. ink, faint: colours of text and lines, and of the grid. hatched: parts also differ in hatch
    and lightness, so they can be distinguished in black and white. background: of files.
    """

    width_in: float = 9.6
    font_pt: float = 8.0
    ink: str = "#1b1f24"
    faint: str = "#c9ced6"
    hatched: bool = False
    background: str = "white"

    @property
    def narrow(self) -> bool:
        """Whether there is no room for elements side by side."""
        return self.width_in < 5.0


# As wide as both columns of a page (IEEE and ACM: 7.16 and 7.0 inches), with letters in the size of small print.
PAPER = Style(width_in=7.0, ink="#000000", faint="#b5b5b5", hatched=True)
# Half a slide of 13.33 inches: scaled to the whole slide, letters are twice as large.
SLIDES = Style(width_in=6.67, font_pt=10.0)
STYLES = {"paper": PAPER, "slides": SLIDES}


@contextmanager
def drawing(style: Style) -> Iterator[None]:
    """Use the style while drawing, here and in other modules of figures. Dollar signs in names do not start formulas."""
    settings: Any = {
        "font.size": style.font_pt, "axes.titlesize": style.font_pt + 1, "axes.titleweight": "bold", "text.parse_math": False,
        "text.color": style.ink, "axes.labelcolor": style.ink, "axes.titlecolor": style.ink, "axes.edgecolor": style.faint,
        "xtick.labelcolor": style.ink, "ytick.labelcolor": style.ink, "xtick.color": style.faint, "ytick.color": style.faint,
        "axes.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False,
        "axes.grid": True, "axes.grid.axis": "x", "axes.axisbelow": True, "grid.color": style.faint, "grid.linewidth": 0.5,
        "hatch.linewidth": 0.6,
    }  # fmt: skip
    with mpl.rc_context(settings):
        yield


def filled(style: Style, colour: str, place: int, hatch: str = "") -> dict[str, Any]:
    """Return the fill of the part at `place`, as keywords for bars and patches. hatch: its hatch in any style."""
    if not style.hatched:
        return {"facecolor": colour, "hatch": hatch, "edgecolor": "#ffffff", "linewidth": 0.4}
    number = place % len(HATCHES)
    return {"facecolor": _lighter(colour, _LIGHT[number]), "hatch": HATCHES[number], "edgecolor": style.ink, "linewidth": 0.4}


def _lighter(colour: str, share: float) -> str:
    """Return a colour (#rrggbb) blended with this share of white."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def phase_fills(style: Style) -> dict[str, dict[str, Any]]:
    """Return the fill of each phase."""
    return {phase: filled(style, colour, place) for place, (phase, colour) in enumerate(PHASES.items())}


def phase_legend(figure: Figure, style: Style, used: Sequence[str]) -> None:
    """Put a legend of these phases below the figure, if there are any."""
    handles = [Patch(label=phase, **fill) for phase, fill in phase_fills(style).items() if phase in used]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)


def canvas(style: Style, height_in: float) -> Figure:
    """Return an empty figure of the style's width."""
    return Figure(figsize=(style.width_in, height_in), layout="constrained", facecolor="none")


def bars(style: Style, rows: int, title: str, xlabel: str, more_in: float = 0.0) -> tuple[Figure, Axes]:
    """Return a figure with one axes for `rows` horizontal bars. more_in: height of what goes below it."""
    figure = canvas(style, 0.36 * rows + 0.8 + more_in)
    axes = figure.subplots()
    axes.set_title("\n".join(textwrap.wrap(title, _NARROW_TITLE)) if style.narrow else title, loc="left")
    axes.set_xlabel(xlabel)
    return figure, axes


def short(name: str, limit: int = NAME) -> str:
    """Return a name, cut so that it leaves room for the figure."""
    shown = printable(name)
    return shown if len(shown) <= limit else f"{shown[: limit - 2]} …"


def name_rows(axes: Axes, names: Sequence[str], limit: int = NAME, lines: int = 1) -> None:
    """Write names beside horizontal bars, the first on top, each in at most `lines` lines of `limit` characters."""
    shown = ["\n".join(textwrap.wrap(short(name, lines * limit), limit, max_lines=lines, placeholder=" …")) for name in names]
    axes.set_yticks(range(len(names)), shown)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def beside(axes: Axes, place: int, right: float, label: str) -> None:
    """Write a label to the right of a bar that ends there."""
    axes.annotate(label, (right, place), (5, 0), textcoords="offset points", va="center")
