"""Traces as CSV: rocprofv3's *_trace.csv and counter_collection.csv, rocprofv2's results, rocprof's results.csv.

Each file holds one kind of work. Values that the file lacks are null: the process of rocprofv3's kernels, the bytes of copies.
rocprof writes only the products of launch dimensions: its grids and blocks are numbers of workgroups and of work-items.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.rocm import csv_tables, work
from kernelscope.analysis.formats.rocm.csv_tables import CsvTable
from kernelscope.analysis.formats.rocm.work import RowsRead
from kernelscope.analysis.trace import Trace

_STARTS, _ENDS = ("starttimestamp", "beginns"), ("endtimestamp", "endns")
_SIZES = tuple(f"workgroupsize{axis}" for axis in "xyz")
_GRID = tuple(f"gridsize{axis}" for axis in "xyz")
_UNTIMED = "kernels without times; record with rocprof --timestamp on, or rocprofv3 --kernel-trace"


def matches(head: Head) -> bool:
    """Return whether the first line has the titles of one of the traces."""
    return head.is_text and bool(head.content) and _kind(csv_tables.head_titles(head.text)) is not None


def read(path: Path) -> Trace:
    """Return the Trace of a table; raise EvidenceError if it is none of these traces."""
    table = csv_tables.read(path)
    reader = _kind(frozenset(table.rows.columns))
    if reader is None:
        raise EvidenceError(f"{path}, line 1: no titles of rocprof's traces; name a *_trace.csv or results.csv")
    findings = RowsRead()
    findings.diagnostics["lines that are no rows"] += table.unreadable
    reader(table, findings)
    tool = "rocprof" if "index" in table.rows else "rocprofv2" if "gpuid" in table.rows else "rocprofv3"
    return findings.trace({"format": "rocprof-csv", "tool": tool, "version": None, "schema": None}, [])


def _kind(titles: frozenset[str]) -> Callable[[CsvTable, RowsRead], None] | None:
    """Return the function that reads a table with these titles, if any."""
    if "kernelname" in titles and titles & {"gpuid", "agentid"} and titles & {"queueid", "dispatchid"}:
        return _kernels
    timed = {"starttimestamp", "endtimestamp"} <= titles
    if timed and {"direction", "correlationid"} <= titles:
        return _copies
    if timed and {"domain", "function"} <= titles:
        return _host
    if timed and {"operation", "allocationsize", "agentid"} <= titles:
        return _scratch if "address" not in titles else _memory
    return None


def _agent(text: str | None) -> str | None:
    """Return the device for "Agent 2", "GPU 0", "CPU 1" or a number."""
    words = str(text or "").split()
    if not words or not words[-1].isdecimal() or len(words[-1]) > 9:
        return None
    return work.device(int(words[-1]), words[0].lower() != "cpu")


def _agents(texts: pd.Series) -> Any:
    known = {text: _agent(text) for text in texts.dropna().unique()}
    return texts.map(known).astype("object").where(texts.notna(), None).to_numpy(object)


def _times(table: CsvTable) -> dict[str, pd.Series]:
    start, end = table.numbers(*_STARTS), table.numbers(*_ENDS)
    return {"start_ns": start, "end_ns": end, "duration_ns": end - start}


def _kernels(table: CsvTable, findings: RowsRead) -> None:
    if not set(_STARTS) & set(table.rows) or not set(_ENDS) & set(table.rows):
        raise EvidenceError(f"{table.path}, line 1: {_UNTIMED}")
    if "countername" in table.rows and "dispatchid" in table.rows:
        findings.diagnostics["values of hardware counters, which are not read"] += len(table.rows)
        table = CsvTable(table.path, table.rows.drop_duplicates(["dispatchid", "agentid"]).reset_index(drop=True), 0)
    names = table.column("kernelname")
    plain = {text: work.kernel_name(text) for text in names.dropna().unique()}
    axes = [axis for axis in (*_SIZES, *_GRID) if axis in table.rows]
    shapes = pd.DataFrame({axis: table.numbers(axis) for axis in axes}, index=names.index)
    registers = table.numbers("vgprcount", "archvgpr", "vgpr") + table.numbers("accumvgprcount", "accumvgpr").fillna(0)
    frame = pd.DataFrame(
        {
            **_times(table),
            "count": 1,
            "device": _agents(table.column("agentid", "gpuid")),
            "thread": work.stream(table.numbers("streamid"), table.numbers("queueid")),
            "name": names.map(plain).astype("object"),
            "registers": registers.where(registers.between(1, 0xFFFF)).astype("Int32"),
            "shared_memory": table.numbers("ldsblocksize", "groupsegmentsize", "ldsperworkgroup", "lds"),
            "local_memory": table.numbers("scratchsize", "privatesegmentsize", "scratchperworkitem", "scr"),
            "process": table.numbers("pid", "processid"),
            "correlation": table.numbers("correlationid"),
        }
    )
    findings.diagnostics["kernels without a name"] += int(frame["name"].isna().sum())
    frame["grid"], frame["block"] = work.shape(shapes, _GRID, _SIZES), work.shape(shapes, _SIZES)
    if len(frame) and "gridsizex" not in table.rows:
        frame["block"] = table.numbers("workgroupsize", "wgr").astype("string")
        frame["grid"] = work.number_of_blocks(table.numbers("gridsize", "grd"), table.numbers("workgroupsize", "wgr"))
        findings.notes.append("the table has no launch shapes: grid and block are numbers of workgroups and of work-items")
    findings.add("kernels", findings.timed("kernels", frame))


def _copies(table: CsvTable, findings: RowsRead) -> None:
    frame = pd.DataFrame({**_times(table), "count": 1, "thread": table.numbers("streamid")})
    frame["bytes"] = table.numbers("bytes", "size")
    frame["process"], frame["correlation"] = table.numbers("processid", "pid"), table.numbers("correlationid")
    names = pd.Categorical(table.column("direction").astype("object"))
    source, destination = (_agents(table.column(f"{side}agentid")) for side in ("source", "destination"))
    # an agent's number does not say whether it is a CPU: the direction does
    kind = pd.Series(names, dtype="object").map({name: work.operation(name) for name in names.categories})
    source = np.where(kind.str.startswith("host").fillna(False).to_numpy(bool), "cpu", source)
    destination = np.where(kind.str.endswith("host").fillna(False).to_numpy(bool), "cpu", destination)
    findings.add("copies", findings.timed("copies", work.copies(frame, names, source, destination)))


def _host(table: CsvTable, findings: RowsRead) -> None:
    process, thread = table.numbers("processid", "pid"), table.numbers("threadid", "tid")
    unknown = int((process.isna() | thread.isna()).sum())
    findings.diagnostics["calls and ranges of unknown thread, which stand on thread 0"] += unknown
    function = table.column("function").astype("object")
    rows = pd.DataFrame(
        {
            **_times(table),
            "process": process.fillna(0),
            "thread": thread.fillna(0),
            "correlation": table.numbers("correlationid"),
            "domain": table.column("domain").astype("object").fillna("").to_numpy(object),
            "function": function.to_numpy(object),
            "message": function.to_numpy(object),
        }
    )
    work.add_host_rows(findings, rows)


def _memory(table: CsvTable, findings: RowsRead) -> None:
    operation = table.column("operation").astype("object").fillna("")
    taken = operation.str.contains("ALLOC", case=False).to_numpy(bool) & ~operation.str.endswith("FREE").to_numpy(bool)
    address = table.column("address").astype("object")
    agents = table.column("agentid")
    named = _agents(agents)
    # "Agent 0" may be a CPU or a GPU
    typed = agents.str.match(r"(?:CPU|GPU) \d", case=False).fillna(False).to_numpy(bool)
    frame = pd.DataFrame(
        {
            "time_ns": table.numbers("endtimestamp"),
            "address": work.integers([_address(text) for text in address], str(table.path)),
            "bytes": table.numbers("allocationsize"),
            "device": np.where(typed, named, None),
            "thread": table.numbers("threadid"),
            "taken": (operation.str.contains("ALLOCATE", case=False) & taken).to_numpy(bool),
        }
    )
    work.allocations(findings, frame)


def _address(text: object) -> int | None:
    """Return an address such as 0x00007ffb26354000 as a number; None for the null pointer and for other texts."""
    try:
        number = int(text, 16) if isinstance(text, str) else 0
    except ValueError:
        return None
    return number if 0 < number < 1 << 63 else None


def _scratch(table: CsvTable, findings: RowsRead) -> None:
    findings.diagnostics["events of scratch memory, which are not read"] += len(table.rows)
