"""Nsight Systems' exports as a Trace: the same for SQLite files and folders of Parquet or Arrow files.

`formats.nsys.columns` knows the tables' content; here ids get their names, and columns become tables of a Trace. The tables
with the recorded environment and command lines are never read: TARGET_INFO_SYSTEM_ENV, META_DATA_CAPTURE, PROCESSES.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis import trace
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.nsys import RECORD_GRAPHS
from kernelscope.analysis.formats.nsys.columns import (
    CALL_TABLES,
    CPU_FAULTS,
    GATHERED,
    GPU_FAULTS,
    KERNEL,
    NVTX,
    RUNTIME,
    interval,
    process_of,
)
from kernelscope.analysis.formats.nsys.frames import Strings, integers, labelled, named
from kernelscope.analysis.formats.nsys.tables import Gathered, GrowingColumn, Ids, Integers, Rows, Tables, small_table
from kernelscope.analysis.trace import page_faults

# ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND, ENUM_CUPTI_SYNC_TYPE. Arrays are memory of the device.
_OPERATIONS = (
    "other", "host to device", "device to host", "host to device", "device to host", "device to device", "device to device",
    "device to device", "device to device", "host to host", "peer to peer", "unified memory", "unified memory", "unified memory",
)  # fmt: skip
_MEMORY_KINDS = ("pageable", "pinned", "device", "array", "managed", "device static", "managed static", "unknown")
_HOST_KINDS = (0, 1)
_SYNC_KINDS = {1: "event", 2: "stream wait event", 3: "stream", 4: "context"}
_CUDA_OVERHEADS = (2, 6, 7, 8)  # ENUM_CUPTI_OVERHEAD_TYPE: compiler, module loading, lazy function loading, full command buffer

_DRIVER_CLASSES = (1, 13)  # ENUM_NSYS_EVENT_CLASS in the table of runtime calls: CUDA driver, EGL driver
_CALL_VERSION = r"_v\d+$"

# nsys's messages about its own losses. Only these sentences are passed on: others can quote paths and variables.
_LOSSES = re.compile(
    r"(Not all [\w ]{1,40} events might have been collected|[\w ]{1,40} profiling might have not been started correctly)"
)
_NOT_STARTED = "CUDA profiling might have not been started correctly"
_AGAIN = "let the program end by itself, and record with a version of nsys that knows the driver's CUDA (`nsys status -e`)"
_LOST = re.compile(r"\b(lost|dropp(?:ed|ing)|discarded|overflow(?:ed)?|out of memory|incomplete|truncated)\b", re.IGNORECASE)
_FRAMEWORKS = {"at::native::": "pytorch", "tensorflow::": "tensorflow", "mxnet::": "mxnet", "Microsoft::MSR::CNTK": "cntk"}


@dataclass
class _Capture:
    """State while the tables are read. `last_ns`: the latest time of any event."""

    tables: Tables
    strings: Strings
    decoded: Decoded
    diagnostics: Counter[str] = field(default_factory=Counter)
    last_ns: int = 0
    devices: set[str] = field(default_factory=set)

    def names(self, column: GrowingColumn, drop: str = "") -> pd.Categorical:
        """Return a column of names, and count the ids that StringIds lacks."""
        names, unknown = named(column, self.strings, drop)
        self.diagnostics["names that StringIds lacks"] += unknown
        return names

    def ended(self, ends: Integers) -> None:
        """Remember the latest time."""
        self.last_ns = max(self.last_ns, int(ends.max())) if ends.size else self.last_ns


Decoded = Callable[[str], Gathered]  # returns the columns of an entry of GATHERED, by its name


def read_tables(tables: Tables, form: str) -> trace.Trace:
    """Return the Trace of an export; form: the format's name. Raise EvidenceError if the tables are not nsys's."""
    if not tables.columns("StringIds"):
        raise EvidenceError(f"{tables.path}: no table StringIds; not an export of Nsight Systems, or an incomplete one")
    capture = _Capture(tables, Strings(tables), _decoding(tables))
    kernels, graphs, copies = _kernels(capture), _graphs(capture), _copies(capture)
    syncs, memory, samples = _syncs(capture), _memory(capture), _samples(capture)
    calls = _calls(capture)
    ranges = _ranges(capture)
    result = trace.Trace(
        kernels=kernels, graphs=graphs, copies=copies, syncs=syncs, calls=calls, memory=memory, samples=samples, ranges=ranges
    )
    result.totals = _page_faults(capture)
    _profiler(capture)
    result.info = _info(capture, form, result)
    result.diagnostics = {name: count for name, count in sorted(capture.diagnostics.items()) if count > 0}
    return result


def _decoding(tables: Tables) -> Decoded:
    """Return the function that decodes an export's tables."""
    ids = Ids(tables)
    return lambda name: GATHERED[name](tables, ids)


