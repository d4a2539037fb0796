"""How busy each core was over time, as a heat map per framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.core_use import binned, timeline
from kernelscope.analysis.recordings.run import Run
from kernelscope.reports.figures import Style, drawing, short
from kernelscope.reports.sweeps import cells, chart
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.table import Table

MOST = 12  # panels of one figure
_BINS = 160  # parts of the time
_MAP = "cividis_r"  # its lightness is monotonic, so it works in grey and for colour-blind readers
_SHADES = 20
_COLUMNS = ("framework", "network", "mode", "batch", "threads", "device", "core", "start_ns", "end_ns", "busy")


@dataclass(frozen=True)
class CoreUse:
    """The use of cores in one cell. readings: the result of analysis.recordings.core_use.timeline."""

    row: Row
    readings: pd.DataFrame


def read(rows: Sequence[Row]) -> tuple[list[CoreUse], list[str]]:
    """Return the use of cores in the cells of the figure, and what was left out and why.

    These cells are of the work that most frameworks finished, each framework with the most threads.
    """
    known = [row for row in cells.at_one_batch(rows) if cells.done(row) and row.get("path")]
    if not known:
        return [], ["no cell has a run folder"]
    works = cells.grouped(known, ("sweep", "network", "mode", "device"))
    largest = max(works.values(), key=lambda members: len(cells.frameworks(members)))
    taken = [
        max(members, key=lambda row: row["threads"] or 0)
        for members in cells.grouped(largest, ("hardware", "framework")).values()
    ]
    uses, left = [], []
    for row in taken[:MOST]:
        try:
            uses.append(CoreUse(row, timeline(Run(Path(row["path"])))))
        except EvidenceError as error:
            left.append(f"{row['framework']}: {error}")
    others = len(works) - 1
    left += [f"{others} more networks and modes are only in their run folders"] if others else []
    left += [f"{len(taken) - MOST} more cells are only in their run folders"] if len(taken) > MOST else []
    return uses, left


def core_map(uses: Sequence[CoreUse], style: Style | None = None) -> Figure:
    """Draw a panel per cell: cores from the bottom, time in its own windows to the right, the busy share as colour.

    Gaps in the readings stay blank. Time is divided into equal parts, each with the mean of its readings.
    """
    style = style or Style()
    cores = max((use.readings["core"].nunique() for use in uses), default=1)
    scale, colours = Normalize(0, 1), mpl.colormaps[_MAP].resampled(_SHADES)
    with drawing(style):
        figure, grid = chart.panels(max(len(uses), 1), style, 1.15 + min(0.12 * cores, 2.5), across=2)
        drawn = None
        for axes, use in zip(grid, uses, strict=False):
            table = binned(use.readings, _BINS)
            end = float(use.readings["end_ns"].max()) / 1e9
            edges = np.linspace(0, end, _BINS + 1)
            rows = np.arange(len(table) + 1) - 0.5
            shares = np.ma.masked_invalid(table.to_numpy(float))
            drawn = axes.pcolormesh(edges, rows, shares, cmap=colours, norm=scale, rasterized=True)
            if len(table) <= 16:
                axes.set_yticks(range(len(table)), [str(core) for core in table.index])
            axes.grid(False)
            what = f"{short(str(use.row['framework']))}, {cells.setup(use.row, ['threads'])}: {cells.work(use.row)}"
            chart.heading(axes, f"{what} (mean {float(shares.mean()):.0%})", style)
            axes.set_xlabel("time in its own windows, s")
            axes.set_ylabel("core")
        figure.suptitle("Use of each core over time", x=0.01, ha="left", fontsize=style.font_pt + 2, fontweight="bold")
        if drawn is not None:
            where = "bottom" if style.narrow else "right"
            bar = figure.colorbar(drawn, ax=grid, label="share of the time busy", location=where, shrink=0.8, aspect=30, pad=0.01)
            if bar.solids is not None:
                bar.solids.set(edgecolor="face", rasterized=False)  # no seams between its colours, and no bitmap in the page
    return figure


def table(uses: Sequence[CoreUse]) -> Table:
    """Return every reading behind the figure's colours."""
    lines = [
        [*(use.row[name] for name in _COLUMNS[:6]), int(core), int(start), int(end), float(busy)]
        for use in uses
        for core, start, end, busy in use.readings.itertuples(index=False)
    ]
    return Table("cores", _COLUMNS, lines)
