"""The statistics that mx.profiler.dumps() prints: totals of operators, of calls of the C API, and of the user's own ranges.

    Profile Statistics:
    operator
    =================
    Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)
    ----                          -----------        ---------    -------------    -------------    -------------
    Convolution                             4           5.4090           1.0310           1.6730           1.3522

Each section has such a table. Counters stand among times and are printed as if they were times; memory has sections of its own.
Operators are taken as in a dump (see trace.py). Which device ran one is not printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed, scopes
from kernelscope.analysis.formats.mxnet import trace as dumped
from kernelscope.analysis.trace import Trace, conform

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
    sections = [_section(lines, start, remarks) for start in starts]
    rows = pd.concat([section for section in sections if len(section)] or [pd.DataFrame()], ignore_index=True)
    if rows.empty:
        raise EvidenceError(
            f"{path}: no operator, call or range in MXNet's statistics; set aggregate_stats=True and profile again"
        )
    engine = rows[rows["table"] == "operators"]
    waits = engine["name"].isin(dumped.WAITS)
    operation = engine["name"].map(dumped.OPERATIONS).astype("string")
    device = _device(lines)
    kernels = engine[~waits & operation.isna() & ~engine["name"].str.match(dumped.HOUSEKEEPING)]
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


def _section(lines: Sequence[str], start: int, remarks: printed.Remarks) -> pd.DataFrame:
    """Return the rows of the section whose titles are in this line; none of memory."""
    title = next(
        (line.strip() for line in reversed(lines[max(start - 3, 0) : start]) if line.strip() and not _RULE.fullmatch(line)), ""
    )
    end = next((number for number in range(start + 1, len(lines)) if not lines[number].strip()), len(lines))
    if title in _MEMORY:
        return pd.DataFrame()
    body = [line for line in lines[start + 1 : end] if not _RULE.fullmatch(line)]
    cells = stream.extract(stream.strings_of(body), _ROW)
    shaped = cells["name"].notna()
    remarks.count("lines of tables that are no rows", int((~shaped).sum()))
    cells = cells[shaped].reset_index(drop=True)
    rows = cells[["name"]].assign(
        count=text_tables.counts(cells["count"]),
        duration_ns=text_tables.nanoseconds(cells["total"], "ms"),
        min_ns=text_tables.nanoseconds(cells["shortest"], "ms"),
        max_ns=text_tables.nanoseconds(cells["longest"], "ms"),
    )
    # times add up to at least the longest and as many of the shortest as there are others; a counter's last value does not
    least = rows["max_ns"] + (rows["count"] - 1) * rows["min_ns"]
    timed = (rows["duration_ns"] * (1 + _ROUNDING) >= least * (1 - _ROUNDING)).fillna(False) & (rows["count"] > 0)
    remarks.count("counters, which are not read", int((~timed).sum()))
    if title not in _TABLES:
        remarks.note(f"{title}: ranges of the program's own; a counter that was set once looks like one")
    return rows[timed].assign(table=_TABLES.get(title, "ranges"))


def _device(lines: Sequence[str]) -> str | None:
    """Return cpu if the memory of no other device is printed; None if it is, or none at all."""
    found = {match[1] for line in lines if (match := _MEMORY_ROW.match(line))}
    return "cpu" if found == {"cpu"} else None
