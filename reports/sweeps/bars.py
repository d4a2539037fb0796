"""Bars by framework and hardware: throughput, power and memory, a panel per network and mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kernelscope.reports import units
from kernelscope.reports.figures import Style, drawing, short
from kernelscope.reports.sweeps import cells, chart
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.sweeps.looks import Look, looks
from kernelscope.reports.table import Table

_PANEL = ("sweep", "network", "mode")
_CLIP = 1.5  # times the largest value: intervals are cut there
CONDITIONS = (
    "sweep", "hardware", "framework", "version", "network", "mode", "batch", "threads", "device", "devices", "precision",
    "layout", "autotune", "status", "reason",
)  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """A number of cells. column, low, high: columns of results.parquet, "" for none. scale: factor to `unit`. of: filter."""

    column: str
    title: str
    unit: str
    low: str = ""
    high: str = ""
    scale: float = 1.0
    of: Callable[[Row], bool] = lambda _: True

    def value(self, row: Row) -> float | None:
        """Return a cell's number in the unit; None if unknown."""
        return self._scaled(row, self.column)

    def ends(self, row: Row) -> tuple[float, float] | None:
        """Return the ends of its 95% interval in the unit; None if unknown."""
        low, high = (self._scaled(row, name) if name else None for name in (self.low, self.high))
        return None if low is None or high is None else (low, high)

    def _scaled(self, row: Row, name: str) -> float | None:
        value = row.get(name)
        return None if not units.known(value) else value if self.scale == 1 else value * self.scale


THROUGHPUT = Measure(
    "samples_per_second", "Throughput", "samples per second", "samples_per_second_low", "samples_per_second_high"
)  # fmt: skip
POWER = Measure("power_w", "Power", "W")
GPU_MEMORY = Measure("gpu_memory_mib", "GPU memory", "MiB", of=lambda row: row["device"] != "cpu")
HOST_MEMORY = Measure("host_memory_mib", "Memory of the process", "MiB")
STEP = Measure("step_ns", "Time of a step", "ms", "step_low_ns", "step_high_ns", 1e-6)


