"""Printed tables of torch.profiler: totals by operator and by kernel.

The rows of each table that are work count (see rows.py). The part of the sum below the table that they lack becomes one more
kernel: most tables are cut to their first rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream, text_tables
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import printed, unlisted
from kernelscope.analysis.formats.torch_table import calls
from kernelscope.analysis.formats.torch_table import rows as of_rows
from kernelscope.analysis.formats.torch_table import tables as torch_tables
from kernelscope.analysis.formats.torch_table.rows import TableRows
from kernelscope.analysis.formats.torch_table.tables import OperatorTable
from kernelscope.analysis.trace import EXECUTIONS, UNLISTED, Trace, conform

_SHARED = 2  # rows with the same printed times by which two tables are taken for one profile
_MOST = 0.5  # of the time in no row: a smaller part is not given to an operator
_SAME = 0.98  # of the largest part: operators that wrap one another have about the same
# The name of a kernel for the own time of printed rows that are no work by themselves
NOT_COUNTED = "(printed, but not counted: wrappers and views)"
_CUT = r"\.\.\.$"
_MOST_OWN = 50  # operators whose own time on the host, or on the device, is kept
_NEITHER = "the table has neither own time on a device nor operators' own time on the CPU"
_NESTED = (
    "the table has a device's total times only, and the host's times do not show which of its operators contain which; a newer "
    "PyTorch prints own times, such as Self CUDA"
)
_ONLY_COPIES = "the rows that count are copies; none is a kernel"
_NEEDED = (
    "needed are columns named Name, Self CPU or Self CUDA (of another device: its name), and # of Calls, with two spaces or | "
    "between them, and times with a unit, as key_averages().table() prints them"
)
CALLS_UNKNOWN = "the table does not print the calls: a row counts as one execution"


def matches(head: Head) -> bool:
    """Return whether the text has the heading of one of the profiler's tables, or rows and sums from which it was cut."""
    text = head.tables_text if head.is_text and ("Name" in head.text or "aten::" in head.text) else ""
    return torch_tables.has_table(text) or torch_tables.lacks_titles(text)


def read(path: Path) -> Trace:
    """Read the tables; raise EvidenceError if there are none, or none has usable rows."""
    result = torch_tables.tables(stream.table_lines(path))
    if not result:
        raise EvidenceError(f"{path}: {_no_table(path)}")
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
    readers = [_TableReader(table, remarks) for table in chosen]
    parts = [reader.read() for reader in readers]
    for name in ("kernels", "copies", "totals"):
        frames = [part[name] for part in parts if len(part[name])]
        setattr(trace, name, conform(name, pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()))
    if len(chosen) > 1:
        trace.info["warnings"] = [
            f"{len(chosen)} tables are added up; if they are of runs of their own, put each into its own file"
        ]
    bases = {"kernels" if reader.rows.counts_kernels else "operators" for reader in readers if reader.rows.device}
    trace.info["counted"] = ", ".join(sorted(bases))
    host = [reader.rows.host_total for reader in readers]
    if None not in host:
        trace.info["host_ns"] = sum(ns for ns in host if ns)
    if device_own := _device_own([reader.rows for reader in readers if reader.rows.device]):
        trace.info["device_own"] = device_own
    if within := _device_within([reader.rows for reader in readers if reader.rows.device]):
        trace.info["device_within"] = within
    if steps := sum(int(reader.rows.own[reader.rows.steps_on_device].sum()) for reader in readers):
        trace.info["device_steps_ns"] = steps
    if own := _host_own([reader.rows for reader in readers if reader.rows.device]):
        trace.info["host_own"] = own
    if most := _host_rows([reader.rows for reader in readers if reader.rows.device and reader.rows.timed_host]):
        trace.info["host_rows"] = most
    if not len(trace.kernels) and not len(trace.totals) and not len(trace.copies):
        raise EvidenceError(f"{path}, {_nothing(result)}; {_NEEDED}")
    if not len(trace.kernels):
        nested = any(reader.rows.device and not reader.rows.timed_device for reader in readers)
        trace.info["unavailable"]["kernels"] = _ONLY_COPIES if len(trace.copies) else _NESTED if nested else _NEITHER
    return trace


def _no_table(path: Path) -> str:
    """Return what a text without a table lacks."""
    if torch_tables.lacks_titles("\n".join(stream.table_lines(path))):
        return (
            "rows of a table of torch.profiler, and the sums below it, without its line of titles (Name, Self CPU %, ...), which "
            "tells what its columns are; put that line above the rows"
        )
    return f"no table of torch.profiler's key_averages() with titles and rows; {_NEEDED}"