def _device_columns(capture: _Capture, work: Gathered, what: str) -> dict[str, Any]:
    capture.diagnostics[f"{what} without time"] += work.counts["unusable"]
    capture.ended(work["end"].values())
    device = labelled(work["device"], _cuda)
    capture.devices.update(device.categories)
    return {
        "start_ns": integers(work["start"]),
        "end_ns": integers(work["end"]),
        "duration_ns": work["duration"].values(),
        "device": device,
        "thread": integers(work["stream"]),
        "process": integers(work["process"]),
        "correlation": integers(work["correlation"]),
    }


def _cuda(number: int | None) -> str | None:
    return None if number is None else f"cuda:{number}"


def _triple(x: int | None, y: int | None, z: int | None) -> str | None:
    return None if x is None or y is None or z is None else f"{x},{y},{z}"


def _kernels(capture: _Capture) -> pd.DataFrame:
    work = capture.decoded("kernels")
    columns = _device_columns(capture, work, "kernels") | {
        "name": capture.names(work["name"]),
        "grid": labelled(work["grid"], _triple),
        "block": labelled(work["block"], _triple),
        "registers": integers(work["registers"], np.int32),
        "shared_memory": integers(work["shared"]),
        "graph": integers(work["graph"]),
    }
    return _table("kernels", columns | {"count": np.ones(len(columns["duration_ns"]), dtype=np.int64)})


def _table(name: str, columns: dict[str, Any]) -> pd.DataFrame:
    return trace.conform(name, pd.DataFrame(columns, copy=False))


def _graphs(capture: _Capture) -> pd.DataFrame:
    """Return graph executions that were recorded as one interval each (--cuda-graph-trace=graph, the default)."""
    work = capture.decoded("graphs")
    return _timed("graphs", _device_columns(capture, work, "graph executions") | {"graph": integers(work["graph"])})


def _timed(name: str, columns: dict[str, Any]) -> pd.DataFrame:
    """Return a table of intervals, without the rows of unknown time, which are already counted."""
    known = ~columns["start_ns"].isna()
    return _table(name, {key: values[known] for key, values in columns.items()})


def _copies(capture: _Capture) -> pd.DataFrame:
    work = capture.decoded("copies")
    columns = _device_columns(capture, work, "copies")
    return _table(
        "copies",
        columns
        | {
            "count": np.ones(len(columns["duration_ns"]), dtype=np.int64),
            "bytes": integers(work["bytes"]),
            "operation": labelled(work["kinds"], _operation),
            "memory": labelled(work["kinds"], _moved),
        },
    )


def _operation(kind: int | None, source: int | None, _: int | None) -> str:
    """Return a copy's operation. Copies always have a kind; memory sets have none."""
    return "set" if kind is None and source is None else _listed(_OPERATIONS, kind) or "other"


def _listed(names: Sequence[str], number: int | None) -> str | None:
    return names[number] if number is not None and 0 <= number < len(names) else None


def _moved(kind: int | None, source: int | None, destination: int | None) -> str | None:
    known = [_listed(_MEMORY_KINDS, source), _listed(_MEMORY_KINDS, destination)]
    if kind is None:
        return known[1]
    return None if source is None and destination is None else " to ".join(name or "unknown" for name in known)


def _syncs(capture: _Capture) -> pd.DataFrame:
    work = capture.decoded("syncs")
    kind = labelled(work["kind"], lambda number: _SYNC_KINDS.get(number or 0, "unknown"))
    return _timed("syncs", _device_columns(capture, work, "synchronisations") | {"kind": kind})


def _host_columns(capture: _Capture, events: Gathered, what: str) -> dict[str, Any]:
    capture.diagnostics[f"{what} without a start or a thread, left out"] += events.counts["left out"]
    capture.diagnostics[f"{what} that end before they start"] += events.counts["backwards"]
    columns = {"start_ns": events["start"].values(), "end_ns": events["end"].values(), "thread": events["thread"].values()}
    capture.ended(columns["end_ns"])
    return columns


