"""CSV tables of Ascend NPUs' work: kernel_details.csv, op_summary_*.csv, op_statistic.csv, task_time_*.csv.

kernel_details (torch_npu, MindSpore) and op_summary (msprof) have a row for each operator or collective that an NPU executed,
op_statistic a row for each type with its total. The columns vary by version and by what was recorded; the ones read here have had
these names since 2022, with and without their unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_numbers, stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.ascend import tasks
from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.trace import Trace, conform

# Columns by purpose: their names in files, in lower case and without unit
_NAMES = {
    "device": ("device_id", "device id"),
    "step": ("step id", "step_id"),
    "name": ("op name", "name", "kernel_name"),
    "operator": ("op type", "type"),
    "task_type": ("task type", "accelerator core", "core type", "kernel_type"),
    "start": ("task start time", "start time", "task_start"),
    "duration": ("task duration", "duration", "task_time"),
    "stream": ("stream id", "stream_id"),
    "dtypes": ("input data types",),
    "shapes": ("input shapes",),
    "blocks": ("block dim", "block num", "block_dim", "block_num"),
    "count": ("count",),
    "total": ("total time",),
}
_TRACED, _SUMMED = ("name", "start", "duration"), ("operator", "count", "total")
_UNIT = re.compile(r"(?<!\s)\s*\((us|ns|ms|μs|µs)\)$")
_UNITS = {"μs": "us", "µs": "us"}
_NOTHING = ("N/A", "NA", "", "None")
_LATEST_US = 10**17  # a larger start is in nanoseconds: microseconds since 1970 stay below it until the year 5138
_YEAR_2001_NS = 1_000_000_000_000_000_000
_SHOWN = 40  # characters of a cell in a message
_LINES = 20  # lines in which the header may be


def matches(head: Head) -> bool:
    """Return whether one of the first lines is the header of one of these tables."""
    return any(_header(line) is not None for line in head.text.splitlines()[:_LINES])


def _header(line: str) -> dict[str, tuple[int, str | None]] | None:
    """Return position and unit of the known columns of a header; None if the line is not one.

    Other tools' tables also have names and durations; those of NPUs have a core type and either an operator type or a stream
    and a device.
    """
    if line.count(",") < 3:
        return None
    result: dict[str, tuple[int, str | None]] = {}
    cells = [cell.strip().strip('"').lstrip("\ufeff") for cell in text_tables.cells(line)]
    for place, cell in enumerate(cells):
        unit = _UNIT.search(cell)
        bare = _UNIT.sub("", cell).lower()
        for name, names in _NAMES.items():
            if bare in names and name not in result:
                result[name] = place, _UNITS.get(unit[1], unit[1]) if unit else None
    named = "task_type" in result and ("operator" in result or {"stream", "device"} <= set(result))
    complete = all(name in result for name in _TRACED) or all(name in result for name in _SUMMED)
    return result if named and complete else None


def read(path: Path) -> Trace:
    """Read a table; raise EvidenceError if it has no readable row."""
    lines = stream.lines(path)
    at = next((number for number, line in enumerate(lines[:_LINES]) if _header(line) is not None), None)
    if at is None:
        raise EvidenceError(
            f"{path}: not a table of Ascend's profilers: it lacks a header with Name, Start Time(us), Duration(us) and "
            "Accelerator Core, or with OP Type, Count and Total Time(us); export it again with its header"
        )
    header = _header(lines[at]) or {}
    width = len(text_tables.cells(lines[at]))
    try:
        cells, unread = text_tables.delimited(lines[at + 1 :], width, header.get("name", header.get("operator", (0, None)))[0])
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"{path}: the table cannot be parsed ({error}); export it again") from error
    loose = _loose(unread, width)
    cells = pd.concat([cells, loose], ignore_index=True) if len(loose) else cells
    table = _CellTable(cells, header)
    diagnostics = {"lines that cannot be read": len([line for line in unread if line.strip()]) - len(loose)}
    trace = _traced(table, diagnostics) if "start" in header else _summed(table, diagnostics)
    if not any(len(getattr(trace, name)) for name in ("kernels", "copies", "syncs")):
        raise EvidenceError(f"{path}, line {at + 1}: {table.nothing(_TRACED if 'start' in header else _SUMMED)}; export it again")
    trace.diagnostics = {name: count for name, count in diagnostics.items() if count}
    return trace


def _loose(lines: Sequence[str], width: int) -> pd.DataFrame:
    """Return rows that only Python's CSV parser can split, not the faster one: shapes have quotes within quotes."""
    rows = [row for row in map(text_tables.cells, lines) if len(row) == width]
    return pd.DataFrame(rows, dtype="str") if rows else pd.DataFrame()


