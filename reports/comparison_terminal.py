"""Comparisons and explanations for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kernelscope.reports import (
    content,
    explanation,
    explanation_lines,
    summary_metrics,
    terminal,
    units,
)
from kernelscope.reports.breakdown_grid import TALL as TALL
from kernelscope.reports.breakdown_grid import bar
from kernelscope.reports.content import Result, Row
from kernelscope.reports.text import SENTENCE, printable

TOP = 5
FEW = 14  # lines of an explanation below a comparison's table
_LEVELS = " ▁▂▃▄▅▆▇█"
_TOTAL = "clean step"
_LEAST_BAR, _MOST_BAR = 6, 40  # columns of the bars beside step times
_SLOW = 2.0  # ratios from here on are highlighted


def comparison(result: Result) -> RenderableType:
    """Return a comparison (the result of analysis.compare) as sections, from the answer down to its foundations."""
    return terminal.Sections(lambda width: _comparison(result, width))


def explained(result: Mapping[str, Any]) -> RenderableType:
    """Return an explanation (the result of analysis.explain) as at most explanation_lines.LINES lines."""
    return terminal.Sections(lambda width: iter(explanation_lines.lines(result, width)))


def _comparison(result: Result, width: int) -> Iterator[RenderableType]:
    yield Text(printable(content.headline(result), SENTENCE), style="bold")
    yield Text(printable(content.work(result), SENTENCE), style="dim")
    yield from _answers(result, width)
    yield from _explanations(result, width)
    yield terminal.heading("Summary, per step")
    yield from _wide(result, "", summary_metrics.summary_metrics(result), width)
    for table in ("kinds", "layers"):
        unit, decimals = _unit(result)
        yield terminal.heading(f"{table.capitalize()}: {unit} per step, ratio to the fastest")
        yield from _side_by_side(result, table, unit, decimals, width)
    yield from _kernels(result)
    yield from _lines(result, width)
    yield from _trust(result, width)


def _answers(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield how much slower each framework is and where, warnings, and frameworks that were left out."""
    verdicts = dict(content.verdicts(result))
    yield from _steps(result, verdicts, width)
    for name in () if result.get("explanations") else verdicts:
        found = content.causes(result, name)
        if found:
            parts = ", ".join(f"{cause.label} {units.signed(cause.difference_ns)}" for cause in found)
            whole = units.signed(content.step_difference(result, name))
            yield terminal.bullet(name, f"most in {parts} (of {whole} in the mean)")
    for warning in content.warnings(result):
        yield terminal.bullet("warning", warning, "yellow")
    for row in result["left_out"]:
        yield terminal.bullet(row["framework"], f"left out: {row['reason']}", "yellow")


def _steps(result: Result, verdicts: Mapping[str, str], width: int) -> Iterator[RenderableType]:
    """Yield how much slower than the fastest each framework is, with its step and a bar if there is room."""
    rows = content.by_speed(result)
    names = [_short(row["framework"]) for row in rows]
    times = [units.duration(row["step_median_ns"]) for row in rows]
    said = [printable(verdicts.get(row["framework"], ""), SENTENCE) for row in rows]
    room = width - sum(max(map(cell_len, texts)) + 2 for texts in (names, times, said)) - 2
    if room < _LEAST_BAR or not verdicts:
        yield from (terminal.bullet(name, verdict) for name, verdict in verdicts.items())
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
    """Yield the first explanation, which is about the slowest framework, and the others in a line each."""
    found = result.get("explanations") or []
    if not found:
        return
    yield terminal.heading(f"Why: {explanation.title(found[0])}")
    yield from explanation_lines.lines(found[0], width, FEW if found[1:] else explanation_lines.LINES)
    for other in found[1:]:
        yield terminal.bullet(*explanation.brief(other))