def _device_own(tables: list[TableRows]) -> dict[str, dict[str, int]]:
    """Return the operators' own time (ns) on the device and their calls, also where kernels count: others' tables may not."""
    parts = [pd.DataFrame({"name": rows.name, "ns": rows.own, "calls": rows.calls})[rows.operator_rows] for rows in tables]
    if not parts:
        return {}
    sums = pd.concat(parts).groupby("name")[["ns", "calls"]].sum().sort_values("ns", ascending=False, kind="stable")
    return {str(name): {"ns": int(ns), "calls": int(calls)} for name, ns, calls in sums.head(_MOST_OWN).itertuples()}


def _host_own(tables: list[TableRows]) -> dict[str, dict[str, Any]]:
    """Return the host's own time (ns) in the operators that take most of it, and the program's line around each, if printed.

    device_ns: their own time on the device, as printed, whether it counts or not.
    """
    parts = [
        pd.DataFrame({"name": rows.name, "ns": rows.ns("self_cpu"), "device_ns": rows.own, "place": rows.texts("source")})[
            rows.operators & rows.host
        ]
        for rows in tables
    ]
    found = pd.concat(parts).dropna(subset=["ns"]) if parts else pd.DataFrame()
    if found.empty:
        return {}
    found = found.sort_values("ns", ascending=False, kind="stable")
    groups = found.groupby(found["name"].astype(str), sort=False)
    sums = groups["ns"].sum().sort_values(ascending=False, kind="stable").head(_MOST_OWN)
    places, device = groups["place"].first().reindex(sums.index), groups["device_ns"].sum().reindex(sums.index)
    return {
        str(name): {"ns": int(ns), "device_ns": int(on_device), "place": None if pd.isna(place) else str(place)}
        for name, ns, on_device, place in zip(sums.index, sums, device, places, strict=True)
    }


def _device_within(tables: list[TableRows]) -> dict[str, int]:
    """Return the device's time (ns) in operators that have hardly any of their own, with all that they call."""
    return _largest([pd.DataFrame({"name": rows.name, "ns": rows.ns("device_total")})[rows.wrappers] for rows in tables])


def _host_rows(tables: list[TableRows]) -> dict[str, int]:
    """Return the host's own time (ns) in the rows that take most of it, whatever they are: operators, calls and ranges."""
    return _largest([pd.DataFrame({"name": rows.name, "ns": rows.ns("self_cpu")})[rows.host] for rows in tables])


def _largest(parts: list[pd.DataFrame]) -> dict[str, int]:
    """Return the names that take most, with the sum of their ns. parts: columns name and ns, null if unknown."""
    found = pd.concat(parts).dropna() if parts else pd.DataFrame()
    if found.empty:
        return {}
    sums = found.groupby(found["name"].astype(str))["ns"].sum().sort_values(ascending=False, kind="stable").head(_MOST_OWN)
    return {str(name): int(ns) for name, ns in sums.items() if ns}


def _nothing(result: list[OperatorTable]) -> str:
    """Return why the tables yield nothing: they have no rows, or none that can be used."""
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
    """Return the tables that count: of one profile printed several times (sorted, grouped or cut differently), the fullest.

    Tables belong to one profile if the sums below them are the same; a table without sums, if it shares rows with the other.
    """
    groups: dict[Any, list[OperatorTable]] = {}
    for table in result:
        key = tuple(sorted(table.totals.items())) if table.totals else table.line
        alike = None if table.totals else next((of for of, mine in groups.items() if _has_rows_of(mine[0], table)), None)
        groups.setdefault(key if alike is None else alike, []).append(table)
    chosen = []
    for tables in groups.values():
        best = max(tables, key=_fullness)
        chosen.append(best)
        for other in tables:
            if other is not best:
                remarks.note(
                    f"the table of line {other.line} shows the same profile as that of line {best.line}; it is not counted twice"
                )
    return _of_one_run(chosen, remarks)


def _of_one_run(tables: list[OperatorTable], remarks: printed.Remarks) -> list[OperatorTable]:
    """Return the tables that time one run: torch.utils.bottleneck runs a program with and without CUDA.

    The table with the device's times counts; if it has none, that of the processor alone.
    """
    alone = [table for table in tables if not table.device]
    both = [table for table in tables if table.device and not TableRows(table).timed_device]
    if not alone or not both:
        return tables
    again = alone if any(TableRows(table).device for table in both) else both
    kept = (both if again is alone else alone)[0]
    for table in again:
        remarks.note(
            f"the table of line {table.line} has the processor's time as that of line {kept.line}; it is not counted twice"
        )
    return [table for table in tables if table not in again]


