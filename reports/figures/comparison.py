"""Figures of frameworks side by side: step times, kinds of kernels, layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernelscope.analysis.accounting.levels import DEVICE
from kernelscope.reports import colours, content, units
from kernelscope.reports.colours import HOST, KINDS, OTHER, PHASES, PLAIN
from kernelscope.reports.content import Result
from kernelscope.reports.figures import drawing as drawn
from kernelscope.reports.figures.drawing import Style, drawing, filled, short

PARTS = len(colours.LAYERS)  # parts of a stack with their own colour
_OPTIMIZER = "(optimizer)"
LAYERS = 24  # layers with their own row
_CLIP = 1.6  # times the largest third quartile: intervals are cut there


def step_times(result: Result, style: Style | None = None) -> Figure:
    """Draw the median step of each framework, fastest first, with quartiles (thick line) and 95% interval (thin, capped)."""
    style = style or Style()
    rows = content.by_speed(result)
    unit = units.common_unit(row["step_median_ns"] for row in rows)
    scale = units.NS_PER[unit]
    with drawing(style):
        figure, axes = drawn.bars(style, len(rows), "Step time (median)", f"{unit} per step")
        limit = _CLIP * max(row["step_quartiles_ns"][1] for row in rows) / scale
        for place, row in enumerate(rows):
            end = _step_time(axes, place, row, scale, limit, style)
            label = units.duration(row["step_median_ns"]) + ("" if row["ratio"] == 1 else f", {units.ratio(row['ratio'])}")
            axes.annotate(label, (end, place), (7, 0), textcoords="offset points", va="center")
        drawn.name_rows(axes, [row["framework"] for row in rows])
        axes.margins(x=0.3 if style.narrow else 0.2)
        axes.set_xlim(left=0)
    return figure


def _step_time(axes: Axes, place: int, row: content.Row, scale: int, limit: float, style: Style) -> float:
    """Draw one bar with its quartiles and interval; return its right end. An interval beyond `limit` ends in an arrow."""
    median = float(row["step_median_ns"]) / scale
    first, third = (float(end) / scale for end in row["step_quartiles_ns"])
    axes.barh(place, median, height=0.62, color=PLAIN)
    axes.hlines(place, first, third, color=style.ink, lw=3)
    if not row.get("step_interval_ns"):
        return max(median, third)
    low, high = (min(float(end) / scale, limit) for end in row["step_interval_ns"])
    axes.hlines(place, low, high, color=style.ink, lw=1)
    axes.plot([low], [place], marker="|", color=style.ink, markersize=7)
    axes.plot([high], [place], marker=">" if high == limit else "|", color=style.ink, markersize=4 if high == limit else 7)
    return max(median, third, high)


def kinds_stacked(result: Result, style: Style | None = None) -> Figure:
    """Draw each framework's step as a bar of kinds of kernels; time without kernels is the host's."""
    return _stacked(result, _kind_parts(result), "Step by kind of kernel", style or Style())


def layers_stacked(result: Result, style: Style | None = None) -> Figure:
    """Draw each framework's step as a bar of its layers, forward and backward together."""
    return _stacked(result, _layer_parts(result), "Step by layer", style or Style())