def _calls(capture: _Capture) -> pd.DataFrame:
    apis = list(CALL_TABLES.values())

    def api(table: int, kind: int | None) -> str:
        return "driver" if table == 0 and kind in _DRIVER_CLASSES else apis[table]

    events = capture.decoded("calls")
    capture.diagnostics["calls without an end"] += events.counts["open"]
    columns = _host_columns(capture, events, "calls")
    return _table(
        "calls",
        columns
        | {
            "process": process_of(columns["thread"]),
            "api": labelled(events["api"], api),
            "name": capture.names(events["name"], drop=_CALL_VERSION),
            "correlation": integers(events["correlation"]),
        },
    )


def _ranges(capture: _Capture) -> pd.DataFrame:
    """Return NVTX ranges and marks. Ranges that were never closed end with the capture."""
    events = capture.decoded("ranges")
    domains = _domain_names(capture, events)
    capture.diagnostics["NVTX events of an unknown kind, left out"] += events.counts["unknown"]
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
            "domain": labelled(events["domain"], lambda *key: _domain(domains, *key)),
        },
    )


def _end_of(capture: _Capture) -> int:
    """Return when the recording stopped, or the time of the latest event if that is later or the stop is unknown."""
    details = small_table(capture.tables, "ANALYSIS_DETAILS", ("stopTime",))
    stops: list[int] = [row["stopTime"] for row in details if row["stopTime"] is not None]
    return max([capture.last_ns, *stops])


def _domain_names(capture: _Capture, events: Gathered) -> dict[tuple[int, int], str]:
    """Return the names of domains by process and number."""
    texts = capture.strings.texts
    names = (
        ((process, number), texts[place].as_py() if name is None and place >= 0 else name)
        for process, number, place, name in events.lists.get("domains", [])
    )
    return {key: name for key, name in names if name}


def _domain(domains: dict[tuple[int, int], str], process: int | None, number: int | None) -> str | None:
    if not number:
        return None
    return domains.get((process or 0, number)) or f"domain {number}"


def _memory(capture: _Capture) -> pd.DataFrame:
    """Return the memory that CUDA calls allocated and freed (--cuda-memory-usage)."""
    events = capture.decoded("memory")
    capture.diagnostics["memory events without time, left out"] += events.counts["lost"]
    device = labelled(events["device"], lambda number, kind: "cpu" if kind in _HOST_KINDS else _cuda(number))
    return _table("memory", {"time_ns": events["time"].values(), "bytes": events["bytes"].values(), "device": device})


def _samples(capture: _Capture) -> pd.DataFrame:
    """Return sampled GPU metrics (--gpu-metrics-device). The lowest byte of a type's id is the GPU's number."""
    metrics = small_table(capture.tables, "TARGET_INFO_GPU_METRICS", ("typeId", "metricId"), ("metricName",))
    names = {(row["typeId"], row["metricId"]): row["metricName"] for row in metrics}
    gpus = {row["id"]: row["cuDevice"] for row in _gpus(capture.tables)}

    def device(kind: int | None) -> str | None:
        number = None if kind is None else kind & 0xFF
        return _cuda(gpus.get(number) if gpus.get(number) is not None else number)

    events = capture.decoded("samples")
    capture.diagnostics["samples without time or value, left out"] += events.counts["lost"]
    return _table(
        "samples",
        {
            "time_ns": events["time"].values(),
            "value": events["value"].values(),
            "device": labelled(events["kind"], device),
            "metric": labelled(events["metric"], lambda *key: names.get(key) or f"metric {key[1]}"),
        },
    )


def _page_faults(capture: _Capture) -> pd.DataFrame:
    """Return page faults of unified memory as totals (--cuda-um-gpu-page-faults, --cuda-um-cpu-page-faults)."""
    took, of_cpu = [pd.Series([], dtype="Int64")], 0
    if {"start", "end"} <= capture.tables.columns(GPU_FAULTS):
        took += capture.tables.scan(GPU_FAULTS, ("start", "end"), _lengths)
    if "start" in capture.tables.columns(CPU_FAULTS):
        of_cpu = sum(capture.tables.scan(CPU_FAULTS, ("start",), lambda rows: rows.size))
    return trace.conform("totals", page_faults.summed(pd.concat(took, ignore_index=True), of_cpu))


