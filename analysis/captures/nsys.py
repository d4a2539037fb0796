"""What Nsight Systems' exports say, as a Trace: the same for SQLite files and folders of Parquet or Arrow files.

Facts of the format: User Guide, "SQLite Schema Reference" and "Common SQLite Examples"; versions 2021 to 2026 were looked at.
Never read are the tables with the recorded environment and command lines: TARGET_INFO_SYSTEM_ENV, META_DATA_CAPTURE, PROCESSES.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.nsys_tables import (
    Chosen,
    Column,
    Combinations,
    Gathered,
    Integers,
    Names,
    Nullable,
    Rows,
    Source,
    Strings,
    Tables,
    combinations,
    gather,
    small_table,
)

KERNEL, GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY, MEMSET, SYNC = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
RUNTIME, DRIVER = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"
NVTX, MEMORY, METRICS = "NVTX_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "GPU_METRICS"

# Tables by which an export is told, beside StringIds, which every version writes.
SIGNS = frozenset(
    {
        "META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "ANALYSIS_DETAILS", "ANALYSIS_FILE", "ProcessStreams",
        "ThreadNames", "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU", "DIAGNOSTIC_EVENT",
        "ENUM_NSYS_EVENT_TYPE", "OSRT_API", NVTX, RUNTIME, KERNEL,
    }
)  # fmt: skip

# ENUM_NSYS_EVENT_TYPE: the same numbers in all versions; those from 64 on are ranges that nvtxt files brought in.
_NESTED, _OPEN_ENDED, _MARKS, _DOMAIN = (59, 70), (60, 71), (34, 65), 75
_EVENTS = (*_NESTED, *_OPEN_ENDED, *_MARKS)
_NAMING = (33, 39, 64, 72, 73, 74, 75, 76, 97, 98, 99)  # names of categories, threads, domains, devices, streams

# ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND, ENUM_CUPTI_SYNC_TYPE. Arrays are memory of the device.
_OPERATIONS = (
    "other", "host to device", "device to host", "host to device", "device to host", "device to device", "device to device",
    "device to device", "device to device", "host to host", "peer to peer", "unified memory", "unified memory", "unified memory",
)  # fmt: skip
_MEMORY_KINDS = ("pageable", "pinned", "device", "array", "managed", "device static", "managed static", "unknown")
_HOST_KINDS = (0, 1)
_SYNC_KINDS = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
_CUDA_OVERHEADS = (2, 6, 7, 8)  # ENUM_CUPTI_OVERHEAD_TYPE: compiler, module loading, lazy function loading, full command buffer
_NO_STREAM = 0xFFFFFFFF  # CUPTI_SYNCHRONIZATION_INVALID_VALUE: not of one stream

_DRIVER_CLASSES = (1, 13)  # ENUM_NSYS_EVENT_CLASS in the table of runtime calls: CUDA driver, EGL driver
_CALL_TABLES = {RUNTIME: "runtime", DRIVER: "driver", "CUDNN_EVENTS": "cudnn", "CUBLAS_EVENTS": "cublas", "OSRT_API": "os"}
_CALL_VERSION = r"_v\d+$"

# What nsys says of its own losses. Only these sentences are passed on: others can quote paths and variables.
_LOSSES = re.compile(
    r"(Not all [\w ]{1,40} events might have been collected|[\w ]{1,40} profiling might have not been started correctly)"
)
_LOST = re.compile(r"\b(lost|dropp(?:ed|ing)|discarded|overflow(?:ed)?|out of memory|incomplete|truncated)\b", re.IGNORECASE)
_FRAMEWORKS = {"at::native::": "pytorch", "tensorflow::": "tensorflow", "mxnet::": "mxnet", "Microsoft::MSR::CNTK": "cntk"}


@dataclass
class _Capture:
    """What is gathered while the tables are read. `last_ns`: the latest time that any event tells."""

    tables: Tables
    strings: Strings
    diagnostics: Counter[str] = field(default_factory=Counter)
    last_ns: int = 0
    devices: set[str] = field(default_factory=set)

    def names(self, column: Column, drop: str = "") -> pd.Categorical:
        """Return a column of names, and count those that StringIds lacks."""
        names, unknown = column.named(self.strings, drop)
        self.diagnostics["names that StringIds lacks"] += unknown
        return names

    def ended(self, ends: Integers) -> None:
        """Remember the latest time."""
        self.last_ns = max(self.last_ns, int(ends.max())) if ends.size else self.last_ns


def read_tables(tables: Tables, form: str) -> trace.Trace:
    """Return the Trace of an export. form: the format's name. Raises EvidenceError for tables that are none of nsys."""
    if not tables.columns("StringIds"):
        raise EvidenceError(f"{tables.path}: no table StringIds; not an export of Nsight Systems, or not a whole one")
    capture = _Capture(tables, Strings(tables))
    kernels, graphs, copies = _kernels(capture), _graphs(capture), _copies(capture)
    syncs, memory, samples = _syncs(capture), _memory(capture), _samples(capture)
    calls = _calls(capture)
    ranges = _ranges(capture)
    result = trace.Trace(
        kernels=kernels, graphs=graphs, copies=copies, syncs=syncs, calls=calls, memory=memory, samples=samples, ranges=ranges
    )
    _profiler(capture)
    result.info = _info(capture, form, result)
    result.diagnostics = {name: count for name, count in sorted(capture.diagnostics.items()) if count > 0}
    return result


