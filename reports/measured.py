"""The parts of pages about the device: its work (occupancy, copies, overlap, memory), roofline and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from kernelscope.analysis import energy as joules
from kernelscope.analysis.device import ceilings
from kernelscope.analysis.device.roofline import roofline as attained
from kernelscope.analysis.device.tables import NAMES, tables
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace
from kernelscope.reports import device, energy, figures
from kernelscope.reports.roofline import anchor
from kernelscope.reports.sections import PageTable, ViewCell, ViewColumn, text_cell
from kernelscope.reports.text import WHOLE, printable

MOST = 60  # rows of a table
_TELLING = ("occupancy", "grid", "dtype", "tensor_cores", "state")  # columns of the tables that repeat kernels' times
_ABOUT = ("name", "kind", "layer", "phase", "problem", "m", "n", "k", "transpose", "dtype", "algorithm")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class MeasuredPart:
    """One part of the section. draw: draws its figure in a style, or None. lines: the lines below its tables."""

    title: str
    views: list[PageTable]
    lines: list[str]
    draw: Callable[[figures.Style], Figure] | None = None
    alternative: str = ""


def of_run(run: Run, known: Callable[[Any], Any]) -> list[MeasuredPart]:
    """Return the roofline, the energy and the device's tables of a run, as far as it has the data.

    known: returns the best known ceilings for those in a run's record.
    """
    found = []
    record = run.record.get("ceilings") or {}
    if isinstance(record, dict) and (record.get("copies") or record.get("products")):
        against = partial(ceilings.of_record, known(record), str(run.path / "run.json"))
        found.append(_part("Roofline", lambda: roofline(attained(run.trace(), "kernel", against()).as_dict())))
    if "energy" in run.record.get("passes", {}):
        found.append(_part("Energy", lambda: _energy(run)))
    views = of_device(run.trace(), run.record)
    return [*found, *([MeasuredPart("Device", views, [])] if views else [])]


def of_device(trace: Trace, record: Mapping[str, Any] | None = None) -> list[PageTable]:
    """Return the non-empty tables of an accelerator's work; none for a processor. record: run.json of our own run."""
    if not len(trace.kernels) or set(trace.kernels["device"].dropna().astype(str)) <= {"cpu"}:
        return []
    made = tables(trace, NAMES, record)
    return [
        _view(f"device-{name}", _caption(name, rows), rows[:MOST], device.readable(rows[:MOST]))
        for name, rows in made.items()
        if not isinstance(rows, str) and (trace.has_timeline() or _tells(rows))
    ]


def _tells(rows: Sequence[Row]) -> bool:
    """Return whether a table says more than which kernels ran for how long; totals often have no more."""
    said = {str(row[name]) for row in rows for name in _TELLING if row.get(name) is not None}
    return not any(name in row for row in rows for name in _TELLING) or bool(said - {"unknown"})


def _caption(name: str, rows: Sequence[Row]) -> str:
    more = f" (the first {MOST} of {len(rows)} rows; `kernelscope device` has all)" if len(rows) > MOST else ""
    return device.TITLES[name] + device.shared_reason(rows) + more


def _part(title: str, make: Callable[[], MeasuredPart]) -> MeasuredPart:
    try:
        return make()
    except EvidenceError as error:
        return unavailable(title, str(error))


def _energy(run: Run) -> MeasuredPart:
    steps = [summary.as_dict() for summary in joules.steps(run)]
    try:
        split = joules.layers(run)
    except EvidenceError as error:
        return energies(steps, [], None, str(error))
    plain = split.rows.astype(object).where(split.rows.notna(), None).to_dict("records")
    return energies(steps, [{str(key): value for key, value in row.items()} for row in plain], split.facts, None)


