"""The tables of the HTML report as plain views: the text, sort value and bar of each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelscope.analysis.kernels import short_names
from kernelscope.reports import breakdown_words, content, explanation, summary_metrics, units
from kernelscope.reports.content import Result, Row
from kernelscope.reports.text import WHOLE, printable

MOST = 5000  # rows of a breakdown in the page
WRITTEN = 300  # rows of a table that are plain HTML; further ones are packed, and a script adds them
GROUPED = ("layer", "phase", "kind", "library", "dtype", "cause", "operator")  # useful keys for grouping
# Columns of kernels that are hidden at first: with them tables are twice as wide as a screen
ASKED = ("phase", "library", "transpose", "layout", "algorithm", "dtype", "method")
FOUND = (*GROUPED, "kernel", "range", "activity", "step", "file", "function", "line")  # keys by which interactive parts find rows
_CAPTIONS = {"layers": "Layers", "kinds": "Kinds", "cells": "Layers, kinds and libraries"}
Number = int | float


@dataclass(frozen=True)
class ViewCell:
    """One cell. value: its sort value, null sorts last. note: small print, "" keeps its space. bar, heat: 0 to 1.

    link: identifier of the link's target. title: the full text, if the cell shows a short one.
    """

    text: str
    value: Number | str | None = None
    note: str | None = None
    bar: float | None = None
    heat: float | None = None
    code: bool = False
    link: str = ""
    title: str = ""


@dataclass(frozen=True)
class ViewColumn:
    """One column; numbers are aligned to the right and sorted from large to small first.

    sums: format of the sum of several rows, "" if a sum is meaningless: "duration", "count", "share", or a unit with decimals,
    such as "ms:2", after "signed:" if it has a sign. asked: hidden until the reader asks for it.
    """

    title: str
    numeric: bool = False
    sums: str = ""
    asked: bool = False


@dataclass(frozen=True)
class PageTable:
    """One table of the page. The first cell of a row is its header. `total`, the last row, is never sorted or hidden, nor is
    `below`, the row before it, which differs in kind from the rows of the table.

    anchors: identifiers of rows that other places of the page link to, in the order of the rows; "" for none. keys: values of
    each key in the order of the rows, None if the key does not apply: interactive parts find rows by them, and readers group
    rows by them. groups: the keys to group by; start: the one selected at first. ratios: whether the sums of a group are
    compared with the smallest of them. further: the row for those after the first WRITTEN if no script runs; without it, that
    row has no sums (see `rest`).
    """

    key: str
    caption: str
    columns: list[ViewColumn]
    rows: list[list[ViewCell]]
    total: list[ViewCell] = field(default_factory=list)
    tools: bool = True
    note: str = ""
    anchors: list[str] = field(default_factory=list)
    keys: Mapping[str, list[str | None]] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    start: str = ""
    ratios: bool = False
    further: list[ViewCell] = field(default_factory=list)
    below: list[ViewCell] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse rows that do not fit the columns: numbers under the wrong heading are worse than none."""
        if any(len(row) != len(self.columns) for row in [*self.rows, *filter(None, [self.total, self.below, self.further])]):
            raise ValueError(f"table {self.key}: a row has another number of cells than there are columns")
        if any(len(values) != len(self.rows) for values in self.keys.values()):
            raise ValueError(f"table {self.key}: not every row has its keys")

    @property
    def rest(self) -> list[ViewCell]:
        """The row for all but the first WRITTEN rows; empty if there are no others."""
        left = len(self.rows) - WRITTEN
        if left <= 0:
            return []
        return self.further or [ViewCell(f"({left} more)"), *[ViewCell("")] * (len(self.columns) - 1)]

    @property
    def grouped(self) -> list[str]:
        """The keys that a reader can group by: those with a value that several rows share."""
        return [name for name in self.groups if len(set(self.keys[name])) < len(self.rows)]

    @property
    def sortable(self) -> bool:
        """Whether there is something to sort: several rows, with values outside the header column."""
        return len(self.rows) > 1 and any(cell.value is not None for row in self.rows for cell in row[1:])


