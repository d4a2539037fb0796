"""Reader of cupti.records, the file that our CUPTI collector appends to while a program runs (tracer/inside/activity_records).

`read` returns all tables, empty if nothing was recorded; `load` also returns the file's header and whether the file is
complete. A file that is cut off or damaged is read up to that place. Times are on CUPTI's clock, in ns, and null if CUPTI could
not take them; `to_monotonic` converts them to CLOCK_MONOTONIC, the clock of our ranges. Rows are in the order of the file.

kernels    start_ns end_ns queued_ns submitted_ns completed_ns name device context stream correlation graph graph_node
           grid_x.. block_x.. cluster_x.. registers launch static_shared dynamic_shared shared_executed local_thread channel
copies     start_ns end_ns operation bytes count source destination asynchronous device context stream correlation graph
           graph_node source_device destination_device
memsets    start_ns end_ns bytes value memory device context stream correlation graph graph_node
calls      start_ns end_ns api name number process thread correlation status
syncs      start_ns end_ns kind device context stream event correlation
graphs     start_ns end_ns device context stream graph correlation end_device
external   correlation kind external: the number of the innermost range open on the thread of the call with this correlation
ranges     id name thread start_monotonic_ns end_monotonic_ns
overheads  start_ns end_ns kind process thread correlation
memory     time_ns operation bytes address memory device context stream process correlation
dropped    context stream count: records that CUPTI lost; null context and stream: its queue of all streams
clock      cupti_ns monotonic_ns uncertainty_ns place: simultaneous readings of both clocks
devices    device name uuid capability_major capability_minor multiprocessors memory_bytes mig
contexts   context device
"""

from __future__ import annotations

import mmap
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.files.magic import CUPTI_RECORDS_MAGIC
from kernelscope.analysis.formats.cupti import callbacks as cupti_callbacks
from kernelscope.analysis.trace.categories import named

_BLOCK = struct.Struct("<4sIII")
_CODES = {"B": "u1", "H": "<u2", "I": "<u4", "i": "<i4", "Q": "<u8", "q": "<i8", "s": "<u4"}
_LARGEST_BLOCK = 1 << 26
_TABLES = (
    "kernels", "copies", "peer_copies", "memsets", "calls", "syncs", "graphs", "external", "ranges", "overheads", "memory",
    "dropped", "clock", "devices", "contexts",
)  # fmt: skip
_NONE = 0xFFFFFFFF  # CUPTI's number of no stream, no device

# Enumerations of cupti_activity.h: CUpti_ActivityMemcpyKind (arrays are memory of the device), -MemoryKind,
# -SynchronizationType, -OverheadKind, -LaunchType, -MemoryOperationType, CUpti_ExternalCorrelationKind, CUpti_ActivityKind
_OPERATIONS = {
    1: "host to device", 2: "device to host", 3: "host to device", 4: "device to host", 5: "device to device",
    6: "device to device", 7: "device to device", 8: "device to device", 9: "host to host", 10: "peer to peer",
}  # fmt: skip
_MEMORIES = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "device static", 7: "managed static"}
_SYNCS = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
_OVERHEADS = {
    1: "compiler", 1 << 16: "buffer flush", 2 << 16: "instrumentation", 3 << 16: "resources", 4 << 16: "module loading",
    5 << 16: "lazy function loading", 6 << 16: "full command buffers", 7 << 16: "buffer requests", 8 << 16: "unified memory",
}  # fmt: skip
_LAUNCHES = {0: "regular", 1: "cooperative", 2: "cooperative over devices", 3: "command list"}
_MEMORY_OPERATIONS = {1: "allocation", 2: "release"}
_EXTERNALS = {2: "openacc", 3: "custom 0", 4: "custom 1", 5: "ranges"}
_DRIVER, _RUNTIME = 4, 5
_APIS = {_DRIVER: "driver", _RUNTIME: "runtime"}
_PLACES = {0: "begin", 1: "during", 2: "end"}
_THREAD = 2  # CUpti_ActivityObjectKind
_ASYNCHRONOUS = 1  # CUpti_ActivityFlag of copies
_VERSIONED = re.compile(r"_(v\d+|ptsz|ptds)")


