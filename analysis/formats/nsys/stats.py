"""Tables of `nsys stats`: traces become timed rows, summaries become rows that stand for many executions.

A file often holds the same work several times (a trace and summaries of it): each kind of work is read once, from the finest
table that has it, and `info["notes"]` names the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed as printed_tables
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.nsys import stats_tables as nsys_stats
from kernelscope.analysis.formats.nsys.stats_tables import StatsTable
from kernelscope.analysis.trace import Trace

# Columns by which a report is recognised if the file does not name it; the first match counts.
_COLUMNS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (report, frozenset(columns.split("|")))
    for report, columns in (
        ("cuda_gpu_trace", "Start|Duration|CorrId|Name"),
        ("cuda_api_trace", "Start|Duration|Name|CorrID|Pid|Tid"),
        ("cuda_kern_exec_trace", "API Start|API Dur|API Function|Kernel Start|Kernel Dur|Kernel Name|PID|TID|DevId"),
        ("nvtx_gpu_proj_trace", "Name|Projected Start|Orig Start|Orig Duration|PID|TID"),
        ("nvtx_pushpop_trace", "Start|End|Name|PID|TID|Lvl"),
        ("nvtx_startend_trace", "Start|End|Name|PID|TID"),
        ("nvtx_gpu_proj_sum", "Range|Total Range Time|Range Instances"),
        ("nvtx_kern_sum", "NVTX Range|Kernel Name|Total Time"),
        ("cuda_kern_exec_sum", "TAvg|KAvg|Kernel Name"),
        ("cuda_api_gpu_sum", "Total Time|Instances|Category|Operation"),
        ("cuda_gpu_sum", "Total Time|Instances|Category|Operation"),
        ("nvtx_sum", "Total Time|Instances|Style|Range"),
        ("nvtx_pushpop_sum", "Total Time|Instances|Range"),
        ("nvtx_startend_sum", "Total Time|Instances|Range"),
        ("cuda_gpu_mem_time_sum", "Total Time|Count|Operation"),
        ("cuda_gpu_mem_time_sum", "Total Time|Operations|Operation"),
        ("cuda_gpu_mem_time_sum", "Total Time|Operations|Name"),
        ("cuda_gpu_mem_size_sum", "Total|Count|Operation"),
        ("cuda_gpu_mem_size_sum", "Total|Operations|Operation"),
        ("cuda_gpu_mem_size_sum", "Total|Operations|Name"),
        ("cuda_gpu_kern_gb_sum", "Total Time|Instances|GridXYZ|Name"),
        ("cuda_gpu_kern_sum", "Total Time|Instances|Name"),
        ("cuda_api_sum", "Total Time|Num Calls|Name"),
        ("cuda_api_sum", "Total Time|Calls|Name"),
        ("osrt_sum", "Total Time|Num Calls|Name"),
        ("osrt_sum", "Total Time|Calls|Name"),
    )
)
# Reports of which people left columns out, by the columns with what was measured and with its name
_FEWER_COLUMNS = (
    ("cuda_gpu_mem_time_sum", "Total Time", "Operation"),
    ("cuda_gpu_mem_size_sum", "Total", "Operation"),
    ("nvtx_pushpop_sum", "Total Time", "Range"),
    ("cuda_gpu_kern_sum", "Total Time", "Name"),
)
_BESIDE = frozenset(["Time", "Instances", "Num Calls", "Calls", "Count", "Operations", "Avg", "Med", "Min", "Max", "StdDev"])
# The report that such a table with a column Name may be instead, if all of its names match; the first match counts
_BY_NAMES = (
    ("cuda_api_sum", r"(?:cuda|cu)[A-Z]\w*"),
    ("cuda_gpu_mem_time_sum", r"\[(?:CUDA|Unified Memory) .*"),
    (
        "osrt_sum",
        r"(?:epoll|pthread|sem|sched)_\w+|f?(?:read|write|close)|(?:nano|u)?sleep|(?:f?open|mmap)(?:64|at)?"
        r"|poll|select|ioctl|futex|fgets|mprotect|munmap|waitpid",
    ),
)
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
_CATEGORIES = {"CUDA_KERNEL": "kernels", "MEMORY_OPER": "copies", "CUDA_API": "calls"}
_COUNTS = ("Instances", "Num Calls", "Calls", "Count", "Operations", "Range Instances")
_NAMES = ("Name", "Operation", "Range", "Kernel Name")
_CUT = "\u2026"
_GROUPED = r"^\d{1,3}(?:\.\d{3})+$"  # ambiguous: points between thousands, or a fraction, which whole ns never have
_API_NAME = r"^(?:cuda|cu)[A-Z]"
_VERSION_SUFFIX = r"(?:_v\d+)+$"
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
    return any(_report_of(None, titles) for titles in map(_titles, lines) if titles) or any(
        map(_is_printed, nsys_stats.printed_headings(lines))
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


def _titles(line: str) -> list[str]:
    return [re.sub(r"\s*\([^()]*\)$", "", title) for title in nsys_stats.header_of(line[:2000])]


def _is_printed(heading: list[tuple[str, str | None]]) -> bool:
    """Return whether these are the titles of a report in columns, with their units.

    Other programs also print tables of total times, calls and names.
    """
    titles = [title for title, _ in heading]
    if "Total Time" in titles and _shortened(dict(heading)):
        return True
    summed = "Total Time" in titles
    ours = titles[0] in ("Time", "NVTX Range") and {"Avg", "Min", "Max"} <= set(titles)
    return _report_of(None, titles) is not None and (ours or not summed)


def _report_of(name: str | None, columns: list[str]) -> str | None:
    """Return the report of a table, None if it is not read."""
    fitting = [report for report, needed in _COLUMNS if needed <= set(columns)]
    if name in fitting:
        return name
    if name == "cuda_gpu_kern_sum" and "cuda_gpu_kern_gb_sum" in fitting:
        return name
    return fitting[0] if fitting and name is None else None


def _shortened(units: Mapping[str, str | None]) -> str | None:
    """Return the summary of which people left columns out; units: by title, in order.

    Others print such tables, too: so times must be in ns, as nsys prints them, first but for percentages, and names last.
    """
    titles = list(units)
    for report, measure, name in _FEWER_COLUMNS:
        others = set(titles) - {measure, name}
        first = measure in titles[: 1 + (titles[0] == "Time")]
        if first and titles[-1] == name and others <= _BESIDE and (units[measure] == "ns" or measure == "Total"):
            return report
    return None


def _report(table: StatsTable) -> str | None:
    """Return the report of a table with all of its columns or some, None if it is not read."""
    columns = list(table.rows.columns)
    report = _report_of(table.report, columns)
    if report is not None or not columns:
        return report
    report = _shortened({title: table.units.get(title) for title in columns})
    names = table.rows["Name"] if report == "cuda_gpu_kern_sum" else None
    alike = [] if names is None else [one for one, pattern in _BY_NAMES if names.str.fullmatch(pattern).fillna(False).all()]
    if table.report is not None:
        return table.report if table.report in (report, *alike) else None
    return alike[0] if alike and len(table.rows) else report


def _by_report(path: Path, tables: list[StatsTable]) -> dict[str, StatsTable]:
    """Return the tables to read, by report.

    If one capture's report is there twice, the first counts; the same report of two captures is refused.
    """
    result: dict[str, StatsTable] = {}
    for table in tables:
        report = _report(table)
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
        return bool(rows["Category"].map(_CATEGORIES).eq(work).any())
    if report in ("cuda_gpu_trace", "cuda_kern_exec_trace") and work in ("kernels", "copies"):
        return bool((printed_tables.are_copies(rows[_name_column(rows)]) == (work == "copies")).any())
    if "Style" in rows and work.endswith("ranges"):
        return bool((rows["Style"].eq("PushPop") == work.startswith("push")).any())
    return True


def _fill(path: Path, tables: Mapping[str, StatsTable], chosen: Mapping[str, str], result: Trace) -> None:
    frames: dict[str, list[pd.DataFrame]] = {"totals": [], "ranges": []}
    process = _process(tables)
    readings = {report: _StatsReader(path, report, tables[report], result) for report in sorted(set(chosen.values()))}
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


class _StatsReader(printed_tables.TableRemarks):
    """Turns one table into rows of a Trace, and counts oddities in the Trace's diagnostics."""

    def __init__(self, path: Path, report: str, table: StatsTable, result: Trace) -> None:
        super().__init__(result, table.rows, table.line)
        self.path, self.report, self.table = path, report, table
        self.cut_noted = False  # whether a note gives the rows' share of the total
        self.count("lines of tables that cannot be read", table.unreadable)
        self.none_of(table.unreadable + table.cut)
        if table.foreign:
            self.useless = [f"{why} (they seem to be in a locale's format; LC_ALL=C gives plain ones)" for why in self.useless]

    def ns(self, column: str) -> pd.Series:
        """Return a column of times in ns; all null if the table has no such column."""
        if column not in self.rows:
            return self.absent()
        values = self.rows[column]
        unit = self.table.units.get(column) or self.table.units.get("Total Time")
        if unit is None and values.str.contains(".", regex=False).fillna(False).any():
            raise EvidenceError(
                f"{self.path}, line {self.table.line}: column {column!r} names no unit; print it with one (no nohdrunit)"
            )
        if (unit or "ns") in ("ns", "nanoseconds"):
            values = values.mask(values.str.match(_GROUPED).fillna(False).astype(bool))
        result = text_tables.nanoseconds(values, unit or "ns")
        step = text_tables.resolution(values, unit or "ns") if unit not in (None, "ns") else 1
        if step > 1:
            self.note(f"{self.report}: times are rounded to {step} ns; --timeunit nsec prints them exactly")
        return result

    def counts(self) -> pd.Series:
        """Return how often each row's work ran; if people left the column out, 1, with a note."""
        column = next((column for column in _COUNTS if column in self.rows), None)
        if column is not None:
            return self.numbers(column)
        self.note(f"{self.report}: the table, line {self.line}, does not print the calls: a row counts as one execution")
        return pd.Series(1, index=self.rows.index, dtype="Int64")

    def names(self) -> pd.Series:
        return self.rows[_name_column(self.rows)].astype("category")

    def usable(self, frame: pd.DataFrame, *needed: str) -> pd.DataFrame:
        """Return the rows with the values that a row of the Trace needs, and count the others."""
        good = self.good(frame, *needed)
        self.count("rows without a name", int((good & frame["name"].isna()).sum()))
        cut = frame["name"].cat.categories[frame["name"].cat.categories.str.endswith(_CUT)]
        what = "kernel names cut short by the tool" if "grid" in frame else "names cut short by the tool"
        self.count(what, int(frame["name"].isin(cut).sum()))
        return frame[good] if not good.all() else frame

    def selected(self, frame: pd.DataFrame, work: str) -> pd.DataFrame:
        """Return the rows of this work: kernels or copies."""
        if "Category" in self.rows:
            return frame[self.rows["Category"].map(_CATEGORIES).eq(work).to_numpy()]
        return frame[(printed_tables.are_copies(self.rows[_name_column(self.rows)]) == (work == "copies")).to_numpy()]

    def device_work(self, work: str, process: int | None) -> pd.DataFrame:
        """Return kernels or copies of a trace, in the table's order."""
        nested = "Kernel Start" in self.rows
        start, duration = self.ns("Kernel Start" if nested else "Start"), self.ns("Kernel Dur" if nested else "Duration")
        frame = pd.DataFrame({"start_ns": start, "end_ns": start + duration, "duration_ns": duration, "name": self.names()})
        frame["count"] = 1
        frame["device"] = self.devices()
        frame["thread"] = self.numbers("Strm")
        frame["process"] = self.numbers("PID") if "PID" in self.rows else pd.array([process] * len(frame), dtype="Int64")
        frame["correlation"] = self.numbers("CorrId")
        if nested:
            frame["launch_ns"] = self.ns("API Start")
            frame["launch_end_ns"] = frame["launch_ns"] + self.ns("API Dur")
            frame["launch_thread"] = self.threads()
        if work == "kernels":
            self.add_launch_shape(frame)
        else:
            frame["operation"], frame["bytes"], frame["memory"] = self.operations(), self.bytes("Bytes"), self.memory()
        self.result.info["clock"] = "relative"
        return self.usable(self.selected(frame, work), "duration_ns")

    def add_launch_shape(self, frame: pd.DataFrame) -> None:
        frame["grid"], frame["block"] = self.shape("GridXYZ", "Grd"), self.shape("BlockXYZ", "Blk")
        frame["registers"] = self.numbers("Reg/Trd").astype("Int32")
        units = {self.table.units.get(column, "?").lower() for column in ("StcSMem", "DymSMem")}
        if units <= {"b", "byte", "bytes"}:
            frame["shared_memory"] = self.bytes("StcSMem") + self.bytes("DymSMem")
        elif "StcSMem" in self.rows:
            self.result.info["unavailable"]["shared memory"] = "the table rounds it to thousands of bytes; print it with mem=B"

    def shape(self, whole: str, prefix: str) -> pd.Series | None:
        """Return launch dimensions as x,y,z, from one column or three."""
        if whole in self.rows:
            result = self.rows[whole].str.strip().str.replace(r"\s+", ",", regex=True)
            return result.where(result.str.match(r"\d+,\d+,\d+$").fillna(False)).astype("category")
        if not {f"{prefix}{axis}" for axis in "XYZ"} <= set(self.rows.columns):
            return None
        x, y, z = (self.rows[f"{prefix}{axis}"].str.replace(" ", "", regex=False) for axis in "XYZ")
        return (x + "," + y + "," + z).astype("category")

    def devices(self) -> pd.Series | None:
        """Return the device of each row and note its name."""
        if "DevId" in self.rows:
            return ("cuda:" + self.numbers("DevId").astype("string")).astype("category")
        if "Device" not in self.rows:
            return None
        values = self.rows["Device"].astype("category")
        known = {}
        for text in values.cat.categories:
            match = re.fullmatch(r"(?P<name>.*?)\s*\((?P<number>\d{1,4})\)", text[: printed_tables.LONGEST_DEVICE])
            if match:
                known[text] = f"cuda:{int(match['number'])}"
                self.device(known[text], match["name"])
        return values.map(known).astype("category")

    def operations(self) -> pd.Series:
        names = self.rows[_name_column(self.rows)].astype("category")
        return names.map({name: printed_tables.operation(name) for name in names.cat.categories}).astype("category")

    def memory(self) -> pd.Series:
        """Return source and destination memory; for transfers of unified memory these are in the name."""
        names = self.rows[_name_column(self.rows)].astype("category")
        directions = {name: printed_tables.direction(name) if "Unified" in name else None for name in names.cat.categories}
        named = names.map(directions).astype("str")
        if "SrcMemKd" not in self.rows or "DstMemKd" not in self.rows:
            return named
        kinds = self.rows["SrcMemKd"].str.lower() + " to " + self.rows["DstMemKd"].str.lower()
        return kinds.where(kinds.notna(), named)

    def bytes(self, column: str) -> pd.Series:
        """Return sizes in bytes; null where they are rounded to 0 in larger units."""
        if column not in self.rows:
            return self.absent()
        return _bytes(self.table, column, self.note, self.report)

    def summed_work(self, work: str, size_table: StatsTable | None) -> pd.DataFrame:
        """Return kernels or copies of a summary."""
        frame = pd.DataFrame({"duration_ns": self.ns("Total Time"), "count": self.counts()})
        frame["name"] = self.names()
        for statistic, column in (("median", "Med"), ("min", "Min"), ("max", "Max"), ("std", "StdDev")):
            frame[f"{statistic}_ns"] = self.ns(column)
        if work == "kernels":
            self.add_launch_shape(frame)
            if "nvtx-name" in self.table.options:
                self.note(f"{self.report}: kernel names start with the NVTX range around them, as range/kernel")
            kernels = self.usable(self.selected(frame, work), "duration_ns", "count")
            return pd.concat([kernels, self.unlisted(kernels)])
        frame["operation"], frame["memory"] = self.operations(), self.memory()
        if size_table is not None:
            column = _name_column(size_table.rows)
            result = _bytes(size_table, "Total", self.note, "cuda_gpu_mem_size_sum")
            total = result.groupby(size_table.rows[column]).sum(min_count=1)
            frame["bytes"] = self.rows[_name_column(self.rows)].map(total).astype("Int64")
        return self.usable(self.selected(frame, work), "duration_ns", "count")

    def unlisted(self, kernels: pd.DataFrame) -> pd.DataFrame:
        """Return a row for the part of a kernel summary's total that its rows lack, and note the rows' share."""
        if not self.report.startswith("cuda_gpu_kern") or "Time" not in self.rows or len(kernels) < len(self.rows):
            return pd.DataFrame()
        step = text_tables.resolution(self.rows["Total Time"], self.table.units.get("Total Time") or "ns")
        lacking = unlisted.of(kernels["duration_ns"], self.rows["Time"], step)
        if lacking.note:
            self.cut_noted = True
            self.note(f"{self.report}: {lacking.note}")
        return lacking.kernels

    def totals(self, table: str) -> pd.DataFrame:
        """Return API or OS calls of a summary."""
        frame = pd.DataFrame({"table": table, "name": self.names(), "count": self.counts()})
        frame["duration_ns"], frame["min_ns"], frame["max_ns"] = self.ns("Total Time"), self.ns("Min"), self.ns("Max")
        if "Category" in self.rows:
            frame = frame[self.rows["Category"].eq("CUDA_API")]
        return self.usable(frame, "duration_ns")

    def range_totals(self, work: str) -> pd.DataFrame:
        projected = "Total Range Time" in self.rows
        frame = pd.DataFrame({"table": "ranges", "name": self.names(), "count": self.counts()})
        frame["duration_ns"] = self.ns("Total Range Time" if projected else "Total Time")
        frame["min_ns"], frame["max_ns"] = self.ns("Min"), self.ns("Max")
        if projected:
            self.note("nvtx_gpu_proj_sum: holds only ranges that launched GPU work")
        if _has_domains(frame["name"]):
            frame["name"] = frame["name"].astype("str").str.removeprefix(":").astype("category")
        return self.usable(self.of_style(frame, work), "duration_ns")

    def of_style(self, frame: pd.DataFrame, work: str) -> pd.DataFrame:
        if "Style" not in self.rows:
            return frame
        return frame[(self.rows["Style"].eq("PushPop") == work.startswith("push")).to_numpy()]

    def ranges(self, work: str) -> pd.DataFrame:
        """Return ranges of a trace."""
        original = "Orig Start" in self.rows
        start = self.ns("Orig Start" if original else "Start")
        end = start + self.ns("Orig Duration") if original else self.ns("End")
        early = (end < start).fillna(False)
        self.count("ends before starts", int(early.sum()))
        frame = pd.DataFrame(
            {"start_ns": start, "end_ns": end.where(~early, start), "thread": self.threads(), "name": self.names()}
        )
        frame["category"], frame["nested"] = "user", work.startswith("push")
        if _has_domains(frame["name"]):
            parts = frame["name"].astype("str").str.extract(r"^(?P<domain>[^:]*):(?P<name>(?s:.*))$")
            frame["domain"], frame["name"] = parts["domain"].where(parts["domain"] != "", None), parts["name"].astype("category")
        if original:
            self.note("nvtx_gpu_proj_trace: holds only ranges that launched GPU work")
        self.result.info["clock"] = "relative"
        return self.usable(self.of_style(frame, work), "start_ns", "end_ns", "thread")

    def calls(self) -> pd.DataFrame:
        nested = "API Start" in self.rows
        start, duration = self.ns("API Start" if nested else "Start"), self.ns("API Dur" if nested else "Duration")
        column = "API Function" if nested else "Name"
        frame = pd.DataFrame({"start_ns": start, "end_ns": start + duration, "thread": self.threads()})
        frame["process"] = self.numbers("PID" if nested else "Pid")
        frame["name"] = self.rows[column].str.replace(_VERSION_SUFFIX, "", regex=True).astype("category")
        driver = frame["name"].cat.categories.str.match(r"cu[A-Z]")
        api = dict(zip(frame["name"].cat.categories, np.where(driver, "driver", "runtime"), strict=True))
        frame["api"] = frame["name"].map(api).astype("category")
        frame["correlation"] = self.numbers("CorrID")
        if nested:
            self.note("cuda_kern_exec_trace: holds only calls that launched kernels")
        self.result.info["clock"] = "relative"
        return self.usable(frame, "start_ns", "end_ns", "thread", "process")

    def threads(self) -> pd.Series:
        """Return each row's thread: the system's id, combined with the process id if several processes use the same one."""
        low = "Tid" in self.rows
        process, thread = self.numbers("Pid" if low else "PID"), self.numbers("Tid" if low else "TID")
        pairs = pd.DataFrame({"process": process, "thread": thread}).drop_duplicates().dropna()
        if pairs["thread"].is_unique:
            return thread
        return process * 2**32 + thread % 2**32


def _name_column(rows: pd.DataFrame) -> str:
    return next(column for column in reversed(_NAMES) if column in rows)


def _bytes(table: StatsTable, column: str, note: Any, report: str) -> pd.Series:
    unit = table.units.get(column)
    if unit is None:
        return pd.Series(pd.NA, index=table.rows.index, dtype="Int64")
    result = text_tables.sizes(table.rows[column], text_tables.DECIMAL_SIZES, unit.lower())
    if text_tables.DECIMAL_SIZES.get(unit.lower(), 1) == 1:
        return result
    note(f"{report}: sizes are rounded to three decimals of {unit}; mem=B prints them exactly")
    return result.where(result > 0)


def _has_domains(names: pd.Series) -> bool:
    """Return whether ranges are named domain:name (newer versions); in the default domain nothing precedes the colon."""
    distinct = names.dropna().unique().astype("str")
    return bool(len(distinct) and all(":" in name for name in distinct) and any(name.startswith(":") for name in distinct))


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
