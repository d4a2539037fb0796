"""The tables of Nsight Systems' exports as columns of numbers: kernels, copies, calls, ranges, ...

Sources for the format: User Guide, "SQLite Schema Reference" and "Common SQLite Examples"; exports of versions 2021 to 2026.
Imports numpy only (see formats.nsys.tables); `analysis.formats.nsys.trace` makes a Trace from the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.combinations import Combinations, combinations
from kernelscope.analysis.formats.nsys.tables import (
    Chosen,
    Gathered,
    Ids,
    Integers,
    Nullable,
    RowNames,
    Rows,
    Source,
    Tables,
    gather,
)
from kernelscope.analysis.trace.stacks import sorting

KERNEL, GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY, MEMSET, SYNC = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
RUNTIME, DRIVER = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"
NVTX, MEMORY, METRICS = "NVTX_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "GPU_METRICS"
GPU_FAULTS, CPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS"

# Tables by which an export is recognised, together with StringIds, which every version writes.
SIGNS = frozenset(
    {
        "META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "ANALYSIS_DETAILS", "ANALYSIS_FILE", "ProcessStreams",
        "ThreadNames", "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU", "DIAGNOSTIC_EVENT",
        "ENUM_NSYS_EVENT_TYPE", "OSRT_API", NVTX, RUNTIME, KERNEL,
    }
)  # fmt: skip

# ENUM_NSYS_EVENT_TYPE: the same numbers in all versions; those from 64 on come from nvtxt files.
_NESTED, _OPEN_ENDED, _MARKS, _DOMAIN = (59, 70), (60, 71), (34, 65), 75
_EVENTS = (*_NESTED, *_OPEN_ENDED, *_MARKS)
_NAMING = (33, 39, 64, 72, 73, 74, 75, 76, 97, 98, 99)  # names of categories, threads, domains, devices, streams
_NO_STREAM = 0xFFFFFFFF  # CUPTI_SYNCHRONIZATION_INVALID_VALUE: not a single stream

CALL_TABLES = {RUNTIME: "runtime", DRIVER: "driver", "CUDNN_EVENTS": "cudnn", "CUBLAS_EVENTS": "cublas", "OSRT_API": "os"}


def _needed(tables: Tables, table: str, *columns: str) -> None:
    missing = [column for column in columns if column not in tables.columns(table)]
    if tables.columns(table) and missing:
        raise EvidenceError(f"{tables.path}: table {table} has no column {missing[0]}; export the capture again")


def process_of(identifier: Integers) -> Integers:
    """Return the process id in a globalPid or globalTid: 8 bits machine, 8 bits virtual machine, 24 process, 24 thread."""
    return identifier >> 24 & 0xFFFFFF


def interval(rows: Rows) -> dict[str, Any]:
    """Return times and durations of device work, and how many are unusable: CUPTI writes 0 for unknown times."""
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
        **interval(rows),
        "device": combinations(rows.integers("deviceId")),
        "stream": Nullable(*rows.integers("streamId")),
        "process": Nullable(process_of(process), no_process),
        "correlation": Nullable(*rows.integers("correlationId")),
    }


def _kernels(tables: Tables, ids: Ids) -> Gathered:
    _needed(tables, KERNEL, "start", "end")
    names = [name for name in ("demangledName", "shortName", "mangledName") if name in tables.columns(KERNEL)]

    def convert(rows: Rows) -> dict[str, Any]:
        result = np.full(rows.size, -1, dtype=np.int32)
        for column in names:
            if (result < 0).any():
                result = np.where(result < 0, ids.positions(*rows.integers(column)), result)
        return {
            **_device_work(rows),
            "name": RowNames(result),
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
    return gather(tables, (KERNEL, wanted, convert))


def _shared(rows: Rows) -> Nullable:
    (static, no_static), (dynamic, no_dynamic) = rows.integers("staticSharedMemory"), rows.integers("dynamicSharedMemory")
    if no_static is None or no_dynamic is None:
        return Nullable(static + dynamic, no_static if no_dynamic is None else no_dynamic)
    return Nullable(static + dynamic, no_static | no_dynamic)


def _graph_of_node(rows: Rows) -> Nullable:
    """Return the graph that launched each kernel: graphId, or the upper half of the node's id, the only one in old versions."""
    (graph, no_graph), (node, no_node) = rows.integers("graphId"), rows.integers("graphNodeId")
    if no_graph is None:
        return Nullable(graph, None)
    outside = (node == 0) if no_node is None else no_node | (node == 0)
    return Nullable(np.where(no_graph, np.where(node >= 1 << 32, node >> 32, node), graph), no_graph & outside)