@dataclass(frozen=True)
class CuptiCapture:
    """The content of a file. header: process, versions and kinds of activity as the collector wrote them.

    truncated: why and where reading ended early; None for a file that was closed. report: the collector's counts at its end
    (records, bytes, dropped, errors); None if the file is incomplete.
    """

    header: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    truncated: str | None
    report: dict[str, Any] | None


def read(path: Path | str) -> dict[str, pd.DataFrame]:
    """Return the tables of a file; raise EvidenceError if it is not the collector's or its header is damaged."""
    return load(path).tables


def load(path: Path | str) -> CuptiCapture:
    """Return the tables with the header, and whether the file is complete; raise EvidenceError as `read` does."""
    result = _blocks(Path(path))
    raw = {name: _joined(result, name) for name in _TABLES}
    tables = {name: build(raw[name]) for name, build in _BUILDERS.items()}
    tables["copies"] = pd.concat([tables["copies"], _peer_copies(raw["peer_copies"])], ignore_index=True)
    devices = tables["contexts"].drop_duplicates("context", keep="last").set_index("context")["device"]
    tables["syncs"].insert(3, "device", tables["syncs"]["context"].map(devices).astype("Int64"))
    return CuptiCapture(result.header, tables, result.truncated, result.report)


def to_monotonic(clock: pd.DataFrame, times: pd.Series) -> pd.Series:
    """Return CUPTI's times on CLOCK_MONOTONIC, in ns: the clocks' difference is interpolated between readings of both.

    Raise EvidenceError if there is no reading.
    """
    if clock.empty:
        raise EvidenceError("no reading of both clocks: CUPTI's times cannot be converted; record again")
    ordered = clock.sort_values("cupti_ns", kind="stable")
    cupti, ours = (ordered[name].to_numpy(np.int64) for name in ("cupti_ns", "monotonic_ns"))
    offset = ours - cupti
    values = times.to_numpy(np.int64, na_value=int(cupti[0])) if times.dtype == "Int64" else times.to_numpy(np.int64)
    # differences fit doubles exactly, times do not
    passed, readings, changes = (part.astype(np.float64) for part in (values - cupti[0], cupti - cupti[0], offset - offset[0]))
    drift = np.interp(passed, readings, changes)
    moved = pd.Series(values + offset[0] + np.rint(drift).astype(np.int64), index=times.index)
    return moved.astype("Int64").where(times.notna()) if times.dtype == "Int64" else moved


@dataclass
class _Contents:
    header: dict[str, Any] = field(default_factory=dict)
    layouts: dict[bytes, tuple[str, np.dtype[Any]]] = field(default_factory=dict)
    parts: dict[str, list[npt.NDArray[Any]]] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    functions: dict[tuple[int, int], str] = field(default_factory=dict)
    truncated: str | None = None
    report: dict[str, Any] | None = None


def _blocks(path: Path) -> _Contents:
    """Return the content of a file's blocks, up to the first that is damaged or cut."""
    try:
        with path.open("rb") as file:
            if file.read(len(CUPTI_RECORDS_MAGIC)) != CUPTI_RECORDS_MAGIC:
                raise EvidenceError(f"{path}: not a file of the CUPTI collector; name a cupti.records")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    result = _Contents()
    place, size = len(CUPTI_RECORDS_MAGIC), len(content)
    while result.truncated is None and place < size:
        place = _block(result, memoryview(content), place)
    if not result.layouts:
        reason = result.truncated or "ends before its header"
        raise EvidenceError(f"{path}: {reason}; copy it again, unless nothing was recorded")
    if result.truncated is None and result.report is None:
        result.truncated = f"byte {size}: no end; the program ended, or was killed, before the recording was stopped"
    return result


