"""Lines of code against time, and time by level of abstraction."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kernelscope.analysis.published.levels import LEVELS, MEANING, level
from kernelscope.reports.figures import Style, drawing, short
from kernelscope.reports.sweeps import cells, chart
from kernelscope.reports.sweeps.bars import STEP, bar, finish, limit_of
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.sweeps.looks import looks

_PANEL = ("sweep", "network", "mode", "batch", "hardware", "device", "devices")


def counted(rows: Sequence[Row]) -> list[Row]:
    """Return the cells of one set-up per device with known time and lines of code, if at least two frameworks have both."""
    known = [row for row in cells.at_one_setup(rows) if row["lines_of_code"] and row["step_ns"]]
    groups = cells.grouped(known, _PANEL).values()
    return [row for members in groups if len(cells.frameworks(members)) > 1 for row in members]


def levelled(rows: Sequence[Row]) -> list[Row]:
    """Return the cells of one set-up per device, failed ones included, if frameworks of at least two levels finished."""
    groups = cells.grouped(cells.at_one_setup(rows), _PANEL).values()
    return [
        row
        for members in groups
        if len({level(str(row["framework"])) for row in members if cells.done(row)}) > 1
        for row in members
    ]


def lines_of_code(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw the time of a step over the workload's lines of code, a mark per framework; lower left is better."""
    style = style or Style()
    taken = counted(rows)
    groups = cells.grouped(taken, _PANEL)
    kinds = looks(cells.frameworks(taken))
    with drawing(style):
        figure, grid = chart.panels(max(len(groups), 1), style, 2.5, least=2)
        for axes, members in zip(grid, groups.values(), strict=False):
            ink = axes.xaxis.label.get_color()
            for row in members:
                look, value = kinds[str(row["framework"])], STEP.value(row) or float("nan")
                ends = STEP.ends(row)
                if ends:
                    axes.vlines(row["lines_of_code"], *ends, color=look.colour, lw=1)
                axes.plot([row["lines_of_code"]], [value], marker=look.marker, color=look.colour, ms=8, mec=ink, mew=0.5)
            chart.heading(axes, _panel_title(members[0], taken), style)
            axes.set_xlabel("lines of code")
            axes.set_ylabel("ms per step")
            axes.grid(True, axis="both")
            _plain_axis(axes, [STEP.value(row) or 0 for row in members])
        figure.suptitle("Lines of code against time", x=0.01, ha="left", fontsize=style.font_pt + 2, fontweight="bold")
        handles = [
            Line2D([], [], lw=0, marker=look.marker, color=look.colour, ms=7, label=f"{short(name)} ({level(name)})")
            for name, look in kinds.items()
        ]
        chart.legend(figure, handles, style, max((len(name) for name in kinds), default=1) + 12)
    return figure


def _plain_axis(axes: Axes, values: Sequence[float]) -> None:
    """Begin the y axis at 0, or make it logarithmic if values differ much."""
    axes.margins(0.15)
    axes.set_xlim(left=0)
    if max(values) > 10 * min(values):
        chart.plain_log(axes, "y")
    else:
        axes.set_ylim(bottom=0)


def _panel_title(row: Row, among: Sequence[Row]) -> str:
    return f"{cells.work(row)}; {cells.setup(row, cells.varying(among, ('hardware',)))}"


def time_by_level(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw the time of a step by level of abstraction, from calls of a library to interfaces on top of frameworks."""
    style = style or Style()
    taken = levelled(rows)
    groups = cells.grouped(taken, _PANEL)
    kinds = looks(LEVELS)
    most = max((len(members) for members in groups.values()), default=1)
    with drawing(style):
        figure, grid = chart.panels(max(len(groups), 1), style, 0.8 + 0.24 * most)
        for axes, members in zip(grid, groups.values(), strict=False):
            ordered = sorted(members, key=lambda row: (LEVELS.index(level(str(row["framework"]))), row["step_ns"] or 0))
            limit = limit_of(ordered, STEP)
            for place, row in enumerate(ordered):
                bar(axes, (place, 0.66), row, STEP, kinds[level(str(row["framework"]))], limit)
            finish(axes, [str(row["framework"]) for row in ordered], "ms per step", most)
            chart.heading(axes, _panel_title(members[0], taken), style, beside_in=1.2)
        figure.suptitle("Time by level of abstraction", x=0.01, ha="left", fontsize=style.font_pt + 2, fontweight="bold")
        used = [name for name in LEVELS if any(level(str(row["framework"])) == name for row in taken)]
        handles = [
            Patch(facecolor=kinds[n].colour, hatch=kinds[n].hatch, edgecolor="#ffffff", label=f"{n}: {MEANING[n]}") for n in used
        ]
        chart.legend(figure, handles, style, 60)
    return figure