def _graphs(tables: Tables, _: Ids) -> Gathered:
    """Return graph executions that were recorded as one interval each (--cuda-graph-trace=graph, the default)."""

    def convert(rows: Rows) -> dict[str, Any]:
        (graph, no_graph), (executable, no_executable) = rows.integers("graphId"), rows.integers("graphExecId")
        if no_executable is None:
            return _device_work(rows) | {"graph": Nullable(executable, None)}
        neither = None if no_graph is None else no_graph & no_executable
        return _device_work(rows) | {"graph": Nullable(np.where(no_executable, graph, executable), neither)}

    _needed(tables, GRAPH, "start", "end")
    return gather(tables, (GRAPH, (*_DEVICE_WORK, "graphId", "graphExecId"), convert))


def _copies(tables: Tables, _: Ids) -> Gathered:
    def convert(rows: Rows) -> dict[str, Any]:
        kinds = combinations(*(rows.integers(name) for name in ("copyKind", "srcKind", "dstKind")))
        return {**_device_work(rows), "bytes": Nullable(*rows.integers("bytes")), "kinds": kinds}

    def convert_set(rows: Rows) -> dict[str, Any]:
        kinds = combinations(rows.integers("memKind"))
        set_ = Combinations(kinds.codes, [(None, None, *kind) for kind in kinds.distinct])
        return {**_device_work(rows), "bytes": Nullable(*rows.integers("bytes")), "kinds": set_}

    for table in (MEMCPY, MEMSET):
        _needed(tables, table, "start", "end")
    return gather(
        tables,
        (MEMCPY, (*_DEVICE_WORK, "bytes", "copyKind", "srcKind", "dstKind"), convert),
        (MEMSET, (*_DEVICE_WORK, "bytes", "memKind"), convert_set),
    )


def _syncs(tables: Tables, _: Ids) -> Gathered:
    def convert(rows: Rows) -> dict[str, Any]:
        stream, no_stream = rows.integers("streamId")
        whole = stream == _NO_STREAM
        part = _device_work(rows) | {"kind": combinations(rows.integers("syncType"))}
        return part | {"stream": Nullable(stream, whole if no_stream is None else whole | no_stream)}

    _needed(tables, SYNC, "start", "end")
    return gather(tables, (SYNC, (*_DEVICE_WORK, "syncType"), convert))


def _memory(tables: Tables, _: Ids) -> Gathered:
    """Return the memory that CUDA calls allocated and freed (--cuda-memory-usage)."""

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

    _needed(tables, MEMORY, "start", "bytes", "memoryOperationType")
    columns = ("start", "bytes", "deviceId", "memoryOperationType", "memKind")
    return gather(tables, (MEMORY, columns, convert))


def _samples(tables: Tables, _: Ids) -> Gathered:
    """Return sampled GPU metrics (--gpu-metrics-device)."""

    def convert(rows: Rows) -> dict[str, Any]:
        time, no_time = rows.integers("timestamp")
        value = rows.numbers("value")
        keep = ~np.isnan(value) if no_time is None else ~(np.isnan(value) | no_time)
        chosen = Chosen(rows, keep)
        kind, metric = chosen.integers("typeId"), chosen.integers("metricId")
        part = {"time": time[keep], "value": value[keep], "lost": rows.size - chosen.size}
        return part | {"kind": combinations(kind), "metric": combinations(kind, metric)}

    _needed(tables, METRICS, "timestamp", "typeId", "metricId", "value")
    return gather(tables, (METRICS, ("timestamp", "typeId", "metricId", "value"), convert))