def _block(contents: _Contents, content: memoryview, place: int) -> int:
    """Read one block into `contents`; return where the next begins."""
    if place + _BLOCK.size > len(content):
        contents.truncated = f"byte {place}: cut off at the beginning of a block"
        return len(content)
    tag, rows, length, checksum = _BLOCK.unpack_from(content, place)
    begin = place + _BLOCK.size
    end: int = begin + length
    whole = end <= len(content)
    layout = contents.layouts.get(tag)
    known = layout is not None or tag in (b"HEAD", b"TEXT", b"NAME", b"DONE")
    if length > _LARGEST_BLOCK or not known or (layout is not None and rows * layout[1].itemsize != length):
        contents.truncated = f"byte {place}: damaged, not a block"
    elif whole and zlib.crc32(content[begin:end]) != checksum:
        contents.truncated = f"byte {place}: damaged, the checksum of a block differs"
    elif layout is not None:
        name, dtype = layout
        rows = min(rows, (len(content) - begin) // dtype.itemsize)
        contents.parts.setdefault(name, []).append(np.frombuffer(content, dtype, rows, begin))
    elif whole:
        _json_block(contents, tag, content[begin:end], place)
    if not whole and contents.truncated is None:
        contents.truncated = f"byte {place}: cut off in the middle of a block"
    return end


def _json_block(contents: _Contents, tag: bytes, content: memoryview, place: int) -> None:
    try:
        value = json_text.parsed(bytes(content))
        if tag == b"HEAD":
            contents.layouts = _layouts(value["tables"])
            contents.header = {key: item for key, item in value.items() if key != "tables"}
        elif tag == b"TEXT":
            contents.texts.update(enumerate(map(str, value["texts"]), int(value["first"])))
        elif tag == b"NAME":
            contents.functions.update({(int(kind), int(number)): str(name) for kind, number, name in value})
        elif isinstance(value, dict):
            contents.report = value
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        contents.truncated = f"byte {place}: damaged {tag.decode('ascii')} block ({type(error).__name__})"


def _layouts(described: Mapping[str, Any]) -> dict[bytes, tuple[str, np.dtype[Any]]]:
    """Return the row types that a header describes: tag -> (table, type of a row)."""
    result = {}
    for tag, table in described.items():
        columns = [(str(name), _CODES[code]) for name, code in table["columns"]]
        if not columns:
            raise ValueError("a table without columns")
        result[str(tag).encode("ascii")] = str(table["table"]), np.dtype(columns)
    return result


def _joined(contents: _Contents, name: str) -> _RecordRows:
    parts = contents.parts.get(name)
    return _RecordRows(np.concatenate(parts) if parts else None, contents.texts, contents.functions)


class _RecordRows:
    """The rows of one table as written; a column that the file lacks is all zeros."""

    def __init__(self, rows: npt.NDArray[Any] | None, texts: Mapping[int, str], functions: Mapping[tuple[int, int], str]) -> None:
        self._rows = rows
        self._texts = texts
        self.functions = functions  # (kind of call, CUPTI's id) -> name, as the collector knew it
        self._names = frozenset(rows.dtype.names or ()) if rows is not None else frozenset()
        self.count = 0 if rows is None else len(rows)

    def __getitem__(self, name: str) -> npt.NDArray[np.int64]:
        if self._rows is None or name not in self._names:
            return np.zeros(self.count, dtype=np.int64)
        values = self._rows[name]
        if values.dtype.kind == "u" and values.dtype.itemsize == 8:
            values = np.minimum(values, np.uint64(np.iinfo(np.int64).max))
        return values.astype(np.int64)

    def optional(self, name: str, none: int) -> Any:
        """Return a column as Int64, null where it equals `none`; all null if the column is missing."""
        values = self[name]
        return pd.arrays.IntegerArray(values, (values == none) | (name not in self._names))

    def time(self, name: str) -> Any:
        """Return times, null where CUPTI writes 0."""
        return self.optional(name, 0)

    def span(self) -> dict[str, Any]:
        return {"start_ns": self.time("start_ns"), "end_ns": self.time("end_ns")}

    def place(self) -> dict[str, Any]:
        return {name: self[name] for name in ("device", "context", "stream", "correlation")}

    def graph(self) -> dict[str, Any]:
        return {name: self.optional(name, 0) for name in ("graph", "graph_node")}

    def named(self, name: str, names: Mapping[int, str], otherwise: str | None = None) -> pd.Categorical:
        """Return a column of an enumeration as texts; numbers without a name become `otherwise`, or "kind N"."""
        return named(self[name], lambda number: names.get(number, otherwise or f"kind {number}"))

    def texts(self, name: str) -> pd.Categorical:
        """Return the texts for a column of text ids; null if the file lacks the text."""
        return named(self[name], self._texts.get)


def _kernels(rows: _RecordRows) -> pd.DataFrame:
    times = {name: rows.time(name) for name in ("start_ns", "end_ns", "queued_ns", "submitted_ns", "completed_ns")}
    launch = [f"{part}_{axis}" for part in ("grid", "block", "cluster") for axis in "xyz"]
    sizes = ("registers", "static_shared", "dynamic_shared", "shared_executed", "local_thread", "channel")
    named = {"name": rows.texts("name"), "launch": rows.named("launch", _LAUNCHES)}
    return pd.DataFrame({**times, **named, **rows.place(), **rows.graph(), **{name: rows[name] for name in (*launch, *sizes)}})


def _copies(rows: _RecordRows) -> pd.DataFrame:
    columns = {
        **rows.span(),
        "operation": rows.named("operation", _OPERATIONS, "other"),
        "bytes": rows["bytes"],
        "count": np.maximum(rows["count"], 1),
        "source": rows.named("source", _MEMORIES, "unknown"),
        "destination": rows.named("destination", _MEMORIES, "unknown"),
        "asynchronous": rows["flags"] & _ASYNCHRONOUS != 0,
        **rows.place(),
        **rows.graph(),
        "source_device": rows.optional("source_device", _NONE),
        "destination_device": rows.optional("destination_device", _NONE),
    }
    return pd.DataFrame(columns)


def _peer_copies(rows: _RecordRows) -> pd.DataFrame:
    frame = _copies(rows)
    return frame.assign(operation=pd.Categorical(["peer to peer"] * len(frame)))


def _memsets(rows: _RecordRows) -> pd.DataFrame:
    own = {"bytes": rows["bytes"], "value": rows["value"], "memory": rows.named("memory", _MEMORIES, "unknown")}
    return pd.DataFrame({**rows.span(), **own, **rows.place(), **rows.graph()})


def _calls(rows: _RecordRows) -> pd.DataFrame:
    api, number = rows["api"], rows["number"]

    def name_of(both: int) -> str:
        kind, identifier = divmod(both, 1 << 32)
        names = cupti_callbacks.RUNTIME if kind == _RUNTIME else cupti_callbacks.DRIVER
        recorded = _VERSIONED.sub("", rows.functions.get((kind, identifier), ""))
        return names.get(identifier) or recorded or f"{_APIS.get(kind, 'call')} {identifier}"

    names = {"api": rows.named("api", _APIS), "name": named(api * (1 << 32) + number, name_of), "number": number}
    return pd.DataFrame({**rows.span(), **names, **{name: rows[name] for name in ("process", "thread", "correlation", "status")}})


def _syncs(rows: _RecordRows) -> pd.DataFrame:
    own = {"kind": rows.named("kind", _SYNCS), "context": rows["context"], "stream": rows.optional("stream", _NONE)}
    return pd.DataFrame({**rows.span(), **own, "event": rows.optional("event", _NONE), "correlation": rows["correlation"]})


def _graphs(rows: _RecordRows) -> pd.DataFrame:
    return pd.DataFrame({**rows.span(), **rows.place(), "graph": rows["graph"], "end_device": rows.optional("end_device", _NONE)})


def _external(rows: _RecordRows) -> pd.DataFrame:
    kind = rows.named("kind", _EXTERNALS)
    return pd.DataFrame({"correlation": rows["correlation"], "kind": kind, "external": rows["external"]})


def _ranges(rows: _RecordRows) -> pd.DataFrame:
    named = {"id": rows["id"], "name": rows.texts("name"), "thread": rows["thread"]}
    return pd.DataFrame({**named, **{name: rows[name] for name in ("start_monotonic_ns", "end_monotonic_ns")}})


def _overheads(rows: _RecordRows) -> pd.DataFrame:
    known = (rows["object"] != 1) & (rows["object"] != _THREAD)
    thread = pd.arrays.IntegerArray(rows["thread"], rows["object"] != _THREAD)
    process = pd.arrays.IntegerArray(rows["process"], known)
    kind = rows.named("kind", _OVERHEADS)
    return pd.DataFrame({**rows.span(), "kind": kind, "process": process, "thread": thread, "correlation": rows["correlation"]})


def _memory(rows: _RecordRows) -> pd.DataFrame:
    columns = {
        "time_ns": rows.time("time_ns"),
        "operation": rows.named("operation", _MEMORY_OPERATIONS),
        "bytes": rows["bytes"],
        "address": rows["address"],
        "memory": rows.named("memory", _MEMORIES, "unknown"),
        **rows.place(),
        "stream": rows.optional("stream", _NONE),
        "process": rows["process"],
    }
    return pd.DataFrame(columns)


def _dropped(rows: _RecordRows) -> pd.DataFrame:
    return pd.DataFrame({"context": rows.optional("context", -1), "stream": rows.optional("stream", -1), "count": rows["count"]})


def _clock(rows: _RecordRows) -> pd.DataFrame:
    numbers = {name: rows[name] for name in ("cupti_ns", "monotonic_ns", "uncertainty_ns")}
    return pd.DataFrame({**numbers, "place": rows.named("place", _PLACES)})


def _devices(rows: _RecordRows) -> pd.DataFrame:
    mig = rows["mig"] != 0
    both = zip(rows.texts("uuid"), rows.texts("mig_uuid"), mig.tolist(), strict=True)
    uuid = [_uuid(instance, "MIG-") if is_mig else _uuid(whole, "GPU-") for whole, instance, is_mig in both]
    numbers = ("capability_major", "capability_minor", "multiprocessors", "memory_bytes")
    named = {"device": rows["device"], "name": rows.texts("name"), "uuid": pd.array(uuid, dtype="string")}
    frame = pd.DataFrame({**named, **{name: rows[name] for name in numbers}, "mig": mig})
    return frame.drop_duplicates("device", ignore_index=True)


def _uuid(digits: Any, prefix: str) -> str | None:
    """Return a UUID as nvidia-smi writes it."""
    if not isinstance(digits, str) or not re.fullmatch("[0-9a-f]{32}", digits) or not int(digits, 16):
        return None
    return f"{prefix}{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _contexts(rows: _RecordRows) -> pd.DataFrame:
    return pd.DataFrame({"context": rows["context"], "device": rows["device"]})


_BUILDERS: dict[str, Callable[[_RecordRows], pd.DataFrame]] = {
    "kernels": _kernels, "copies": _copies, "memsets": _memsets, "calls": _calls, "syncs": _syncs, "graphs": _graphs,
    "external": _external, "ranges": _ranges, "overheads": _overheads, "memory": _memory, "dropped": _dropped, "clock": _clock,
    "devices": _devices, "contexts": _contexts,
}  # fmt: skip
