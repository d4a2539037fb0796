"""Comparisons and breakdowns for the terminal: tables that fit its width, with bars inside.

Both functions return something that a rich Console prints; the console decides on width and colours (rich honours NO_COLOR).
All names pass through `text.printable` and are never read as markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.analysis.accounting import host_rows
from kernelscope.reports import (
    breakdown_grid,
    breakdown_words,
    captures,
    content,
    explanation,
    explanation_lines,
    summary_metrics,
    units,
)
from kernelscope.reports.breakdown_grid import TALL as TALL
from kernelscope.reports.breakdown_grid import bar
from kernelscope.reports.content import Result, Row
from kernelscope.reports.text import printable

TOP = 5
FEW = 14  # lines of an explanation below a comparison's table
_LEVELS = " ▁▂▃▄▅▆▇█"
_TOTAL = "clean step"
_LEAST_BAR, _MOST_BAR = 6, 40  # columns of the bars beside step times
_WIDE = 110  # columns of the terminal from which on statistics of single executions have room
_WHOLE = 400  # characters of a kernel's name where its short one is not its alone
_SLOW = 2.0  # ratios from here on stand out


def comparison(result: Result) -> RenderableType:
    """Return a comparison (the result of analysis.compare) as sections from the answer down to what it rests on."""
    return _Sections(lambda width: _comparison(result, width))


def breakdown(result: Mapping[str, Any], rows: int = TALL) -> RenderableType:
    """Return a breakdown (Breakdown.as_dict) as a table; of more than `rows` rows those with least time become one."""
    return _Sections(lambda width: _breakdown(result, rows, width))


def explained(result: Mapping[str, Any]) -> RenderableType:
    """Return an explanation (the result of analysis.explain) as at most explanation_lines.LINES lines."""
    return _Sections(lambda width: iter(explanation_lines.lines(result, width)))


def capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return what an imported capture holds: import.json and the envelopes of its breakdowns."""
    return _Sections(lambda width: _capture(record, breakdowns, width))


def _capture(record: Mapping[str, Any], breakdowns: Sequence[Mapping[str, Any]], width: int) -> Iterator[RenderableType]:
    yield Text(printable(captures.headline(record, breakdowns), None), style="bold")
    known = _grid(show_header=False)
    known.add_column(style="dim", no_wrap=True)
    known.add_column(overflow="fold")
    for name, value in captures.facts(record, breakdowns):
        known.add_row(name, Text(printable(value, None)))
    yield known
    warnings = [("Warnings", [("", line) for line in captures.warnings(record)])] if captures.warnings(record) else []
    for title, lines in [*warnings, *captures.findings(record)]:
        yield _heading(title)
        for name, line in lines:
            yield _bullet(name, line) if name else Padding(Text(printable(line, None)), (0, 0, 0, 2))
    table = captures.longest_first(breakdowns)
    if table is not None:
        yield _heading(captures.title(table))
        yield breakdown_grid.drawn(table, captures.ROWS, width)
    if record.get("samples"):
        yield _heading("Samples by device and metric")
        yield _samples(record["samples"])


def _samples(rows: Sequence[Row]) -> Table:
    table = _grid()
    for name in ("device", "metric", "count", "mean", "min", "max"):
        table.add_column(name, justify="left" if name in ("device", "metric") else "right", overflow="fold")
    for row in rows[:TALL]:
        numbers = (f"{row[name]:,.6g}" if units.known(row[name]) else units.UNKNOWN for name in ("count", "mean", "min", "max"))
        table.add_row(Text(breakdown_grid.value(row, "device")), Text(breakdown_grid.value(row, "metric")), *numbers)
    if len(rows) > TALL:
        table.add_row(f"({len(rows) - TALL} more)")
    return table