def _lengths(rows: Rows) -> pd.Series:
    """Return the durations of rows, null if unknown."""
    times = interval(rows)
    wrong = times["start"].null
    return pd.Series(times["duration"], dtype="Int64").mask(np.zeros(rows.size, dtype=bool) if wrong is None else wrong)


def _profiler(capture: _Capture) -> None:
    """Count what nsys reports about itself: losses, warnings, and the time that it took from the program."""
    for row in small_table(capture.tables, "DIAGNOSTIC_EVENT", ("severity",), ("text",)):
        text = row["text"] or ""
        match, lost = _LOSSES.search(text), _LOST.search(text)
        if match:
            capture.diagnostics[f"nsys: {match.group(1)}"] += 1
        elif lost and row["severity"] in (2, 3):
            capture.diagnostics[f"nsys warnings of {lost.group(1).lower()} records"] += 1
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        if {"start", "end"} <= capture.tables.columns(table):
            for own, cuda in capture.tables.scan(table, ("start", "end", "overheadType"), _overheads):
                capture.diagnostics["profiler's own overhead, ns"] += own
                capture.diagnostics["overhead of CUDA's compiling, loading and full buffers, ns"] += cuda


def _overheads(rows: Rows) -> tuple[int, int]:
    """Return the profiler's own time, and the time of CUDA's overheads: compiling, loading and full command buffers."""
    duration, kind = interval(rows)["duration"], rows.integers("overheadType")[0]
    cuda = int(duration[np.isin(kind, _CUDA_OVERHEADS)].sum())
    return int(duration.sum()) - cuda, cuda


def _gpus(tables: Tables) -> list[dict[str, Any]]:
    columns = ("id", "cuDevice", "totalMemory", "smCount", "computeMajor", "computeMinor")
    return small_table(tables, "TARGET_INFO_GPU", columns, ("name",))


def _devices(capture: _Capture) -> list[dict[str, Any]]:
    """Return the devices that were used, or all if none was, with their properties."""
    gpus = _gpus(capture.tables)
    own = {row["cudaId"]: row["gpuId"] for row in small_table(capture.tables, "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId"))}
    by_id = {row["id"]: row for row in gpus}
    by_number = {row["id"] if row["cuDevice"] is None else row["cuDevice"]: row for row in gpus}
    by_number |= {number: by_id[gpu] for number, gpu in own.items() if gpu in by_id}
    known = {_cuda(number): row for number, row in by_number.items() if number is not None}
    devices = []
    for device in sorted(capture.devices or set(filter(None, known)), key=lambda name: (len(name), name)):
        row = known.get(device, {})
        properties = {"name": row.get("name"), "memory_bytes": row.get("totalMemory"), "multiprocessors": row.get("smCount")}
        if row.get("computeMajor") is not None:
            properties["compute_capability"] = f"{row['computeMajor']}.{row['computeMinor'] or 0}"
        devices.append({"device": device, **{name: value for name, value in properties.items() if value is not None}})
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
    failed = next((text for text in capture.diagnostics if _NOT_STARTED in text), None)
    if failed and "kernels" in unavailable:
        unavailable["kernels"] = f"the capture holds no CUDA kernels ({failed}); {_AGAIN}"
    info["unavailable"] = unavailable
    info["notes"] = []
    if len(result.graphs):
        info["notes"].append(
            f"{len(result.graphs)} executions of CUDA graphs were recorded as one interval each, without their kernels; "
            f"{RECORD_GRAPHS} records the kernels"
        )
    return info


def _rows_of(column: pd.Series, values: Sequence[str]) -> int:
    return int(column.isin(values).sum())


def _holds(column: pd.Series, sign: str) -> bool:
    return bool(column.cat.categories.to_series().str.contains(sign, regex=False).any())


def _source(tables: Tables, form: str) -> dict[str, Any]:
    """Return the format, and the versions of the exporting nsys and its schema; nsys before 2022 does not write them."""
    export: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for row in small_table(tables, table, (), ("name", "value")):
            if row["name"] in ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION") and row["value"]:
                export[row["name"]] = row["value"]
    version = re.match(r"\d{4}\.\d+\.\d+", export.get("EXPORT_PRODUCT_VERSION", ""), re.ASCII)
    schema = re.fullmatch(r"\d+\.\d+\.\d+", export.get("EXPORT_SCHEMA_VERSION", ""), re.ASCII)
    return {
        "format": form,
        "tool": "nsys",
        "version": version.group() if version else None,
        "schema": schema.group() if schema else None,
    }
