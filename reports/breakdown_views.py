"""Views of breakdowns and of a capture's other contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelscope.analysis.accounting.host_rows import summed_up
from kernelscope.reports import breakdown_words, units
from kernelscope.reports.content import Row
from kernelscope.reports.sections import (
    ASKED,
    FOUND,
    GROUPED,
    MOST,
    WRITTEN,
    Number,
    PageTable,
    ViewCell,
    ViewColumn,
    identifier,
    joined,
    keyed,
    keys_of,
    known_sum,
    numbers,
    text_cell,
)  # fmt: skip
from kernelscope.reports.text import printable

_OF_KERNELS = ("kernel", "layer-kernel")
_SUMS = {"time": "duration", "share": "share", "calls": "count"}
_CALL_TITLES = {
    "duration_ns": "time", "share": "share", "count": "calls", "mean_ns": "average", "median_ns": "median", "min_ns": "shortest",
    "max_ns": "longest",
}  # fmt: skip


def breakdown(part: Mapping[str, Any]) -> PageTable:
    """Return a breakdown with its total: name, times and details, without empty columns.

    Beyond MOST rows, those with the least time are merged into one. Calls and durations are per step, as times are; in a table of
    steps each row has its own time.
    """
    part, by = _of_one_step(breakdown_words.of_one_pass(part)), str(part["by"])
    device, host = summed_up(by, part["rows"])
    device, host = (device, host) if device else (host, [])
    shown, rest = device[:MOST], device[MOST:]
    rows = _Rows.of(part, [*shown, *host], max((breakdown_words.row_ns(row) for row in device or host), default=1) or 1)
    body = [*map(rows.cells, shown), *([rows.merged(rest)] if rest else [])]
    grouping = tuple(name for name in GROUPED if name in rows.known and name != by) if len(rows.known) > 2 else ()
    return PageTable(
        f"by-{identifier(by)}", _caption(part), rows.columns(part), body, rows.total(part) if shown or host else [],
        note=printable(part["unavailable"]) if part.get("unavailable") else "", below=rows.cells(host[0]) if host else [],
        keys=keys_of([*shown, *([{}] if rest else [])], [name for name in FOUND if name in rows.known]),
        groups=grouping, further=rows.merged(device[WRITTEN:]) if len(body) > WRITTEN else [],
    )  # fmt: skip


def _of_one_step(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if part["by"] == "step":
        mean = max(int(part.get("step_ns") or 0), 1)
        rows = [{**row, "time_ns": row["duration_ns"], "share": row["duration_ns"] / mean} for row in part["rows"]]
    else:
        each = {"count", "duration_ns"}
        rows = [{**row, **{name: breakdown_words.each(part, row[name]) for name in each}} for row in part["rows"]]
    return {**part, "rows": rows}


def _caption(part: Mapping[str, Any]) -> str:
    of_pass = f"{part['pass']} pass" if part.get("pass") else ""
    said = ", ".join(filter(None, [of_pass, breakdown_words.known(part)])) if part["rows"] else ""
    return f"{breakdown_words.whole(part).capitalize()} {breakdown_words.by(part)}" + (f" ({said})" if said else "")


@dataclass(frozen=True)
class _Rows:
    """How a breakdown's rows are shown. known: keys with a value in any row; the first names the row.

    beneath: keys shown beneath the name, such as a kernel's layer (a path is too long for a column) and its problem. apart: what
    distinguishes kernels of the same short name, also shown there. single: columns of single executions. timed: whether rows have
    a part of the wall time; totals only have durations. counted: whether calls and durations are known; they are not of lines
    that a timeline shows. longest: the time of a full-length bar.
    """

    known: list[str]
    keys: list[str]
    beneath: tuple[str, ...]
    apart: dict[str, str]
    single: dict[str, str]
    timed: bool
    counted: bool
    longest: Number

    @classmethod
    def of(cls, part: Mapping[str, Any], rows: Sequence[Row], longest: Number) -> _Rows:
        """Return how to show these rows of a breakdown."""
        by = part["by"]
        numbered = ("count", "duration_ns", "time_ns", "share", *breakdown_words.EXECUTIONS)
        every = [key for key in (rows[0] if rows else {}) if key not in numbered and (key, by) != ("method", "kernel")]
        known = [key for place, key in enumerate(every) if not place or any(row.get(key) is not None for row in rows)]
        own = ("layer", "phase") if by == "layer-kernel" else ()
        beneath = (*own, "problem") if by in _OF_KERNELS else ()
        timed = any(row["time_ns"] is not None for row in rows)
        apart = breakdown_words.kernels_apart(rows) if by in _OF_KERNELS else {}
        keys = [key for key in known if key not in own]
        counted = not rows or any(row["count"] is not None or row["duration_ns"] is not None for row in rows)
        return cls(known, keys, beneath, apart, breakdown_words.executions(rows), timed, counted, longest)

    def columns(self, part: Mapping[str, Any]) -> list[ViewColumn]:
        """Return the columns: the name, the numbers, the details."""
        of_kernels = part["by"] in _OF_KERNELS
        # durations repeat time and calls, unless kernels overlap in a capture shown as a whole
        overlaps = breakdown_words.overlaps(part)
        twice = of_kernels and bool(self.single) and self.timed and not overlaps
        durations = ViewColumn("durations", True, "duration", twice)
        sums = [ViewColumn(title, True, how) for title, how in _SUMS.items()]
        single = [ViewColumn(title, True) for title in self.single.values()]
        numeric = [*sums, *single, durations] if self.timed else [durations, *sums[1:], *single]
        if not self.counted:
            numeric = sums[:2]
        asked = (*ASKED, "problem", "std_ns") if of_kernels else ()
        names = [ViewColumn(breakdown_words.noun(part, key)) for key in self.keys[:1]]
        return [*names, *numeric, *(_column(key, key in asked) for key in self.keys[1:])]

    def cells(self, row: Row) -> list[ViewCell]:
        """Return a row."""
        notes = (printable(self.apart.get(str(row.get("kernel")), "")), joined(row, *self.beneath))
        name = [replace(keyed(row[key], key), note=" · ".join(filter(None, notes)) or None) for key in self.keys[:1]]
        return [*name, *self._measured(row), *(_described(row[key], key) for key in self.keys[1:])]

    def merged(self, rows: Sequence[Row]) -> list[ViewCell]:
        """Return one row for several."""
        sums = {name: known_sum(row[name] for row in rows) for name in ("time_ns", "share", "duration_ns", "count")}
        return [ViewCell(f"({len(rows)} more)"), *self._measured(sums), *self._blank()]

    def total(self, part: Mapping[str, Any]) -> list[ViewCell]:
        """Return the row that all others add up to."""
        durations = ViewCell(units.duration(breakdown_words.whole_ns(part)) if part.get("step_ns") is None else "")
        step, all_of_it = ViewCell(units.duration(part.get("step_ns")), part.get("step_ns")), ViewCell("100.0%")
        empty = [ViewCell("")] * (1 + len(self.single))
        ends = [step, all_of_it, *empty, durations] if self.timed else [durations, all_of_it, *empty]
        ends = ends if self.counted else [step, all_of_it]
        return [ViewCell(breakdown_words.whole(part)), *ends, *self._blank()]

    def _blank(self) -> list[ViewCell]:
        return [ViewCell("")] * len(self.keys[1:])

    def _measured(self, row: Row) -> list[ViewCell]:
        time, share, duration, count = numbers(row, self.longest)
        if not self.counted:
            return [time, share]
        executions = (ViewCell(breakdown_words.execution(row, key), row.get(key)) for key in self.single)
        if self.timed:
            return [time, share, count, *executions, duration]
        return [replace(duration, bar=row["duration_ns"] / self.longest), share, count, *executions]


def _column(key: str, asked: bool) -> ViewColumn:
    """Return the column of a key; times are shown with their unit."""
    title = {"profiled_ns": "with calls", "std_ns": "deviation"}.get(key, key.removesuffix("_ns"))
    return ViewColumn(title, key.endswith("_ns"), asked=asked)


def _described(value: Any, key: str) -> ViewCell:
    """Return the cell of a key after the name."""
    if key.endswith("_ns"):
        return ViewCell(units.duration(value), value)
    return text_cell(value) if key == "method" else keyed(value, key)


def calls(rows: Sequence[Mapping[str, Any]]) -> PageTable:
    """Return the calls of the device's API (analysis.accounting.calls), without empty columns."""
    known = [key for key in _CALL_TITLES if any(row[key] is not None for row in rows)]
    numeric = [ViewColumn(_CALL_TITLES[key], True, {"share": "share", "count": "count"}.get(key, "")) for key in known]
    longest = max((row["duration_ns"] for row in rows), default=1) or 1
    body = [[text_cell(row["call"]), *(_of_call(row, key, longest) for key in known)] for row in rows]
    caption = "API calls: time of the host in each, added up over threads"
    return PageTable("calls", caption, [ViewColumn("call"), *numeric], body)