@dataclass(frozen=True)
class SideCard:
    """One framework on the first screen.

    causes: where it loses most to the fastest, with the identifiers of these rows. largest: for a single run, the longest rows
    of its step, as label, time with share, and identifier.
    """

    name: str
    version: str
    step: str
    ratio: str
    verdict: str
    causes: list[tuple[content.CleanDifference, str]]
    difference: str
    largest: list[tuple[str, str, str]] = field(default_factory=list)
    why: str = ""
    why_link: str = ""


def sides(result: Result) -> list[SideCard]:
    """Return the frameworks, fastest first, and where the slower ones lose time."""
    verdicts = dict(content.verdicts(result))
    explained = {part["b"]["name"]: (number, part) for number, part in enumerate(result.get("explanations") or [], 1)}
    return [
        SideCard(
            name=printable(row["framework"]),
            version=printable(row["version"]) if row.get("version") else "",
            step=units.duration(row["step_median_ns"]),
            ratio=units.ratio(row["ratio"]),
            verdict=verdicts.get(row["framework"], ""),
            causes=_causes(result, row["framework"]) if row["framework"] in verdicts else [],
            difference=units.signed(content.step_difference(result, row["framework"])),
            largest=[] if len(result["frameworks"]) > 1 else _largest(result, row),
            **_why(*explained[row["framework"]]) if row["framework"] in explained else {},
        )
        for row in content.by_speed(result)
    ]


def _largest(result: Result, summary: Row) -> list[tuple[str, str, str]]:
    """Return the layers (and phases) with the most time of a single run."""
    times = [row["time_ns"][summary["framework"]] or 0 for row in result["layers"]]
    ranked = sorted(range(len(times)), key=lambda number: -times[number])[: content.CAUSES]
    return [
        (
            printable(content.label(result["layers"][number], "layers")),
            f"{units.duration(times[number])} ({units.percent(times[number] / summary['step_median_ns'])})",
            f"layers-{number}",
        )
        for number in ranked
    ]


def _causes(result: Result, framework: str) -> list[tuple[content.CleanDifference, str]]:
    """Return where a framework loses most time, with the identifiers of these rows of layers."""
    places = {content.label(row, "layers"): f"layers-{number}" for number, row in enumerate(result["layers"])}
    return [(cause, places[cause.label]) for cause in content.causes(result, framework)]


def _why(number: int, part: Mapping[str, Any]) -> dict[str, str]:
    """Return an explanation's largest cause, or why it has none, with a link to it."""
    return {"why": explanation.brief(part)[1].partition("; ")[2], "why_link": f"#{explanation.key(number)}"}


def summary(result: Result) -> PageTable:
    """Return metrics in rows and frameworks in columns."""
    rows = [[ViewCell(title), *(ViewCell(text) for text in cells)] for title, cells in summary_metrics.summary_metrics(result)]
    columns = [ViewColumn("from the clean pass"), *(ViewColumn(printable(name), True) for name in result["frameworks"])]
    return PageTable("summary-table", "Summary of the clean pass, per step", columns, rows, tools=False)


