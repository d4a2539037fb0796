"""The statistics that mx.profiler.dumps() prints: totals of operators, of calls of the C API, and of the user's own ranges.

    Profile Statistics:
    operator
    =================
    Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)
    ----                          -----------        ---------    -------------    -------------    -------------
    Convolution                             4           5.4090           1.0310           1.6730           1.3522

Each section has such a table. Counters stand among times and are printed as if they were times; memory has sections of its own.
Operators are taken as in a dump (see trace.py), and so is what else the engine does but wait, such as freeing memory: in totals
it cannot be told from time in which nothing else ran. Which device ran an operator is not printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed, scopes
from kernelscope.analysis.formats.mxnet import trace as dumped
from kernelscope.analysis.trace import Trace, conform

pc: Any = pyarrow.compute  # its type stubs lack large strings

# No \s, which would take line after line of an empty file
_TITLES = r"[ \t]*Name +Total Count +Time \(ms\) +Min Time \(ms\) +Max Time \(ms\) +Avg Time \(ms\)[ \t\r]*"
_HEADER = re.compile(_TITLES)
_ROW = r"^\s*(?P<name>\S.*?) +(?P<count>\d+)" + "".join(
    rf" +(?P<{cell}>\d+\.\d{{4}})" for cell in ("total", "shortest", "longest", "average")
) + r"\s*$"  # fmt: skip
_MEMORY_ROW = re.compile(r"\s*Memory: (cpu|gpu)\b")
_RULE = re.compile(r"[\s-]+|\s*={3,}\s*")
_MEMORY = ("Device Storage", "Pool Memory")
_TABLES = {"operator": "operators", "category": "operators", "MXNET_C_API": "calls"}  # others are domains of the user's
_UNUSABLE = "rows without usable time"
_MOST_NAMES, _LONGEST_NAME = 20, 80  # of sections of the program's own, in notes
_ROUNDING = 1e-6  # MXNet prints times of 32 bits


def matches(head: Head) -> bool:
    """Return whether the text has the titles of MXNet's statistics."""
    return head.is_text and re.search(rf"^{_TITLES}$", head.tables_text, re.MULTILINE) is not None


def read(path: Path) -> Trace:
    """Return the Trace of the statistics; raise EvidenceError if they have no usable row."""
    lines = stream.table_lines(path)
    starts = [number for number, line in enumerate(lines) if "Time (ms)" in line and _HEADER.fullmatch(line)]
    result = Trace(
        info={
            "source": {"format": "mxnet-table", "tool": "mx.profiler", "version": None, "schema": None},
            "clock": "none",
            "framework": "mxnet",
            "devices": [],
            "unavailable": {"times": "totals only; profiler.dump() writes the timeline"},
            "notes": ["MXNet's times are whole microseconds"],
        }
    )
    remarks = printed.Remarks(result)
    rows = _rows(lines, starts, remarks)
    if rows.empty and _UNUSABLE in result.diagnostics:
        raise EvidenceError(f"{path}: no row of MXNet's statistics has a count and times that can be used; print them again")
    if rows.empty:
        raise EvidenceError(
            f"{path}: no operator, call or range in MXNet's statistics; set aggregate_stats=True and profile again"
        )
    engine = rows[rows["table"] == "operators"]
    waits = engine["name"].isin(dumped.WAITS)
    operation = engine["name"].map(dumped.OPERATIONS).astype("string")
    device = _device(lines)
    kernels = engine[~waits & operation.isna()]
    _note_others(engine, waits, remarks)
    phase = dumped.phases(kernels["name"])
    result.kernels = conform(
        "kernels",
        kernels.assign(
            kind=scopes.kinds(kernels["name"], phase), phase=phase, operator=kernels["name"], device=device, attribution="none"
        ),
    )
    result.copies = conform("copies", engine[operation.notna()].assign(operation=operation.dropna(), device=device))
    result.totals = conform("totals", rows.drop(index=engine.index[waits]))
    if device is None:
        remarks.note("which device ran an operator is not printed; profiler.dump() tells it")
    if not len(result.kernels):
        result.info["unavailable"]["kernels"] = "no operators are printed; switch profile_symbolic and profile_imperative on"
    return result


def _note_others(engine: pd.DataFrame, waits: pd.Series, remarks: printed.Remarks) -> None:
    """Note what of the engine's work is no operator, and whether it counts."""
    others = engine["name"].str.match(dumped.HOUSEKEEPING)
    for rows, said in ((others, "no operators, but work of MXNet's engine, which counts"), (waits, "waits, which do not count")):
        if rows.any():
            names = ", ".join(sorted(set(engine.loc[rows, "name"])))
            took = int(engine.loc[rows, "duration_ns"].sum()) / 1e6
            remarks.note(f"{names} ({took:,.3f} ms): {said}")


