"""Printed tables of torch.profiler: totals by operator and by kernel.

The profiler prints operators and, since PyTorch 1.8, the kernels that they launched as rows of their own, which have no time on
the CPU. An operator's own time on the device is the sum of its kernels', so kernels' rows count and operators' do not, unless the
table has no kernels (the older autograd profiler, or a table cut to its first rows). Annotations that are projected on the device
are such rows too, named like their row of the host: they hold kernels and are none. The sum below the table leaves them out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed
from kernelscope.analysis.formats.torch_table import tables as torch_tables
from kernelscope.analysis.formats.torch_table.tables import OperatorTable
from kernelscope.analysis.trace import Trace, conform

Flags = npt.NDArray[np.bool_]

_CALLS = r"^(?:cuda|cu|hip|ze|ur|xpu|musa|acl)[A-Z]\w*$"
_ANNOTATIONS = r"^(?:ProfilerStep[#*]|Optimizer\.\w+#|enumerate\(DataLoader\)#|## Call CompiledFxGraph|Torch-Compiled Region)"
_PROFILER = r"^(?:Activity Buffer Request|Buffer Flush|Instrumentation|Resource|Lazy Function Loading|Command Buffer Full)"
_OPERATOR = r"::"  # of a library's name: aten::mm, mkldnn::_linear; what users name has none, mostly
_COPY = r"^(?:Memcpy|Memset|\[CUDA mem|gpu_mem)"
_SIDES = {"H": "H", "M": "H", "D": "D", "S": "D"}
_CUT = r"\.\.\.$"


def matches(head: Head) -> bool:
    """Return whether the text has a heading of the profiler between lines of dashes."""
    return head.is_text and "CPU" in head.text and torch_tables.has_table(head.text)


def read(path: Path) -> Trace:
    """Read the tables; raises EvidenceError when there are none, or none has rows."""
    result = torch_tables.tables(stream.lines(path))
    if not result:
        raise EvidenceError(f"{path}: no table of torch.profiler's key_averages(); print it with .table() and name that file")
    trace = Trace(
        info={
            "source": {"format": "torch-table", "tool": "torch.profiler", "version": None, "schema": None},
            "clock": "none",
            "framework": "pytorch",
            "devices": [],
            "unavailable": {"times": "totals only; export_chrome_trace() has the timeline"},
            "notes": ["times are rounded: to ns below 1 ms, to us below 1 s, to ms above"],
        }
    )
    remarks = printed.Remarks(trace)
    chosen = _chosen(result, remarks)
    parts = [_TableReader(table, remarks).read() for table in chosen]
    for name in ("kernels", "copies", "totals"):
        frames = [part[name] for part in parts if len(part[name])]
        setattr(trace, name, conform(name, pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()))
    if not len(trace.kernels) and not len(trace.totals) and not len(trace.copies):
        raise EvidenceError(f"{path}, {_nothing(result)}; print it again")
    if not len(trace.kernels):
        trace.info["unavailable"]["kernels"] = "the table tells no device's own time and no operator's on the CPU"
    return trace


def _nothing(result: list[OperatorTable]) -> str:
    """Return why nothing came of the tables: without rows, or with rows of which none could be used."""
    table = next((table for table in result if len(table.rows)), result[0])
    if table.rows.empty:
        return f"line {table.line}: the table has no rows"
    column = "self_device" if "self_device" in table.rows else "self_cpu" if "self_cpu" in table.rows else "cpu"
    name, *cells = table.rows.reindex(columns=["name", column, "count"]).fillna("").iloc[0]
    return (
        f"line {table.line}: none of the table's {len(table.rows):,} rows has a usable time and count; "
        f"the first, {name!r}, has the time {cells[0]!r} and the count {cells[1]!r}"
    )


def _chosen(result: list[OperatorTable], remarks: printed.Remarks) -> list[OperatorTable]:
    """Return the tables that count: of one profile printed several times (sorted, grouped, cut in other ways) the fullest.

    Tables are of one profile where the sums below them are the same.
    """
    groups: dict[Any, list[OperatorTable]] = {}
    for table in result:
        key = tuple(sorted(table.totals.items())) if table.totals else table.line
        groups.setdefault(key, []).append(table)
    chosen = []
    for tables in groups.values():
        best = max(tables, key=_fullness)
        chosen.append(best)
        for other in tables:
            if other is not best:
                remarks.note(
                    f"the table of line {other.line} is of the same profile as that of line {best.line}; it is not counted twice"
                )
    return chosen


def _fullness(table: OperatorTable) -> tuple[int, int]:
    """Return how much device or CPU time a table's rows tell, and its number of rows."""
    reader = _TableReader(table, None)
    chosen = reader.kernel_rows() if table.device else reader.host
    own = reader.ns("self_device" if table.device else "self_cpu")
    return int(own[chosen].fillna(0).sum()), len(table.rows)


def _operation(name: str) -> str:
    """Return one of COPY_OPERATIONS; Intel's GPUs name the host's memory M: Memcpy M2D."""
    return printed.operation(re.sub(r"\b([HDMS])2([HDMS])\b", lambda match: f"{_SIDES[match[1]]}to{_SIDES[match[2]]}", name))