def _host(rows: Rows) -> tuple[Rows, dict[str, Any]]:
    """Return the rows that have a thread and a start, as the Trace needs, and their times and diagnostics."""
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


def _calls(tables: Tables, ids: Ids) -> Gathered:
    """Return calls of all APIs in their total order (see analysis.attribution.correlation).

    `api` combines the table's position in CALL_TABLES and the event's class.
    """

    def source(number: int, table: str) -> Source:
        _needed(tables, table, "start", "end", "globalTid", "nameId")

        def convert(rows: Rows) -> dict[str, Any]:
            rows, part = _host(rows)
            kinds, no_end = combinations(rows.integers("eventClass")), rows.integers("end")[1]
            return part | {
                "name": RowNames(ids.positions(*rows.integers("nameId"))),
                "correlation": Nullable(*rows.integers("correlationId")),
                "api": Combinations(kinds.codes, [(number, *values) for values in kinds.distinct]),
                "open": 0 if no_end is None else int(np.count_nonzero(no_end)),
            }

        more = ("eventClass",) if table == RUNTIME else ()
        return table, ("start", "end", "globalTid", "nameId", "correlationId", *more), convert

    calls = gather(tables, *(source(number, table) for number, table in enumerate(CALL_TABLES)))
    order = sorting(calls["start"].stored(), calls["end"].stored())
    if order is not None:
        for column in calls.columns.values():
            column.reorder(order)
    return calls


def _ranges(tables: Tables, ids: Ids) -> Gathered:
    """Return NVTX ranges and marks, and, as the list `domains`, the names of domains (see _domains_of)."""
    _needed(tables, NVTX, "start", "end", "eventType", "globalTid")

    def convert(rows: Rows) -> dict[str, Any]:
        kinds, unknown, domains = rows.integers("eventType")[0], 0, list[Domain]()
        plain = bool((kinds == _NESTED[0]).all())  # almost always: then there is nothing to distinguish
        if not plain:
            wanted = np.isin(kinds, _EVENTS)
            unknown = int(np.count_nonzero(~(wanted | np.isin(kinds, _NAMING))))
            domains = _domains_of(Chosen(rows, kinds == _DOMAIN), ids)
            rows = Chosen(rows, wanted)
        rows, part = _host(rows)
        kinds, no_end, domain = rows.integers("eventType")[0], rows.integers("end")[1], rows.integers("domainId")
        none = np.zeros(rows.size, dtype=np.bool_)
        marks = none if plain else np.isin(kinds, _MARKS)
        process = process_of(part["thread"]) if domain[0].any() else np.zeros(rows.size, dtype=np.int64)
        return part | {
            "name": RowNames(ids.positions(*rows.integers("textId")), rows.texts("text")),
            "open": none if no_end is None else no_end & ~marks,
            "nested": ~none if plain else np.isin(kinds, _NESTED),
            "mark": marks.view(np.int8),
            "domain": combinations((process, None), domain),
            "unknown": unknown,
            "domains": domains,
        }

    columns = ("start", "end", "globalTid", "eventType", "text", "textId", "domainId")
    return gather(tables, (NVTX, columns, convert))


Domain = tuple[
    int, int, int, str | None
]  # process, number of the domain, row of StringIds with its name or -1, or the name itself


def _domains_of(rows: Rows, ids: Ids) -> list[Domain]:
    """Return the domains that these rows create."""
    text, places = rows.texts("text"), ids.positions(*rows.integers("textId"))
    inline = [None] * rows.size if text is None else text.to_pylist()
    process, number = process_of(rows.integers("globalTid")[0]), rows.integers("domainId")[0]
    return list(zip(process.tolist(), number.tolist(), places.tolist(), inline, strict=True))


# In reading order; ranges are mostly the largest table.
GATHERED: Mapping[str, Callable[[Tables, Ids], Gathered]] = {
    "kernels": _kernels, "graphs": _graphs, "copies": _copies, "syncs": _syncs, "memory": _memory, "samples": _samples,
    "calls": _calls, "ranges": _ranges,
}  # fmt: skip