def side_by_side(result: Result, table: str) -> PageTable:
    """Return layers or kinds with a column per framework: time, ratio to the fastest, bar; the total is the clean step."""
    names = result["frameworks"]
    unit = units.common_unit(row["step_median_ns"] for row in result["summary"])
    decimals = units.decimals_for((row["step_median_ns"] for row in result["summary"]), unit)
    longest = content.longest(result, table)
    keys = content.CELLS if table == "cells" else content.KEYS[table]
    found = _fewer(result[table], names)
    # the cost of recording always precedes the total: the visible rows add up with it
    overhead = next((row for row in found if row[keys[0]] == content.INSTRUMENTATION), None)
    places = [place for place, row in enumerate(found) if row is not overhead]
    if len(names) == 1:  # with several sides, rows keep the order of the network
        places.sort(key=lambda place: -(found[place]["time_ns"].get(names[0]) or 0))

    def cells(row: Row) -> list[ViewCell]:
        return [*(text_cell(row[key]) for key in keys), *(_timed(row, name, unit, decimals, longest) for name in names)]

    totals = [content.total(result, table, name) for name in names]
    total = [ViewCell("total = clean step"), *[ViewCell("")] * (len(keys) - 1)]
    total += [ViewCell(units.in_unit(time, unit, decimals), time, note="") for time in totals]
    columns = [ViewColumn(key) for key in keys]
    columns += [ViewColumn(printable(name), True, f"{unit}:{decimals}") for name in names]
    caption = f"{_CAPTIONS[table]}: {unit} per step"
    if len(names) > 1:
        caption = f"{_CAPTIONS[table]} side by side: {unit} per step, ratio to the fastest framework that has the row"
    cost = overhead["time_ns"].get(names[0]) if overhead and len(names) == 1 else None
    taken = f"; its cost, {units.signed(-cost)}, is subtracted in" if cost else "; its cost is in"
    caption += f" (kernels pass{taken} the row {content.INSTRUMENTATION})"
    return PageTable(
        f"{table}-table", caption, columns, [cells(found[place]) for place in places], total,
        anchors=[f"{table}-{place}" for place in places], below=cells(overhead) if overhead else [],
        keys=keys_of([found[place] for place in places], keys), groups=keys if len(keys) > 1 else (),
        start="library" if table == "cells" else "", ratios=True,
    )  # fmt: skip