@dataclass
class _Sections:
    """Renderables that are made once the width is known."""

    make: Callable[[int], Iterator[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.make(options.max_width)


def _comparison(result: Result, width: int) -> Iterator[RenderableType]:
    yield Text(printable(content.headline(result)), style="bold")
    yield Text(printable(content.work(result)), style="dim")
    yield from _answers(result, width)
    yield from _explanations(result, width)
    yield _heading("Summary, per step")
    yield from _wide(result, "", summary_metrics.summary_metrics(result), width)
    for table in ("kinds", "layers"):
        unit, decimals = _unit(result)
        yield _heading(f"{table.capitalize()}: {unit} per step, ratio to the fastest")
        yield from _side_by_side(result, table, unit, decimals, width)
    yield from _kernels(result)
    yield from _lines(result, width)
    yield from _trust(result, width)


def _answers(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield by how much each framework is slower and where, what to be careful about, and who is not there."""
    verdicts = dict(content.verdicts(result))
    yield from _steps(result, verdicts, width)
    for name in () if result.get("explanations") else verdicts:
        found = content.causes(result, name)
        if found:
            parts = ", ".join(f"{cause.label} {units.signed(cause.difference_ns)}" for cause in found)
            whole = units.signed(content.step_difference(result, name))
            yield _bullet(name, f"most in {parts} (of {whole} in the mean)")
    for warning in content.warnings(result):
        yield _bullet("warning", warning, "yellow")
    for row in result["left_out"]:
        yield _bullet(row["framework"], f"left out: {row['reason']}", "yellow")


def _steps(result: Result, verdicts: Mapping[str, str], width: int) -> Iterator[RenderableType]:
    """Yield how much slower than the fastest each framework is: beside its step with a bar, where there is room for that."""
    rows = content.by_speed(result)
    names = [_short(row["framework"]) for row in rows]
    times = [units.duration(row["step_median_ns"]) for row in rows]
    said = [printable(verdicts.get(row["framework"], "")) for row in rows]
    room = width - sum(max(map(cell_len, texts)) + 2 for texts in (names, times, said)) - 2
    if room < _LEAST_BAR or not verdicts:
        yield from (_bullet(name, verdict) for name, verdict in verdicts.items())
        return
    longest = max(row["step_median_ns"] for row in rows)
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for justify in ("left", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    for row, name, time, verdict in zip(rows, names, times, said, strict=True):
        drawn = Text(bar(row["step_median_ns"] / longest, min(room, _MOST_BAR)), style="blue")
        table.add_row(Text(f"  {name}", style="bold"), Text(time), drawn, Text(verdict))
    yield table


def _explanations(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield the first explanation, which is of the slowest framework, and the others in a line each."""
    found = result.get("explanations") or []
    if not found:
        return
    yield _heading(f"Why: {explanation.title(found[0])}")
    yield from explanation_lines.lines(found[0], width, FEW if found[1:] else explanation_lines.LINES)
    for other in found[1:]:
        yield _bullet(*explanation.brief(other))


def _trust(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield what the numbers rest on: fairness, differing settings, passes and coverage, the command."""
    yield _heading("Fairness")
    yield Text(printable(content.fairness_line(result)), style="bold red" if content.failures(result) else "")
    yield from _settings(result, width)
    yield _heading("What measuring cost, and what is covered")
    yield from _wide(result, "pass", passes(result), width)
    for row in result["passes"]:
        if row.get("reason"):
            yield _bullet(f"{row['framework']}, {row['pass']}", row["reason"], "yellow")
    resolution = content.resolution(result)
    if resolution:
        yield Text(printable(resolution), style="dim")
    yield Text(printable(f"repeat with: {content.command(result)}", None), style="dim")


def _settings(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield the settings that differ side by side, and below them those that only one framework has."""
    names = result["frameworks"]
    shared, own = [], {name: [] for name in names}  # type: ignore[var-annotated]
    for row in content.differences(result):
        title, known = str(row["setting"]).replace("_", " "), [name for name in names if row["values"].get(name) is not None]
        if len(known) == 1 < len(names):
            own[known[0]].append(f"{title} {_short(row['values'][known[0]])}")
        else:
            shared.append((title, [_short(row["values"].get(name)) for name in names]))
    if shared or any(own.values()):
        yield _heading("Settings that differ")
    if shared:
        yield from _wide(result, "", shared, width)
    for name, said in own.items():
        if said:
            yield _bullet(f"{name} alone has", ", ".join(map(printable, said)))


def _heading(title: str) -> RenderableType:
    return Padding(Text(title, style="bold cyan"), (1, 0, 0, 0))


def _bullet(name: object, sentence: object, style: str = "bold") -> RenderableType:
    line = Text(printable(name), style=style)
    return Padding(line.append(f": {printable(sentence)}", style="not bold default"), (0, 0, 0, 2))


def _short(value: object) -> str:
    return printable(content.setting(value), 60)


def _unit(result: Result) -> tuple[str, int]:
    times = [row["step_median_ns"] for row in result["summary"]]
    unit = units.common_unit(times)
    return unit, units.decimals_for(times, unit)


def _grid(**options: Any) -> Table:
    settings = {"box": box.SIMPLE_HEAD, "padding": (0, 0), "show_edge": False, "pad_edge": False, "header_style": "bold"}
    return Table(**{**settings, **options})


def _wide(result: Result, first: str, rows: Sequence[tuple[str, list[str]]], width: int) -> Iterator[RenderableType]:
    """Yield tables with a column per framework, as many beside each other as fit."""
    names = result["frameworks"]
    longest = max((len(printable(title)) for title, _ in rows), default=0)
    label_width = min(longest, _label_room(width, len(names)))
    at_once = max((width - label_width) // 15, 1)
    cell = min((width - label_width) // min(at_once, len(names)) - 1, 34)
    for start in range(0, len(names), at_once):
        table = _grid()
        table.add_column(first, width=label_width, overflow="fold")
        for name in names[start : start + at_once]:
            table.add_column(Text(_short(name)), justify="right", overflow="fold", width=cell)
        for title, cells in rows:
            table.add_row(Text(printable(title)), *(Text(cell) for cell in cells[start : start + at_once]))
        yield table


def _label_room(width: int, columns: int) -> int:
    """Return how wide labels may be so that four columns fit beside them."""
    return min(max(width - 15 * min(columns, 4) - 1, 12), 30)


def passes(result: Result) -> list[tuple[str, list[str]]]:
    """Return rows of what each pass cost and covered, one text a framework."""
    found = {(row["framework"], row["pass"]): row for row in result["passes"]}
    rows = []
    for name in dict.fromkeys(str(row["pass"]) for row in result["passes"]):
        rows.append((name, [_pass(found.get((framework, name), {})) for framework in result["frameworks"]]))
    for title, key in (("layers known", "layer_coverage"), ("kinds known", "kind_coverage")):
        shares = [found.get((framework, "kernels"), {}).get(key) for framework in result["frameworks"]]
        rows.append((title, [units.percent(share) for share in shares]))
    return rows


def _pass(row: Row) -> str:
    if row.get("step_median_ns") is None:
        return units.UNKNOWN
    cost = row.get("overhead")
    return units.duration(row["step_median_ns"]) + (f" {units.overhead(cost)}" if cost else "")


def _side_by_side(result: Result, table: str, unit: str, decimals: int, width: int) -> Iterator[RenderableType]:
    """Yield a side-by-side table: per framework the time, the ratio to the fastest and a bar, as far as the width allows."""
    names = result["frameworks"]
    labels = [printable(_label(row, table, width), 60) for row in result[table]]
    longest = content.longest(result, table)
    numbers = [[units.in_unit(row["time_ns"].get(name), unit, decimals) for name in names] for row in result[table]]
    totals = [units.in_unit(content.total(result, table, name), unit, decimals) for name in names]
    size = max(len(text) for texts in (*numbers, totals) for text in texts)
    least = max(size + 8, 12)  # the number, its ratio, a block, and what is between columns
    label_width = min(max(len(label) for label in [*labels, _TOTAL]), max(width - least * min(len(names), 4), 12), 30)
    at_once = max((width - label_width) // least, 1)
    cell = min((width - label_width) // min(at_once, len(names)) - 1, 34)
    for start in range(0, len(names), at_once):
        group = names[start : start + at_once]
        grid = _grid()
        grid.add_column("", width=label_width, overflow="fold")
        for name in group:
            grid.add_column(Text(_short(name)), width=cell, no_wrap=True)
        for row, label, texts in zip(result[table], labels, numbers, strict=True):
            part = zip(group, texts[start:], strict=False)
            grid.add_row(Text(label), *(_cell(row, name, f"{text:>{size}}", cell, longest) for name, text in part))
        grid.add_section()
        sums = totals[start : start + at_once]
        grid.add_row(Text(_TOTAL, style="bold"), *(Text(f"{text:>{size}}", style="bold") for text in sums))
        yield grid


def _label(row: Row, table: str, width: int) -> str:
    label = content.label(row, table)
    return label.replace("convolution", "conv").replace("gradient", "grad") if width < 100 else label


def _cell(row: Row, name: str, number: str, width: int, longest: int) -> Text:
    """Return time, ratio and bar; where there is no room for a bar, a block whose height says the same."""
    time, ratio = row["time_ns"].get(name), row["ratio"].get(name)
    cell = Text(number, style="" if time is not None else "dim")
    tight = width - len(number) < 11
    shown = units.ratio(ratio, 1 if tight else 2) if units.known(ratio) else ""
    style = "bold red" if units.known(ratio) and ratio >= _SLOW else "green" if ratio == 1 else ""
    cell.append(f" {shown:>{5 if tight else 6}}", style=style)
    room = width - len(cell)
    if room > 0 and units.known(time) and time > 0 and content.INSTRUMENTATION not in row.values():
        share = min(time / longest, 1.0)
        cell.append(_LEVELS[round(share * (len(_LEVELS) - 1))] if tight else f" {bar(share, room - 1)}", style="blue")
    return cell


def _kernels(result: Result) -> Iterator[RenderableType]:
    """Yield each framework's top kernels, what they computed and how."""
    for name in result["frameworks"]:
        yield _heading(f"{_short(name)}: top kernels")
        rows = result["kernels"].get(name) or []
        table = _grid(show_header=False)
        table.add_column(justify="right", width=9, no_wrap=True)
        table.add_column(justify="right", width=6, no_wrap=True)
        table.add_column(overflow="fold")
        for row in rows[:TOP]:
            table.add_row(units.duration(row["time_ns"]), units.percent(row["share"]), _kernel(row))
        rest = rows[TOP:]
        if rest:
            times, shares = sum(row["time_ns"] for row in rest), sum(row["share"] for row in rest)
            table.add_row(units.duration(times), units.percent(shares), Text("all other kernels", style="dim"))
        yield table if rows else Text("  no kernels were recorded", style="dim")


def _kernel(row: Row) -> Text:
    """Return a kernel as its name with kind and layer, and beneath it the problem, layouts and algorithm."""
    text = Text(printable(row["kernel"], 100), style="bold")
    where = " ".join(printable(row[key]) for key in ("layer", "phase") if row.get(key) is not None)
    text.append(f"  {printable(row.get('kind'))}" + (f" · {where}" if where else ""), style="not bold")
    keys = ("problem", "transpose", "layout", "algorithm", "dtype")
    details = [printable(row[key], 160) for key in keys if row.get(key) is not None]
    return text.append("\n" + " · ".join(details), style="not bold dim") if details else text


def _lines(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield each framework's statements with most time."""
    for name in result["frameworks"]:
        yield _heading(f"{_short(name)}: top host lines")
        part = result["lines"].get(name) or {"unavailable": "not recorded", "rows": []}
        if not part["rows"]:
            yield Text(f"  {printable(part.get('unavailable'))}", style="dim")
            continue
        table = _grid(show_header=False)
        sizes = (9, 6, min(24, width // 4))
        for justify, size in zip(("right", "right", "left"), sizes, strict=True):
            table.add_column(justify=justify, width=size, no_wrap=True)  # type: ignore[arg-type]
        table.add_column(no_wrap=True, width=max(width - sum(sizes) - 4, 10), overflow="ellipsis")
        for row in sorted((row for row in part["rows"] if row["time_ns"]), key=lambda row: -row["time_ns"])[:TOP]:
            place = "" if row["file"] is None else f"{content.short_path(row['file']).rpartition('/')[2]}:{row['line']}"
            statement = row["text"] if row["text"] is not None else row["function"]
            cells = Text(printable(place, 60), style="dim"), Text(printable(statement))
            table.add_row(units.duration(row["time_ns"]), units.percent(row["share"]), *cells)
        yield table


# Numbers that only host lines have: their own time, what they launched, the device's idle time meanwhile, line_profiler's time
_OF_LINES = {"host_ns": "host", "device_ns": "device", "idle_ns": "idle", "profiled_ns": "with calls"}


def _breakdown(result: Mapping[str, Any], most: int, width: int) -> Iterator[RenderableType]:
    title, *beside = breakdown_grid.heading(result)
    yield Text(title, style="bold")
    yield from (Text(line, style="dim") for line in beside)
    first, beneath = breakdown_grid.keys(result)
    if path := breakdown_grid.shared_path(result, most):
        yield Text(f"names of layers are below {printable(path)}", style="dim")
    if result["by"] == "step":
        yield breakdown_grid.of_steps(result, most, width)
    elif beneath:
        yield _listed(result, most, first, beneath, width)
    else:
        yield breakdown_grid.drawn(result, most, width)


def _listed(result: Mapping[str, Any], most: int, first: Sequence[str], beneath: Sequence[str], width: int) -> Table:
    """Return a table for long keys: the numbers, then all that is known of the row, which may take several lines."""
    unit, decimals = breakdown_grid.unit_of(result)
    device, host = host_rows.apart(result["by"], result["rows"])
    shown, rest = [*device[:most], *host], device[most:]
    table = _grid(show_footer=True)
    table.add_column(unit, justify="right", footer=units.in_unit(breakdown_words.whole_ns(result), unit, decimals), no_wrap=True)
    table.add_column("share", justify="right", footer="100.0%", no_wrap=True)
    more = {key: name for key, name in _OF_LINES.items() if any(row.get(key) is not None for row in shown)}
    for heading in more.values():
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("calls", justify="right", no_wrap=True)
    single = breakdown_words.executions(shown)
    single = (
        single if width >= _WIDE else {key: title for key, title in single.items() if key in ("mean_ns", breakdown_words.RATE)}
    )
    of_one = units.common_unit([row.get("mean_ns") for row in shown])
    for place, title in enumerate(single.values()):
        table.add_column(title if place else f"{title}, {of_one}", justify="right")
    table.add_column(" ".join(first), footer=breakdown_words.whole(result), overflow="fold")
    alike = Counter(_names(row, first, beneath) for row in shown)
    for place, row in enumerate(shown):
        if rest and place == most:
            table.add_row(*_more(rest, unit, decimals, len(more) + 1 + len(single)))
        named, details = _names(row, first, beneath)
        if alike[named, details] > 1:  # what tells such rows apart is in the whole names
            details = (*details, printable(row[first[0]], _WHOLE))
        name = Text(" ".join(named), style="bold")
        if details:
            name.append("\n" + " · ".join(details), style="not bold dim")
        numbers = [units.in_unit(row.get(key), unit, decimals) for key in more]
        time = units.in_unit(breakdown_words.row_ns(row), unit, decimals)
        each = [
            breakdown_words.execution(row, key) if key == breakdown_words.RATE else units.in_unit(row.get(key), of_one, 1)
            for key in single
        ]
        table.add_row(time, units.percent(row["share"]), *numbers, breakdown_grid.called(result, row), *each, name)
    if rest and not host:
        table.add_row(*_more(rest, unit, decimals, len(more) + 1 + len(single)))
    return table


def _names(row: Row, first: Sequence[str], beneath: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a row is called, and what more is known of it."""
    named = tuple(filter(None, (breakdown_grid.named(row, key) for key in first)))
    said = {row.get(first[0]), *named, "(unattributed)", "none", None}
    return named, tuple(printable(row[key], 160) for key in beneath if row.get(key) not in said)


def _more(rows: Sequence[Row], unit: str, decimals: int, blank: int) -> tuple[str | Text, ...]:
    """Return the line of rows that are not shown. blank: columns between their share and their name."""
    time_ns, share = breakdown_grid.sums(rows)
    return units.in_unit(time_ns, unit, decimals), units.percent(share), *[""] * blank, Text(f"({len(rows)} more)")