def _of_call(row: Mapping[str, Any], key: str, longest: Number) -> ViewCell:
    value = row[key]
    if key == "share":
        return ViewCell(units.percent(value), value)
    if key == "count":
        return ViewCell(units.count(value), value)
    return ViewCell(units.duration(value), value, bar=value / longest if key == "duration_ns" else None)


def capture_facts(facts: Sequence[tuple[str, str]]) -> PageTable:
    """Return what was read from a capture as a table."""
    rows = [[ViewCell(name), ViewCell(printable(value))] for name, value in facts]
    return PageTable("facts-table", "What was read", [ViewColumn("what"), ViewColumn("value")], rows, tools=False)


def samples(rows: Sequence[Mapping[str, Any]]) -> PageTable:
    """Return samples summarised by device and metric (see analysis.recordings.imported.summed_samples)."""
    keys, numeric = ("device", "metric"), ("count", "mean", "min", "max")
    body = [[*(text_cell(row[key]) for key in keys), *(_sample(row[name]) for name in numeric)] for row in rows]
    columns = [*map(ViewColumn, keys), *(ViewColumn(name, True) for name in numeric)]
    return PageTable("samples-table", "Samples by device and metric", columns, body)


def _sample(value: Number | None) -> ViewCell:
    return ViewCell(f"{value:,.6g}" if units.known(value) else units.UNKNOWN, value)