def _needed(tables: Tables, table: str, *columns: str) -> None:
    missing = [column for column in columns if column not in tables.columns(table)]
    if tables.columns(table) and missing:
        raise EvidenceError(f"{tables.path}: table {table} has no column {missing[0]}; export the capture again")


def _process(identifier: Integers) -> Integers:
    """Return the process's id from a globalPid or globalTid: 8 bits machine, 8 bits virtual machine, 24 process, 24 thread."""
    return identifier >> 24 & 0xFFFFFF


def _interval(rows: Rows) -> dict[str, Any]:
    """Return times, durations and how many are unusable of device work: CUPTI writes 0 for times that it does not know."""
    (start, no_start), (end, no_end) = rows.integers("start"), rows.integers("end")
    duration = end - start
    wrong = (start == 0) | (end == 0) | (end < start) | (duration < 0)
    for null in (no_start, no_end):
        wrong = wrong if null is None else wrong | null
    unusable = int(np.count_nonzero(wrong))
    if not unusable:
        return {"start": Nullable(start, None), "end": Nullable(end, None), "duration": duration, "unusable": 0}
    duration[wrong] = 0
    end = np.where(wrong, 0, end)
    return {"start": Nullable(start, wrong), "end": Nullable(end, wrong), "duration": duration, "unusable": unusable}


_DEVICE_WORK = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")


def _device_work(rows: Rows) -> dict[str, Any]:
    process, no_process = rows.integers("globalPid")
    return {
        **_interval(rows),
        "device": combinations(rows.integers("deviceId")),
        "stream": Nullable(*rows.integers("streamId")),
        "process": Nullable(_process(process), no_process),
        "correlation": Nullable(*rows.integers("correlationId")),
    }


def _device_columns(capture: _Capture, work: Gathered, what: str) -> dict[str, Any]:
    capture.diagnostics[f"{what} without time"] += work.counts["unusable"]
    capture.ended(work["end"].values())
    device = work["device"].labelled(_cuda)
    capture.devices.update(device.categories)
    return {
        "start_ns": work["start"].integers(),
        "end_ns": work["end"].integers(),
        "duration_ns": work["duration"].values(),
        "device": device,
        "thread": work["stream"].integers(),
        "process": work["process"].integers(),
        "correlation": work["correlation"].integers(),
    }


def _cuda(number: int | None) -> str | None:
    return None if number is None else f"cuda:{number}"


def _triple(x: int | None, y: int | None, z: int | None) -> str | None:
    return None if x is None or y is None or z is None else f"{x},{y},{z}"


