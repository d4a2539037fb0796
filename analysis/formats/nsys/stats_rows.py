"""Rows of a Trace from one table of `nsys stats`: timed ones from traces, rows that stand for many executions from summaries."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats import printed as printed_tables
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.nsys.stats_tables import StatsTable
from kernelscope.analysis.trace import EXECUTIONS, Trace

CATEGORIES = {"CUDA_KERNEL": "kernels", "MEMORY_OPER": "copies", "CUDA_API": "calls"}
_COUNTS = ("Instances", "Num Calls", "Calls", "Count", "Operations", "Range Instances")
_NAMES = ("Name", "Operation", "Range", "Kernel Name")
_CUT = "\u2026"
_GROUPED = r"^\d{1,3}(?:\.\d{3})+$"  # ambiguous: points between thousands, or a fraction, which whole ns never have
_VERSION_SUFFIX = r"(?:_v\d+)+$"


class StatsRows(printed_tables.TableRemarks):
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
        if self.report in ("cuda_gpu_kern_sum", "cuda_gpu_kern_gb_sum"):
            self.result.info["unavailable"][EXECUTIONS] = "the table of kernels does not print how often they ran"
        return pd.Series(1, index=self.rows.index, dtype="Int64")

    def names(self) -> pd.Series:
        """Return each row's name."""
        return self.rows[name_column(self.rows)].astype("category")

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
            return frame[self.rows["Category"].map(CATEGORIES).eq(work).to_numpy()]
        return frame[(printed_tables.are_copies(self.rows[name_column(self.rows)]) == (work == "copies")).to_numpy()]

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
        """Add grid, block, registers and shared memory of each launch."""
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

    def devices(self) -> pd.Series:
        """Return the device of each row and note its name; of a table without that column it is taken to be the only one."""
        if "DevId" in self.rows:
            return ("cuda:" + self.numbers("DevId").astype("string")).astype("category")
        if "Device" not in self.rows:
            return pd.Series("cuda:0", index=self.rows.index, dtype="category")
        values = self.rows["Device"].astype("category")
        known = {}
        for text in values.cat.categories:
            match = re.fullmatch(r"(?P<name>.*?)\s*\((?P<number>\d{1,4})\)", text[: printed_tables.LONGEST_DEVICE])
            if match:
                known[text] = f"cuda:{int(match['number'])}"
                self.device(known[text], match["name"])
        return values.map(known).astype("category")

    def operations(self) -> pd.Series:
        """Return each copy's operation."""
        names = self.rows[name_column(self.rows)].astype("category")
        return names.map({name: printed_tables.operation(name) for name in names.cat.categories}).astype("category")

    def memory(self) -> pd.Series:
        """Return source and destination memory; for transfers of unified memory these are in the name."""
        names = self.rows[name_column(self.rows)].astype("category")
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
            column = name_column(size_table.rows)
            result = _bytes(size_table, "Total", self.note, "cuda_gpu_mem_size_sum")
            total = result.groupby(size_table.rows[column]).sum(min_count=1)
            frame["bytes"] = self.rows[name_column(self.rows)].map(total).astype("Int64")
        return self.usable(self.selected(frame, work), "duration_ns", "count")

    def unlisted(self, kernels: pd.DataFrame) -> pd.DataFrame:
        """Return a row for the part of a kernel summary's total that its rows lack, and note the rows' share."""
        if not self.report.startswith("cuda_gpu_kern") or "Time" not in self.rows:
            return pd.DataFrame()
        step = text_tables.resolution(self.rows["Total Time"], self.table.units.get("Total Time") or "ns")
        useless = len(self.rows) - len(kernels)
        lacking = unlisted.of(kernels["duration_ns"], self.rows.loc[kernels.index, "Time"], step, useless)
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
        """Return ranges of a summary."""
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
        """Return the rows of push/pop or of start/end ranges, if the table tells them apart."""
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
        """Return API calls of a trace."""
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


def name_column(rows: pd.DataFrame) -> str:
    """Return the title of the column with names."""
    return next(column for column in reversed(_NAMES) if column in rows)


def _bytes(table: StatsTable, column: str, note: Callable[[str], None], report: str) -> pd.Series:
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