def layers(result: Result, style: Style | None = None) -> Figure:
    """Draw a panel per framework with a row per layer, split by phase, all on one scale."""
    style = style or Style()
    names = result["frameworks"]
    phases = _phases_of_layers(result)
    unit = units.common_unit(row["step_median_ns"] for row in result["summary"])
    across = 1 if style.narrow else min(len(names), 4)
    down = -(-len(names) // across)
    with drawing(style):
        figure = drawn.canvas(style, down * (0.17 * len(phases) + 0.75) + 0.4)
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, name in zip(panels, names, strict=False):
            _panel(axes, phases, name, unit, style)
        panels[0].set_xlim(left=0)  # after the last bar: the panels share it
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        drawn.phase_legend(figure, style, list(PHASES))
    return figure


def _panel(axes: Axes, phases: Mapping[str, Mapping[str, Mapping[str, int]]], name: str, unit: str, style: Style) -> None:
    for place, times in enumerate(phases.values()):
        left = 0.0
        for phase, fill in drawn.phase_fills(style).items():
            width = max(times.get(phase, {}).get(name, 0), 0) / units.NS_PER[unit]
            axes.barh(place, width, left=left, height=0.7, **(fill if style.hatched else {"color": PHASES[phase]}))
            left += width
    axes.set_title(short(name), loc="left")
    axes.set_xlabel(f"{unit} per step")
    drawn.name_rows(axes, list(phases))


def _phases_of_layers(result: Result) -> dict[str, dict[str, dict[str, int]]]:
    """Return {layer: {phase: {framework: ns}}} in the network's order; of many layers, the smaller ones are merged."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for row in result["layers"]:
        if row["layer"] != content.INSTRUMENTATION:
            found.setdefault(str(row["layer"]), {})[str(row["phase"])] = {k: v or 0 for k, v in row["time_ns"].items()}
    size = {layer: sum(sum(times.values()) for times in phases.values()) for layer, phases in found.items()}
    large = set(sorted(size, key=lambda layer: -size[layer])[:LAYERS])
    rest = [phases for layer, phases in found.items() if layer not in large]
    kept = {layer: phases for layer, phases in found.items() if layer in large}
    if rest:
        kept[f"({len(rest)} smaller)"] = {
            phase: {name: sum(part.get(phase, {}).get(name, 0) for part in rest) for name in result["frameworks"]}
            for phase in PHASES
        }
    return kept


@dataclass(frozen=True)
class _Part:
    """One part of every framework's stack."""

    label: str
    times: dict[str, int]
    colour: str
    hatch: str = ""


def _kind_parts(result: Result) -> list[_Part]:
    host = {True: "host, in operators", False: "host, elsewhere"}
    groups = {}
    for row in result["kinds"]:
        kind = str(row["kind"])
        on_device = kind.removeprefix("(device: ").removesuffix(")") if kind.startswith("(device: ") else kind
        groups[kind] = host[kind == "(host: in operators)"] if kind.startswith("(host") else on_device
    return _parts(result, "kinds", groups, list(host.values()), "other kinds")


def _layer_parts(result: Result) -> list[_Part]:
    outside = "outside layers"
    groups = {str(row["layer"]): str(row["layer"]) for row in result["layers"]}
    for layer in groups:
        if layer.startswith("(") and layer != _OPTIMIZER:
            groups[layer] = outside
    return _parts(result, "layers", groups, [outside], "other layers")


def _parts(result: Result, table: str, groups: Mapping[str, str], greys: Sequence[str], rest: str) -> list[_Part]:
    """Add up rows to parts: the PARTS largest in the table's order, the rest, the grey ones; instrumentation is left out."""
    key = content.KEYS[table][0]
    times: dict[str, dict[str, int]] = {}
    for row in result[table]:
        if row[key] != content.INSTRUMENTATION:
            part = times.setdefault(groups[str(row[key])], dict.fromkeys(result["frameworks"], 0))
            for name in part:
                part[name] += row["time_ns"].get(name) or 0
    coloured = [label for label in times if label not in greys]
    large = sorted(coloured, key=lambda label: -max(times[label].values()))[:PARTS]
    shown = [label for label in coloured if label in large]
    colour = _of_kind if table == "kinds" else _of_layer
    parts = [_Part(label, times[label], colour(label, number)) for number, label in enumerate(shown)]
    small = [label for label in coloured if label not in large]
    if small:
        parts.append(_Part(rest, {n: sum(times[label][n] for label in small) for n in result["frameworks"]}, OTHER, "////"))
    return parts + [_Part(label, times[label], HOST[number]) for number, label in enumerate(greys) if label in times]


def _of_kind(label: str, _number: int) -> str:
    """Return the colour of a kind, or of what else the device does."""
    return KINDS.get(label) or colours.of_owner(DEVICE + label)


def _of_layer(label: str, number: int) -> str:
    """Return the colour of a layer: a neutral shade by its place, so that it looks like no kind."""
    return KINDS["optimizer"] if label == _OPTIMIZER else colours.LAYERS[number]


def _stacked(result: Result, parts: Sequence[_Part], title: str, style: Style) -> Figure:
    rows = content.by_speed(result)
    names = [row["framework"] for row in rows]
    unit = units.common_unit(row["step_median_ns"] for row in rows)
    scale = units.NS_PER[unit]
    with drawing(style):
        across = 2 if style.narrow else max(2, round(style.width_in / (0.24 * style.font_pt)))
        legend_rows = -(-(len(parts) + 1) // across)
        figure, axes = drawn.bars(style, len(names), title, f"{unit} per step", 0.2 * legend_rows)
        left = dict.fromkeys(names, 0.0)
        for place, part in enumerate(parts):
            widths = [max(part.times[name], 0) / scale for name in names]
            axes.barh(
                range(len(names)), widths, left=list(left.values()), height=0.62, label=short(part.label),
                **filled(style, part.colour, place, part.hatch),
            )  # fmt: skip
            left = {name: left[name] + width for name, width in zip(names, widths, strict=True)}
        cleans = [row["step_median_ns"] / scale for row in rows]
        low, high = ([place + half for place in range(len(names))] for half in (-0.42, 0.42))
        axes.vlines(cleans, low, high, color=style.ink, lw=1.6, label="clean step, without recording")
        drawn.name_rows(axes, names)
        axes.set_xlim(left=0)
        figure.legend(loc="outside lower center", ncols=across, frameon=False)
    return figure
