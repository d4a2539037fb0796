"""Published against measured ratios between frameworks: the figure and the tables. They never share a column."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kernelscope.analysis.published import ConditionGroup
from kernelscope.reports.figures import Style, drawing, short
from kernelscope.reports.sweeps import chart
from kernelscope.reports.sweeps.looks import looks
from kernelscope.reports.table import Table

OTHER = "other hardware, other versions"
METRICS = {
    "throughput": "throughput",
    "gpu_power": "GPU power",
    "gpu_memory": "GPU memory",
    "training_time": "training time",
    "inference_time": "inference time",
    "fit_time": "time of model.fit",
}
_HERE = ("sweep", "hardware", "network", "mode", "batch", "threads", "device", "devices", "precision", "layout", "autotune")


def nearest(groups: Sequence[ConditionGroup]) -> list[ConditionGroup]:
    """Return the groups on the same kind of devices as here; all groups of a source that has none."""
    sources = {group.source for group in groups if group.same_kind}
    return [group for group in groups if group.same_kind or group.source not in sources]


def published_against_measured(groups: Sequence[ConditionGroup], style: Style | None = None) -> Figure:
    """Draw each framework's published over its measured ratio to the reference, a panel per metric; on the line they agree."""
    style = style or Style()
    metrics = list(dict.fromkeys((group.metric, group.reference) for group in groups))
    kinds = looks(sorted({pair.framework for group in groups for pair in group.pairs if pair.framework != group.reference}))
    with drawing(style):
        figure, grid = chart.panels(max(len(metrics), 1), style, 3.3, least=2)
        for axes, (metric, reference) in zip(grid, metrics, strict=False):
            ink = axes.xaxis.label.get_color()
            mine = [group for group in groups if (group.metric, group.reference) == (metric, reference)]
            points = [(pair, group) for group in mine for pair in group.pairs if pair.framework != group.reference]
            for pair, group in points:
                look = kinds[pair.framework]
                face = look.colour if group.same_kind else "none"
                axes.plot(
                    [pair.measured_ratio], [pair.published_ratio], marker=look.marker, mec=look.colour, mfc=face, ms=6, lw=0
                )
            ends = [ratio for pair, _ in points for ratio in (pair.published_ratio, pair.measured_ratio)] + [1.0]
            limits = (min(ends) / 1.4, max(ends) * 1.4)
            axes.plot(limits, limits, color=ink, lw=0.8, dashes=(3, 2))
            axes.set(xlim=limits, ylim=limits)
            chart.plain_log(axes, "x")
            chart.plain_log(axes, "y")
            axes.set_aspect("equal")
            axes.grid(True, axis="both")
            chart.heading(axes, f"{METRICS[metric]}, ratio to {reference}", style)
            axes.set_xlabel("measured here")
            axes.set_ylabel(f"published: {OTHER}")
        figure.suptitle("Published against measured ratios", x=0.01, ha="left", fontsize=style.font_pt + 2, fontweight="bold")
        handles = [Line2D([], [], lw=0, marker=look.marker, color=look.colour, label=short(name)) for name, look in kinds.items()]
        if not all(group.same_kind for group in groups):
            handles.append(Line2D([], [], lw=0, marker="o", mec="#7a7a7a", mfc="none", label="open: another kind of device"))
        chart.legend(figure, handles, style, 28)
    return figure


def ratios_table(groups: Sequence[ConditionGroup]) -> Table:
    """Return every framework of every group, with published and measured values in separate columns."""
    columns = (
        "source", "dataset", "published_network", "published_hardware", "metric", "unit", *(f"here_{name}" for name in _HERE),
        "same_kind_of_device", "reference", "framework", "published_name", "published_value", "published_ratio",
        "measured_value", "measured_ratio",
    )  # fmt: skip
    lines = [
        [
            *_stated(group), *(group.here[name] for name in _HERE), group.same_kind, group.reference, pair.framework,
            pair.published_name, pair.published, pair.published_ratio, pair.measured, pair.measured_ratio,
        ]
        for group in groups
        for pair in group.pairs
    ]  # fmt: skip
    return Table("published_ratios", columns, lines)


def ranks_table(groups: Sequence[ConditionGroup]) -> Table:
    """Return the rank correlations of every group."""
    numbers = ("n", "spearman", "spearman_p", "kendall", "kendall_p")
    columns = (
        "source", "dataset", "published_network", "published_hardware", "metric", "unit", *(f"here_{name}" for name in _HERE),
        "same_kind_of_device", "frameworks", *numbers,
    )  # fmt: skip
    lines = [
        [
            *_stated(group), *(group.here[name] for name in _HERE), group.same_kind,
            " ".join(pair.framework for pair in group.pairs), *(getattr(group, name) for name in numbers),
        ]
        for group in groups
    ]  # fmt: skip
    return Table("published_ranks", columns, lines)


def _stated(group: ConditionGroup) -> list[str]:
    return [group.source, group.dataset, group.network, group.hardware, group.metric, group.unit]
