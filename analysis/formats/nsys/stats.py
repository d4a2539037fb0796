"""Tables of `nsys stats`: traces become timed rows, summaries become rows that stand for many executions.

A file often holds the same work several times (a trace and summaries of it): each kind of work is read once, from the finest
table that has it, and `info["notes"]` names the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed as printed_tables
from kernelscope.analysis.formats.nsys import stats_reports
from kernelscope.analysis.formats.nsys import stats_tables as nsys_stats
from kernelscope.analysis.formats.nsys.stats_rows import CATEGORIES, StatsRows, name_column
from kernelscope.analysis.formats.nsys.stats_tables import StatsTable
from kernelscope.analysis.trace import Trace

# The reports that have each kind of work, the finest first.
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "kernels": (
        "cuda_gpu_trace", "cuda_kern_exec_trace", "cuda_gpu_kern_gb_sum", "cuda_gpu_kern_sum", "cuda_gpu_sum", "cuda_api_gpu_sum",
    ),
    "copies": ("cuda_gpu_trace", "cuda_gpu_mem_time_sum", "cuda_gpu_sum", "cuda_api_gpu_sum"),
    "calls": ("cuda_api_trace", "cuda_kern_exec_trace", "cuda_api_sum", "cuda_api_gpu_sum"),
    "push/pop ranges": ("nvtx_pushpop_trace", "nvtx_gpu_proj_trace", "nvtx_sum", "nvtx_pushpop_sum", "nvtx_gpu_proj_sum"),
    "start/end ranges": ("nvtx_startend_trace", "nvtx_gpu_proj_trace", "nvtx_sum", "nvtx_startend_sum", "nvtx_gpu_proj_sum"),
    "os calls": ("osrt_sum",),
}  # fmt: skip
_API_NAME = r"^(?:cuda|cu)[A-Z]"
_HEADINGS = (
    re.compile(r"^[^\S\n]*\*\* [^\n]* \(\w+(?:[^\w()\n][^()\n]*)?\):?[^\S\n]*$", re.MULTILINE),
    re.compile(r"^Processing \[[^\]\n]*\] with \[[^\]\n]*\.py\]", re.MULTILINE),
    re.compile(r"^[^\S\n]*CUDA (?:API|Kernel|Memory Operation) Statistics(?: \([^)\n]*\))?:?[^\S\n]*$", re.MULTILINE),
    re.compile(r"^[^\S\n]*\[\d+/\d+\] Executing '\w+' stats report", re.MULTILINE),
)


def matches(head: Head) -> bool:
    """Return whether the file holds headings or tables of nsys stats."""
    if not head.is_text or not head.content:
        return False
    if any(heading.search(head.tables_text) for heading in _HEADINGS):
        return True
    lines = head.tables_text.splitlines()
    return any(stats_reports.by_columns(None, titles) for titles in map(stats_reports.titles_of, lines) if titles) or any(
        map(stats_reports.is_printed, nsys_stats.printed_headings(lines))
    )


def read(path: Path) -> Trace:
    """Return the Trace of the tables; raise EvidenceError if there are none, or if they come from several captures."""
    output = nsys_stats.read(path)
    tables = _by_report(path, output.tables)
    if not tables:
        why = f" ({len(output.skipped)} reports skipped for lack of data)" if output.skipped else ""
        raise EvidenceError(f"{path}: no nsys stats table with times{why}; print cuda_gpu_trace or the summaries")
    result = Trace()
    result.info = {
        "source": {"format": "nsys-stats", "tool": "nsys", "version": output.version, "schema": None},
        "clock": "none",
        "devices": [],
        "unavailable": {},
        "notes": [],
    }
    chosen = _choose(tables, output.tables, result)
    if not chosen:
        raise EvidenceError(f"{path}: no times in {', '.join(sorted(tables))}; print cuda_gpu_trace or the other summaries")
    _fill(path, tables, chosen, result)
    _explain(output, chosen, result)
    return result


def _by_report(path: Path, tables: list[StatsTable]) -> dict[str, StatsTable]:
    """Return the tables to read, by report.

    If one capture's report is there twice, the first counts; the same report of two captures is refused.
    """
    result: dict[str, StatsTable] = {}
    for table in tables:
        report = stats_reports.report_of(table)
        if report is None:
            continue
        if (
            report == "cuda_api_sum"
            and table.report is None
            and not table.rows["Name"].str.contains(_API_NAME).fillna(False).any()
        ):
            report = "osrt_sum"
        first = result.setdefault(report, table)
        if first is not table and (first.input is None or first.input != table.input):
            raise EvidenceError(
                f"{path}, lines {first.line} and {table.line}: {report} of two captures; split the file before line {table.line}"
            )
    inputs = {table.input for table in result.values()}
    if len(inputs - {None}) > 1:
        second = next(table for table in result.values() if table.input != next(iter(result.values())).input)
        raise EvidenceError(f"{path}, line {second.line}: tables of another capture start here; split the file")
    return result


def _choose(tables: Mapping[str, StatsTable], printed: list[StatsTable], result: Trace) -> dict[str, str]:
    """Return for each kind of work the report to read it from, and note the others that repeat it."""
    chosen: dict[str, str] = {}
    for work, reports in _SOURCES.items():
        having = [report for report in reports if report in tables and _has(tables[report], report, work)]
        if having:
            chosen[work] = having[0]
    used = set(chosen.values()) | {"cuda_gpu_mem_size_sum"}
    unused = sorted(set(tables) - used)
    if unused:
        result.info["notes"].append(f"{', '.join(unused)}: the same work again, not counted twice")
    others = sorted({table.report for table in printed if table.report and table.report not in tables and len(table.rows)})
    if others:
        result.info["notes"].append(f"{', '.join(others)}: tables that are not read")
    return chosen


def _has(table: StatsTable, report: str, work: str) -> bool:
    """Return whether a table has this kind of work."""
    rows = table.rows
    if "Category" in rows:
        return bool(rows["Category"].map(CATEGORIES).eq(work).any())
    if report in ("cuda_gpu_trace", "cuda_kern_exec_trace") and work in ("kernels", "copies"):
        return bool((printed_tables.are_copies(rows[name_column(rows)]) == (work == "copies")).any())
    if "Style" in rows and work.endswith("ranges"):
        return bool((rows["Style"].eq("PushPop") == work.startswith("push")).any())
    return True


def _fill(path: Path, tables: Mapping[str, StatsTable], chosen: Mapping[str, str], result: Trace) -> None:
    frames: dict[str, list[pd.DataFrame]] = {"totals": [], "ranges": []}
    process = _process(tables)
    readings = {report: StatsRows(path, report, tables[report], result) for report in sorted(set(chosen.values()))}
    for work, report in chosen.items():
        reading = readings[report]
        if work in ("kernels", "copies"):
            timed = "Start" in reading.rows or "Kernel Start" in reading.rows
            frame = (
                reading.device_work(work, process) if timed else reading.summed_work(work, tables.get("cuda_gpu_mem_size_sum"))
            )
            setattr(result, work, trace.conform(work, frame))
        elif work.endswith("ranges"):
            target = "totals" if "Start" not in reading.rows and "Orig Start" not in reading.rows else "ranges"
            frames[target].append(reading.range_totals(work) if target == "totals" else reading.ranges(work))
        elif report in ("cuda_api_trace", "cuda_kern_exec_trace"):
            result.calls = trace.conform("calls", reading.calls())
        else:
            frames["totals"].append(reading.totals("os" if work == "os calls" else "calls"))
    for reading in readings.values():
        reading.count("lines of tables that cannot be read", 0 if reading.cut_noted else reading.table.cut)
    for name, parts in frames.items():
        if parts:
            setattr(result, name, trace.conform(name, pd.concat(parts, ignore_index=True)))
    printed_tables.refuse_nothing(path, result, [reason for reading in readings.values() for reason in reading.useless])


def _process(tables: Mapping[str, StatsTable]) -> int | None:
    """Return the process if the tables name only one: device work does not name its process, and then it must be that one's."""
    result: set[int] = set()
    for table in tables.values():
        for column in ("Pid", "PID"):
            if column in table.rows:
                result |= set(text_tables.counts(table.rows[column].drop_duplicates()).dropna())
    return result.pop() if len(result) == 1 else None