def _kernels(capture: _Capture) -> pd.DataFrame:
    tables, strings = capture.tables, capture.strings
    _needed(tables, KERNEL, "start", "end")
    names = [name for name in ("demangledName", "shortName", "mangledName") if name in tables.columns(KERNEL)]

    def convert(rows: Rows) -> dict[str, Any]:
        found = np.full(rows.size, -1, dtype=np.int32)
        for column in names:
            if (found < 0).any():
                found = np.where(found < 0, strings.positions(*rows.integers(column)), found)
        return {
            **_device_work(rows),
            "name": Names(found),
            "grid": combinations(*(rows.integers(f"grid{axis}") for axis in "XYZ")),
            "block": combinations(*(rows.integers(f"block{axis}") for axis in "XYZ")),
            "registers": Nullable(*rows.integers("registersPerThread")),
            "shared": _shared(rows),
            "graph": _graph_of_node(rows),
        }

    wanted = (
        *_DEVICE_WORK, *names, "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
        "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId",
    )  # fmt: skip
    work = gather(tables, (KERNEL, wanted, convert))
    columns = _device_columns(capture, work, "kernels") | {
        "name": capture.names(work["name"]),
        "grid": work["grid"].labelled(_triple),
        "block": work["block"].labelled(_triple),
        "registers": work["registers"].integers(np.int32),
        "shared_memory": work["shared"].integers(),
        "graph": work["graph"].integers(),
    }
    return _table("kernels", columns | {"count": np.ones(len(columns["duration_ns"]), dtype=np.int64)})


def _table(name: str, columns: dict[str, Any]) -> pd.DataFrame:
    return trace.conform(name, pd.DataFrame(columns, copy=False))


def _shared(rows: Rows) -> Nullable:
    (static, no_static), (dynamic, no_dynamic) = rows.integers("staticSharedMemory"), rows.integers("dynamicSharedMemory")
    if no_static is None or no_dynamic is None:
        return Nullable(static + dynamic, no_static if no_dynamic is None else no_dynamic)
    return Nullable(static + dynamic, no_static | no_dynamic)


def _graph_of_node(rows: Rows) -> Nullable:
    """Return the graph that launched each kernel: the upper half of a node's id; old versions tell the node only."""
    (graph, no_graph), (node, no_node) = rows.integers("graphId"), rows.integers("graphNodeId")
    if no_graph is None:
        return Nullable(graph, None)
    outside = (node == 0) if no_node is None else no_node | (node == 0)
    return Nullable(np.where(no_graph, np.where(node >= 1 << 32, node >> 32, node), graph), no_graph & outside)


def _graphs(capture: _Capture) -> pd.DataFrame:
    """Return the executions of graphs that were recorded as one interval each (--cuda-graph-trace=graph, the default)."""

    def convert(rows: Rows) -> dict[str, Any]:
        (graph, no_graph), (executable, no_executable) = rows.integers("graphId"), rows.integers("graphExecId")
        if no_executable is None:
            return _device_work(rows) | {"graph": Nullable(executable, None)}
        neither = None if no_graph is None else no_graph & no_executable
        return _device_work(rows) | {"graph": Nullable(np.where(no_executable, graph, executable), neither)}

    _needed(capture.tables, GRAPH, "start", "end")
    work = gather(capture.tables, (GRAPH, (*_DEVICE_WORK, "graphId", "graphExecId"), convert))
    return _timed("graphs", _device_columns(capture, work, "graph executions") | {"graph": work["graph"].integers()})


def _timed(name: str, columns: dict[str, Any]) -> pd.DataFrame:
    """Return a table of intervals, without the rows whose time is not known: those were counted."""
    known = ~columns["start_ns"].isna()
    return _table(name, {key: values[known] for key, values in columns.items()})


def _copies(capture: _Capture) -> pd.DataFrame:
    def convert(rows: Rows) -> dict[str, Any]:
        kinds = combinations(*(rows.integers(name) for name in ("copyKind", "srcKind", "dstKind")))
        return {**_device_work(rows), "bytes": Nullable(*rows.integers("bytes")), "kinds": kinds}

    def convert_set(rows: Rows) -> dict[str, Any]:
        kinds = combinations(rows.integers("memKind"))
        set_ = Combinations(kinds.codes, [(None, None, *kind) for kind in kinds.distinct])
        return {**_device_work(rows), "bytes": Nullable(*rows.integers("bytes")), "kinds": set_}

    for table in (MEMCPY, MEMSET):
        _needed(capture.tables, table, "start", "end")
    work = gather(
        capture.tables,
        (MEMCPY, (*_DEVICE_WORK, "bytes", "copyKind", "srcKind", "dstKind"), convert),
        (MEMSET, (*_DEVICE_WORK, "bytes", "memKind"), convert_set),
    )
    columns = _device_columns(capture, work, "copies")
    return _table(
        "copies",
        columns
        | {
            "count": np.ones(len(columns["duration_ns"]), dtype=np.int64),
            "bytes": work["bytes"].integers(),
            "operation": work["kinds"].labelled(_operation),
            "memory": work["kinds"].labelled(_moved),
        },
    )


