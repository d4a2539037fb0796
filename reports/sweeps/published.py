"""Tables of numbers that others published, always labelled as such, and of their agreement with the measured ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelscope.analysis.published import SOURCES, ConditionGroup, Value, line_runs, statements, values
from kernelscope.reports import units
from kernelscope.reports.sections import PageTable, ViewCell, ViewColumn, identifier, text_cell
from kernelscope.reports.sweeps import cells
from kernelscope.reports.sweeps.agreement import METRICS, OTHER
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.table import Table


def chosen(rows: Iterable[Row]) -> list[Value]:
    """Return the published values for the networks and modes of these cells, whether the cells have a number or not."""
    works = {(row["network"], row["mode"]) for row in rows}
    return [value for value in values() if (value.our_network, value.our_mode) in works]


def tables(published: Sequence[Value]) -> list[PageTable]:
    """Return the values as in their sources: frameworks in rows, networks and hardware in columns, a table per metric."""
    groups: dict[tuple[str, str, str], list[Value]] = {}
    for value in published:
        groups.setdefault((value.source, value.metric, value.unit), []).append(value)
    found = []
    for (source, metric, unit), members in groups.items():
        meant = [value for value in members if value.comparable or value.value is None]
        columns = list(dict.fromkeys(_column(value) for value in meant if value.comparable))
        known = {(value.framework.lower(), _column(value)): value for value in meant}
        names = {value.framework.lower(): value.framework for value in reversed(members)}  # a source may have two spellings
        order = dict.fromkeys(value.framework.lower() for value in members)
        body = [[text_cell(names[key]), *(_number(known.get((key, column))) for column in columns)] for key in order]
        heads = [ViewColumn("framework"), *(ViewColumn(column, True) for column in columns)]
        caption = f"Published ({OTHER}): {METRICS[metric]}, {unit}. Source: {SOURCES[source].title}; {SOURCES[source].conditions}"
        odd = list(dict.fromkeys(value.note for value in members if value.value is not None and not value.comparable))
        caption += f". Not shown, on a processor: {odd[0]}" if odd else ""
        found.append(PageTable(identifier(f"published-{source}-{metric}"), caption, heads, body, tools=False))
    if any(value.source == "keras_backends" for value in published):
        found.append(line_tables())
    return found


def _column(value: Value) -> str:
    return f"{value.network} on {value.dataset}: {value.hardware}"


def _number(value: Value | None) -> ViewCell:
    if value is None:
        return ViewCell("not in the source")
    if value.value is None:
        return ViewCell(value.note or units.UNKNOWN)
    return ViewCell(f"{value.value:,g}", value.value, value.note or None)


def line_tables() -> PageTable:
    """Return the published line_profiler tables side by side, statement by statement, in ms."""
    runs = line_runs()
    known = {run: {(s.line, s.source): s for s in statements(run)} for run in runs}
    keys = list(dict.fromkeys(key for run in runs for key in known[run]))
    body = []
    for line, source in keys:
        times = [known[run][line, source].time_us if (line, source) in known[run] else None for run in runs]
        if any(time is not None for time in times):
            shown = [ViewCell(units.UNKNOWN if time is None else f"{time / 1e3:,.3f}", time) for time in times]
            body.append([ViewCell(source, source, code=True), *shown])
    heads = [ViewColumn("statement"), *(ViewColumn(run.replace("_", " "), True) for run in runs)]
    caption = (
        f"Published ({OTHER}): line_profiler of run_benchmark_train, ms; a dash did not run, or the source lacks its time. "
        f"Source: {SOURCES['keras_backends'].title}"
    )
    return PageTable("published-lines", caption, heads, body, tools=False)


def ranks(groups: Sequence[ConditionGroup]) -> PageTable:
    """Return how the order of frameworks agrees, group by group, with the number of frameworks beside every coefficient."""
    heads = [ViewColumn("published on"), ViewColumn("measured here on"), ViewColumn("metric"), ViewColumn("frameworks")]
    heads += [ViewColumn(title, True) for title in ("n", "Spearman", "p", "Kendall", "p")]
    body = []
    for group in groups:
        kind = "" if group.same_kind else "another kind of device"
        body.append(
            [
                ViewCell(f"{group.network} on {group.dataset}: {group.hardware}", group.network),
                ViewCell(f"{cells.work(group.here)}: {cells.whole_setup(group.here)}", note=kind or None),
                text_cell(METRICS[group.metric]),
                text_cell(", ".join(pair.framework for pair in group.pairs)),
                ViewCell(str(group.n), group.n),
                *(
                    ViewCell("too few" if value is None else f"{value:.3f}", value)
                    for value in (group.spearman, group.spearman_p, group.kendall, group.kendall_p)
                ),
            ]
        )
    caption = "Rank correlations between the published and the measured order; fewer than 3 frameworks have none"
    return PageTable("ranks", caption, heads, body)


def ratios(groups: Sequence[ConditionGroup]) -> PageTable:
    """Return each framework's ratio to the group's reference, published and measured in separate columns."""
    heads = [
        ViewColumn("published on"),
        ViewColumn("measured here on"),
        ViewColumn("metric"),
        ViewColumn("framework"),
        ViewColumn("ratio to"),
    ]
    heads += [ViewColumn(f"published ratio ({OTHER})", True), ViewColumn("measured ratio", True)]
    body = [
        [
            ViewCell(f"{group.network} on {group.dataset}: {group.hardware}", group.network),
            ViewCell(f"{cells.work(group.here)}: {cells.whole_setup(group.here)}"), text_cell(METRICS[group.metric]),
            text_cell(pair.framework), text_cell(group.reference),
            ViewCell(units.ratio(pair.published_ratio), pair.published_ratio),
            ViewCell(units.ratio(pair.measured_ratio), pair.measured_ratio),
        ]
        for group in groups
        for pair in group.pairs
        if pair.framework != group.reference
    ]  # fmt: skip
    return PageTable("ratios", "Ratios between frameworks, published and measured", heads, body)


def values_table(published: Sequence[Value]) -> Table:
    """Return published values as a table for CSV, with source, unit, hardware and notes."""
    names = (
        "source", "dataset", "network", "framework", "hardware", "metric", "value", "unit", "note", "comparable", "our_framework",
        "our_network", "our_mode", "device", "devices",
    )  # fmt: skip
    return Table("published_values", names, [[getattr(value, name) for name in names] for value in published])