class _TableReader:
    """Takes one table apart."""

    def __init__(self, table: OperatorTable, remarks: printed.Remarks | None) -> None:
        self.table, self.rows, self.remarks = table, table.rows, remarks
        self.name = table.rows["name"].astype("string")
        self.device = table.device.lower()
        timed = ((self.ns("cpu").fillna(self.ns("self_cpu")) > 0) | (self.ns("self_cpu") > 0)).fillna(False).to_numpy(dtype=bool)
        on_device = (self.ns("self_device") > 0).fillna(False).to_numpy(dtype=bool)
        # neither an operator nor a kernel: as both it might count twice
        self.doubtful: Flags = self.unreadable("cpu") | self.unreadable("self_cpu")
        self.host: Flags = timed | self.doubtful | ~(on_device | self.unreadable("self_device"))
        self.on_device: Flags = on_device

    def ns(self, column: str) -> pd.Series:
        """Return a column's times in ns; null where the table has no such column."""
        if column not in self.rows:
            return pd.Series(pd.NA, index=self.rows.index, dtype="Int64")
        return text_tables.nanoseconds(printed.decimal_points(self.rows[column]), "us")

    def unreadable(self, column: str) -> Flags:
        """Return which rows have no time in a column that the table has."""
        return self.ns(column).isna().to_numpy(dtype=bool) & (column in self.rows)

    def like(self, pattern: str) -> Flags:
        return self.name.str.contains(pattern, regex=True).fillna(False).to_numpy(dtype=bool)

    def annotations_on_device(self) -> Flags:
        """Return which rows without time on the CPU repeat ranges of the host: they are named like those, or by PyTorch."""
        of_host = self.name.isin(self.name[self.host & ~self.like(_OPERATOR)]).to_numpy(dtype=bool)
        return ~self.host & (of_host | self.like(_ANNOTATIONS) | self.like(r"^(?:nccl|gloo|xccl):"))

    def kernel_rows(self) -> Flags:
        """Return which rows are work of a device: those without time on the CPU, else operators with time of their own there.

        Operators do, too, where the table was cut to rows among which kernels tell less than half of what operators tell.
        """
        own = self.ns("self_device").fillna(0)
        alone = ~self.host & ~self.annotations_on_device()
        operators = self.on_device & self.host & ~self.doubtful & ~self.like(_ANNOTATIONS)
        return operators if 2 * int(own[alone].sum()) < int(own[operators].sum()) else alone

    def read(self) -> dict[str, pd.DataFrame]:
        """Return kernels, copies and totals, and remark on oddities."""
        frame = self._work()
        copies = frame["name"].str.contains(_COPY, regex=True).fillna(False).to_numpy(dtype=bool)
        self._remark(frame)
        moved = frame[copies]
        return {
            "kernels": frame[~copies],
            "copies": moved.assign(operation=[_operation(str(name)) for name in moved["name"]]),
            "totals": self._totals(),
        }

    def _work(self) -> pd.DataFrame:
        """Return device work, or in tables without a device the operators' own time on the CPU."""
        if self.device and "self_device" in self.rows:
            chosen, column, device = self.kernel_rows(), "self_device", self.device
        elif self.device:
            chosen, column, device = np.zeros(len(self.rows), dtype=bool), "self_cpu", None
        else:
            chosen, column, device = self.host & self.like(_OPERATOR), "self_cpu", "cpu"
        frame = pd.DataFrame(
            {"name": self.name, "duration_ns": self.ns(column), "count": text_tables.counts(self.rows["count"]), "device": device}
        )
        frame["operator"] = self.name.where(self.host)
        frame["attribution"] = "none"
        usable = (frame["duration_ns"].notna() & (frame["count"] > 0).fillna(False)).to_numpy(dtype=bool)
        untimed = self.unreadable("self_device") | self.doubtful
        self._count("rows without a usable time or count", int((untimed | (chosen & ~usable)).sum()))
        return frame[chosen & usable & (frame["duration_ns"] > 0).fillna(False).to_numpy(dtype=bool)]

    def _totals(self) -> pd.DataFrame:
        """Return operators, calls of a device's runtime, and ranges, with their times on the CPU, others' inside included."""
        host = self.host & ~self.like(_PROFILER)
        table = np.select(
            [self.like(_CALLS), self.like(_ANNOTATIONS) | ~self.like(_OPERATOR)], ["calls", "ranges"], default="operators"
        )
        frame = pd.DataFrame(
            {"table": table, "name": self.name, "count": text_tables.counts(self.rows["count"]), "duration_ns": self.ns("cpu")}
        )
        return frame[host & frame["duration_ns"].notna().to_numpy(dtype=bool)]

    def _remark(self, work: pd.DataFrame) -> None:
        """Say what the table leaves out, as far as the sum below it tells."""
        table, remarks = self.table, self.remarks
        if remarks is None:
            return
        self._count("lines of tables that are no rows", table.unreadable)
        self._count("names that the tool cut short", int(self.like(_CUT).sum()))
        self._count("annotations projected on the device, no kernels", int(self.annotations_on_device().sum()))
        if table.others:
            remarks.note(f"columns that are not read: {', '.join(sorted(set(table.others)))}")
        if table.cut and not table.totals:
            remarks.note(f"the table of line {table.line} has no end: it may be cut short")
        if self.device and "self_device" not in self.rows:
            remarks.note(
                "the table has no column of an operator's own time on the device: times there hold those of others inside"
            )
        elif self.device and len(work) and work["operator"].notna().all():
            remarks.note(
                "no rows of kernels: an operator's own time on the device stands for its kernels, and its calls are counted"
            )
        told = printed.decimal_points(pd.Series([table.totals.get(table.device, "")], dtype="str"))
        total = text_tables.nanoseconds(told, "us").iloc[0]
        if self.device and not pd.isna(total):
            left = int(total) - int(work["duration_ns"].sum())
            step = text_tables.resolution(told, "us")
            self._count(
                "device time in the sum below the table that no row read tells, ns", left if left > 2 * step * len(work) else 0
            )
            self._count("device time in rows beyond the sum below the table, ns", -left if -left > 2 * step * len(work) else 0)

    def _count(self, what: str, number: int) -> None:
        if self.remarks is not None:
            self.remarks.count(what, number)