def _fewer(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Return rows side by side; beyond MOST, those with the least time are merged per phase, kind and library."""
    if len(rows) <= MOST or "library" not in rows[0]:
        return list(rows)
    ranked = sorted(rows, key=lambda row: -max(abs(time or 0) for time in row["time_ns"].values()))
    kept = {id(row) for row in [*ranked[:MOST], *(row for row in rows if row["layer"] == content.INSTRUMENTATION)]}
    merged: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if id(row) not in kept:
            merged.setdefault((row["phase"], row["kind"], row["library"]), []).append(row)
    rest = [
        {
            "layer": f"({len(same)} more)", "phase": phase, "kind": kind, "library": library, "ratio": dict.fromkeys(names),
            "time_ns": {name: known_sum(row["time_ns"].get(name) for row in same) for name in names},
        }
        for (phase, kind, library), same in merged.items()
    ]  # fmt: skip
    return [*(row for row in rows if id(row) in kept), *rest]


def known_sum(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def keys_of(rows: Sequence[Mapping[str, Any]], names: Sequence[str], **fixed: str) -> dict[str, list[str | None]]:
    """Return the keys of rows for a PageTable. fixed: keys with the same value in all rows."""
    found = {name: [None if row.get(name) is None else printable(row[name], WHOLE) for row in rows] for name in names}
    return found | {name: [printable(value)] * len(rows) for name, value in fixed.items()}


def _timed(row: Row, name: str, unit: str, decimals: int, longest: int) -> ViewCell:
    time, ratio = row["time_ns"].get(name), row["ratio"].get(name)
    note = units.ratio(ratio) if units.known(ratio) else ""
    drawn = units.known(time) and content.INSTRUMENTATION not in row.values()
    bar = min(max(time, 0) / longest, 1.0) if drawn else None
    return ViewCell(units.in_unit(time, unit, decimals), time, note, bar)


def kernels(result: Result) -> list[PageTable]:
    """Return each framework's kernels, with what they computed and how; the total is the part of the step with kernels."""
    steps = {row["framework"]: row["measured_steps"] for row in result["passes"] if "measured_steps" in row}
    return [_kernels(name, result["kernels"].get(name) or [], steps.get(name)) for name in result["frameworks"]]


def _kernels(name: str, rows: Sequence[Row], steps: int | None) -> PageTable:
    """Return one side's kernels. steps: over which calls are counted; None in old recordings, whose calls are of all steps."""
    if steps:
        rows = [{**row, "count": _each(row["count"], steps), "duration_ns": row["duration_ns"] / steps} for row in rows]
    described = {
        "kind": [text_cell(row.get("kind")) for row in rows],
        "layer": [_shown(joined(row, "layer", "phase")) for row in rows],
        "problem": [_shown(joined(row, "problem", "transpose"), code=True) for row in rows],
        "layout": [text_cell(row.get("layout"), code=row.get("layout") is not None) for row in rows],
        "algorithm": [text_cell(row.get("algorithm")) for row in rows],
    }
    described = {title: cells for title, cells in described.items() if any(cell.value is not None for cell in cells)}
    single = breakdown_words.executions(rows)
    numeric = [
        *(ViewColumn(title, True, sums) for title, sums in (("time", "duration"), ("share", "share"), ("calls", "count"))),
        *(ViewColumn(title, True) for title in single.values()),
        ViewColumn("durations", True, "duration", asked=bool(single)),
    ]
    columns = [ViewColumn("kernel"), *numeric, *(ViewColumn(title, asked=title in ASKED) for title in described)]
    columns.append(ViewColumn("found by", asked=True))
    longest = max((row["time_ns"] for row in rows if row.get("kind") is not None), default=1) or 1
    apart = breakdown_words.kernels_apart(rows)
    body = []
    for place, row in enumerate(rows):
        time, share, duration, count = numbers(row, longest)
        if row.get("kind") is None:  # the row for all other kernels is no single kernel to compare
            time = replace(time, bar=None)
        notes = (printable(apart.get(str(row["kernel"]), "")), joined(row, "library", "dtype"))
        name_cell = replace(keyed(row["kernel"], "kernel"), note=" · ".join(filter(None, notes)))
        executions = (ViewCell(breakdown_words.execution(row, key), row.get(key)) for key in single)
        details = (cells[place] for cells in described.values())
        measured = [time, share, count, *executions, duration]
        body.append([name_cell, *measured, *details, text_cell(row.get("method"))])
    sums = {key: sum(row[key] for row in rows) for key in ("time_ns", "share", "duration_ns", "count")}
    time, share, duration, count = numbers(sums, longest)
    measured = [replace(time, bar=None), share, count, *[ViewCell("")] * len(single), duration]
    total = [ViewCell("all kernels"), *measured, *[ViewCell("")] * (len(described) + 1)]
    unit = "per step" if steps else "time per step; calls and durations of all steps"
    caption = f"{printable(name)}: kernels with most time in the kernels pass ({unit})"
    about = keys_of(rows, ("kernel", "kind", "library", "layer", "phase", "dtype"), side=name)
    return PageTable(
        f"kernels-{identifier(name)}", caption, columns, body, total,
        anchors=[f"kernel-{identifier(name)}-{number}" for number in range(len(rows))],
        keys=about, groups=("kernel", "kind", "library", "layer", "phase", "dtype"),
    )  # fmt: skip


def _each(count: int, steps: int) -> Number:
    """Return how many of these a step has, as an integer if it divides evenly."""
    return count // steps if count % steps == 0 else count / steps


def _shown(text: str, code: bool = False) -> ViewCell:
    """Return a cell with text that is already printable; an empty text is unknown."""
    return ViewCell(text, text, code=code) if text else ViewCell(units.UNKNOWN)


def joined(row: Row, *keys: str) -> str:
    """Return the known values of these keys, separated by spaces."""
    return " ".join(printable(row[key]) for key in keys if row.get(key) is not None)


def numbers(row: Row, longest: Number) -> list[ViewCell]:
    """Return cells of a row's time with a bar, share, durations and calls."""
    time, share, duration, count = row["time_ns"], row["share"], row["duration_ns"], row["count"]
    return [
        ViewCell(units.duration(time), time, bar=min(max(time, 0) / longest, 1.0) if units.known(time) else None),
        ViewCell(units.percent(share), share),
        ViewCell(units.duration(duration), duration),
        ViewCell(units.count(count), count),
    ]


def evidence(result: Result) -> Callable[[str | None, str | None, str | None, str | None], str]:
    """Return a function that names the best matching row on a comparison's page, "" if there is none.

    It takes a side, a layer, a phase and a kind: with a side it names a row of its kernels, without one a row of the layers.
    """
    places: dict[tuple[str | None, ...], str] = {}
    for number, row in enumerate(result["layers"]):
        places.setdefault((None, row["layer"], row["phase"], None), f"layers-{number}")
    for name in result["frameworks"]:
        for number, row in enumerate(result["kernels"].get(name) or []):  # the longest come first
            place = (name, row.get("layer"), row.get("phase"), row.get("kind"))
            places.setdefault(place, f"kernel-{identifier(name)}-{number}")
    return lambda *place: places.get(place, "")


def lines(result: Result) -> list[PageTable]:
    """Return each framework's statements in source order, with heat by time; the total is the lines pass's step."""
    return [_lines(name, result["lines"].get(name) or {"rows": []}) for name in result["frameworks"]]


def _lines(name: str, part: Mapping[str, Any]) -> PageTable:
    """Return one side's statements: from the lines pass including calls, from a timeline with each instant in one line."""
    own = any(row.get("host_ns") is not None for row in part["rows"])  # hits are of the lines pass
    columns = [ViewColumn("line"), ViewColumn("statement"), *(ViewColumn(head, True) for head in ("time", "share"))]
    columns += [] if own else [ViewColumn("hits", True)]
    rows = []
    for row in part["rows"]:
        place = units.UNKNOWN if row["line"] is None else str(row["line"])
        statement = row["text"] if row["text"] is not None else row["function"]
        heat = max(0.0, min(row["share"], 1.0))
        rows.append(
            [
                ViewCell(place, row["line"]),
                ViewCell(printable(statement), printable(statement), heat=heat, code=row["text"] is not None),
                ViewCell(units.duration(row["time_ns"]), row["time_ns"]),
                ViewCell(units.percent(row["share"]), row["share"]),
                *([] if own else [ViewCell(units.count(row["count"]), row["count"])]),
            ]
        )
    files = dict.fromkeys(printable(content.short_path(row["file"])) for row in part["rows"] if row["file"] is not None)
    total = [
        ViewCell("step"),
        ViewCell("of the kernels pass" if own else "of the lines pass"),
        ViewCell(units.duration(part.get("step_ns"))),
        ViewCell("100.0%"),
        *([] if own else [ViewCell("")]),
    ]
    note = "" if part["rows"] else printable(part.get("unavailable") or "no lines pass was recorded")
    which = "kernels pass, time without calls" if own else "lines pass, time with calls"
    caption = f"{printable(name)}, {which}: {', '.join(files)}" if files else f"{printable(name)}, {which}"
    return PageTable(f"lines-{identifier(name)}", caption, columns, rows, total if rows else [], tools=False, note=note)


def fairness(result: Result) -> PageTable:
    """Return every check of every framework."""
    titles = ("check", "framework", "status")
    columns = [*map(ViewColumn, titles), ViewColumn("found", True), ViewColumn("required", True), ViewColumn("detail")]
    rows = [
        [*(text_cell(row[key]) for key in titles), *(_quantity(row[key]) for key in ("value", "limit")), text_cell(row["detail"])]
        for row in result["fairness"]["rows"]
    ]
    return PageTable("fairness-table", "Did all do the same work?", columns, rows)


def _quantity(value: Any) -> ViewCell:
    return ViewCell(printable(content.quantity(value)), value if units.known(value) else None)


def settings(result: Result) -> PageTable:
    """Return the settings that differ between frameworks; versions have their own table."""
    rows = content.differences(result)
    return _matrix(result, "settings-table", "Settings that differ", "setting", [(row["setting"], row["values"]) for row in rows])


def versions(result: Result) -> PageTable:
    """Return the versions of everything that the frameworks reported."""
    found = result.get("versions") or {}
    names = dict.fromkeys(name for stated in found.values() for name in stated or {})
    rows = [(name, {framework: (stated or {}).get(name) for framework, stated in found.items()}) for name in sorted(names)]
    return _matrix(result, "versions-table", "Versions", "library", rows)


def methods(result: Result) -> PageTable:
    """Return how each framework's layers and phases were found, and oddities in its capture."""
    found, odd = result.get("methods") or {}, result.get("diagnostics") or {}
    names = dict.fromkeys(name for stated in found.values() for name in stated or {})
    rows = [(name, {framework: (stated or {}).get(name) for framework, stated in found.items()}) for name in names]
    counts = dict.fromkeys(name for stated in odd.values() for name, count in (stated or {}).items() if count)
    rows += [(n.replace("_", " "), {framework: (stated or {}).get(n) for framework, stated in odd.items()}) for n in counts]
    return _matrix(result, "methods-table", "How layers and phases were found, and oddities in the captures", "what", rows)


def _matrix(result: Result, key: str, caption: str, first: str, rows: Sequence[tuple[Any, Mapping[str, Any]]]) -> PageTable:
    """Return a table with a column per framework; null is unknown."""
    names = result["frameworks"]
    columns = [ViewColumn(first), *(ViewColumn(printable(name)) for name in names)]
    body = [[text_cell(name), *(text_cell(values.get(framework)) for framework in names)] for name, values in rows]
    return PageTable(key, caption, columns, body, tools=False)


def passes(result: Result) -> PageTable:
    """Return each pass's median step, its cost relative to the clean pass, and its coverage."""
    columns = [ViewColumn("framework"), ViewColumn("pass")]
    columns += [ViewColumn(title, True) for title in ("step, median of windows", "overhead", "layers known", "kinds known")]
    rows = []
    for row in result["passes"]:
        reason = printable(row["reason"]) if row.get("reason") else ""
        step = row.get("step_median_ns")
        shares = [ViewCell(units.percent(row.get(key)), row.get(key)) for key in ("layer_coverage", "kind_coverage")]
        cost = ViewCell(units.overhead(row.get("overhead")), row.get("overhead"))
        rows.append(
            [
                text_cell(row["framework"]),
                text_cell(row["pass"]),
                ViewCell(units.duration(step), step, reason or None),
                cost,
                *shares,
            ]
        )
    return PageTable("passes-table", "Cost and coverage of each pass", columns, rows, tools=False)


def keyed(value: Any, key: str) -> ViewCell:
    """Return a cell that names a row, a kernel by its short name."""
    if key == "kernel" and value is not None and not str(value).startswith("("):
        whole = printable(value, WHOLE)
        return ViewCell(printable(short_names.short(value), None), whole, code=True, title=whole)
    if key == "layer" and value is not None:
        return text_cell(value, code="/" in str(value))  # a path needs space
    return ViewCell(str(value), value) if units.known(value) else text_cell(value, code=True)


def text_cell(value: Any, code: bool = False) -> ViewCell:
    """Return a cell with text from a trace or a framework; null is unknown."""
    if value is None:
        return ViewCell(units.UNKNOWN)
    shown = printable(content.setting(value))
    return ViewCell(shown, shown, code=code)


def identifier(name: str) -> str:
    """Return a name as part of an identifier in the page: other characters than letters and digits become hyphens."""
    return "".join(character if character.isascii() and character.isalnum() else "-" for character in name)[:40]
