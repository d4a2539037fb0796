"""Shared by all formats of ROCm's profilers: rows of a Trace from their agents, domains and operations.

Devices have the numbers of ROCm's agents, CPUs first, as in PyTorch's traces on ROCm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import sqlite_columns
from kernelscope.analysis.files.sqlite_names import Names, folded
from kernelscope.analysis.files.sqlite_pages import Database
from kernelscope.analysis.formats.demangling import demangled
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.categories import named, of_codes

_DEMANGLED = 4000  # names; one takes about a millisecond and a program has hundreds of kernels
_SUFFIX = re.compile(r"(?: \[clone \.kd\]|\.kd)$")  # marks the name of the kernel's descriptor
_SIDES = re.compile(r"(host|device|[hd])_?to_?(host|device|[hd])(?![a-z])", re.IGNORECASE)
_MARKERS = re.compile(r"marker|roctx", re.IGNORECASE)
_CALLS = re.compile(r"hip|hsa|[rn]ccl|rocdec|rocjpeg|rocshmem|mpi|pthread|ompt", re.IGNORECASE)
_MARK = re.compile(r"roctxMark")
_NOT_NESTED = re.compile(r"roctx(?:ProcessRange|RangeSt)")
_NO_RANGE = re.compile(r"^roctx(?:GetThreadId|Profiler|Name)")  # functions of ROCTX that open no range
# tables of a Trace to which totals of these domains belong; those of all others are calls
DOMAINS = {"KERNEL_DISPATCH": "kernels", "MEMORY_COPY": "copies", "MARKER_API": "ranges", "COUNTER_COLLECTION": "kernels"}
_DEVICES_NOTE = "ROCm numbers all its agents, CPUs first: the lowest number here may be HIP's device 0"


@dataclass
class RowsRead:
    """The result of a reader: rows by table of the Trace, diagnostics by name, and notes on what is left out."""

    rows: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    diagnostics: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, table: str, rows: pd.DataFrame) -> None:
        """Add rows to a table."""
        if len(rows):
            self.rows.setdefault(table, []).append(rows)

    def timed(self, what: str, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with a start and an end that is not before it, in order of starts; negative times count as missing."""
        start, end = (rows[edge].to_numpy(np.int64, na_value=-1) for edge in ("start_ns", "end_ns"))
        known = (start >= 0) & (end >= 0)
        backwards = known & (end < start)
        self.diagnostics[f"{what} without a time"] += int((~known).sum())
        self.diagnostics[f"{what} ending before they start"] += int(backwards.sum())
        good = known & ~backwards
        order = np.lexsort((end[good], start[good]))
        return rows[good].iloc[order].reset_index(drop=True)

    def trace(self, source: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> Trace:
        """Return the Trace of all rows. devices: what is known about each; those with kernels or copies are listed, else all."""
        trace = Trace()
        for table, parts in self.rows.items():
            setattr(trace, table, conform(table, pd.concat(parts, ignore_index=True)))
        seen = {name for table in ("kernels", "copies") for name in getattr(trace, table)["device"].dropna().unique()}
        listed = [dict(device) for device in devices if device["device"] in seen or not seen]
        listed += [{"device": name} for name in sorted(seen - {device["device"] for device in devices})]
        if any(name.startswith("rocm:") and name != "rocm:0" for name in seen):
            self.notes.append(_DEVICES_NOTE)
        timed = trace.kernels["start_ns"].notna().any() or trace.copies["start_ns"].notna().any()
        clock = "relative" if timed or len(trace.calls) or len(trace.ranges) or len(trace.memory) else "none"
        trace.info = {"source": dict(source), "clock": clock, "devices": listed, "notes": self.notes}
        trace.info["unavailable"] = {
            name: f"the capture holds no {what}"
            for name, what in (
                ("kernels", "kernel; record with --kernel-trace"),
                ("calls", "API call; record with --hip-trace"),
                ("ranges", "ROCTX range; record with --marker-trace"),
            )
            if not len(getattr(trace, name)) and not (trace.totals["table"] == name).any()
        }
        trace.diagnostics = {name: count for name, count in self.diagnostics.items() if count}
        return trace


def device(number: int | None, is_gpu: bool | None = True) -> str | None:
    """Return the name of an agent in a Trace; None if unknown."""
    if number is None or number < 0 or is_gpu is None:
        return None
    return f"rocm:{number}" if is_gpu else "cpu"


def texts(numbers: pd.Series, names: Mapping[int, str | None]) -> pd.Categorical:
    """Return the texts that numbers stand for, null where unknown."""
    return named(numbers.astype("Int64").array, names.get)


def shape(rows: pd.DataFrame, size: Sequence[str], divisor: Sequence[str] = ()) -> pd.Categorical:
    """Return three columns as x,y,z; divisor: columns by which to divide them, rounding up, as work-items form workgroups."""
    columns = [*size, *divisor]
    if any(name not in rows for name in columns):
        return pd.Categorical([None] * len(rows), categories=pd.Index([], dtype="str"))
    number = rows.groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
    shapes: list[str | None] = []
    for values in rows.drop_duplicates(columns)[columns].itertuples(index=False):
        if any(pd.isna(value) or value < 1 for value in values):
            shapes.append(None)
            continue
        ones = values[3:] or (1, 1, 1)
        shapes.append(",".join(str(-(-int(all_) // int(one))) for all_, one in zip(values[:3], ones, strict=True)))
    return of_codes(number, shapes)


def number_of_blocks(items: pd.Series, block: pd.Series) -> pd.Series:
    """Return how many workgroups of this size all work-items make, rounding up, as text; null if either is unknown."""
    known = (items >= 1) & (block >= 1)
    return (-(-items.where(known) // block.where(known))).astype("Int64").astype("string")


def kernel_name(text: str | None) -> str | None:
    """Return a kernel's name as in the source: demangled, without the suffix of its descriptor; None if there is none."""
    plain = _SUFFIX.sub("", (text or "").strip())
    if not plain:
        return None
    return demangled(plain)


def kernel_names(names: Mapping[int, str | None]) -> dict[int, str | None]:
    """Return kernels' names as in the source; only the first few thousand mangled names are demangled."""
    mangled = 0
    result: dict[int, str | None] = {}
    for number, name in names.items():
        mangled += name is not None and name.startswith("_Z")
        result[number] = kernel_name(name) if mangled <= _DEMANGLED else name
    return result


def operation(name: str | None) -> str:
    """Return one of COPY_OPERATIONS for a name such as MEMORY_COPY_HOST_TO_DEVICE or CopyDeviceToHost."""
    text = name or ""
    if re.search(r"fill|memset", text, re.IGNORECASE):
        return "set"
    match = _SIDES.search(text)
    if not match:
        return "other"
    source, destination = ("host" if side.lower().startswith("h") else "device" for side in match.groups())
    return f"{source} to {destination}"


def is_copy(name: str) -> bool:
    """Return whether a name in a table of totals is a direction of copies rather than a kernel."""
    return (
        re.match(r"(?:MEMORY_COPY_|hc[Mm]em)?(?:Copy|Memcpy|(?:HOST|DEVICE)_TO_)", name) is not None
        and _SIDES.search(name) is not None
    )


def add_totals(findings: RowsRead, rows: pd.DataFrame, kinds: pd.Series) -> None:
    """Add totals. rows: name, count, duration_ns, ...; kinds: for each of them kernels, copies, calls or ranges."""
    for kind, mine in rows.groupby(kinds, sort=False):
        if kind == "kernels":
            names = {name: kernel_name(name) for name in mine["name"]}
            findings.add("kernels", mine.assign(name=mine["name"].map(names)))
        elif kind == "copies":
            operations = np.array([operation(name) for name in mine["name"]], dtype=object)
            findings.add("copies", mine.drop(columns="name").assign(operation=operations))
        else:
            findings.add("totals", mine.assign(table=kind))


def copies(frame: pd.DataFrame, names: Any, source: Any, destination: Any) -> pd.DataFrame:
    """Return the frame with operation and device.

    names: a pd.Categorical of directions. source and destination: arrays of devices, None if unknown.
    """
    operations = {name: operation(name) for name in names.categories}
    kind = pd.Series(names, dtype="object").map(operations).fillna("other").to_numpy(object, copy=True)
    first, second = (np.asarray(side, dtype=object) for side in (source, destination))
    both = (kind == "device to device") & pd.notna(first) & pd.notna(second)
    kind[both & (first != second)] = "peer to peer"
    towards = np.isin(kind, ["host to device", "set"]) | pd.isna(first) | (first == "cpu")
    where = np.where(towards & pd.notna(second), second, first)
    return frame.assign(operation=kind, device=where)


def is_marker(domain: str) -> bool:
    """Return whether a domain's records are ROCTX's."""
    return _MARKERS.search(domain) is not None


def is_call(domain: str) -> bool:
    """Return whether a domain's records are calls of an API."""
    return not is_marker(domain) and _CALLS.search(domain) is not None


def api(domain: str) -> str:
    """Return the name of an API in a Trace: runtime for HIP, else the domain's own name, such as hsa or rccl."""
    low = domain.lower()
    return "runtime" if "hip" in low and "hipfile" not in low else low.split("_")[0]


def add_host_rows(findings: RowsRead, rows: pd.DataFrame) -> None:
    """Sort host rows into calls and ranges.

    rows: start_ns, end_ns, process, thread, correlation, domain, function (the operation), message (the text of a range).
    """
    timed = findings.timed("calls and ranges", rows)
    domains = timed["domain"].astype("category")
    marker = _asked(domains, is_marker) & ~_asked(timed["function"].astype("category"), lambda text: bool(_NO_RANGE.match(text)))
    called = ~marker & (_asked(domains, is_call) | _asked(domains, is_marker))
    calls = timed[called]
    names = calls["function"].astype("category")
    findings.diagnostics["calls of unknown name"] += int(names.isna().sum())
    domain = calls["domain"].astype("object").map({name: api(name) for name in domains.cat.categories})
    kept = calls[["start_ns", "end_ns", "process", "thread", "correlation"]]
    findings.add("calls", kept.assign(api=domain, name=names))
    findings.add("ranges", _ranges(timed[~called]))


def _ranges(rows: pd.DataFrame) -> pd.DataFrame:
    """Return ranges and marks; the name of the ROCTX function says whether they nest."""
    function = rows["function"].astype("category")
    mark = _asked(function, lambda text: bool(_MARK.match(text))) | (rows["start_ns"] == rows["end_ns"]).to_numpy(bool)
    frame = rows[["start_ns", "end_ns", "thread"]].copy()
    frame["name"] = rows["message"].astype("object").where(rows["message"].notna(), rows["function"].astype("object"))
    frame["category"] = np.where(mark, "mark", "user")
    frame["nested"] = ~mark & ~_asked(function, lambda text: bool(_NOT_NESTED.match(text)))
    return frame


def _asked(values: pd.Series, function: Any) -> Any:
    """Return a function's answer for each text, called once per distinct text; false for null."""
    outcomes = np.array([*(bool(function(str(text))) for text in values.cat.categories), False], dtype=bool)
    return outcomes[values.cat.codes.to_numpy()]


def allocations(findings: RowsRead, rows: pd.DataFrame) -> None:
    """Add memory events: a free has the size and device of the last allocation at its address.

    rows: time_ns, address, bytes, device, thread, taken (whether memory was allocated).
    """
    good = (rows["time_ns"].notna() & rows["address"].notna()).to_numpy(bool)
    findings.diagnostics["memory events without time or address"] += int((~good).sum())
    ordered = rows[good].sort_values("time_ns", kind="stable").reset_index(drop=True)
    by_address = ordered.groupby("address", sort=False)
    before = by_address.shift(1)
    taken = ordered["taken"].to_numpy(bool)
    matched = ~taken & before["taken"].fillna(False).to_numpy(bool)
    findings.diagnostics["memory given back that was taken before the capture, or is null"] += int((~taken & ~matched).sum())
    ordered.loc[matched, "bytes"] = -before.loc[matched, "bytes"]
    ordered.loc[matched, "device"] = before.loc[matched, "device"]
    sized = (taken | matched) & ordered["bytes"].notna().to_numpy(bool)
    findings.diagnostics["memory events of unknown size"] += int(((taken | matched) & ~sized).sum())
    findings.add("memory", ordered.loc[sized, ["time_ns", "device", "thread", "bytes", "address"]])


def stream(streams: pd.Series, queues: pd.Series) -> pd.Series:
    """Return the streams of device work: HIP's, or the queues if there is no stream, or only one beside several queues."""
    known = streams.notna().any()
    alone = known and streams.nunique() == 1 and queues.nunique() > 1
    return streams if known and not alone else queues


def integers(values: Sequence[Any], what: str) -> pd.Series:
    """Return whole numbers (None if unknown) as Int64; raise EvidenceError if one does not fit."""
    try:
        return pd.Series(pd.array(list(values), dtype="Int64"))
    except (TypeError, ValueError, OverflowError) as error:
        raise EvidenceError(f"{what}: holds a number that is out of range; record again") from error


def unread(database: Database, known: Sequence[str], suffix: str = "") -> dict[str, int]:
    """Return the numbers of rows of rocpd's unknown tables that have any, by name."""
    result = {}
    names = Names(known)
    for table in sorted(database.tables.beginning("rocpd_")):
        name = table[: len(table) - len(suffix)]
        if name not in names and folded(table).endswith(folded(suffix)):
            rows = sqlite_columns.count(database, table)
            if rows:
                result[name] = rows
    return result
