"""Host lines of several frameworks side by side, a statement per row, like line_profiler's tables in the literature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelscope.analysis.attribution.lines import FILE, statements
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import Run
from kernelscope.reports import units
from kernelscope.reports.sections import PageTable, ViewCell, ViewColumn, identifier
from kernelscope.reports.sweeps import cells
from kernelscope.reports.sweeps.cells import Row
from kernelscope.reports.text import printable

_LEAST = 0.002  # of the longest statement: a statement is shown if any framework spends more on it

Key = tuple[str, int, str]  # file, line, text


def views(rows: Sequence[Row]) -> list[PageTable]:
    """Return a table per network and mode with a lines pass in any cell: ms per step, a column per framework.

    Frameworks with the same source, such as Keras's backends, share rows; a framework without a statement has a dash.
    """
    found = []
    known = [row for row in cells.at_one_setup(rows) if cells.done(row) and row.get("path")]
    for members in cells.grouped(known, ("network", "mode", "device")).values():
        columns = {str(row["framework"]): read(Path(row["path"])) for row in members}
        columns = {name: column for name, column in columns.items() if column}
        if columns:
            found.append(_view(f"{cells.work(members[0])}, {cells.device(members[0])}", columns))
    return found


def read(path: Path) -> dict[Key, float]:
    """Return ns per step, including calls, of every statement in a run folder's lines pass; {} without one."""
    try:
        restarts = [data for data in Run(path).passes("lines") if (data.folder / FILE).is_file()]
        if not restarts:
            return {}
        steps, table = len(restarts[0].measured), statements(restarts[0].folder)
    except EvidenceError:
        return {}
    keys = zip(table["file"].astype(str), table["line"].astype(int), table["text"].astype(str), strict=True)
    return {key: float(time) / steps for key, time in zip(keys, table["time_ns"], strict=True)}


def _view(work: str, columns: dict[str, dict[Key, float]]) -> PageTable:
    longest = {name: max(column.values()) for name, column in columns.items()}
    keys = sorted({key for column in columns.values() for key in column})
    shown = [key for key in keys if any(column.get(key, 0) > _LEAST * longest[name] for name, column in columns.items())]
    body = []
    for file, line, text in shown:
        times = [column.get((file, line, text)) for column in columns.values()]
        shares = [time / longest[name] if time is not None else 0.0 for name, time in zip(columns, times, strict=True)]
        where = f"{printable(Path(file).name)}:{line}"
        statement = ViewCell(printable(text), where, where, heat=min(max(shares), 1.0), code=True)
        body.append([statement, *(ViewCell(units.in_unit(time, "ms", 3), time) for time in times)])
    heads = [ViewColumn("statement"), *(ViewColumn(printable(name), True) for name in columns)]
    caption = f"{work}: host lines, ms per step including calls; from a separate pass"
    return PageTable(identifier(f"measured-lines-{work}"), caption, heads, body)
