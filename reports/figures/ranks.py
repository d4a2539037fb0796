"""The figure of a job: each rank's step as a stacked bar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.reports import units
from kernelscope.reports.colours import COMMUNICATION, COMPUTING, COPY, HOST, WAITING
from kernelscope.reports.figures.drawing import Style, bars, drawing, filled, name_rows

ROWS = 32  # ranks with a bar of their own
_COLOURS = dict(zip(JOB_PARTS, (COMPUTING, COMMUNICATION, WAITING, "#7fcdb4", COPY, *HOST), strict=True))


def ranks(result: Mapping[str, Any], names: Mapping[str, str], style: Style | None = None) -> Figure:
    """Draw each rank's step (analysis.ranks.job) by its parts; of more than ROWS those with the longest steps.

    names: what the parts are called.
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
