"""Tables that nvprof prints: traces become timed rows, summaries become rows that stand for many executions.

nvprof does not print threads. Its text has five digits of every time, its CSV six decimals of a column's unit: `info["notes"]`
gives the coarsest step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed as printed_tables
from kernelscope.analysis.formats import unlisted
from kernelscope.analysis.formats.nvprof import printed_tables as nvprof_table
from kernelscope.analysis.formats.nvprof import size_units, untitled
from kernelscope.analysis.formats.nvprof.printed_tables import NvprofOutput, PrintedTable
from kernelscope.analysis.trace import Trace, page_faults

_BANNERS = re.compile(
    r"(?<!=)={2,}\d+={2,} (?:NVPROF is profiling process|Profiling application:|Profiling result:|API calls:"
    r"|Unified Memory profiling result:)"
    r"|^={4,} (?:Profiling result:|CPU profiling result|NVTX result:|Unified Memory profiling result:)",
    re.MULTILINE,
)
_TRACE = {"Start", "Duration", "Name"}
# Columns that only traces of GPU work have
_OF_GPU = {
    "Grid Size", "Block Size", "Grid X", "Block X", "Regs", "Registers Per Thread", "SSMem", "DSMem", "Static SMem",
    "Dynamic SMem", "Size", "SrcMemType", "DstMemType", "Context", "Stream",
}  # fmt: skip
_API = r"cu(?:da)?[A-Z]\w*(?: \(.*\))?(?: \[\d+\])?$"
_LONGEST = 1000  # characters of a line of titles, and of a row that are looked at
_SUMMARY = {"Time", "Calls", "Name"}
_UNIFIED = {"Count", "Total Size", "Total Time", "Name"}
_GROUPS, _REMOTE = "gpu page fault groups", "remote mapping from device"  # rows of a unified memory table
_GPU_FAULTS, _CPU_FAULTS = "[Unified Memory GPU page faults]", "[Unified Memory CPU page faults]"
_CORRELATION = r"^(?P<name>(?s:.*\S)) \[(?P<correlation>\d{1,10})\]$"
_LAUNCHED = r"^(?P<name>\w+) \((?s:.*) \[(?P<correlation>\d{1,10})\]\)$"  # in text, a call with the kernel that it launched
_MARKS = ("[Range start] ", "[Range end] ", "[Marker] ")
_MARKER = r"^\[(?P<edge>Range start|Range end|Marker)\] (?P<name>(?s:.*?))(?: \(Domain: (?P<domain>[^()]*)\))?$"
_NAMED = 3  # unreadable lines in notes
_SHOWN = 160  # characters of a row in a message
_CUT_DEVICE = 15  # characters to which nvprof's text cuts a device's name, losing its number
_COARSE = 100  # rounding to more than one 100th of all times is told first
_SECOND = 10**9  # finer rounding is that of calls, which the sum of kernels and copies does not hold
_CONFIRMED, _SHARE_STEP = 0.02, 0.01  # of a time, and in percent: its share may be off by as much and confirms it
_UNKNOWN_PROCESS = 0  # no process that uses a GPU has this id


def matches(head: Head) -> bool:
    """Return whether the file holds nvprof's banners or the header of one of its traces or summaries."""
    if not head.is_text or not head.content:
        return False
    if _BANNERS.search(head.tables_text):
        return True
    lines = head.tables_text.splitlines()
    return any(_is_titled(line) for line in lines if len(line) < _LONGEST) or any(
        untitled.titles(line[:_LONGEST]) for line in lines
    )


def _is_titled(line: str) -> bool:
    """Return whether a line has the titles of a summary or of a GPU trace, from which people may have cut columns."""
    titles = set(nvprof_table.header_of(line))
    return {"Time(%)"} | _SUMMARY <= titles or (titles >= _TRACE and bool(_OF_GPU & titles))


