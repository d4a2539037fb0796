"""Breakdowns and captures for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.analysis.accounting import host_rows
from kernelscope.reports import breakdown_grid, breakdown_words, captures, terminal, units
from kernelscope.reports.breakdown_grid import TALL
from kernelscope.reports.content import Row
from kernelscope.reports.text import printable

_WIDE = 110  # columns: a terminal of this width has room for statistics of single executions
# Numbers of host lines only: own time, time of launched work, the device's idle time meanwhile
_OF_LINES = {"host_ns": "host", "device_ns": "device", "idle_ns": "idle"}


def breakdown(result: Mapping[str, Any], rows: int = TALL) -> RenderableType:
    """Return a breakdown (Breakdown.as_dict) as a table; beyond `rows` rows, those with the least time are merged into one."""
    return terminal.Sections(lambda width: _breakdown(result, rows, width))


def capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a summary of an imported capture. record: its import.json; breakdowns: their envelopes."""
    return terminal.Sections(lambda width: _capture(record, breakdowns, width))


def _capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]], width: int) -> Iterator[RenderableType]:
    yield Text(printable(captures.headline(record, breakdowns), None), style="bold")
    known = terminal.grid(show_header=False)
    known.add_column(style="dim", no_wrap=True)
    known.add_column(overflow="fold")
    for name, value in captures.facts(record, breakdowns):
        known.add_row(name, Text(printable(value, None)))
    yield known
    warnings = [("Warnings", [("", line) for line in captures.warnings(record)])] if captures.warnings(record) else []
    for title, lines in [*warnings, *captures.findings(record)]:
        yield terminal.heading(title)
        for name, line in lines:
            yield terminal.bullet(name, line) if name else Padding(Text(printable(line, None)), (0, 0, 0, 2))
    table = captures.longest_first(breakdowns)
    if table is not None:
        yield terminal.heading(captures.title(table))
        yield breakdown_grid.drawn(table, captures.ROWS, width)
    if record.get("samples"):
        yield terminal.heading("Samples by device and metric")
        yield _samples(record["samples"])


def _samples(rows: Sequence[Row]) -> Table:
    table = terminal.grid()
    for name in ("device", "metric", "count", "mean", "min", "max"):
        table.add_column(name, justify="left" if name in ("device", "metric") else "right", overflow="fold")
    for row in rows[:TALL]:
        numbers = (f"{row[name]:,.6g}" if units.known(row[name]) else units.UNKNOWN for name in ("count", "mean", "min", "max"))
        table.add_row(Text(breakdown_grid.value(row, "device")), Text(breakdown_grid.value(row, "metric")), *numbers)
    if len(rows) > TALL:
        table.add_row(f"({len(rows) - TALL} more)")
    return table


def _breakdown(result: Mapping[str, Any], most: int, width: int) -> Iterator[RenderableType]:
    title, *beside = breakdown_grid.heading(result)
    yield Text(title, style="bold")
    yield from (Text(line, style="dim") for line in beside)
    first, beneath = breakdown_grid.keys(result)
    if path := breakdown_grid.shared_path(result, most):
        yield Text(f"layer names are relative to {printable(path)}", style="dim")
    if result["by"] == "step":
        yield breakdown_grid.of_steps(result, most, width)
    elif beneath:
        yield _listed(result, most, first, beneath, width)
    else:
        yield breakdown_grid.drawn(result, most, width)


def _listed(result: Mapping[str, Any], most: int, first: Sequence[str], beneath: Sequence[str], width: int) -> Table:
    """Return a table for long keys: the numbers, then the row's name and details, which may take several lines."""
    result = breakdown_words.of_one_pass(result)
    unit, decimals = breakdown_grid.unit_of(result)
    device, host = host_rows.apart(result["by"], result["rows"])
    shown, rest = [*device[:most], *host], device[most:]
    table = terminal.grid(show_footer=True)
    table.add_column(unit, justify="right", footer=units.in_unit(breakdown_words.whole_ns(result), unit, decimals), no_wrap=True)
    table.add_column("share", justify="right", footer="100.0%", no_wrap=True)
    more = {key: name for key, name in _OF_LINES.items() if any(row.get(key) is not None for row in shown)}
    for heading in more.values():
        table.add_column(heading, justify="right", no_wrap=True)
    overlaps = breakdown_words.overlaps(result)
    if overlaps:  # then time is a share of the wall time, not calls times average
        table.add_column("durations", justify="right", no_wrap=True)
    counted = any(row.get("count") is not None for row in shown)
    if counted:
        table.add_column("calls", justify="right", no_wrap=True)
    single = breakdown_words.executions(shown)
    single = (
        single if width >= _WIDE else {key: title for key, title in single.items() if key in ("mean_ns", breakdown_words.RATE)}
    )
    of_one = _unit_of_one([row.get("mean_ns") for row in shown])
    for place, title in enumerate(single.values()):
        table.add_column(title if place else f"{title}, {of_one}", justify="right")
    title = " ".join(breakdown_words.noun(result, key) for key in first)
    table.add_column(title, footer=breakdown_words.whole(result), overflow="fold")
    blank = len(more) + overlaps + counted + len(single)
    names = [_names(row, first, beneath) for row in shown]
    alike = Counter(names)
    apart = breakdown_words.kernels_apart([row for row, own in zip(shown, names, strict=True) if alike[own] > 1])
    for place, (row, (named, details)) in enumerate(zip(shown, names, strict=True)):
        if rest and place == most:
            table.add_row(*_more(rest, unit, decimals, blank))
        if alike[named, details] > 1 and (distinction := apart.get(str(row.get("kernel")))):
            details = (*details, printable(distinction))
        name = Text(" ".join(named), style="bold")
        if details:
            name.append("\n" + " · ".join(details), style="not bold dim")
        numbers = [units.in_unit(row.get(key), unit, decimals) for key in (*more, *(["duration_ns"] if overlaps else []))]
        time = units.in_unit(breakdown_words.row_ns(row), unit, decimals)
        each = [
            breakdown_words.execution(row, key) if key == breakdown_words.RATE else units.in_unit(row.get(key), of_one, 1)
            for key in single
        ]
        calls = [breakdown_grid.called(result, row)] if counted else []
        table.add_row(time, units.percent(row["share"]), *numbers, *calls, *each, name)
    if rest and not host:
        table.add_row(*_more(rest, unit, decimals, blank))
    return table


def _unit_of_one(means: Sequence[int | None]) -> str:
    """Return the unit of mean executions, in which the longest has at most ten digits before the point."""
    longest = max((mean for mean in means if mean), default=0)
    fitting = units.common_unit(means)
    return next((unit for unit, size in units.NS_PER.items() if size >= units.NS_PER[fitting] and longest < 1e10 * size), "s")


def _names(row: Row, first: Sequence[str], beneath: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the name of a row, and its details."""
    named = tuple(filter(None, (breakdown_grid.named(row, key) for key in first)))
    said = {row.get(first[0]), *named, "(unattributed)", "none", None}
    return named, tuple(printable(row[key], 160) for key in beneath if row.get(key) not in said)


def _more(rows: Sequence[Row], unit: str, decimals: int, blank: int) -> tuple[str | Text, ...]:
    """Return the line for the rows that are not shown. blank: number of columns between share and name."""
    time_ns, share = breakdown_grid.sums(rows)
    return units.in_unit(time_ns, unit, decimals), units.percent(share), *[""] * blank, Text(f"({len(rows)} more)")