def _operation(kind: int | None, source: int | None, _: int | None) -> str:
    """Return what a copy does. Memory sets have no kind of copy; copies always have one."""
    return "set" if kind is None and source is None else _listed(_OPERATIONS, kind) or "other"


def _listed(names: Sequence[str], number: int | None) -> str | None:
    return names[number] if number is not None and 0 <= number < len(names) else None


def _moved(kind: int | None, source: int | None, destination: int | None) -> str | None:
    known = [_listed(_MEMORY_KINDS, source), _listed(_MEMORY_KINDS, destination)]
    if kind is None:
        return known[1]
    return None if source is None and destination is None else " to ".join(name or "unknown" for name in known)


def _syncs(capture: _Capture) -> pd.DataFrame:
    def convert(rows: Rows) -> dict[str, Any]:
        stream, no_stream = rows.integers("streamId")
        whole = stream == _NO_STREAM
        part = _device_work(rows) | {"kind": combinations(rows.integers("syncType"))}
        return part | {"stream": Nullable(stream, whole if no_stream is None else whole | no_stream)}

    _needed(capture.tables, SYNC, "start", "end")
    work = gather(capture.tables, (SYNC, (*_DEVICE_WORK, "syncType"), convert))
    kind = work["kind"].labelled(lambda number: _SYNC_KINDS.get(number or 0, "unknown"))
    return _timed("syncs", _device_columns(capture, work, "synchronisations") | {"kind": kind})


def _host(rows: Rows) -> tuple[Rows, dict[str, Any]]:
    """Return the rows that have a thread and a start, which the Trace needs, with their times and what is odd about them."""
    lost = np.zeros(rows.size, dtype=np.bool_)
    for name in ("start", "globalTid"):
        null = rows.integers(name)[1]
        if null is not None:
            lost |= null
    left_out = int(np.count_nonzero(lost))
    if left_out:
        rows = Chosen(rows, ~lost)
    start, (end, no_end), thread = rows.integers("start")[0], rows.integers("end"), rows.integers("globalTid")[0]
    backwards = end < start if no_end is None else (end < start) & ~no_end
    end = np.maximum(end, start) if no_end is None else np.where(no_end, start, np.maximum(end, start))
    part = {"start": start, "end": end, "thread": thread, "left out": left_out}
    return rows, part | {"backwards": int(np.count_nonzero(backwards))}


def _host_columns(capture: _Capture, events: Gathered, what: str) -> dict[str, Any]:
    capture.diagnostics[f"{what} without a start or a thread, left out"] += events.counts["left out"]
    capture.diagnostics[f"{what} that end before they start"] += events.counts["backwards"]
    columns = {"start_ns": events["start"].values(), "end_ns": events["end"].values(), "thread": events["thread"].values()}
    capture.ended(columns["end_ns"])
    return columns


