"""The figures of a job: each rank's step as a stacked bar, and which rank the others waited for in each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.reports import units
from kernelscope.reports.colours import COMMUNICATION, COMPUTING, COPY, HOST, UNMATCHED, WAITING
from kernelscope.reports.figures.drawing import Style, bars, canvas, drawing, filled, name_rows

ROWS = 12  # ranks with their own bar
CELLS = 128  # rows of cells
_COLOURS = dict(zip(JOB_PARTS, (COMPUTING, COMMUNICATION, WAITING, UNMATCHED, COPY, *HOST), strict=True))


def ranks(result: Mapping[str, Any], names: Mapping[str, str], style: Style | None = None) -> Figure:
    """Draw each rank's step (analysis.ranks.job) by its parts; of more than ROWS ranks, those with the longest steps.

    names: names of the parts.
    """
    style = style or Style()
    rows = sorted(result["ranks"], key=lambda row: -row["step_ns"])[:ROWS] if len(result["ranks"]) > ROWS else result["ranks"]
    unit = units.common_unit([result["step_ns"]])
    size = units.NS_PER[unit]
    parts = [part for part in JOB_PARTS if result["parts"][part]]
    fills = {part: filled(style, _COLOURS[part], place) for place, part in enumerate(parts)}
    with drawing(style):
        figure, axes = bars(style, len(rows), "Each rank's step", f"{unit} per step", more_in=0.5 if not style.narrow else 1.0)
        for place, row in enumerate(rows):
            left = 0.0
            for part in parts:
                axes.barh(place, row[part] / size, left=left / size, height=0.7, **fills[part])
                left += row[part]
        name_rows(axes, [f"rank {row['rank']}" for row in rows])
        axes.set_xlim(left=0)
        handles = [Patch(label=names.get(part, part), **fills[part]) for part in parts]
        figure.legend(handles=handles, loc="outside lower center", ncols=2 if style.narrow else 4, frameon=False)
    return figure


def caused(result: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw how long the others waited for each rank in each step ("caused" of analysis.ranks.job), a cell for each.

    Of many ranks, several share a row, whose cells show the longest wait among them.
    """
    style = style or Style()
    numbers = [row["rank"] for row in result["ranks"]]
    together = -(-len(numbers) // CELLS)
    places = {number: place // together for place, number in enumerate(numbers)}
    cells = np.zeros((-(-len(numbers) // together), result["steps"]))
    for row in result["caused"]:
        place = places[row["rank"]], row["step"]
        cells[place] = max(cells[place], row["ns"])
    unit = units.common_unit([int(cells.max())])
    with drawing(style):
        figure = canvas(style, min(0.2 * len(cells), 3.2) + 1.2)
        axes = figure.subplots()
        axes.grid(visible=False)
        axes.set_title("How long the others waited for a rank, added up over them", loc="left")
        drawn = axes.imshow(cells / units.NS_PER[unit], aspect="auto", cmap="Oranges", interpolation="nearest", vmin=0)
        axes.set_xlabel("step")
        axes.set_ylabel("rank" if together == 1 else f"rank, {together} a row: the longest wait counts")
        every = -(-len(cells) // 16)
        axes.set_yticks(range(0, len(cells), every), [str(number) for number in numbers[:: together * every]])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.colorbar(drawn, ax=axes, label=unit, pad=0.01)
    return figure