def read(path: Path) -> Trace:
    """Return the Trace of the tables; raise EvidenceError if none has times of GPU work or of calls."""
    output = nvprof_table.read(path)
    result = Trace()
    result.info = {
        "source": {"format": "nvprof-table", "tool": "nvprof", "version": None, "schema": None},
        "clock": "none",
        "devices": [],
        "unavailable": {},
        "notes": [],
    }
    frames: dict[str, list[pd.DataFrame]] = {}
    steps: dict[str, int] = {}
    sizes = size_units.of(output.tables)
    readings = [_PrintedReader(table, result, steps, sizes) for table in output.tables]
    for reading in readings:
        for name, frame in reading.frames(output.tables).items():
            if len(frame):
                frames.setdefault(name, []).append(frame)
    if not readings or all(not reading.known for reading in readings):
        raise EvidenceError(f"{path}: {_nothing(output)}")
    if output.counters:
        result.diagnostics["rows of hardware metrics and events"] = output.counters
    if output.cpu_faults:
        of_cpu = page_faults.summed(pd.Series([], dtype="Int64"), sum(output.cpu_faults.values()))
        frames.setdefault("totals", []).append(of_cpu)
    for name, parts in frames.items():
        setattr(result, name, trace.conform(name, pd.concat(parts, ignore_index=True)))
    _explain(output, steps, result)
    printed_tables.refuse_nothing(path, result, [reason for reading in readings for reason in reading.useless])
    return result


def _nothing(output: NvprofOutput) -> str:
    """Return why a log yields nothing."""
    sections = sorted({table.section for table in output.tables})
    if "CPU profiling result" in sections:
        return "only samples of CPU functions (--cpu-profiling), no GPU work; record with --print-gpu-trace"
    if not sections and output.idle:
        return "nvprof says that no kernels were profiled; record a run that uses the GPU"
    if not sections and output.counters:
        return (
            "only hardware metrics and events, which have no times; record the program once more without --metrics and --events"
        )
    if not sections and output.announced:
        return (
            "nvprof announces its result, but no table follows; "
            "remove prefixes of lines (ranks, times, quotes) and keep columns apart"
        )
    what = f"no trace or summary in {', '.join(sections)}" if sections else "no table of nvprof, only its messages"
    return f"{what}; record with --print-gpu-trace or without print options"


