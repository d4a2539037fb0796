"""Figures of a comparison, one function each; every one returns a matplotlib Figure and leaves saving it to the caller.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which people with colour-blindness tell apart; where there are
more parts than colours, hatches go on. Text stays text in SVG. Nothing here touches pyplot or matplotlib's global state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from kernelscope.reports import content, explanation, units
from kernelscope.reports.content import Result
from kernelscope.reports.text import printable

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442")
PHASES = {"forward": "#0072B2", "backward": "#E69F00", "optimizer": "#009E73", "data": "#CC79A7", "other": "#999999"}
HOST = ("#8a8a8a", "#bdbdbd")
SLOWER, FASTER = "#D55E00", "#0072B2"
PARTS = 7  # parts of a stack with a colour of their own
_CLIP = 1.6  # intervals are drawn up to so many times the largest third quartile
LAYERS = 24  # layers with a row of their own
ROWS = 10  # rows of a capture's breakdown with a bar of their own
_NAME = 28  # characters of a name


@dataclass(frozen=True)
class Style:
    """How a figure is drawn: width in inches, font size in points, colours of text and lines and of what lies behind."""

    width_in: float = 9.6
    font_pt: float = 8.0
    ink: str = "#1b1f24"
    faint: str = "#c9ced6"

    @property
    def narrow(self) -> bool:
        """Whether there is no room for things beside each other."""
        return self.width_in < 5.0


def step_times(result: Result, style: Style | None = None) -> Figure:
    """Draw the median step of each framework, fastest first, with quartiles (thick line) and 95% interval (thin, capped)."""
    style = style or Style()
    rows = content.by_speed(result)
    unit = units.common_unit(row["step_median_ns"] for row in rows)
    scale = units.NS_PER[unit]
    with drawing(style):
        figure, axes = _bars(style, len(rows), "Step time (median)", f"{unit} per step")
        limit = _CLIP * max(row["step_quartiles_ns"][1] for row in rows) / scale
        for place, row in enumerate(rows):
            end = _step_time(axes, place, row, scale, limit, style)
            label = units.duration(row["step_median_ns"]) + ("" if row["ratio"] == 1 else f", {units.ratio(row['ratio'])}")
            axes.annotate(label, (end, place), (7, 0), textcoords="offset points", va="center")
        _name_rows(axes, [row["framework"] for row in rows])
        axes.margins(x=0.3 if style.narrow else 0.2)
        axes.set_xlim(left=0)
    return figure


def _step_time(axes: Axes, place: int, row: content.Row, scale: int, limit: float, style: Style) -> float:
    """Draw one bar with its quartiles and interval; return where it all ends. An interval beyond `limit` ends in an arrow."""
    median = float(row["step_median_ns"]) / scale
    first, third = (float(end) / scale for end in row["step_quartiles_ns"])
    axes.barh(place, median, height=0.62, color=PALETTE[0])
    axes.hlines(place, first, third, color=style.ink, lw=3)
    if not row.get("step_interval_ns"):
        return max(median, third)
    low, high = (min(float(end) / scale, limit) for end in row["step_interval_ns"])
    axes.hlines(place, low, high, color=style.ink, lw=1)
    axes.plot([low], [place], marker="|", color=style.ink, markersize=7)
    axes.plot([high], [place], marker=">" if high == limit else "|", color=style.ink, markersize=4 if high == limit else 7)
    return max(median, third, high)


def kinds_stacked(result: Result, style: Style | None = None) -> Figure:
    """Draw each framework's step as a bar of the kinds of kernels that fill it; where none runs it is the host's."""
    return _stacked(result, _kind_parts(result), "Step by kind of kernel", style or Style())


def layers_stacked(result: Result, style: Style | None = None) -> Figure:
    """Draw each framework's step as a bar of its layers, forward and backward together."""
    return _stacked(result, _layer_parts(result), "Step by layer", style or Style())