def throughput(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw samples per second with their 95% intervals."""
    return bars(rows, THROUGHPUT, style)


def power(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw mean power in W."""
    return bars(rows, POWER, style)


def gpu_memory(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw the peak memory on GPUs in MiB."""
    return bars(rows, GPU_MEMORY, style)


def host_memory(rows: Sequence[Row], style: Style | None = None) -> Figure:
    """Draw the peak resident memory of the process in MiB."""
    return bars(rows, HOST_MEMORY, style)


def shown(rows: Sequence[Row], measure: Measure) -> list[Row]:
    """Return the cells for a figure of bars: one batch per network, and works and set-ups with any known number."""
    taken = [row for row in cells.at_one_batch(rows) if measure.of(row)]
    for names in (_PANEL, cells.SETUP):
        known = {tuple(row[name] for name in names) for row in taken if measure.value(row) is not None}
        taken = [row for row in taken if tuple(row[name] for name in names) in known]
    return taken


def table(name: str, rows: Sequence[Row], measure: Measure) -> Table:
    """Return the cells of a figure with their numbers in the measure's unit, null if unknown."""
    unit = measure.unit.replace(" per ", "_per_").replace(" ", "_").lower()
    columns = (
        *CONDITIONS,
        f"{measure.column.removesuffix('_ns')}_{unit}" if measure.scale != 1 else measure.column,
        "low",
        "high",
    )
    lines = [[*(row.get(key) for key in CONDITIONS), measure.value(row), *(measure.ends(row) or (None, None))] for row in rows]
    return Table(name, columns, lines)


def bars(rows: Sequence[Row], measure: Measure, style: Style | None = None) -> Figure:
    """Draw a bar per framework and set-up in a panel per network and mode; cells without a number say why.

    rows: of results.parquet, with None for null. Lines over bars are 95% intervals, with an arrow where they are cut.
    """
    style = style or Style()
    taken = shown(rows, measure)
    order = cells.frameworks(taken)
    varying = cells.varying(taken)
    kinds = looks(cells.setup(row, varying) for row in taken)
    works = [
        {(name, cells.setup(row, varying)): row for name in order for row in members if row["framework"] == name}
        for members in cells.grouped(taken, _PANEL).values()
    ]
    most = max((len(_names(members)) for members in works), default=1)
    with drawing(style):
        height = 0.75 + most * (0.12 + 0.17 * max((len(_setups(members)) for members in works), default=1))
        same = len({tuple(_names(members)) for members in works}) == 1
        figure, grid = chart.panels(max(len(works), 1), style, height, share_y=same)
        for axes, members in zip(grid, works, strict=False):
            _panel(axes, members, kinds, measure, most)
            chart.heading(axes, cells.work(next(iter(members.values()))), style, 0.5 if same else 1.2)
        title = f"{measure.title}: {next(iter(kinds))}" if len(kinds) == 1 else measure.title
        figure.suptitle(title, x=0.01, ha="left", fontsize=style.font_pt + 2, fontweight="bold")
        if len(kinds) > 1:
            handles = [
                Patch(fc=look.colour, hatch=look.hatch, ec="#ffffff", label=short(name, 60)) for name, look in kinds.items()
            ]
            chart.legend(figure, handles, style, max(map(len, kinds)))
    return figure


Found = Mapping[tuple[str, str], Row]  # the cells of one panel by framework and set-up


def _names(found: Found) -> list[str]:
    return list(dict.fromkeys(name for name, _ in found))


def _setups(found: Found) -> list[str]:
    return list(dict.fromkeys(setup for _, setup in found))


def _panel(axes: Axes, found: Found, kinds: Mapping[str, Look], measure: Measure, most: int) -> None:
    """Draw the bars of one network, grouped by framework, one per set-up. most: maximum of frameworks in a panel."""
    limit = limit_of(found.values(), measure)
    setups = [setup for setup in kinds if setup in _setups(found)]
    height = 0.8 / len(setups)
    for place, name in enumerate(_names(found)):
        for number, setup in enumerate(setups):
            middle = place - 0.4 + (number + 0.5) * height
            bar(axes, (middle, 0.9 * height), found.get((name, setup)), measure, kinds[setup], limit)
    finish(axes, _names(found), measure.unit, most)


def limit_of(rows: Iterable[Row], measure: Measure) -> float:
    """Return where intervals are cut, so that a wide one does not make all bars short."""
    return _CLIP * max((measure.value(row) or 0 for row in rows), default=0)


def bar(axes: Axes, at: tuple[float, float], row: Row | None, measure: Measure, look: Look, limit: float) -> None:
    """Draw one bar with its number and interval, or why there is none. at: its middle and its height."""
    middle, height = at
    value = measure.value(row) if row is not None else None
    if row is None or value is None:
        axes.annotate(why_not(row), (0, middle), (3, 0), textcoords="offset points", va="center", fontstyle="italic")
        return
    axes.barh(middle, value, height=height, color=look.colour, hatch=look.hatch, edgecolor="#ffffff", lw=0.4)
    low, high = measure.ends(row) or (value, value)
    high = min(high, limit)
    if low < high:
        ink = axes.xaxis.label.get_color()
        axes.hlines(middle, low, high, color=ink, lw=1)
        axes.plot([low], [middle], marker="|", color=ink, markersize=4)
        axes.plot([high], [middle], marker=">" if high == limit else "|", color=ink, markersize=4)
    axes.annotate(units.rate(value), (max(value, high), middle), (5, 0), textcoords="offset points", va="center")


def why_not(row: Row | None) -> str:
    """Return the text in place of a missing number."""
    if row is None:
        return "not run"
    return "unknown" if cells.done(row) else str(row["status"])


def finish(axes: Axes, names: Sequence[str], unit: str, places: int | None = None) -> None:
    """Name the rows of bars, and leave room for numbers beside them. places: rows of the panel, if more."""
    axes.set_xlabel(unit)
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.set_ylim((places or len(names)) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.4)
    axes.set_xlim(left=0)
    chart.few_ticks(axes)