def _calls(capture: _Capture) -> pd.DataFrame:
    strings, apis = capture.strings, list(_CALL_TABLES.values())

    def source(number: int, table: str) -> Source:
        _needed(capture.tables, table, "start", "end", "globalTid", "nameId")

        def convert(rows: Rows) -> dict[str, Any]:
            rows, part = _host(rows)
            kinds, no_end = combinations(rows.integers("eventClass")), rows.integers("end")[1]
            return part | {
                "name": Names(strings.positions(*rows.integers("nameId"))),
                "correlation": Nullable(*rows.integers("correlationId")),
                "api": Combinations(kinds.codes, [(number, *values) for values in kinds.distinct]),
                "open": 0 if no_end is None else int(np.count_nonzero(no_end)),
            }

        more = ("eventClass",) if table == RUNTIME else ()
        return table, ("start", "end", "globalTid", "nameId", "correlationId", *more), convert

    def api(table: int, kind: int | None) -> str:
        return "driver" if table == 0 and kind in _DRIVER_CLASSES else apis[table]

    events = gather(capture.tables, *(source(number, table) for number, table in enumerate(_CALL_TABLES)))
    capture.diagnostics["calls without an end"] += events.counts["open"]
    columns = _host_columns(capture, events, "calls")
    return _table(
        "calls",
        columns
        | {
            "process": _process(columns["thread"]),
            "api": events["api"].labelled(api),
            "name": capture.names(events["name"], drop=_CALL_VERSION),
            "correlation": events["correlation"].integers(),
        },
    )


def _ranges(capture: _Capture) -> pd.DataFrame:
    """Return NVTX ranges and marks. Ranges that were never closed end with the capture."""
    tables, strings = capture.tables, capture.strings
    _needed(tables, NVTX, "start", "end", "eventType", "globalTid")
    domains: dict[tuple[int, int], str] = {}

    def convert(rows: Rows) -> dict[str, Any]:
        kinds, odd = rows.integers("eventType")[0], 0
        plain = bool((kinds == _NESTED[0]).all())  # as almost always: then nothing needs to be told apart
        if not plain:
            wanted = np.isin(kinds, _EVENTS)
            odd = int(np.count_nonzero(~(wanted | np.isin(kinds, _NAMING))))
            domains.update(_domains_of(Chosen(rows, kinds == _DOMAIN), strings))
            rows = Chosen(rows, wanted)
        rows, part = _host(rows)
        kinds, no_end, domain = rows.integers("eventType")[0], rows.integers("end")[1], rows.integers("domainId")
        none = np.zeros(rows.size, dtype=np.bool_)
        marks = none if plain else np.isin(kinds, _MARKS)
        process = _process(part["thread"]) if domain[0].any() else np.zeros(rows.size, dtype=np.int64)
        return part | {
            "name": Names(strings.positions(*rows.integers("textId")), rows.texts("text")),
            "open": none if no_end is None else no_end & ~marks,
            "nested": ~none if plain else np.isin(kinds, _NESTED),
            "mark": marks.view(np.int8),
            "domain": combinations((process, None), domain),
            "odd": odd,
        }

    columns = ("start", "end", "globalTid", "eventType", "text", "textId", "domainId")
    events = gather(tables, (NVTX, columns, convert))
    capture.diagnostics["NVTX events of an unknown kind, left out"] += events.counts["odd"]
    frame = _host_columns(capture, events, "ranges")
    unfinished = np.flatnonzero(events["open"].values())
    capture.diagnostics["open ranges"] += unfinished.size
    if unfinished.size:
        frame["end_ns"][unfinished] = np.maximum(_end_of(capture), frame["start_ns"][unfinished])
    return _table(
        "ranges",
        frame
        | {
            "name": capture.names(events["name"]),
            "category": pd.Categorical.from_codes(events["mark"].values().astype(np.int8), categories=pd.Index(["user", "mark"])),
            "nested": events["nested"].values().astype(np.bool_),
            "domain": events["domain"].labelled(lambda *key: _domain(domains, *key)),
        },
    )


def _end_of(capture: _Capture) -> int:
    """Return when the recording was stopped, or the latest event where that is later or not told."""
    details = small_table(capture.tables, "ANALYSIS_DETAILS", ("stopTime",))
    stops: list[int] = [row["stopTime"] for row in details if row["stopTime"] is not None]
    return max([capture.last_ns, *stops])


def _domains_of(rows: Rows, strings: Strings) -> dict[tuple[int, int], str]:
    """Return the names that rows of domains' creation give, by process and number of the domain."""
    text, places = rows.texts("text"), strings.positions(*rows.integers("textId"))
    inline = [None] * rows.size if text is None else text.to_pylist()
    process, number = _process(rows.integers("globalTid")[0]), rows.integers("domainId")[0]
    found = {}
    for key, name, place in zip(zip(process.tolist(), number.tolist(), strict=True), inline, places.tolist(), strict=True):
        told = strings.texts[place].as_py() if name is None and place >= 0 else name
        if told:
            found[key] = told
    return found