def layers(result: Result, style: Style | None = None) -> Figure:
    """Draw a panel per framework with a row per layer, split by phase, all on one scale."""
    style = style or Style()
    names = result["frameworks"]
    phases = _phases_of_layers(result)
    unit = units.common_unit(row["step_mean_ns"] for row in result["summary"])
    across = 1 if style.narrow else min(len(names), 4)
    down = -(-len(names) // across)
    with drawing(style):
        height = down * (0.17 * len(phases) + 0.75) + 0.4
        figure = Figure(figsize=(style.width_in, height), layout="constrained", facecolor="none")
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, name in zip(panels, names, strict=False):
            _panel(axes, phases, name, unit)
        panels[0].set_xlim(left=0)  # after the last bar: the panels share it
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        handles = [Patch(color=colour, label=phase) for phase, colour in PHASES.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def rows(breakdown: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw the rows of a breakdown (Breakdown.as_dict) as bars, longest first; of more than ROWS the rest is one bar."""
    style = style or Style()
    whole = max(content.whole_ns(breakdown), 1)
    unit = units.common_unit([whole])
    shown, rest = breakdown["rows"][:ROWS], breakdown["rows"][ROWS:]
    by = str(breakdown["by"])
    bars = [(" ".join(str(row[key]) for key in (by, "phase") if row.get(key)), content.row_ns(row)) for row in shown]
    bars += [(f"({len(rest)} more)", sum(map(content.row_ns, rest)))] if rest else []
    title = f"{content.whole(breakdown).capitalize()} by {by}"
    with drawing(style):
        figure, axes = _bars(style, len(bars), title, unit)
        for place, (name, length) in enumerate(bars):
            axes.barh(place, length / units.NS_PER[unit], height=0.62, color=HOST[0] if name.startswith("(") else PALETTE[0])
            label = f"{units.duration(length)}, {units.percent(length / whole)}"
            axes.annotate(label, (length / units.NS_PER[unit], place), (5, 0), textcoords="offset points", va="center")
        _name_rows(axes, [name for name, _ in bars], _NAME if style.narrow else 2 * _NAME)
        axes.margins(x=0.3 if style.narrow else 0.2)
        axes.set_xlim(left=0)
    return figure


def waterfall(result: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw an explanation's parts as bars that each begin where the last one ended; together they are the difference.

    Bars to the right are what B takes longer, those to the left, which are hatched, what it takes less.
    """
    style = style or Style()
    shown = explanation.scale(result)
    parts = explanation.parts(result)
    scale = units.NS_PER[shown.unit]
    with drawing(style):
        title = "Parts of the difference" + (f", by {printable(result['parts_by'])}" if result.get("parts_by") else "")
        figure, axes = _bars(style, len(parts) + 1, title, f"{shown.unit}, B - A")
        left = 0
        for place, part in enumerate(parts):
            _step_of_waterfall(axes, place, (left, left + part.delta_ns), scale, part.label == content.INSTRUMENTATION)
            left += part.delta_ns
            axes.vlines(left / scale, place - 0.31, place + 1.31, color=style.ink, lw=0.6)
            _beside(axes, place, max(left, left - part.delta_ns) / scale, shown.signed(part.delta_ns))
        axes.barh(len(parts), left / scale, height=0.62, color=HOST[0])
        _beside(axes, len(parts), max(left, 0) / scale, f"{shown.signed(left)} {shown.unit}")
        axes.axvline(0, color=style.faint, lw=1.4, zorder=0.5)
        _name_rows(axes, [*(part.label for part in parts), "difference"], _NAME if style.narrow else 2 * _NAME)
        axes.margins(x=0.2 if style.narrow else 0.12)
    return figure


def _step_of_waterfall(axes: Axes, place: int, ends: tuple[int, int], scale: int, instrumentation: bool) -> None:
    start, end = (value / scale for value in ends)
    colour = HOST[1] if instrumentation else SLOWER if end > start else FASTER
    hatch = "////" if end < start else ""
    axes.barh(place, end - start, left=start, height=0.62, color=colour, hatch=hatch, edgecolor="#ffffff", lw=0.4)


def _beside(axes: Axes, place: int, right: float, label: str) -> None:
    axes.annotate(label, (right, place), (5, 0), textcoords="offset points", va="center")


def _panel(axes: Axes, phases: Mapping[str, Mapping[str, Mapping[str, int]]], name: str, unit: str) -> None:
    for place, times in enumerate(phases.values()):
        left = 0.0
        for phase, colour in PHASES.items():
            width = max(times.get(phase, {}).get(name, 0), 0) / units.NS_PER[unit]
            axes.barh(place, width, left=left, height=0.7, color=colour)
            left += width
    axes.set_title(short(name), loc="left")
    axes.set_xlabel(f"{unit} per step")
    _name_rows(axes, list(phases))


def _phases_of_layers(result: Result) -> dict[str, dict[str, dict[str, int]]]:
    """Return {layer: {phase: {framework: ns}}} in the network's order; of many layers the smaller ones become one."""
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
        groups[kind] = host[kind == "(host: in operator)"] if kind.startswith("(host") else kind
    return _parts(result, "kinds", groups, list(host.values()), "other kinds")


def _layer_parts(result: Result) -> list[_Part]:
    outside = "outside of layers"
    groups = {str(row["layer"]): str(row["layer"]) for row in result["layers"]}
    for layer in groups:
        if layer.startswith("(") and layer != "(optimizer)":
            groups[layer] = outside
    return _parts(result, "layers", groups, [outside], "other layers")


def _parts(result: Result, table: str, groups: Mapping[str, str], greys: Sequence[str], rest: str) -> list[_Part]:
    """Add rows up to parts: the PARTS largest in the table's order, then the rest, then what is grey; instrumentation is none."""
    key = content.KEYS[table][0]
    times: dict[str, dict[str, int]] = {}
    for row in result[table]:
        if row[key] != content.INSTRUMENTATION:
            part = times.setdefault(groups[str(row[key])], dict.fromkeys(result["frameworks"], 0))
            for name in part:
                part[name] += row["time_ns"].get(name) or 0
    coloured = [label for label in times if label not in greys]
    large = sorted(coloured, key=lambda label: -max(times[label].values()))[:PARTS]
    parts = [_Part(label, times[label], PALETTE[number]) for number, label in enumerate(k for k in coloured if k in large)]
    small = [label for label in coloured if label not in large]
    if small:
        parts.append(_Part(rest, {n: sum(times[label][n] for label in small) for n in result["frameworks"]}, "#5b5bd6", "////"))
    return parts + [_Part(label, times[label], HOST[number]) for number, label in enumerate(greys) if label in times]


def _stacked(result: Result, parts: Sequence[_Part], title: str, style: Style) -> Figure:
    rows = content.by_speed(result)
    names = [row["framework"] for row in rows]
    unit = units.common_unit(row["step_mean_ns"] for row in rows)
    scale = units.NS_PER[unit]
    with drawing(style):
        legend_rows = -(-len(parts) // (2 if style.narrow else 5))
        figure, axes = _bars(style, len(names), title, f"{unit} per step", 0.2 * legend_rows)
        left = dict.fromkeys(names, 0.0)
        for part in parts:
            widths = [max(part.times[name], 0) / scale for name in names]
            axes.barh(
                range(len(names)), widths, left=list(left.values()), height=0.62, color=part.colour, hatch=part.hatch,
                edgecolor="#ffffff", lw=0.4, label=short(part.label),
            )  # fmt: skip
            left = {name: left[name] + width for name, width in zip(names, widths, strict=True)}
        cleans = [row["step_mean_ns"] / scale for row in rows]
        axes.vlines(cleans, [p - 0.42 for p in range(len(names))], [p + 0.42 for p in range(len(names))], color=style.ink, lw=1.6)
        _name_rows(axes, names)
        axes.set_xlim(left=0)
        figure.legend(loc="outside lower center", ncols=2 if style.narrow else 5, frameon=False)
    return figure


def _bars(style: Style, rows: int, title: str, xlabel: str, more_in: float = 0.0) -> tuple[Figure, Axes]:
    """Return a figure with one axes for `rows` horizontal bars."""
    figure = Figure(figsize=(style.width_in, 0.36 * rows + 0.8 + more_in), layout="constrained", facecolor="none")
    axes = figure.subplots()
    axes.set_title(title, loc="left")
    axes.set_xlabel(xlabel)
    return figure, axes


def short(name: str, limit: int = _NAME) -> str:
    """Return a name that leaves room for the figure."""
    shown = printable(name)
    return shown if len(shown) <= limit else f"{shown[: limit - 2]} …"


def _name_rows(axes: Axes, names: Sequence[str], limit: int = _NAME) -> None:
    axes.set_yticks(range(len(names)), [short(name, limit) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


@contextmanager
def drawing(style: Style) -> Iterator[None]:
    """Use the style while drawing, here and in other modules of figures. Names with a dollar sign are no mathematics."""
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


# --- roofline -----------------------------------------------------------------------------------------------------------------

_NAMED = 8  # rows of a roofline with a name beside their mark


def roofline(found: Mapping[str, Any], style: Style | None = None) -> Figure:
    """Draw a roofline (Roofline.as_dict): attained Gflop/s over flop per byte, a mark a row, its area the row's time.

    The roof is the product of the type that most operations are in, and the copy that is largest: data in caches moves faster,
    so that marks can lie above the sloping part, and those of shorter types above the flat one. Rows without operations or bytes
    cannot be drawn.
    """
    style = style or Style()
    rows = [row for row in found["rows"] if row["gflops_per_s"] and row["intensity"]]
    whole = max(sum(row["duration_ns"] for row in rows), 1)
    with drawing(style):
        figure = Figure(figsize=(style.width_in, 0.6 * style.width_in), layout="constrained", facecolor="none")
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", xlabel="operations a byte (algorithmic)", ylabel="Gflop/s")
        for axis in (axes.xaxis, axes.yaxis):  # as plain text: pages show text of figures as it is
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
        left = len(found["rows"]) - len(rows)
        axes.set_title(
            f"Roofline by {found['by']}" + (f", {left} rows without both numbers left out" if left else ""), loc="left"
        )
        for place, row in enumerate(rows):
            area = 20 + 900 * row["duration_ns"] / whole
            colour = PHASES.get(str(row.get("phase")), HOST[0])
            axes.scatter([row["intensity"]], [row["gflops_per_s"]], s=area, color=colour, alpha=0.75, lw=0)
            if place < _NAMED:
                name = short(
                    " ".join(str(row[key]) for key in (("layer", "kind") if row.get("layer") else ("name",)) if row.get(key))
                )
                axes.annotate(name, (row["intensity"], row["gflops_per_s"]), (4, 4), textcoords="offset points")
        _roof(axes, found, rows, style)
        used = {str(row.get("phase")) for row in rows}
        handles = [Patch(color=colour, label=phase) for phase, colour in PHASES.items() if phase in used]
        if handles:
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _roof(axes: Axes, found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], style: Style) -> None:
    """Draw the ceilings across what is shown, or nothing where there are none."""
    ceilings = found["ceilings"] or {}
    products = {entry["dtype"]: entry["flops_per_s"] / 1e9 for entry in ceilings.get("products", [])}
    if not rows or not products or not ceilings["copies"]:
        return
    types = [str(row.get("dtype")) for row in rows if str(row.get("dtype")) in products]
    kind = max(set(types), key=types.count) if types else next(iter(products))
    copy = max(ceilings["copies"], key=lambda entry: entry["bytes"])
    slope, flat = copy["bytes_per_s"] / 1e9, products[kind]
    low = min(*(row["intensity"] for row in rows), flat / slope) / 2
    high = max(*(row["intensity"] for row in rows), flat / slope) * 2
    axes.plot([low, flat / slope, high], [low * slope, flat, flat], color=style.ink, lw=1.2, zorder=0.5)
    whose = "" if ceilings["source"] == "measured" else ", vendor's numbers"
    label = f"{kind} product {flat:,.0f} Gflop/s; copy of {units.size(copy['bytes'])} {slope:,.1f} GB/s{whose}"
    axes.annotate(label, (high, flat), (0, 4), textcoords="offset points", ha="right")