def roofline(found: Mapping[str, Any]) -> MeasuredPart:
    """Return the part of a roofline by kernel (Roofline.as_dict)."""
    rows = device.rates(found)
    numbers = [{key: row[key] for key in row if key not in _ABOUT} for row in rows[:MOST]]
    shown = device.readable([{"kernel": row["name"], **more} for row, more in zip(rows, numbers, strict=False)])
    view = _view("roofline-table", "Roofline by kernel: rates, and their shares of ceilings", rows[:MOST], shown)
    view = replace(view, anchors=[anchor(place) for place in range(len(view.rows))])
    for cells, row in zip(view.rows, rows, strict=False):
        cells[0] = replace(cells[0], code=True, note=_where(row))
    left = [f"{len(rows) - MOST} more rows are in `kernelscope roofline`"] if len(rows) > MOST else []
    return MeasuredPart(
        "Roofline", [view], [*left, *device.roofline_lines(found)], lambda style: figures.roofline(found, style),
        "Attained operations per second over operations per byte, with the ceilings; the numbers are in the table Roofline.",
    )  # fmt: skip


def _where(row: Row) -> str:
    """Return where a kernel runs and what it computes."""
    known = (
        " ".join(str(row[key]) for key in keys if row.get(key) is not None)
        for keys in (("layer", "phase"), ("kind",), ("problem",))
    )
    return printable(" \u00b7 ".join(filter(None, known)))


def energies(steps: Sequence[Row], layers: Sequence[Row], facts: Mapping[str, Any] | None, reason: str | None) -> MeasuredPart:
    """Return the part on a run's energy: per step by source, and by layer with its `facts`, or the reason why not."""
    views = [_view("energy-step-table", "Energy per step", steps, [energy.readable(row) for row in steps])]
    lines = [energy.INTERVALS]
    if facts is not None:
        views.append(_view("energy-layer-table", "Energy of a step by layer", layers, [energy.readable(row) for row in layers]))
        lines += [energy.of_samples(facts), energy.REPLAY]
    return MeasuredPart("Energy", views, [*lines, *([f"by layer: {printable(reason)}"] if reason else [])])


def unavailable(title: str, reason: str) -> MeasuredPart:
    """Return a part that says why there is nothing to show."""
    return MeasuredPart(title, [], [printable(reason)])


def _view(key: str, caption: str, rows: Sequence[Row], shown: Sequence[Row]) -> PageTable:
    """Return a table of readable rows that sorts by the raw rows, whose keys may differ."""
    names = [name for name in (shown[0] if shown else ()) if any(row[name] is not None for row in shown)]
    is_number = {name: name != "evidence" and any(str(row[name])[:1].isdigit() for row in shown) for name in names}
    names = sorted(names, key=lambda name: is_number[name] and 1 + ("(ms)" not in name))  # names first, then times
    numeric = [is_number[name] for name in names]
    columns = [ViewColumn(name.replace("_", " "), number) for name, number in zip(names, numeric, strict=True)]
    body = [[_cell(name, row[name], raw) for name in names] for row, raw in zip(shown, rows, strict=True)]
    return PageTable(key, caption, columns, body)


def _cell(name: str, text: Any, raw: Row) -> ViewCell:
    """Return a cell that sorts by its number, if the raw row has one with the same meaning."""
    if text is None or isinstance(text, bool):
        return text_cell(text)
    value = next((raw[key] for key in _keys(name) if isinstance(raw.get(key), int | float)), None)
    shown = f"{text:,.2f}" if isinstance(text, float) else printable(text)
    if name in device.KERNELS:
        return ViewCell(shown, shown, code=True, title=printable(raw.get("kernel") or raw.get("name"), WHOLE))
    return ViewCell(shown, value if value is not None else shown)


def _keys(name: str) -> tuple[str, ...]:
    """Return the keys of raw rows that a heading may mean."""
    plain = name.removesuffix(" (ms)").replace(" ", "_")
    rates = {"Gflop/s": "gflops_per_s", "GB/s": "gbytes_per_s", "flop/byte": "intensity"}
    return (name, rates.get(name, plain), f"{plain}_ns", f"{plain}_uj", f"{plain}_w")