def _domain(domains: dict[tuple[int, int], str], process: int | None, number: int | None) -> str | None:
    if not number:
        return None
    return domains.get((process or 0, number)) or f"domain {number}"


def _memory(capture: _Capture) -> pd.DataFrame:
    """Return memory that CUDA calls took and gave back (--cuda-memory-usage)."""

    def convert(rows: Rows) -> dict[str, Any]:
        time, no_time = rows.integers("start")
        if no_time is not None:
            rows = Chosen(rows, ~no_time)
            time = rows.integers("start")[0]
        amount, given_back = rows.integers("bytes")[0], rows.integers("memoryOperationType")[0] == 1
        return {
            "time": time,
            "bytes": np.where(given_back, -amount, amount),
            "device": combinations(rows.integers("deviceId"), rows.integers("memKind")),
            "lost": 0 if no_time is None else int(np.count_nonzero(no_time)),
        }

    _needed(capture.tables, MEMORY, "start", "bytes", "memoryOperationType")
    columns = ("start", "bytes", "deviceId", "memoryOperationType", "memKind")
    events = gather(capture.tables, (MEMORY, columns, convert))
    capture.diagnostics["memory events without time, left out"] += events.counts["lost"]
    device = events["device"].labelled(lambda number, kind: "cpu" if kind in _HOST_KINDS else _cuda(number))
    return _table("memory", {"time_ns": events["time"].values(), "bytes": events["bytes"].values(), "device": device})


def _samples(capture: _Capture) -> pd.DataFrame:
    """Return sampled GPU metrics (--gpu-metrics-device). The lowest byte of a type's id is the number of the GPU."""
    metrics = small_table(capture.tables, "TARGET_INFO_GPU_METRICS", ("typeId", "metricId"), ("metricName",))
    names = {(row["typeId"], row["metricId"]): row["metricName"] for row in metrics}
    gpus = {row["id"]: row["cuDevice"] for row in _gpus(capture.tables)}

    def convert(rows: Rows) -> dict[str, Any]:
        time, no_time = rows.integers("timestamp")
        value = rows.numbers("value")
        keep = ~np.isnan(value) if no_time is None else ~(np.isnan(value) | no_time)
        chosen = Chosen(rows, keep)
        kind, metric = chosen.integers("typeId"), chosen.integers("metricId")
        part = {"time": time[keep], "value": value[keep], "lost": rows.size - chosen.size}
        return part | {"kind": combinations(kind), "metric": combinations(kind, metric)}

    def device(kind: int | None) -> str | None:
        number = None if kind is None else kind & 0xFF
        return _cuda(gpus.get(number) if gpus.get(number) is not None else number)

    _needed(capture.tables, METRICS, "timestamp", "typeId", "metricId", "value")
    events = gather(capture.tables, (METRICS, ("timestamp", "typeId", "metricId", "value"), convert))
    capture.diagnostics["samples without time or value, left out"] += events.counts["lost"]
    return _table(
        "samples",
        {
            "time_ns": events["time"].values(),
            "value": events["value"].values(),
            "device": events["kind"].labelled(device),
            "metric": events["metric"].labelled(lambda *key: names.get(key) or f"metric {key[1]}"),
        },
    )


def _profiler(capture: _Capture) -> None:
    """Count what nsys tells of itself: losses, warnings, and the time that it took from the program."""
    for row in small_table(capture.tables, "DIAGNOSTIC_EVENT", ("severity",), ("text",)):
        text = row["text"] or ""
        told, lost = _LOSSES.search(text), _LOST.search(text)
        if told:
            capture.diagnostics[f"nsys: {told.group(1)}"] += 1
        elif lost and row["severity"] in (2, 3):
            capture.diagnostics[f"nsys warnings of {lost.group(1).lower()} records"] += 1
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        if {"start", "end"} <= capture.tables.columns(table):
            for own, cuda in capture.tables.scan(table, ("start", "end", "overheadType"), _overheads):
                capture.diagnostics["profiler's own overhead, ns"] += own
                capture.diagnostics["overhead of CUDA's compiling, loading and full buffers, ns"] += cuda


