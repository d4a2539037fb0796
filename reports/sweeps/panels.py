"""Scaling over threads, batch sizes and devices as an interactive part of a sweep's page, one panel of `lines` at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernelscope.analysis.comparisons.scaling import efficiencies
from kernelscope.reports.interactive import Interactive
from kernelscope.reports.sweeps import cells, lines
from kernelscope.reports.sweeps.bars import STEP, Measure
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.text import printable

_AXES: tuple[tuple[str, Measure], ...] = (
    ("threads", STEP), ("threads", lines.EFFICIENCY), ("batch", STEP), ("devices", STEP), ("devices", lines.EFFICIENCY),
)  # fmt: skip
_TITLES = {STEP: "time against", lines.EFFICIENCY: "scaling efficiency over"}
_NOTE = (
    "One panel per network, mode and set-up. Times are medians of a step with 95% intervals; at an efficiency of 100%, threads "
    "or devices multiply the speed; its intervals combine the ends of both cells', so they are wider than 95%"
)


def panels(rows: Sequence[Row]) -> list[Interactive]:
    """Return the part of a sweep's page on its scaling; empty if no cells differ in threads, batch or devices alone.

    rows: see `cells.rows`.
    """
    charts = [chart for axis, measure in _AXES for chart in _charts(rows, axis, measure)]
    if not charts:
        return []
    alternative = (
        f"Lines with a point for each number of threads, samples or devices, one line per framework, in {len(charts)} panels. "
        "The same numbers are in the table of every cell, and in the tables beside the page."
    )
    return [Interactive("panels", "Scaling", "series", {"stacked": False, "charts": charts}, alternative, _NOTE)]


def _charts(rows: Sequence[Row], axis: str, measure: Measure) -> list[dict[str, Any]]:
    tried = [row for row in rows if row["status"] != "left out"]
    taken = lines.over(tried, axis)
    taken = [*efficiencies(taken, axis)] if measure is lines.EFFICIENCY else taken
    groups = cells.grouped(taken, lines.conditions(axis))
    options = cells.varying(taken, cells.OPTIONS)
    named = [name for name in cells.varying(taken, lines.conditions(axis)) if name not in ("network", "mode", "batch", "sweep")]
    several = "sweep" in cells.varying(taken, ["sweep"])
    return [_chart(members, axis, measure, options, named, several) for members in groups.values()]


def _chart(
    rows: Sequence[Row], axis: str, measure: Measure, options: Sequence[str], named: Sequence[str], several: bool
) -> dict[str, Any]:
    first = rows[0]
    where = "GPUs" if axis == "devices" and first["device"] != "cpu" else cells.setup(first, named)
    sweep = f"{printable(first['sweep'])}: " if several else ""
    places = sorted({int(row[axis]) for row in rows})
    by_line: dict[str, list[Row]] = {}
    for row in rows:
        by_line.setdefault(lines.line_of(row, options), []).append(row)
    spread = places[-1] / places[0] >= 4
    return {
        "title": f"{sweep}{cells.work(first, axis != 'batch')}; {where}: {_TITLES[measure]} {lines.TITLES[axis]}",
        "about": _without_number(rows, axis, options),
        "x": {"name": lines.TITLES[axis], "unit": "", "log": spread, "ticks": places},
        "y": {"name": "per step" if measure is STEP else "", "unit": "ns" if measure is STEP else "share"},
        "series": [_line(name, members, axis, measure) for name, members in by_line.items()],
    }


def _line(name: str, rows: Sequence[Row], axis: str, measure: Measure) -> dict[str, Any]:
    """Return one line: its points in order, null for cells without a number."""
    ordered = sorted(rows, key=lambda row: int(row[axis]))
    columns = {"y": measure.column, "low": measure.low, "high": measure.high}
    return {
        "name": printable(name),
        "x": [row[axis] for row in ordered],
        **{key: _numbers(ordered, of) for key, of in columns.items()},
    }


def _numbers(rows: Sequence[Mapping[str, Any]], column: str) -> list[float | int | None]:
    return [row.get(column) for row in rows]


def _without_number(rows: Sequence[Row], axis: str, options: Sequence[str]) -> str:
    """Return which cells did not finish, and where."""
    failed: dict[str, list[str]] = {}
    for row in rows:
        if not cells.done(row):
            failed.setdefault(str(row["status"]), []).append(f"{lines.line_of(row, options)} at {row[axis]}")
    return printable("; ".join(f"{status}: {', '.join(where)}" for status, where in failed.items()), 2000)