def _has_rows_of(table: OperatorTable, other: OperatorTable) -> bool:
    """Return whether this table has rows of another one: all shared names have the same times and calls."""
    columns = [name for name in ("name", "self_cpu", "self_device", "count") if name in table.rows and name in other.rows]
    mine, theirs = (one.rows[columns].astype("string") for one in (table, other))
    shared = theirs[theirs["name"].isin(mine["name"]).to_numpy(bool)]
    return len(shared) >= _SHARED and len(shared.merge(mine, on=columns)) >= len(shared)


def _fullness(table: OperatorTable) -> tuple[int, int]:
    """Return the device or CPU time of a table's rows, and their number."""
    rows = TableRows(table)
    chosen = rows.work() if rows.device else rows.host
    own = rows.own_ns()
    return int(own[chosen].fillna(0).sum()), len(table.rows)


class _TableReader:
    """Makes tables of a Trace from one table's rows."""

    def __init__(self, table: OperatorTable, remarks: printed.Remarks) -> None:
        self.table, self.rows, self.remarks = table, TableRows(table), remarks
        self.place, self.calls_known = f"the table of line {table.line}", True
        self.counts = text_tables.counts(table.rows["count"]) if "count" in table.rows else self._calls()
        self.executions = self.counts if self.calls_known else self.counts.fillna(1)  # of kernels, which are at least one

    def read(self) -> dict[str, pd.DataFrame]:
        """Return kernels, copies and totals, and remark on oddities."""
        listed, totals = self._once(self._work()), self._totals()
        self._remark(listed)
        rest = self._unlisted(listed) if len(listed) or len(totals) else None
        work = listed if rest is None else pd.concat([listed, rest], ignore_index=True)
        copies = work["name"].str.contains(of_rows.COPY, regex=True).fillna(False).to_numpy(dtype=bool)
        if not self.rows.counts_kernels:
            copies |= work.index.isin(np.flatnonzero(self.rows.transfers)) & work["operator"].notna().to_numpy(bool)
        moved = work[copies]
        return {
            "kernels": work[~copies],
            "copies": moved.assign(
                operation=[of_rows.operation(str(name)) for name in moved["name"]],
                memory=pd.Series([of_rows.memory(str(name)) for name in moved["name"]], index=moved.index, dtype="string"),
            ),
            "totals": totals,
        }

    def _calls(self) -> pd.Series:
        """Return the calls that the table does not print, and note where they come from."""
        counts, doubt, totals = calls.of(self.table.rows)
        if not totals:
            self.remarks.note(f"{self.place} does not print the calls, and no average tells them: a row counts as one execution")
            self.remarks.result.info["unavailable"][EXECUTIONS] = CALLS_UNKNOWN
            self.calls_known = False
            return counts
        devices = " or ".join(self.table.device if column == calls.DEVICE[0] else "CPU" for column in totals)
        off = f"; as times are rounded, a number may be off by {doubt:,}" if doubt else ""
        self.remarks.note(
            f"{self.place} does not print the calls: they are {devices} total divided by {devices} time avg, rounded{off}"
        )
        return counts

    def _work(self) -> pd.DataFrame:
        """Return device work, or, in tables without a device, the work of the CPU."""
        rows = self.rows
        chosen = rows.work()
        frame = pd.DataFrame(
            {"name": rows.name, "duration_ns": rows.own_ns(), "count": self.executions, "device": rows.device or "cpu"}
        )
        frame["operator"] = rows.name.where(rows.host)
        frame["attribution"] = "none"
        if not rows.device:
            kinds = np.where(rows.like(of_rows.MEMORY_CALLS), "copy", "unknown")  # the host's calls to copy wait for the device
            frame["kind"] = pd.Series(kinds, index=frame.index, dtype="string").where(rows.named_ranges)
        usable = (frame["duration_ns"].notna() & (frame["count"] > 0).fillna(False)).to_numpy(dtype=bool)
        untimed = rows.unreadable("self_device") | rows.doubtful
        self.remarks.count("rows without a usable time or count", int((untimed | (chosen & ~usable)).sum()))
        return frame[chosen & usable & (frame["duration_ns"] > 0).fillna(False).to_numpy(dtype=bool)]

    def _once(self, work: pd.DataFrame) -> pd.DataFrame:
        """Return the work without rows that have an earlier row's time, if the sum below the table counts such times once."""
        total = self.rows.total
        over = (
            0 if total is None or not self.rows.device else int(work["duration_ns"].sum()) - total + self.rows.counted_annotations
        )
        again = work[work.duplicated(["duration_ns", "count"]).to_numpy(bool)].sort_values("duration_ns", ascending=False)
        left_out = []
        for place, ns in again["duration_ns"].astype(int).items():
            if self.rows.is_more_than_rounding(over) and not self.rows.is_more_than_rounding(ns - over):
                left_out.append(place)
                over -= ns
        if not left_out or self.rows.is_more_than_rounding(abs(over)):
            return work
        for one in work.loc[left_out].to_dict("records"):
            self.remarks.result.info.setdefault("warnings", []).append(
                f"{one['name']!r} in {self.place} has the time of another row, {_ms(one['duration_ns'])}, which is in the sum "
                "below the table once: it counts once"
            )
        return work.drop(index=left_out)

    def _unlisted(self, work: pd.DataFrame) -> pd.DataFrame | None:
        """Return one kernel for the part of the sum below the table that no counted row covers, and note it; None if rounding."""
        rows = self.rows
        if rows.nested_events or (rows.device and not rows.timed_device):
            return self._rest(NOT_COUNTED, rows.left_to_others)
        if rows.total is None:
            return self._by_shares(work)
        inside = rows.counted_annotations
        left = rows.total - inside - int(work["duration_ns"].sum())
        if inside:
            self.remarks.note(f"the sum below {self.place} includes {_ms(inside)} of annotations, which are not work")
        rounding = rows.rounding(work.index, self.table.totals[self.table.device if rows.device else "CPU"])
        if left <= rounding:
            return None
        inside_one = self._inside_one(work, left)
        left -= int(inside_one["duration_ns"].sum())
        if not left:
            return inside_one
        others = min(rows.left_to_others, left)
        self.remarks.note(
            f"{_ms(left)} of the {_ms(rows.total)} in the sum below {self.place} are in no row that counts"
            + (f"; {_ms(others)} of it are the own time of operators that wrap others or make views" if others else "")
        )
        rest = left - others
        if others and rest <= rounding:
            rest = 0
        made = [inside_one, self._rest(UNLISTED, rest), self._rest(NOT_COUNTED, others)]
        return pd.concat(made, ignore_index=True)

    def _rest(self, name: str, ns: int) -> pd.DataFrame:
        """Return a kernel for time (ns) of unknown kind; how many executions it stands for is unknown. No row for no time."""
        row = {"name": name, "kind": "unknown", "duration_ns": ns, "count": 0, "attribution": "none"}
        row["device"] = self.rows.device or "cpu"
        types = {"name": "string", "kind": "string", "duration_ns": "Int64", "count": "Int64"}
        return pd.DataFrame([row]).astype(types)[: int(ns > 0)]

    def _inside_one(self, work: pd.DataFrame, left: int) -> pd.DataFrame:
        """Return the part of what no row has that must be inside one operator, as a row of that operator; empty if unknown.

        An operator's total, nested ones included, less all that rows have by themselves is a lower bound of that part.
        """
        rows = self.rows
        totals = rows.ns("device_total" if rows.device else "cpu").fillna(0)
        left -= rows.left_to_others
        operators = rows.host & rows.operators & rows.like(of_rows.OPERATOR) & ~rows.doubtful
        operators &= (self.executions > 0).fillna(False).to_numpy(dtype=bool)
        bounds = (totals - int(work["duration_ns"].sum()) - rows.left_to_others).clip(upper=left).where(operators, 0)
        if rows.counts_kernels or int(bounds.max() or 0) <= max(_MOST * left, 0):
            return self._rest("", 0)
        alike = totals[(bounds >= _SAME * bounds.max()).to_numpy(bool)]
        place = alike[::-1].idxmin()  # the innermost of those that wrap one another: of equal ones, the last
        name, ns = str(rows.name[place]), int(bounds[place])
        self.remarks.note(f"at least {_ms(ns)} of what is in no row of {self.place} is inside {name}, as its total tells")
        made = self._rest(f"(inside {name}, not printed)", ns)
        return made.assign(operator=name, count=int(self.executions[place]), kind=pd.array([None], dtype="string"))

    def _by_shares(self, work: pd.DataFrame) -> pd.DataFrame | None:
        """Return one kernel for the time that the rows lack, if no sum is printed but their percentages reveal it."""
        device = self.rows.device or "cpu"
        own = "self_device" if self.rows.device else "self_cpu"
        if f"{own}_share" not in self.table.rows or not len(work):
            return None
        mine = self.table.rows.loc[work.index]
        step = text_tables.resolution(printed.decimal_points(mine[own]), "us")
        rest = unlisted.of(work["duration_ns"], mine[f"{own}_share"], step)
        if rest.note:
            self.remarks.note(f"{self.place}: {rest.note}")
        return rest.kernels.assign(device=device, attribution="none") if len(rest.kernels) else None

    def _totals(self) -> pd.DataFrame:
        """Return operators, calls of a device's runtime, and ranges, with their CPU time, including that of nested ones."""
        rows = self.rows
        host = rows.host & ~rows.like(of_rows.PROFILER)
        ranges = rows.like(of_rows.ANNOTATIONS) | ~rows.like(of_rows.OPERATOR)
        table = np.select([rows.like(of_rows.CALLS), ranges], ["calls", "ranges"], default="operators")
        frame = pd.DataFrame({"table": table, "name": rows.name, "count": self.counts, "duration_ns": rows.ns("cpu")})
        return frame[host & frame["duration_ns"].notna().to_numpy(dtype=bool)]

    def _remark(self, work: pd.DataFrame) -> None:
        """Note what the rows stand for, and what the table leaves out."""
        table, rows, remarks = self.table, self.rows, self.remarks
        remarks.count("lines of tables that are no rows", table.unreadable)
        remarks.count("names that the tool cut short", int(rows.like(_CUT).sum()))
        remarks.count("annotations projected on the device, no kernels", int(rows.annotations.sum()))
        if table.others:
            remarks.note(f"columns that are not read: {', '.join(sorted(set(table.others)))}")
        if table.is_summary:
            remarks.note(
                f"{self.place} has its writer's own titles; its columns are read as {', '.join(map(str, table.rows.columns))}"
            )
        if table.sums_above:
            remarks.note(f"the sums of {self.place} are those that stand above it")
        if table.cut and not table.totals:
            remarks.note(f"{self.place} has no end: it may be cut short")
        if table.device and not rows.timed_device:
            remarks.note(
                f"{table.device} total in {self.place} includes the time of nested operators, and is not added up: "
                f"{self._untimed()}"
            )
        elif len(work):
            if not rows.timed_host:
                remarks.note(f"{self.place} has no times of the CPU: operators and kernels are told apart by their names")
            remarks.note(f"{self.place} counts by {self._basis()}")
        if rows.lists_events:
            remarks.note(
                f"{self.place} lists the longest single events only, nested ones included: {len(rows.nested_events):,} are "
                "surely nested in another one, by name and time, and count once; others may be, and count twice"
            )
        if rows.device and rows.total is not None:
            self._remark_beyond(work, rows.total)

    def _untimed(self) -> str:
        """Return what counts in a table without own times on its device, in words."""
        if not self.rows.device:
            return "own time on the processor counts"
        if self.rows.own_device.notna().any():
            return "operators count by what the host's times show to be their own part of it"
        return "no work is counted"

    def _remark_beyond(self, work: pd.DataFrame, total: int) -> None:
        """Count what the rows have beyond the sum below the table, and warn if it is more than rounding explains."""
        beyond = int(work["duration_ns"].sum()) - total
        text = pd.Series([self.table.totals[self.table.device]], dtype="str")
        step = text_tables.resolution(printed.decimal_points(text), "us")
        if beyond <= 2 * step * len(work):
            return
        self.remarks.count("device time in rows beyond the sum below the table, ns", beyond)
        if self.rows.is_more_than_rounding(beyond):
            self.remarks.result.info.setdefault("warnings", []).append(
                f"the rows that count in {self.place} add up to {_ms(total + beyond)}, more than the {_ms(total)} below it: "
                "some of the time may be counted twice, or the table was changed"
            )

    def _basis(self) -> str:
        """Return the rows that stand for work, in words."""
        rows = self.rows
        if not rows.device:
            return "the own time of operators, and of ranges with 1% of the time, on the CPU"
        if rows.counts_kernels:
            beside = ", and by the operators of which no kernel is printed" if rows.without_kernels.any() else ""
            return f"its rows of kernels{beside}"
        few = ", which cover more of the time than its rows of kernels" if rows.kernel_rows.any() else ""
        return f"operators' own time on the device, which stands for their kernels, and by their calls{few}"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.3f} ms"