def _overheads(rows: Rows) -> tuple[int, int]:
    """Return the time that the profiler took, and the time that CUDA itself took for what is no call's work."""
    duration, kind = _interval(rows)["duration"], rows.integers("overheadType")[0]
    cuda = int(duration[np.isin(kind, _CUDA_OVERHEADS)].sum())
    return int(duration.sum()) - cuda, cuda


def _gpus(tables: Tables) -> list[dict[str, Any]]:
    columns = ("id", "cuDevice", "totalMemory", "smCount", "computeMajor", "computeMinor")
    return small_table(tables, "TARGET_INFO_GPU", columns, ("name",))


def _devices(capture: _Capture) -> list[dict[str, Any]]:
    """Return the devices that did something, or all where none did, with what is known of them."""
    gpus = _gpus(capture.tables)
    own = {row["cudaId"]: row["gpuId"] for row in small_table(capture.tables, "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId"))}
    by_id = {row["id"]: row for row in gpus}
    by_number = {row["id"] if row["cuDevice"] is None else row["cuDevice"]: row for row in gpus}
    by_number |= {number: by_id[gpu] for number, gpu in own.items() if gpu in by_id}
    known = {_cuda(number): row for number, row in by_number.items() if number is not None}
    devices = []
    for device in sorted(capture.devices or set(filter(None, known)), key=lambda name: (len(name), name)):
        row = known.get(device, {})
        told = {"name": row.get("name"), "memory_bytes": row.get("totalMemory"), "multiprocessors": row.get("smCount")}
        if row.get("computeMajor") is not None:
            told["compute_capability"] = f"{row['computeMajor']}.{row['computeMinor'] or 0}"
        devices.append({"device": device, **{name: value for name, value in told.items() if value is not None}})
    return devices


def _info(capture: _Capture, form: str, result: trace.Trace) -> dict[str, Any]:
    info: dict[str, Any] = {"source": _source(capture.tables, form), "clock": "relative", "devices": _devices(capture)}
    framework = {name for sign, name in _FRAMEWORKS.items() if _holds(result.kernels["name"], sign)}
    if len(framework) == 1:
        info["framework"] = framework.pop()
    unavailable = {}
    for what, table, how in (
        ("kernels", KERNEL, "CUDA kernels; record with nsys profile -t cuda"),
        ("calls", RUNTIME, "CUDA calls; record with nsys profile -t cuda"),
        ("ranges", NVTX, "NVTX ranges; record with nsys profile -t nvtx, and let the program open ranges"),
    ):
        if not len(getattr(result, what)) or (what == "calls" and not _rows_of(result.calls["api"], ("runtime", "driver"))):
            state = "is empty" if capture.tables.columns(table) else "does not exist"
            unavailable[what] = f"the capture holds no {how} (table {table} {state})"
    info["unavailable"] = unavailable
    info["notes"] = []
    if len(result.graphs):
        info["notes"].append(
            f"{len(result.graphs)} executions of CUDA graphs were recorded as one interval each, without their kernels; "
            "nsys profile --cuda-graph-trace=node records these"
        )
    return info


def _rows_of(column: pd.Series, values: Sequence[str]) -> int:
    return int(column.isin(values).sum())


def _holds(column: pd.Series, sign: str) -> bool:
    return bool(column.cat.categories.to_series().str.contains(sign, regex=False).any())


def _source(tables: Tables, form: str) -> dict[str, Any]:
    """Return format, version of the nsys that exported, and version of its schema; versions before 2022 do not tell."""
    told: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for row in small_table(tables, table, (), ("name", "value")):
            if row["name"] in ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION") and row["value"]:
                told[row["name"]] = row["value"]
    version = re.match(r"\d{4}\.\d+\.\d+", told.get("EXPORT_PRODUCT_VERSION", ""), re.ASCII)
    schema = re.fullmatch(r"\d+\.\d+\.\d+", told.get("EXPORT_SCHEMA_VERSION", ""), re.ASCII)
    return {
        "format": form,
        "tool": "nsys",
        "version": version.group() if version else None,
        "schema": schema.group() if schema else None,
    }
