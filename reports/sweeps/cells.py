"""Cells of sweeps for reports: plain rows, their names, and the selections for figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelscope.analysis.comparisons.sweeps import DONE, Sweep
from kernelscope.reports.table import Table
from kernelscope.reports.text import printable

Row = Mapping[str, Any]
MODES = {"train": "training", "infer": "inference"}
SETUP = ("hardware", "device", "devices", "threads", "precision", "layout", "autotune")
OPTIONS = ("precision", "layout", "autotune")
# columns of the cells for reading in a terminal
READABLE = (
    "framework", "version", "network", "mode", "batch", "threads", "device", "devices", *OPTIONS, "status",
    "samples_per_second", "samples_per_second_low", "samples_per_second_high", "power_w", "gpu_memory_mib", "host_memory_mib",
    "lines_of_code", "reason",
)  # fmt: skip


def rows(sweeps: Iterable[Sweep]) -> list[dict[str, Any]]:
    """Return the cells of all sweeps as plain data with None for null, and with sweep (its name) and path (run folder or None).

    Sweeps of the same name on different hardware are shown side by side; on the same hardware a later one is called name (2).
    """
    found = []
    seen: set[tuple[str, str]] = set()
    for sweep in sweeps:
        name = _name(sweep, seen)
        for record in sweep.cells.to_dict("records"):
            row = {str(name): _plain(value) for name, value in record.items()}
            folder = row["folder"]
            found.append({"sweep": name, **row, "path": _inside(sweep.folder, folder) if folder else None})
    return found


def _name(sweep: Sweep, seen: set[tuple[str, str]]) -> str:
    """Return a unique name for a sweep and its hardware, and remember it."""
    hardware = {str(value) for value in sweep.cells["hardware"].dropna()}
    name, number = sweep.name, 1
    while any((name, one) in seen for one in hardware):
        number += 1
        name = f"{sweep.name} ({number})"
    seen.update((name, one) for one in hardware)
    return name


def _inside(root: Path, relative: str) -> Path | None:
    """Return a cell's folder; None if it is not inside the sweep's."""
    path = (root / relative).resolve()
    return path if path.is_relative_to(root.resolve()) else None


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return value
    return None if value is None or value != value or str(value) == "<NA>" else value


def table(cells: Sequence[Row]) -> Table:
    """Return cells as a table for CSV: lists are numbers separated by spaces."""
    columns = tuple(name for name in (cells[0] if cells else {}) if name != "path")
    return Table("cells", columns, [[_text(row[name]) for name in columns] for row in cells])


def _text(value: Any) -> Any:
    return " ".join(f"{number:.6g}" for number in value) if isinstance(value, list) else value


def done(row: Row) -> bool:
    """Return whether a cell finished."""
    return bool(row["status"] == DONE)


def frameworks(cells: Iterable[Row]) -> list[str]:
    """Return the frameworks in the order of the cells."""
    return list(dict.fromkeys(str(row["framework"]) for row in cells))


def work(row: Row, batch: bool = True) -> str:
    """Return the work of a cell's step: lenet, training, batch 64."""
    parts = [printable(row["network"]), MODES.get(row["mode"], printable(row["mode"]))]
    return ", ".join([*parts, f"batch {row['batch']}"] if batch else parts)


def setup(row: Row, varying: Iterable[str]) -> str:
    """Return a cell's set-up, as far as it varies: CPU, 2 threads, channels last."""
    names = set(varying)
    parts = [printable(row["hardware"])] if "hardware" in names else []
    parts.append(device(row))
    if "threads" in names and row["threads"] is not None:
        parts.append("1 thread" if row["threads"] == 1 else f"{row['threads']} threads")
    return ", ".join([*parts, *options(row, names)])


def whole_setup(row: Row) -> str:
    """Return a cell's set-up with every option that it was given: CPU, 2 threads, bfloat16."""
    return setup(row, ["threads", *(name for name in OPTIONS if row[name] is not None)])


def device(row: Row) -> str:
    """Return the kind and number of devices: CPU, 2 CPU devices, 2 GPUs."""
    count = row.get("devices") or 1
    if row["device"] == "cpu":
        return "CPU" if count == 1 else f"{count} CPU devices"
    return "1 GPU" if count == 1 else f"{count} GPUs"


def options(row: Row, varying: Iterable[str]) -> list[str]:
    """Return the options of a cell that vary, "default" for the framework's own."""
    names = set(varying)
    found = [printable(row["precision"] or "default precision")] if "precision" in names else []
    if "layout" in names:
        found.append(printable((row["layout"] or "default layout").replace("_", " ")))
    if "autotune" in names:
        found.append({True: "autotuned", False: "not autotuned"}.get(row["autotune"], "default tuning"))
    return found


def varying(cells: Sequence[Row], names: Iterable[str] = SETUP) -> list[str]:
    """Return which of these columns have more than one value."""
    return [name for name in names if len({row[name] for row in cells}) > 1]


def grouped(cells: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Return the cells grouped by these columns, in the order of the cells."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in cells:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def by_condition(cells: Iterable[Row]) -> list[list[Row]]:
    """Return the finished cells with a step time by their settings other than the framework, the shortest step first."""
    known = [row for row in cells if done(row) and row["step_ns"]]
    groups = grouped(known, ("sweep", "network", "mode", "batch", *SETUP)).values()
    return [sorted(members, key=lambda row: int(row["step_ns"])) for members in groups]


def compared(cells: Iterable[Row]) -> list[list[Row]]:
    """Return the groups of `by_condition` with at least two frameworks."""
    return [members for members in by_condition(cells) if len(frameworks(members)) > 1]


def at_one(cells: Sequence[Row], axes: Sequence[str], within: Sequence[str]) -> list[Row]:
    """Return, of the cells that agree in `within`, those with one value of `axes`: the last with the most finished cells."""
    kept: list[Row] = []
    for rows_of_one in grouped(cells, within).values():
        counts = Counter({tuple(row[name] for name in axes): 0 for row in rows_of_one})
        counts.update(tuple(row[name] for name in axes) for row in rows_of_one if done(row))
        best = max(reversed(counts), key=counts.__getitem__)
        kept += [row for row in rows_of_one if tuple(row[name] for name in axes) == best]
    return kept


def at_one_batch(cells: Sequence[Row]) -> list[Row]:
    """Return the cells of one batch size per sweep, network and mode (see `at_one`)."""
    return at_one(cells, ("batch",), ("sweep", "network", "mode"))


def at_one_setup(cells: Sequence[Row]) -> list[Row]:
    """Return the cells of one batch size, number of threads and set of options per network, mode and device."""
    return at_one(cells, ("batch", "threads", *OPTIONS), ("sweep", "hardware", "network", "mode", "device", "devices"))