class _PrintedReader(printed_tables.TableRemarks):
    """Turns one table into rows of a Trace, and counts oddities in the Trace's diagnostics."""

    def __init__(self, table: PrintedTable, result: Trace, steps: dict[str, int], sizes: dict[str, int]) -> None:
        """steps: the coarsest rounding of times in ns, by column; filled here. sizes: bytes of each unit of size."""
        super().__init__(result, table.rows, table.line)
        self.steps, self.sizes, self.table = steps, sizes, table
        self.columns = set(table.rows.columns)
        self.known = False
        self.cut_noted = False  # whether a note gives the share of the total that the rows of GPU activities have
        times = next((table.rows[name] for name in ("Duration", "Time") if name in self.columns), pd.Series(dtype="str"))
        if not table.units and times.str.fullmatch(r"[\d.,]+").fillna(False).astype(bool).any():
            self.hint = " (no row of known units is below its header)"

    def frames(self, tables: list[PrintedTable]) -> dict[str, pd.DataFrame]:
        """Return rows by table of the Trace; none for a table that is not read or repeats another."""
        read = None
        if self.table.section == "NVTX result" and self.columns >= _SUMMARY:
            read = self.ranges_summed
        elif self.columns >= _TRACE:
            read = self.traced
        elif self.columns >= _SUMMARY and self.table.section in ("Profiling result", "API calls"):
            read = self.summed
        elif self.columns >= _UNIFIED:
            read = self.unified_memory
        if read is None:
            self.unread()
            return {}
        self.known = True
        self.unreadable(self.table.unreadable, self.table.damaged)
        self.none_of(len(self.table.unreadable) + len(self.table.cut) + self.table.damaged)
        if read == self.summed and self.table.device is None and any(self.repeats(other) for other in tables):
            self.note(f"line {self.table.line}: the summary of all devices repeats those of each device; it is not counted twice")
            return {}
        if any(map(self.is_again, tables[: next(number for number, other in enumerate(tables) if other is self.table)])):
            self.note(f"line {self.table.line}: a table that is also above; it is not counted twice")
            return {}
        if read == self.summed:  # each name has one row here; concatenated CSV repeats the titles within a table
            again = self.rows.duplicated()
            self.count("rows written twice", int(again.sum()))
            self.rows = self.rows[~again].reset_index(drop=True)
        result = read()
        if not self.cut_noted:
            self.unreadable(self.table.cut)
        return result

    def unreadable(self, lines: Sequence[int], others: int = 0) -> None:
        """Count lines that are not rows, and note the first of those whose numbers are known."""
        self.count("lines of tables that cannot be read", len(lines) + others)
        for line in lines[:_NAMED]:
            self.note(f"line {line}: not a row of its table; its content is not counted")

    def unread(self) -> None:
        """Note why the table is not read: it lacks a column, or it is of another kind."""
        needed = _TRACE if "Start" in self.columns else _SUMMARY
        missing = sorted(needed - self.columns)
        if self.table.section in ("Profiling result", "API calls") and len(missing) == 1:
            self.known = True
            self.count("rows of tables that lack a column", len(self.rows))
            self.useless.append(f"line {self.line}: the table has no column {missing[0]}")
        else:
            self.note(f"{self.table.section}, line {self.line}: a table that is not read")

    def is_again(self, other: PrintedTable) -> bool:
        """Return whether another table has the same rows for the same process and device."""
        same = (other.section, other.process, other.device) == (self.table.section, self.table.process, self.table.device)
        return same and other.rows.equals(self.table.rows)

    def repeats(self, other: PrintedTable) -> bool:
        """Return whether another table is this summary for one device."""
        return other.device is not None and other.process == self.table.process and set(other.rows.columns) == self.columns

    def ns(self, column: str) -> pd.Series:
        """Return a column of times in ns; all null if the table has no such column."""
        if column not in self.rows:
            return self.absent()
        unit, values = self.table.units.get(column), printed_tables.decimal_points(self.rows[column])
        step = text_tables.resolution(values, unit) if column in ("Start", "Duration", "Time") else 1
        if step > 1:
            self.steps[column] = max(step, self.steps.get(column, 1))
        return text_tables.nanoseconds(values, unit)

    def bytes(self, *columns: str) -> pd.Series:
        """Return sizes in bytes, from the first of these columns that the table has."""
        column = next((column for column in columns if column in self.rows), None)
        if column is None:
            return self.absent()
        return text_tables.sizes(self.rows[column], self.sizes, self.table.units.get(column, "").lower())

    def usable(self, frame: pd.DataFrame, *needed: str) -> pd.DataFrame:
        """Return the rows with the values that a row of the Trace needs; count the others, and names that were cut."""
        good = self.good(frame, *needed)
        if "name" in frame:
            self.count("names cut short by the tool", int(frame["name"].str.endswith("...").fillna(False).sum()))
        return frame[good]

    def summed(self) -> dict[str, pd.DataFrame]:
        """Return the rows of a summary."""
        frame = pd.DataFrame({"name": self.rows["Name"], "count": self.numbers("Calls"), "duration_ns": self.ns("Time")})
        frame["min_ns"], frame["max_ns"], frame["process"] = self.ns("Min"), self.ns("Max"), self.process()
        frame["device"] = self.device_of(self.table.device)
        frame["duration_ns"] = self.mended(frame)
        only = "API calls" if self.table.section == "API calls" else "GPU activities"  # before CUDA 9
        kinds = self.rows["Type"] if "Type" in self.rows else pd.Series(only, index=frame.index)
        self.untyped(kinds)
        of_gpu = kinds == "GPU activities"
        gpu = self.usable(frame[of_gpu], "count", "duration_ns")
        copies = printed_tables.are_copies(gpu["name"])
        calls = self.usable(frame[kinds == "API calls"], "duration_ns").assign(table="calls")
        kernels = pd.concat([gpu[~copies], self.unlisted(gpu, int(of_gpu.sum()))])
        return {"kernels": kernels, "copies": self.as_copies(gpu[copies]), "totals": calls}

    def mended(self, frame: pd.DataFrame) -> pd.Series:
        """Return a summary's times; one that cannot be read is its average by its calls if its share confirms that."""
        times, average = frame["duration_ns"], self.ns("Avg")
        lacking = times.isna() & average.notna() & frame["count"].notna()
        if not lacking.any() or "Time(%)" not in self.rows:
            return times
        percents = printed_tables.decimal_points(self.rows["Time(%)"]).str.removesuffix("%")
        shares = pd.to_numeric(percents, errors="coerce").astype("float64")
        sections = self.rows["Type"].fillna("") if "Type" in self.rows else pd.Series("", index=frame.index)
        known = pd.DataFrame({"ns": times.astype("Float64"), "share": shares}).where(times.notna() & shares.notna())
        sums = known.groupby(sections).transform("sum").astype("float64")
        percent = sums["ns"] / sums["share"].where(sums["share"] > 0)  # the ns of one
        found = (average.astype("Float64") * frame["count"]).astype("Float64")
        near = (found - shares * percent).abs() <= np.maximum(found * _CONFIRMED, percent * _SHARE_STEP)
        mended = (lacking & near.fillna(False)).to_numpy(dtype=bool)
        if mended.any():
            first = self.rows[mended].iloc[0]
            self.result.info.setdefault("warnings", []).append(
                f"line {self.line}: the times of {int(mended.sum()):,} rows cannot be read: its average by its calls counts, "
                f"as each share confirms; the first: {str(first['Time'])[:_SHOWN]} of {str(first['Name'])[:_SHOWN]}"
            )
        return times.where(~mended, found.round().astype("Int64"))

    def untyped(self, kinds: pd.Series) -> None:
        """Note the types of a summary's rows that are not read; without GPU activities, keep them as the reason."""
        others = sorted(set(kinds.dropna()) - {"GPU activities", "API calls"})
        if others:
            self.note(f"{', '.join(others)}: rows that are not read")
        self.count("rows of no known type", int(kinds.isna().sum()))
        unread = ~kinds.isin(["GPU activities", "API calls"])
        if unread.any() and not (kinds == "GPU activities").any():
            first = ", ".join(self.rows[unread].iloc[0].drop("Type").fillna("").astype(str))[:_SHOWN]
            types = f"{', '.join(others) or 'no known type'}: {int(unread.sum()):,}"
            self.useless.append(f"line {self.line}: no row of the table is a GPU activity (types: {types}); the first: {first}")

    def unlisted(self, gpu: pd.DataFrame, listed: int) -> pd.DataFrame:
        """Return a row for the part of the total that the rows of GPU activities lack, and note their share.

        listed: how many rows they had: the part of those that cannot be used is missing, too. Nothing is known for one of several
        devices.
        """
        if "Time(%)" not in self.rows or self.table.device is not None:
            return pd.DataFrame()
        rows = self.rows.loc[gpu.index]
        step = text_tables.resolution(printed_tables.decimal_points(rows["Time"]), self.table.units.get("Time"))
        lacking = unlisted.of(gpu["duration_ns"], printed_tables.decimal_points(rows["Time(%)"]), step, listed - len(gpu))
        if lacking.note:
            self.cut_noted = True
            self.note(f"line {self.line}, GPU activities: {lacking.note}")
        return lacking.kernels.assign(process=pd.array([self.table.process] * len(lacking.kernels), dtype="Int64"))

    def ranges_summed(self) -> dict[str, pd.DataFrame]:
        """Return the ranges of an NVTX result; the GPU work and calls under each range are already in the other summary."""
        rows = self.rows["Type"].eq("Range") if "Type" in self.rows else pd.Series(True, index=self.rows.index)
        frame = pd.DataFrame({"table": "ranges", "name": self.rows["Name"], "count": self.numbers("Calls")})
        frame["duration_ns"], frame["min_ns"], frame["max_ns"] = self.ns("Time"), self.ns("Min"), self.ns("Max")
        return {"totals": self.usable(frame[rows], "duration_ns")}

    def unified_memory(self) -> dict[str, pd.DataFrame]:
        """Return transfers of unified memory, and groups of page faults as totals; transfers without a time are only noted."""
        frame = pd.DataFrame({"name": self.rows["Name"], "count": self.numbers("Count")})
        frame["duration_ns"] = text_tables.nanoseconds(self.rows["Total Time"], self.table.units.get("Total Time"))
        frame["bytes"] = self.bytes("Total Size")
        if "Device" in self.rows:
            texts = self.rows["Device"]
            frame["device"] = texts.map({text: self.device_of(text) for text in texts.dropna().unique()})
        else:
            frame["device"] = self.device_of(self.table.device)
        frame["process"], frame["operation"] = self.process(), "unified memory"
        frame["memory"] = frame["name"].map({name: printed_tables.direction(name) for name in frame["name"].dropna().unique()})
        moves = frame["memory"].notna() & frame["count"].notna()
        timed = moves & (frame["duration_ns"].fillna(0) > 0)
        for name, count, size in frame.loc[moves & ~timed, ["name", "count", "bytes"]].head(20).itertuples(index=False):
            self.note(f"unified memory, {name}: {count} transfers of {size} bytes have no time and are in no table")
        self.count("transfers of unified memory without a time", int(frame.loc[moves & ~timed, "count"].sum()))
        faults = frame["name"].str.lower().eq(_GROUPS).fillna(False).astype(bool)
        remote = frame["name"].str.lower().eq(_REMOTE).fillna(False).astype(bool)
        self.count("rows of unified memory that are no transfers", int((~moves & ~faults & ~remote).sum()))
        mapped = frame.loc[remote, ["count"]].assign(table=page_faults.TABLE, name=page_faults.REMOTE)
        totals = pd.concat([self.fault_groups(frame[faults]), mapped], ignore_index=True)
        return {"copies": frame[timed].drop(columns="name"), "totals": totals}

    def fault_groups(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return groups of page faults as totals. In CSV their number is in the place of a size, as in 19B."""
        in_place = text_tables.counts(self.rows["Total Size"].str.extract(r"^(\d{1,12})B$")[0])
        ns = rows["duration_ns"].where((rows["duration_ns"] > 0).fillna(False).astype(bool))
        groups = pd.DataFrame({"count": rows["count"].fillna(in_place), "duration_ns": ns})
        return groups.assign(table=page_faults.TABLE, name=page_faults.GROUPS)

    def traced(self) -> dict[str, pd.DataFrame]:
        """Return the rows of a GPU trace, an API trace or both in one."""
        start, duration = self.ns("Start"), self.ns("Duration")
        frame = pd.DataFrame({"start_ns": start, "end_ns": start + duration, "duration_ns": duration, "name": self.rows["Name"]})
        frame["count"], frame["process"] = 1, self.process()
        marks = frame["name"].str.startswith(_MARKS).fillna(False).astype(bool)
        self.correlate(frame, marks)
        copies = printed_tables.are_copies(frame["name"])
        shapes = self.shape("Grid Size", "Grid")
        kernels = (shapes.notna() if self.shaped() else ~self.named_calls(frame["name"], copies)) & ~copies & ~marks
        calls = ~copies & ~marks & ~kernels
        self.result.info["clock"] = "relative"
        result = {}
        if kernels.any():
            result["kernels"] = self.as_kernels(frame, shapes)[kernels].pipe(self.usable, "duration_ns")
        if copies.any():
            moves = copies & frame["name"].str.startswith(("[CUDA ", "[Unified Memory Memcpy")).fillna(False).astype(bool)
            gpu, cpu = (frame["name"].eq(name).fillna(False).astype(bool) for name in (_GPU_FAULTS, _CPU_FAULTS))
            self.count("rows of unified memory that are no transfers", int((copies & ~moves & ~gpu & ~cpu).sum()))
            result["copies"] = self.as_copies(self.placed(frame))[moves].pipe(self.usable, "duration_ns")
            result["totals"] = page_faults.summed(duration[gpu], int(cpu.sum()))
        if calls.any():
            result["calls"] = self.as_calls(frame[calls])
        if marks.any():
            result["ranges"] = self.as_ranges(frame[marks])
        return result

    def shaped(self) -> bool:
        """Return whether the table has the columns by which kernels are told from calls."""
        return "Grid Size" in self.columns or self.columns >= {f"Grid {axis}" for axis in "XYZ"}

    def named_calls(self, names: pd.Series, copies: pd.Series) -> pd.Series:
        """Return which rows of a trace without launch shapes are API calls: all, unless anything shows that GPU work is in it."""
        if not self.columns & _OF_GPU and not copies.any():
            return pd.Series(True, index=self.rows.index)
        return names.str.match(_API).fillna(False).astype(bool)

    def correlate(self, frame: pd.DataFrame, marks: pd.Series) -> None:
        """Set the correlation id, from its column or from the brackets after a name."""
        if "Correlation_ID" in self.rows:
            frame["correlation"] = self.numbers("Correlation_ID")
            return
        frame["correlation"] = pd.Series(pd.NA, index=frame.index, dtype="Int64")
        for pattern in (_LAUNCHED, _CORRELATION):
            parts = stream.extract(text_tables.strings_of(frame["name"].where(~marks)), pattern)
            result = text_tables.counts(parts["correlation"])
            frame["correlation"] = frame["correlation"].fillna(result)
            frame["name"] = parts["name"].where(result.notna(), frame["name"]).astype("str")

    def as_kernels(self, frame: pd.DataFrame, shapes: pd.Series) -> pd.DataFrame:
        result = self.placed(frame)
        result["grid"], result["block"] = shapes, self.shape("Block Size", "Block")
        result["registers"] = (self.numbers("Regs") if "Regs" in self.rows else self.numbers("Registers Per Thread")).astype(
            "Int32"
        )
        result["shared_memory"] = self.bytes("SSMem", "Static SMem") + self.bytes("DSMem", "Dynamic SMem")
        return result

    def placed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the device and the stream of device work."""
        result = frame.copy()
        result["device"], result["thread"] = self.devices(), self.numbers("Stream")
        return result

    def as_copies(self, frame: pd.DataFrame) -> pd.DataFrame:
        names = frame["name"].astype("category")
        result = frame.drop(columns="name")
        known = list(names.cat.categories)
        result["operation"] = names.map({name: printed_tables.operation(name) for name in known}).astype("str")
        directions = {name: printed_tables.direction(name) if "Unified" in name else None for name in known}
        result["memory"] = names.map(directions).astype("str")
        if "Size" in self.rows:
            result["bytes"] = self.bytes("Size")
        if "Unified Memory" in self.rows:
            unified = result["operation"].eq("unified memory")
            result["bytes"] = self.bytes("Unified Memory").where(unified, result.get("bytes"))
        if self.columns >= {"SrcMemType", "DstMemType"}:
            kinds = self.rows["SrcMemType"].str.lower() + " to " + self.rows["DstMemType"].str.lower()
            result["memory"] = kinds.where(kinds.notna(), result["memory"])
        return result

    def as_calls(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return API calls. Their threads are not recorded: all calls of a process are on one."""
        result = frame.drop(columns=["duration_ns", "count"])
        result["name"] = result["name"].str.replace(r"(?:_v\d+)+$", "", regex=True)
        result["api"] = np.where(result["name"].str.match(r"cu[A-Z]"), "driver", "runtime")
        result["process"] = result["process"].fillna(_UNKNOWN_PROCESS)
        result["thread"] = result["process"]
        return self.usable(result, "start_ns", "end_ns")

    def as_ranges(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return markers, and ranges from the rows of their starts and ends, paired by name, inner ones first."""
        parts = frame["name"].str.extract(_MARKER)
        frame = frame[["start_ns"]].assign(name=parts["name"], domain=parts["domain"], edge=parts["edge"])
        frame["domain"] = frame["domain"].where(frame["domain"] != "<unnamed>", None)
        frame = self.usable(frame, "start_ns", "edge")
        markers = frame[frame["edge"] == "Marker"].copy()
        markers["end_ns"], markers["category"] = markers["start_ns"], "mark"
        result = pd.concat([_paired(frame[frame["edge"] != "Marker"], self), markers], ignore_index=True)
        result["thread"] = self.table.process if self.table.process is not None else _UNKNOWN_PROCESS
        return result.assign(nested=False).sort_values("start_ns", kind="stable").drop(columns="edge")

    def process(self) -> pd.Series:
        """Return the process of the table's rows; if the log names none, calls and their device work share a placeholder."""
        process = self.table.process
        if process is None and self.columns >= _TRACE and "Correlation_ID" in self.columns:
            process = _UNKNOWN_PROCESS
        return pd.Series([process] * len(self.rows), index=self.rows.index, dtype="Int64")

    def shape(self, whole: str, prefix: str) -> pd.Series:
        """Return launch dimensions as x,y,z, from one column or three."""
        if whole in self.rows:
            return self.rows[whole].str.strip("()").str.replace(" ", ",", regex=False)
        if not self.columns >= {f"{prefix} {axis}" for axis in "XYZ"}:
            return pd.Series(None, index=self.rows.index, dtype="str")
        x, y, z = (self.rows[f"{prefix} {axis}"] for axis in "XYZ")
        return x + "," + y + "," + z

    def devices(self) -> pd.Series | None:
        """Return the device of each row; if device numbers are cut off, each context stands for a device."""
        if "Device" not in self.rows:
            return None
        context = self.rows["Context"] if "Context" in self.rows else pd.Series("", index=self.rows.index)
        keys = pd.DataFrame({"text": self.rows["Device"], "context": context})
        distinct = keys.dropna().drop_duplicates().sort_values("context", key=lambda values: values.str.zfill(10))
        named, cut = {}, 0
        for text, number in distinct.itertuples(index=False):
            device = self.device_of(text)
            if device is None:
                device, cut = f"cuda:{cut}", cut + 1
                self.device(device, text.removesuffix(" (").strip())
            named[text, number] = device
        if cut:
            self.note("device numbers are cut off in the table: each context stands for a device, in order")
        codes = keys["text"].fillna("") + "\x1f" + keys["context"].fillna("")
        return codes.map({f"{text}\x1f{number}": device for (text, number), device in named.items()}).fillna(
            codes.map({f"{text}\x1f": device for (text, _), device in reversed(named.items())})
        )

    def device_of(self, text: str | None) -> str | None:
        """Return the device that a text such as "Tesla K80 (0)" names, and note its name."""
        match = re.fullmatch(r"(?P<name>.*?)\s*\((?P<number>\d{1,4})\)?", (text or "")[: printed_tables.LONGEST_DEVICE])
        if match is None or (not match[0].endswith(")") and len(match[0]) < _CUT_DEVICE):
            return None
        self.device(f"cuda:{int(match['number'])}", match["name"])
        return f"cuda:{int(match['number'])}"


def _paired(edges: pd.DataFrame, remarks: printed_tables.Remarks) -> pd.DataFrame:
    """Pair starts with ends of the same name: the nth level's start with the next end of that level."""
    edges = edges.sort_values("start_ns", kind="stable")
    key = edges["name"].fillna("") + "\x1f" + edges["domain"].fillna("")
    step = np.where(edges["edge"] == "Range start", 1, -1)
    depth = pd.Series(step, index=edges.index).groupby(key).cumsum()
    level = depth.where(step > 0, depth + 1)
    order = pd.DataFrame({"key": key, "level": level, "row": np.arange(len(edges))})
    order = order.sort_values(["key", "level", "row"], kind="stable")
    ordered = edges.loc[order.index]
    same = (order["key"].eq(order["key"].shift(-1)) & order["level"].eq(order["level"].shift(-1))).to_numpy()
    starts = (ordered["edge"] == "Range start").to_numpy()
    closed = starts & same & np.append(~starts[1:], False)
    result = ordered[starts].assign(end_ns=ordered["start_ns"].shift(-1)[starts].where(closed[starts], pd.NA), category="user")
    remarks.count("open ranges", int((starts & ~closed).sum()))
    remarks.count("ends of ranges without a start", int((~starts).sum() - closed.sum()))
    return result.assign(end_ns=result["end_ns"].fillna(edges["start_ns"].max()))


def _explain(output: NvprofOutput, steps: dict[str, int], result: Trace) -> None:
    """Note nvprof's warnings, the precision of times, and what users would expect and the log does not hold."""
    info = result.info
    for text, count in output.warnings.items():
        if count:
            result.diagnostics[f"nvprof: {text}"] = count
        else:
            info["notes"].append(f"nvprof warns: {text}")
    if steps:
        shown = "; ".join(f"{what} to {step} ns" for what, step in sorted(steps.items()))
        info["notes"].append(f"printed times are rounded, at worst: {shown}; --csv -u ns prints them exactly")
    coarsest = max((step for what, step in steps.items() if what != "Start"), default=0)
    whole = int(result.kernels["duration_ns"].sum()) + int(result.copies["duration_ns"].sum())
    if coarsest >= _SECOND and 0 < whole < coarsest * _COARSE:
        info.setdefault("warnings", []).append(
            f"a time is printed to {coarsest / 1e9:,g} s only, as in 2.4e+03s, of {whole / 1e9:,.0f} s in all: further digits of "
            "sums tell nothing; --csv -u ns prints times exactly"
        )
    if len({table.process for table in output.tables if table.process is not None}) > 1:
        info["notes"].append(f"{len(output.processes)} processes; in traces each has its own clock")
        if info["clock"] == "none":
            info.setdefault("warnings", []).append(
                f"times of {len(output.processes)} processes are added up; if these are runs of their own, put each into a file"
            )
    have_calls = len(result.calls) or (result.totals["table"] == "calls").any()
    if not len(result.kernels):
        info["unavailable"]["kernels"] = (
            "the log has copies but no kernel"
            if len(result.copies)
            else "the log has no rows of GPU activities: it has API calls only, no kernel ran, or the row that begins with "
            "'GPU activities:' was cut off; without that row, those below it are not read"
        )
    if not have_calls:
        info["unavailable"]["calls"] = "the log has no API calls; print --print-api-trace or --print-api-summary too"
    if info["clock"] == "none":
        info["unavailable"]["times"] = "summaries only, totals and counts; print --print-gpu-trace too"
    if len(result.calls):
        info["unavailable"]["threads"] = "nvprof's API trace does not have them: calls of a process are on one thread"