def _trust(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield the foundations of the numbers: fairness, differing settings, passes and coverage, the command."""
    yield terminal.heading("Fairness")
    yield Text(printable(content.fairness_line(result), SENTENCE), style="bold red" if content.failures(result) else "")
    yield from _settings(result, width)
    yield terminal.heading("Cost of measuring, and coverage")
    yield from _wide(result, "pass", passes(result), width)
    for row in result["passes"]:
        if row.get("reason"):
            yield terminal.bullet(f"{row['framework']}, {row['pass']}", row["reason"], "yellow")
    resolution = content.resolution(result)
    if resolution:
        yield Text(printable(resolution, SENTENCE), style="dim")
    yield Text(printable(f"repeat with: {content.command(result)}", None), style="dim")


def _settings(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield the settings that differ side by side, and below them those of a single framework."""
    names = result["frameworks"]
    shared, own = [], {name: [] for name in names}  # type: ignore[var-annotated]
    for row in content.differences(result):
        title, known = str(row["setting"]).replace("_", " "), [name for name in names if row["values"].get(name) is not None]
        if len(known) == 1 < len(names):
            own[known[0]].append(f"{title} {_short(row['values'][known[0]])}")
        else:
            shared.append((title, [_short(row["values"].get(name)) for name in names]))
    if shared or any(own.values()):
        yield terminal.heading("Settings that differ")
    if shared:
        yield from _wide(result, "", shared, width)
    for name, said in own.items():
        if said:
            yield terminal.bullet(f"only {name} has", ", ".join(map(printable, said)))


def _short(value: object) -> str:
    return printable(content.setting(value), 60)


def _unit(result: Result) -> tuple[str, int]:
    times = [row["step_median_ns"] for row in result["summary"]]
    unit = units.common_unit(times)
    return unit, units.decimals_for(times, unit)


def _wide(result: Result, first: str, rows: Sequence[tuple[str, list[str]]], width: int) -> Iterator[RenderableType]:
    """Yield tables with a column per framework, as many side by side as fit."""
    names = result["frameworks"]
    longest = max((len(printable(title)) for title, _ in rows), default=0)
    label_width = min(longest, _label_room(width, len(names)))
    at_once = max((width - label_width) // 15, 1)
    cell = min((width - label_width) // min(at_once, len(names)) - 1, 34)
    for start in range(0, len(names), at_once):
        table = terminal.grid()
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
    """Return rows with the cost and coverage of each pass, one text per framework."""
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
    """Yield a side-by-side table: per framework the time, the ratio to the fastest and, if there is room, a bar."""
    names = result["frameworks"]
    labels = [printable(_label(row, table, width), 60) for row in result[table]]
    longest = content.longest(result, table)
    numbers = [[units.in_unit(row["time_ns"].get(name), unit, decimals) for name in names] for row in result[table]]
    totals = [units.in_unit(content.total(result, table, name), unit, decimals) for name in names]
    size = max(len(text) for texts in (*numbers, totals) for text in texts)
    least = max(size + 8, 12)  # the number, its ratio, a block, and the gap between columns
    label_width = min(max(len(label) for label in [*labels, _TOTAL]), max(width - least * min(len(names), 4), 12), 30)
    at_once = max((width - label_width) // least, 1)
    cell = min((width - label_width) // min(at_once, len(names)) - 1, 34)
    for start in range(0, len(names), at_once):
        group = names[start : start + at_once]
        grid = terminal.grid()
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
    """Return time, ratio and bar; without room for a bar, a block of proportional height."""
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
    """Yield each framework's top kernels, with what they computed and how."""
    for name in result["frameworks"]:
        yield terminal.heading(f"{_short(name)}: top kernels")
        rows = result["kernels"].get(name) or []
        table = terminal.grid(show_header=False)
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
    """Return a kernel's name with kind and layer, and beneath it the problem, layouts and algorithm."""
    text = Text(printable(row["kernel"], 100), style="bold")
    where = " ".join(printable(row[key]) for key in ("layer", "phase") if row.get(key) is not None)
    text.append(f"  {printable(row.get('kind'))}" + (f" · {where}" if where else ""), style="not bold")
    keys = ("problem", "transpose", "layout", "algorithm", "dtype")
    details = [printable(row[key], 160) for key in keys if row.get(key) is not None]
    return text.append("\n" + " · ".join(details), style="not bold dim") if details else text


def _lines(result: Result, width: int) -> Iterator[RenderableType]:
    """Yield each framework's statements with the most time."""
    for name in result["frameworks"]:
        yield terminal.heading(f"{_short(name)}: top host lines")
        part = result["lines"].get(name) or {"unavailable": "not recorded", "rows": []}
        if not part["rows"]:
            yield Text(f"  {printable(part.get('unavailable'))}", style="dim")
            continue
        table = terminal.grid(show_header=False)
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