def _rows(lines: Sequence[str], starts: Sequence[int], remarks: printed.Remarks) -> pd.DataFrame:
    """Return the rows of all sections, whose titles are in these lines, with the table that each belongs to; none of memory."""
    if not starts:
        return pd.DataFrame()
    names = _names(lines, starts)
    strings = stream.strings_of(lines)
    section = _sections(strings, starts)
    of_memory = np.array([name in _MEMORY for name, _ in names], dtype=bool)
    chosen = (section >= 0) & ~of_memory[section]
    chosen[[number for _, number in names]] = False  # a name, where no empty line ends the section before it
    chosen &= ~np.asarray(pc.match_substring_regex(strings, pattern=f"^(?:{_RULE.pattern})$"), dtype=bool)
    cells = stream.extract(strings.filter(pa.array(chosen)), _ROW)
    shaped = cells["name"].notna()
    remarks.count("lines of tables that are no rows", int((~shaped).sum()))
    found = section[chosen][shaped.to_numpy(dtype=bool)]
    timed, kept = _timed(cells[shaped].reset_index(drop=True), remarks)
    own = [name for name in dict.fromkeys(names[number][0] for number in np.unique(found)) if name not in _TABLES]
    for name in own[:_MOST_NAMES]:
        remarks.note(f"{name[:_LONGEST_NAME]}: ranges of the program's own; a counter that was set once looks like one")
    if len(own) > _MOST_NAMES:
        remarks.note(f"{len(own) - _MOST_NAMES:,} further tables hold ranges of the program's own")
    tables = np.array([_TABLES.get(name, "ranges") for name, _ in names], dtype=object)
    return timed.assign(table=tables[found[kept]])


def _names(lines: Sequence[str], starts: Sequence[int]) -> list[tuple[str, int]]:
    """Return the name of each section, and the line that it is in.

    Titles that are repeated within a section go on with it.
    """
    named = [
        next((number for number in range(start - 1, max(start - 4, -1), -1) if not _RULE.fullmatch(lines[number] or " ")), start)
        for start in starts
    ]
    is_row = np.asarray(
        pc.match_substring_regex(stream.strings_of([lines[number] for number in named]), pattern=_ROW), dtype=bool
    )
    result: list[tuple[str, int]] = []
    of_titles = set(starts)
    for number, row in zip(named, is_row, strict=True):
        repeated = result and (row or number in of_titles)
        result.append(result[-1] if repeated else ("" if number in of_titles else lines[number].strip(), number))
    return result


def _sections(strings: pa.LargeStringArray, starts: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return for each line which section it is a row of: the last whose titles are above it, up to an empty line; -1 for none."""
    blank = np.flatnonzero(np.asarray(pc.equal(pc.utf8_trim_whitespace(strings), ""), dtype=bool))
    lines, begun = np.arange(len(strings)), np.asarray(starts, dtype=np.int64)
    result = np.searchsorted(begun, lines, side="right") - 1
    above = np.append(blank, -1)[np.searchsorted(blank, lines, side="right") - 1]
    result[(above > begun[result]) | np.isin(lines, begun)] = -1
    return result


def _timed(cells: pd.DataFrame, remarks: printed.Remarks) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """Return the rows that hold times rather than a counter's values, and which those are; count the others."""
    rows = cells[["name"]].assign(
        count=text_tables.counts(cells["count"]),
        duration_ns=text_tables.nanoseconds(cells["total"], "ms"),
        min_ns=text_tables.nanoseconds(cells["shortest"], "ms"),
        max_ns=text_tables.nanoseconds(cells["longest"], "ms"),
    )
    usable = rows.notna().all(axis=1).to_numpy(dtype=bool)
    remarks.count(_UNUSABLE, int((~usable).sum()))
    count, total, shortest, longest = (
        rows[name].to_numpy(dtype="float64", na_value=np.nan) for name in ("count", "duration_ns", "min_ns", "max_ns")
    )
    # times add up to at least the longest and as many of the shortest as there are others; a counter's last value does not
    least = longest + (count - 1) * shortest
    timed = usable & (total * (1 + _ROUNDING) >= least * (1 - _ROUNDING)) & (count > 0)
    remarks.count("counters, which are not read", int((usable & ~timed).sum()))
    return rows[timed].reset_index(drop=True), timed


def _device(lines: Sequence[str]) -> str | None:
    """Return cpu if the memory of no other device is printed; None if it is, or none at all."""
    found = {match[1] for line in lines if (match := _MEMORY_ROW.match(line))}
    return "cpu" if found == {"cpu"} else None
