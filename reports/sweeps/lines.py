"""Lines over threads, batch sizes and devices, with bands of the 95% intervals: a panel per network, mode and hardware."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETUP
from matplotlib.ticker import NullLocator

from kernelscope.analysis.comparisons.scaling import efficiencies
from kernelscope.reports.figures import Style, drawing, short
from kernelscope.reports.sweeps import cells, chart
from kernelscope.reports.sweeps.bars import STEP, Measure
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.sweeps.looks import Look, looks

EFFICIENCY = Measure("efficiency", "Scaling efficiency", "share of perfect scaling", "efficiency_low", "efficiency_high")
_PANEL = ("sweep", "network", "mode", "batch", "threads", "hardware", "device", "devices")
_LOG = 6.0  # values that differ by more than this factor get a logarithmic axis
_CLIP = 1.5  # times the largest value: intervals are cut there, unless the axis is logarithmic
_SAID = 4  # lines about failed cells below a panel
TITLES = {"threads": "threads", "batch": "samples per batch", "devices": "devices"}


def time_by_threads(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw the time of a step over the number of threads."""
    return _lines(over(rows, "threads"), "threads", STEP, "Time against threads", style)


def time_by_batch(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw the time of a step over the batch size."""
    return _lines(over(rows, "batch"), "batch", STEP, "Time against batch size", style)


def scaling(rows: Sequence[Row], axis: str, style: Style | None = None) -> Figure:
    """Draw the scaling efficiency (see analysis.comparisons.scaling) over threads or devices; 1 is perfect."""
    title = f"Scaling efficiency over {TITLES[axis]}"
    return _lines(efficient(rows, axis), axis, EFFICIENCY, title, style)


def over(rows: Sequence[Row], axis: str) -> list[Row]:
    """Return the cells of panels with more than one measured value of `axis`, without cells that were left out."""
    tried = [row for row in rows if row["status"] != "left out" and row[axis] is not None]
    if axis == "threads":
        tried = [row for row in tried if row["device"] == "cpu"]
    kept: list[Row] = []
    for members in cells.grouped(tried, conditions(axis)).values():
        if len({row[axis] for row in members if cells.done(row)}) > 1:
            kept += members
    return kept


def efficient(rows: Sequence[Row], axis: str) -> list[Row]:
    """Return the cells with an efficiency over `axis`; of several batches or threads, those with one value."""
    others = [name for name in ("batch", "threads") if name != axis]
    found = efficiencies(over(rows, axis) if axis == "threads" else rows, axis)
    return cells.at_one(found, others, ("sweep", "hardware", "network", "mode", "device")) if found else []


def conditions(axis: str) -> list[str]:
    """Return the columns that all cells of a panel over `axis` share."""
    return [name for name in _PANEL if name != axis]


def _lines(rows: Sequence[Row], axis: str, measure: Measure, title: str, style: Style | None) -> Figure:
    style = style or Style()
    groups = cells.grouped(rows, conditions(axis))
    options = cells.varying(rows, cells.OPTIONS)
    kinds = looks(line_of(row, options) for row in rows)
    named = [name for name in cells.varying(rows, conditions(axis)) if name not in ("network", "mode", "batch", "sweep")]
    with drawing(style):
        figure, grid = chart.panels(max(len(groups), 1), style, 2.7, least=2)
        for axes, members in zip(grid, groups.values(), strict=False):
            where = "GPUs" if axis == "devices" and members[0]["device"] != "cpu" else cells.setup(members[0], named)
            heading = f"{cells.work(members[0], axis != 'batch')}; {where}"
            chart.heading(axes, heading, style)
            _panel(axes, members, axis, measure, {name: (kinds[name], _of(members, name, options)) for name in kinds})
        figure.suptitle(title, x=0.01, ha="left", fontsize=style.font_pt + 2, fontweight="bold")
        handles = [_handle(name, look) for name, look in kinds.items()]
        chart.legend(figure, handles, style, max((len(name) for name in kinds), default=1) + 3)
    return figure


def line_of(row: Row, options: Sequence[str]) -> str:
    """Return the name of a line: a framework, and options that vary."""
    return ", ".join([short(str(row["framework"])), *cells.options(row, options)])


def _of(rows: Sequence[Row], series: str, options: Sequence[str]) -> list[Row]:
    return [row for row in rows if line_of(row, options) == series]


def _handle(name: str, look: Look) -> Line2D:
    return Line2D([], [], color=look.colour, marker=look.marker, dashes=look.dashes, markersize=5, label=name)


def _panel(axes: Axes, rows: Sequence[Row], axis: str, measure: Measure, series: Mapping[str, tuple[Look, list[Row]]]) -> None:
    places = sorted({row[axis] for row in rows})
    values = [value for row in rows if (value := measure.value(row)) is not None]
    log = measure is not EFFICIENCY and bool(values) and max(values) > _LOG * min(values)
    limit = math.inf if log or not values else _CLIP * max(values)
    failed: dict[str, list[str]] = {}
    for number, (name, (look, mine)) in enumerate(series.items()):
        _line(axes, mine, axis, measure, look, limit)
        for row in mine:
            if not cells.done(row):
                failed.setdefault(str(row["status"]), []).append(f"{name} at {row[axis]}")
                _mark(axes, row[axis], number, look)
    if places[-1] / places[0] >= 4:
        axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.xaxis.set_minor_locator(NullLocator())
    if measure is EFFICIENCY:
        axes.axhline(1, color=axes.xaxis.label.get_color(), lw=0.8, dashes=(2, 2))
    if log:
        axes.margins(y=0.15)
        chart.plain_log(axes, "y")
    else:
        axes.margins(y=0.2)
        axes.set_ylim(bottom=0)
    axes.grid(True, axis="y")
    axes.set_ylabel(f"{measure.unit}{' per step' if measure is STEP else ''}")
    axes.set_xlabel("\n".join([TITLES[axis], *_said(failed)]))


def _line(axes: Axes, rows: Sequence[Row], axis: str, measure: Measure, look: Look, limit: float) -> None:
    """Draw one line with its band; an interval beyond `limit` ends there in an arrow."""
    points = sorted((row[axis], value, measure.ends(row)) for row in rows if (value := measure.value(row)) is not None)
    if not points:
        return
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    ink = axes.xaxis.label.get_color()
    axes.plot(xs, ys, color=look.colour, marker=look.marker, dashes=look.dashes, markersize=5, lw=1.5, mec=ink, mew=0.4)
    known = [(x, ends[0], min(ends[1], limit)) for x, _, ends in points if ends]
    if len(known) > 1:
        ends = ([point[0] for point in known], [point[1] for point in known], [point[2] for point in known])
        axes.fill_between(*ends, color=look.colour, alpha=0.18, lw=0)
    for x, low, high in known:
        axes.vlines(x, low, high, color=look.colour, lw=1)
        if high == limit:
            axes.plot([x], [high], marker=CARETUP, color=ink, ms=5, lw=0)


def _mark(axes: Axes, at: float, number: int, look: Look) -> None:
    """Mark a failed cell at the upper edge, since it has no time."""
    edge = axes.get_xaxis_transform()
    axes.plot([at], [1 - 0.05 * number], transform=edge, marker="x", color=look.colour, mew=2, markersize=6, clip_on=False)


def _said(failed: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [line for status, names in failed.items() for line in textwrap.wrap(f"× {status}: {', '.join(names)}", 44)]  # noqa: RUF001
    return lines if len(lines) <= _SAID else [*lines[: _SAID - 1], "… and more, see the table"]
