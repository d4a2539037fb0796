"""Where the time of a step goes in each cell: one stacked bar by kind of kernel, a panel per network and mode."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kernelscope.analysis.accounting.levels import DEVICE, QUEUED
from kernelscope.analysis.comparisons.sweep_kinds import by_kind, recorded
from kernelscope.analysis.errors import EvidenceError
from kernelscope.reports import colours, units
from kernelscope.reports.figures import Style, drawing
from kernelscope.reports.figures.drawing import beside, filled, name_rows, short
from kernelscope.reports.sweeps import cells, chart
from kernelscope.reports.sweeps.bars import CONDITIONS
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.table import Table

MOST = 12  # bars: more do not fit on a screen
_PARTS = 7  # kinds with their own colour
_OPERATORS, _ELSEWHERE, _OTHER = "host, in operators", "host, elsewhere", "other kinds"
Fill = tuple[str, str]  # a colour and a hatch
_GREY: Mapping[str, Fill] = {
    QUEUED.removeprefix(DEVICE): (colours.HOST[1], "////"), _OPERATORS: (colours.HOST[0], ""), _ELSEWHERE: (colours.HOST[1], ""),
}  # fmt: skip
_PANEL = ("sweep", "network", "mode")


@dataclass(frozen=True)
class Split:
    """The step of one cell. ns: by kind; empty if unknown. why_not: why it is."""

    row: Row
    ns: dict[str, int] = field(default_factory=dict)
    why_not: str = ""


def read(rows: Sequence[Row]) -> list[Split]:
    """Return the steps of at most MOST cells by kind: of the conditions where frameworks differ most, then of the longest steps.

    Empty if no cell has a kernels pass.
    """
    known = [members for members in cells.by_condition(rows) if any(row.get("path") and recorded(row["path"]) for row in members)]
    largest = sorted(known, key=lambda members: (members[0]["step_ns"] - members[-1]["step_ns"], -members[-1]["step_ns"]))
    taken: list[Row] = []
    for members in largest:
        if not taken or len(taken) + len(members) <= MOST:
            taken += members[:MOST]
    chosen = set(map(id, taken))
    return [_split(row) for members in known for row in members if id(row) in chosen]


def _split(row: Row) -> Split:
    try:
        return Split(row, by_kind(Path(row["path"]))) if row.get("path") else Split(row, why_not="no run folder")
    except EvidenceError as error:
        return Split(row, why_not=str(error))


def table(splits: Sequence[Split]) -> Table:
    """Return the cells of the figure with a row for each kind; one row without a kind if it is unknown."""
    unknown: list[tuple[str | None, int | None]] = [(None, None)]
    rows = [(split.row, kind, ns) for split in splits for kind, ns in list(split.ns.items()) or unknown]
    return Table("kinds", (*CONDITIONS, "kind", "time_ns"), [[*map(row.get, CONDITIONS), kind, ns] for row, kind, ns in rows])


def stacked(splits: Sequence[Split], style: Style | None = None) -> Figure:
    """Draw the steps; a line in each bar is the clean step, without recording."""
    style = style or Style()
    parts = _parts(splits)
    works = list(cells.grouped([split.row for split in splits], _PANEL).values())
    by_row = {id(split.row): split for split in splits}
    most = max(map(len, works), default=1)
    with drawing(style):
        figure, grid = chart.panels(max(len(works), 1), style, 0.75 + 0.27 * most)
        for axes, members in zip(grid, works, strict=False):
            _panel(axes, [by_row[id(row)] for row in members], parts, style)
            chart.heading(axes, cells.work(members[0], False), style, 1.2)
        handles = [
            Patch(label=short(name, 60), **filled(style, colour, place, hatch))
            for place, (name, (colour, hatch)) in enumerate(parts.items())
        ]
        clean = Line2D([], [], color=style.ink, lw=1.6, label="clean step, without recording")
        chart.legend(figure, [*handles, clean], style, 22)
    return figure


def _panel(axes: Axes, splits: Sequence[Split], parts: Mapping[str, Fill], style: Style) -> None:
    """Draw the bars of one network."""
    unit = units.common_unit(max(sum(split.ns.values()), split.row["step_ns"]) for split in splits)
    scale = units.NS_PER[unit]
    for place, split in enumerate(splits):
        sums, left = _sums(split.ns, parts), 0.0
        for number, (name, (colour, hatch)) in enumerate(parts.items()):
            width = sums.get(name, 0) / scale
            axes.barh(place, width, left=left, height=0.62, **filled(style, colour, number, hatch))
            left += width
        clean = split.row["step_ns"] / scale
        axes.vlines(clean, place - 0.42, place + 0.42, color=style.ink, lw=1.6)
        label = units.duration(split.row["step_ns"]) + ("" if split.ns else "; where it goes is unknown")
        beside(axes, place, max(left, clean), label)
    varying = cells.varying([split.row for split in splits])
    several = len({split.row["batch"] for split in splits}) > 1
    name_rows(axes, [_name(split.row, varying, several) for split in splits], lines=2)
    axes.set_xlabel(f"{unit} per step")
    axes.margins(x=0.3)
    axes.set_xlim(left=0)
    chart.few_ticks(axes)


def _name(row: Row, varying: Sequence[str], several: bool) -> str:
    batch = [f"batch {row['batch']}"] if several else []
    return ", ".join([str(row["framework"]), *batch, *([cells.setup(row, varying)] if varying else [])])


def _parts(splits: Sequence[Split]) -> dict[str, Fill]:
    """Return the parts of all bars: the largest kinds, the other kinds, and the time without kernels."""
    every = [_sums(split.ns) for split in splits]
    largest = {name: max(sums.get(name, 0) for sums in every) for name in dict.fromkeys(name for sums in every for name in sums)}
    kinds = sorted((name for name in largest if name not in _GREY), key=lambda name: -largest[name])
    shown = {name: (colours.KINDS.get(name) or colours.of_owner(DEVICE + name), "") for name in kinds[:_PARTS]}
    other = {_OTHER: (colours.OTHER, "////")} if len(kinds) > _PARTS else {}
    return {**shown, **other, **{name: fill for name, fill in _GREY.items() if name in largest}}


def _sums(ns: dict[str, int], shown: Container[str] | None = None) -> dict[str, int]:
    """Return the parts of one bar; kinds that are not `shown` are together."""
    sums: dict[str, int] = {}
    for kind, much in ns.items():
        name = _part(kind)
        name = name if shown is None or name in shown else _OTHER
        sums[name] = sums.get(name, 0) + much
    return sums


def _part(kind: str) -> str:
    """Return the part that a kind of a breakdown belongs to."""
    if kind.startswith("(host"):
        return _OPERATORS if kind == "(host: in operators)" else _ELSEWHERE
    return kind[1:-1].removeprefix(DEVICE) if kind.startswith(f"({DEVICE}") else kind
