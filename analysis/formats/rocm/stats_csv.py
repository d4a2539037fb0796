"""Totals as CSV: rocprofv3 --stats (*_stats.csv), rocprof --stats (*.stats.csv, *.hip_stats.csv), rocprof-compute's top kernels.

The former have the same titles. The file's name says what was summed, or the names in it do: domains, functions of HIP and HSA,
directions of copies; all other names are kernels.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.rocm import csv_tables, work
from kernelscope.analysis.formats.rocm.csv_tables import CsvTable
from kernelscope.analysis.formats.rocm.work import RowsRead
from kernelscope.analysis.trace import Trace

_TITLES = frozenset({"name", "calls", "totaldurationns"})
_OF_COMPUTE = {"kernelname": "name", "count": "calls", "sum(ns)": "totaldurationns", "pct": "percentage"}  # pmc_kernel_top.csv
_FILES = (
    (re.compile(r"domain_stats"), None),
    (re.compile(r"kernel_stats"), "kernels"),
    (re.compile(r"copy_stats"), "copies"),
    (re.compile(r"(?:marker(?:_api)?|roctx)_stats"), "ranges"),
    (re.compile(r"(?:hip|hsa|rccl|rocdecode|rocjpeg|hipfile|rocshmem)(?:_api)?_stats"), "calls"),
    (re.compile(r"(?:memory_allocation|scratch_memory)_stats"), "calls"),
)  # fmt: skip
_DOMAIN = re.compile(r"[A-Z]+(?:_[A-Z]+)*_API(?:_EXT)?|MEMORY_ALLOCATION|SCRATCH_MEMORY|OMPT|KFD(?:_[A-Z]+)*")
_FUNCTION = re.compile(
    r"(?:__)?hip[A-Z]\w*|hsa_\w+|nccl(?:All|Broadcast|Reduce|Send|Recv|Group|Comm|Get|Gather|Scatter|Bcast)\w*|roc(?:Dec|Jpeg)\w+"
)
_OF_ROCPROF = {
    "kernels": "kernel; rocprof --stats writes their totals to the file .stats.csv, those of calls to .hip_stats.csv",
    "calls": "API call; record with rocprof --hip-trace",
    "ranges": "ROCTX range; record with rocprof --roctx-trace",
}


def matches(head: Head) -> bool:
    """Return whether the first line has the titles of rocprof's totals."""
    titles = csv_tables.head_titles(head.text) if head.is_text and head.content else set()
    return {_OF_COMPUTE.get(title, title) for title in titles} >= _TITLES | {"percentage"}


def read(path: Path) -> Trace:
    """Return the Trace of a table of totals."""
    table = csv_tables.read(path)
    if set(table.rows) >= _OF_COMPUTE.keys():
        table = replace(table, rows=table.rows.rename(columns=_OF_COMPUTE))
    table.require(*sorted(_TITLES))
    findings = RowsRead()
    findings.diagnostics["lines that are no rows"] += table.unreadable
    again = table.rows.duplicated()
    findings.diagnostics["rows written twice"] += int(again.sum())
    table = replace(table, rows=table.rows[~again].reset_index(drop=True))
    frame = pd.DataFrame({"name": table.column("name").astype("object"), "count": table.numbers("calls")})
    frame["duration_ns"] = table.durations("totaldurationns")
    shortest, longest = table.durations("minns"), table.durations("maxns")
    frame["min_ns"], frame["max_ns"] = shortest.where(shortest >= 0), longest.where(longest >= 0)
    usable = (frame["duration_ns"] >= 0).fillna(False) & (frame["count"] > 0).fillna(False) & frame["name"].notna()
    findings.diagnostics["rows without a name, number or time"] += int((~usable).sum())
    frame = frame[usable]
    if frame.empty:
        raise EvidenceError(f"{path}: no row with a name, calls and a time; record again while something runs on the GPU")
    _sort_out(path, frame, findings)
    if usable.all() and not again.any():
        _complete(table, frame, findings)
    trace = findings.trace({"format": "rocprof-stats", "tool": "rocprof", "version": None, "schema": None}, [])
    _tell_how_to_record(trace, old="minns" not in table.rows)
    return trace


def _tell_how_to_record(trace: Trace, old: bool) -> None:
    """Name the options that record what is missing; old: of rocprof, whose tables lack the shortest and longest times."""
    lacking = trace.info["unavailable"]
    lacking["times"] = f"totals only; record with {'rocprof --hip-trace' if old else '--kernel-trace'} to see when kernels ran"
    for name in _OF_ROCPROF.keys() & lacking.keys() if old else ():
        lacking[name] = f"the capture holds no {_OF_ROCPROF[name]}"


def _sort_out(path: Path, frame: pd.DataFrame, findings: RowsRead) -> None:
    """Add each row to the table where it belongs."""
    domain = frame["name"].map(lambda name: name in work.DOMAINS or _DOMAIN.fullmatch(name) is not None)
    of_file = next((kind for pattern, kind in _FILES if pattern.search(path.name)), None)
    kinds = frame["name"].map(lambda name: _kind(name, of_file))
    work.add_totals(findings, frame, kinds)
    if domain.all():
        findings.notes.append("totals of whole domains, without names of kernels; name the kernel_stats.csv beside it")


def _complete(table: CsvTable, frame: pd.DataFrame, findings: RowsRead) -> None:
    """Add the part of a kernel table's total that its rows lack as one kernel, and note the rows' share."""
    of_kernels = "kernels" in findings.rows and not set(findings.rows) - {"kernels", "copies"}
    if not of_kernels or frame["name"].isin(work.DOMAINS).any():  # the missing rows may be calls
        return
    step = text_tables.resolution(table.column("totaldurationns"), "ns")
    lacking = unlisted.of(frame["duration_ns"], table.column("percentage"), step)
    if lacking.note:
        findings.add("kernels", lacking.kernels)
        findings.notes.append(lacking.note)
        findings.diagnostics["lines that are no rows"] -= table.cut


def _kind(name: str, of_file: str | None) -> str:
    """Return the table to which a row belongs; of_file: the table that the file's name indicates, if any."""
    if name in work.DOMAINS:
        return work.DOMAINS[name]
    if of_file is not None:
        return of_file
    if work.is_copy(name):
        return "copies"
    return "calls" if _DOMAIN.fullmatch(name) or _FUNCTION.fullmatch(name) else "kernels"