def _explain(output: nsys_stats.StatsOutput, chosen: Mapping[str, str], result: Trace) -> None:
    """Note what users would expect and the file does not hold."""
    reports: dict[str, tuple[str, ...]] = {
        "kernels": ("cuda_gpu_kern_sum", "cuda_gpu_trace"),
        "calls": ("cuda_api_sum", "cuda_api_trace"),
    }
    reports |= {"copies": ("cuda_gpu_mem_time_sum",), "ranges": ("nvtx_sum", "nvtx_pushpop_sum", "nvtx_pushpop_trace")}
    have = {"ranges" if work.endswith("ranges") else work for work in chosen}
    for work, names in reports.items():
        if work not in have:
            reasons = [re.search("does not contain .*", output.skipped[name]) for name in names if name in output.skipped]
            why = next((f"the capture {match[0]}" for match in reasons if match), f"the file has no {names[0]} table")
            result.info["unavailable"][work] = why
    if result.info["clock"] == "none":
        result.info["unavailable"]["times"] = "summaries only, totals and counts; print cuda_gpu_trace too"
    elif not len(result.calls) and len(result.kernels) and result.kernels["launch_ns"].isna().all():
        result.info["unavailable"]["launches"] = "no cuda_api_trace table: the call that launched a kernel is unknown"
    called = pd.concat([result.calls["name"].astype("str"), result.totals["name"].astype("str")])
    if called.str.contains("GraphLaunch", regex=False).any():
        result.info["notes"].append("CUDA graphs were launched: if nsys traced whole graphs, their kernels are in no table")