class _CellTable:
    """Cells by the purpose of their column."""

    def __init__(self, cells: pd.DataFrame, header: dict[str, tuple[int, str | None]]) -> None:
        self._header = header
        self.cells = cells

    def text(self, name: str) -> pd.Series:
        """Return a column as text; null for "N/A", or if the table lacks the column."""
        if name not in self._header:
            return pd.Series(None, index=self.cells.index, dtype="str")
        column = self.cells[self._header[name][0]].str.strip("\t \"'")
        return column.where(~column.isin(_NOTHING))

    def time(self, name: str) -> pd.Series:
        """Return a column of times in ns (Int64); without a unit they are microseconds, or, if too large, ns since 1970."""
        unit = self._header[name][1]
        text = self.text(name)
        if unit is None:
            plain = text_tables.nanoseconds(text, "ns")
            unit = "ns" if len(plain) and (plain.max(skipna=True) or 0) > _LATEST_US else "us"
        if unit != "us":
            return text_tables.nanoseconds(text, unit)
        # microseconds since 1970 with three decimals have more digits than other tables' times
        values, valid = json_numbers.thousandfold([value.encode() for value in text.fillna("")])
        return pd.Series(pd.arrays.IntegerArray(values, ~valid), index=text.index)

    def nothing(self, needed: Sequence[str]) -> str:
        """Return the message that no row has the needed columns, with the first row's cells."""
        if self.cells.empty:
            return "no row below the table's header"
        units = {name: f" ({unit})" if (unit := self._header[name][1]) else "" for name in needed}
        first = ", ".join(f"{name}{units[name]} {self.text(name).fillna('').iloc[0][:_SHOWN]!r}" for name in needed)
        return f"none of the table's {len(self.cells):,} rows has a readable name and times or counts; the first: {first}"

    def whole(self, name: str) -> pd.Series:
        """Return a column of whole numbers (Int64); null for other texts."""
        return text_tables.counts(self.text(name))

    def described(self) -> dict[str, Any]:
        """Return the columns that both kinds of tables have."""
        device = self.whole("device")
        known = device.astype("string")
        return {
            "device": ("npu:" + known).fillna("npu").astype("category"),  # a file of one device may lack its number
            "operator": self.text("operator").where(self.text("operator") != "0"),
            "task_type": self.text("task_type").fillna(""),
            "dtype": autograd.of_text(self.text("dtypes"), tasks.dtype),
            "problem": self.text("shapes").astype("category"),
        }


def _traced(table: _CellTable, diagnostics: dict[str, int]) -> Trace:
    """Return rows with times as kernels, copies and waits."""
    start, duration = table.time("start"), table.time("duration")
    # rows of N/A are operators that did not run; a duration alone has no place on the timeline
    rows = pd.DataFrame(
        {"start_ns": start, "end_ns": start + duration, "thread": table.whole("stream"), "name": table.text("name")}
    ).assign(**table.described(), step=table.whole("step"))
    in_order = (rows["end_ns"] >= rows["start_ns"]).fillna(False)  # false where one of them is null, too
    usable = (in_order & rows["name"].notna()).to_numpy(dtype=bool)
    diagnostics["rows without a name or a usable time"] = int((~usable).sum())
    rows = rows[usable].astype({"start_ns": "int64", "end_ns": "int64"}).reset_index(drop=True)
    collective = autograd.where_text(rows["task_type"], lambda text: text.upper() in ("HCCL", "COMMUNICATION"))
    rows["connection"] = pd.Series(pd.NA, index=rows.index, dtype="Int64")
    rows["part"] = False
    made = tasks.sort(rows[~collective].reset_index(drop=True), rows[collective].reset_index(drop=True), diagnostics)
    clock = "wall" if len(rows) and int(rows["start_ns"].min()) > _YEAR_2001_NS else "relative"
    return Trace(
        kernels=conform("kernels", made.kernels),
        copies=conform("copies", made.copies),
        syncs=conform("syncs", made.syncs),
        info=_info(rows, clock),
    )


def _summed(table: _CellTable, diagnostics: dict[str, int]) -> Trace:
    """Return totals by operator type as kernels without times."""
    rows = pd.DataFrame(table.described()).assign(
        name=table.text("operator"), count=table.whole("count"), duration_ns=table.time("total"), library="cann"
    )
    numbered = (rows["count"] >= 1).fillna(False) & (rows["duration_ns"] >= 0).fillna(False)
    usable = (numbered & rows["name"].notna()).to_numpy(dtype=bool)
    diagnostics["rows without a name, a count or a usable time"] = int((~usable).sum())
    rows = rows[usable].reset_index(drop=True)
    info = _info(rows, "none")
    info["unavailable"] = {"times": "totals only; name kernel_details.csv or trace_view.json beside it"}
    return Trace(kernels=conform("kernels", rows), info=info)


def _info(rows: pd.DataFrame, clock: str) -> dict[str, Any]:
    devices = sorted({str(device) for device in rows["device"].unique()})
    return {
        "source": {"format": "ascend-kernels", "tool": "Ascend profiler", "version": None},
        "clock": clock,
        "devices": [{"device": device} for device in devices],
        "unavailable": {},
        "notes": ["this table has no calls, framework operators or times of steps; trace_view.json beside it has them"],
    }
