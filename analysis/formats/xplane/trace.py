"""XSpace files of TensorFlow, JAX and PyTorch/XLA: GPUs of either vendor, TPUs, and CPUs where nothing else computes.

A GPU's plane has one line a stream; lines named "XLA Ops", "Framework Ops" and the like on it are derived from these by the
profiler and show the same time again. On a TPU the line "XLA Ops" is the work itself; operations that hold others (loops, calls)
are ranges there. Transfers that a TPU makes beside its operations stand on "Async XLA Ops". The operations that start them and
wait for them compute nothing, and are syncs. Where the transfers of a core were not recorded, its waits stand for them.

The host's planes hold calls of CUDA's or HIP's API, which bear the correlation of what they launched, executions of TensorFlow's
operators ("conv1/Conv2D:Conv2D"), and what the frameworks and Python note besides, which become ranges. Statistics tell a
kernel's operator: tf_op for TensorFlow, name for JAX, and the launch's grid, block and memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.protobuf_columns import varint
from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.holders import holders
from kernelscope.analysis.formats.xplane import devices as xplane_devices
from kernelscope.analysis.formats.xplane import kernel_operators
from kernelscope.analysis.formats.xplane import steps as xplane_steps
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.trace import Trace, conform, thread_names
from kernelscope.analysis.trace.categories import joined

INTEGERS = (
    "correlation_id", "device_id", "step_num", "cuda_graph_exec_id", "cuda_graph_id", "bytes_accessed", "allocation_bytes",
    "bytes_allocated", "bytes_reserved", *kernel_operators.INTEGERS,
)  # fmt: skip
TEXTS = (
    "kernel_details", "memcpy_details", "Memset_details", "memalloc_details", "MemFree_details", "MemoryResidency_details",
    "tf_op", "name", "hlo_op", "hlo_category", "allocator_name", *kernel_operators.TEXTS,
)  # fmt: skip
_PLANE_NAME = re.compile(rb"/(?:host|device|virtualdevice):|Task Environment|#Chip|Host CPUs|Syscalls")
_SILENT_HOSTS = ("/host:metadata", "/host:tfstreamz", "/host:__ScopeRangeCallStack__")
# lines of a GPU's plane that the profiler derives from its streams
_DERIVED = (
    xplane_steps.LINE, "XLA Modules", "XLA Ops", "Async XLA Ops", "XLA TraceMe", "XLA Scopes", "TensorFlow Ops",
    "TensorFlow Name Scope", "Framework Ops", "Framework Name Scope", "Source code", "Source", "Launch Stats",
    "Host Offload Ops", "_counters_", "CUPTI overhead",
)  # fmt: skip
_TPU_WORK = ("XLA Ops", "Sparse Core Ops")
_TPU_ASYNCHRONOUS = "Async XLA Ops"
_TPU_MODULES = ("XLA Modules", "Sparse Core Modules")
_OF_TRANSFERS = "copy-(?:start|done)$"  # categories of operations that start asynchronous copies and wait for them
_HOLDERS = r"^(while|conditional|call|async-start)"  # categories of operations that hold others
_TPU_KINDS = (
    (r"^(all-|reduce-scatter|collective|send|recv)", "communication"),
    (r"^(copy|async-copy)", "copy"),
    (r"^data formatting", "layout"),
)
# names such as MemcpyH2D, hipMemcpyHtoDAsync, CopyHostToDevice, MEMORY_COPY_HOST_TO_DEVICE
_COPY_OPERATIONS = tuple(
    (rf"(?i)^\w*?(?:cpy|copy)_?{source}_?(?:2|to)_?{target}", name)
    for source, target, name in (
        ("h(?:ost)?", "d", "host to device"),
        ("d(?:evice)?", "h", "device to host"),
        ("d(?:evice)?", "d", "device to device"),
        ("p(?:eer)?", "p", "peer to peer"),
        ("h(?:ost)?", "h", "host to host"),
    )
)
# what the driver copies with in CUDA graphs, of which CUPTI itself tells as copies
_COPY_KERNEL = r"^memcpy\d+(?:_\w+)?$"
_LISTED = 16  # devices without events that are named
_NAMED = 4  # planes of unknown devices that are
_HOST_MEMORY = "S(5)"  # how XLA's shapes mark memory of the host
_API = r"^(cu|cuda|hip)[A-Z]\w*"
_NO_WORK = r"^(Overhead|Generic|HostRegister|HostUnregister|MemoryAlloc|MemoryFree|MemoryResidency|Environment)\b"
_OPERATOR = r"^(?P<scope>[^:]+):(?P<type>[A-Za-z_]\w*)$"
_LINE_BITS = (1 << 48) - 1

Flags = npt.NDArray[np.bool_]


def matches(head: Head) -> bool:
    """Return whether the content begins as an XSpace does: with a plane that begins with a known plane's name."""
    content = head.content
    try:
        tag, length, position = content[0], *varint(content, 1)
        if tag != 0x0A or length < 4:
            return False
        if content[position] == 0x08:  # a plane's number may stand before its name
            _, position = varint(content, position + 1)
        if content[position] != 0x12:
            return False
        length, position = varint(content, position + 1)
    except IndexError:
        return False
    return length < 1000 and _PLANE_NAME.match(content[position : position + length]) is not None


def read(path: Path) -> Trace:
    """Read an XSpace file; raises EvidenceError when it cannot be read or is none."""
    space = xplane.read_planes(path, INTEGERS, TEXTS)
    missing = [plane.name.startswith("/device:GPU") and kernel_operators.are_missing(plane) for plane in space.planes]
    if any(missing):
        contents = xplane.read_programs(path)
        planes = zip(space.planes, missing, strict=True)
        added = [kernel_operators.added(plane, contents, str(path)) if lacks else plane for plane, lacks in planes]
        space = replace(space, planes=added)
    return of_space(space)


def of_space(space: xplane.Space) -> Trace:
    """Return the Trace of a file's planes, whose events bear the statistics INTEGERS and TEXTS."""
    tables: Tables = {name: [] for name in ("ranges", "operators", "kernels", "graphs", "copies", "syncs", "memory", "calls")}
    diagnostics: dict[str, int] = {}
    planes = _sorted_out(space, diagnostics)
    for take_apart, parts in ((_gpu, planes.gpu), (_tpu, planes.tpu)):
        if parts:
            take_apart(_joined(parts), tables, diagnostics)
    on_cpu = not any(len(part) for name in ("kernels", "copies", "graphs") for part in tables[name])
    if on_cpu:
        planes.refuse_unknown_devices()
    gpu = "rocm" if any(row["device"].startswith("rocm") for row in [*planes.devices, *planes.empty]) else "cuda"
    hosts = _host_events(planes.hosts)
    for events in hosts:
        _host(events, on_cpu, gpu, tables, diagnostics)
    _count(diagnostics, "events without a usable time", space.damaged)
    _count(diagnostics, "errors and warnings of the profiler", len(space.messages))
    trace = Trace(diagnostics=diagnostics)
    frames = {name: _joined(parts) for name, parts in tables.items()}
    xplane_devices.separate_launches(frames)
    for name, frame in frames.items():
        setattr(trace, name, conform(name, frame))
    trace.steps = _steps(planes, hosts, trace, diagnostics)
    trace.info = _info(trace, space, planes)
    trace.info["threads"] = {}
    for events in hosts:
        trace.info["threads"] |= thread_names.of_lines(events.assign(thread=events["line_id"]))
    return trace


@dataclass
class _Planes:
    """A file's planes by what they show. devices, empty: as info lists them, those with events and those without.

    gpu, tpu: events. hosts: planes with the number of their process. unknown: events on planes of devices that are not known.
    """

    devices: list[dict[str, Any]] = field(default_factory=list)
    empty: list[dict[str, Any]] = field(default_factory=list)
    gpu: list[pd.DataFrame] = field(default_factory=list)
    tpu: list[pd.DataFrame] = field(default_factory=list)
    hosts: list[tuple[xplane.Plane, int]] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)

    def refuse_unknown_devices(self) -> None:
        """Raise EvidenceError where devices of other kinds worked."""
        if self.unknown:
            named = ", ".join(f"{name!r} ({count:,} events)" for name, count in list(self.unknown.items())[:_NAMED])
            raise EvidenceError(
                f"the work of {named} cannot be read yet, and the host's side alone would mislead; GPUs and TPUs are read"
            )


def _sorted_out(space: xplane.Space, diagnostics: dict[str, int]) -> _Planes:
    """Return a file's planes by what they show."""
    result, names = _Planes(), xplane_devices.Planes()
    for number, plane in enumerate(space.planes):
        device, process = names.device(plane)
        if device and not len(plane.events):
            result.empty.append(xplane_devices.described(plane, device))
        elif device:
            result.devices.append(xplane_devices.described(plane, device))
            events = _device_events(plane, device, number).assign(process=process)
            (result.tpu if device.startswith("tpu") else result.gpu).append(events)
        elif plane.name.startswith("/host:") and plane.name not in _SILENT_HOSTS:
            result.hosts.append((plane, process))
        elif plane.name not in _SILENT_HOSTS:
            _count(diagnostics, "events of other planes not read", len(plane.events))
    result.unknown = dict(names.unknown)
    return result


Tables = dict[str, list[pd.DataFrame]]


def _count(diagnostics: dict[str, int], name: str, number: int) -> None:
    if number:
        diagnostics[name] = diagnostics.get(name, 0) + int(number)


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return tables one below the other, with the categories of both where they differ."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame()
    categorical = {
        column: joined([part[column] for part in parts])
        for column in parts[0].columns
        if all(column in part and isinstance(part[column].dtype, pd.CategoricalDtype) for part in parts)
    }
    rest = pd.concat([part.drop(columns=list(categorical)) for part in parts], ignore_index=True)
    return rest.assign(**categorical)


def _matching(column: pd.Series, pattern: str) -> Flags:
    """Return which rows of a categorical column hold a text that the pattern matches at its start."""
    fits = column.cat.categories.astype("str").str.match(pattern).astype(bool)
    return np.append(np.asarray(fits, dtype=bool), False)[column.cat.codes.to_numpy()]


def _extracted(column: pd.Series, pattern: str) -> pd.Series:
    """Return the pattern's group from a categorical column as categories, null where it does not match."""
    result = column.cat.categories.astype("str").str.extract(pattern, expand=False)
    codes, texts = pd.factorize(pd.Series(result, dtype="object"))
    values = pd.Categorical.from_codes(np.append(codes, -1)[column.cat.codes.to_numpy()], categories=pd.Index(texts, dtype="str"))
    return pd.Series(values, index=column.index)


def _number(column: pd.Series, pattern: str) -> pd.Series:
    """Return the pattern's group from a categorical column as Int64."""
    texts = _extracted(column, pattern)
    values = np.array([int(text) for text in texts.cat.categories], dtype=np.int64)
    codes = texts.cat.codes.to_numpy()
    return pd.Series(pd.arrays.IntegerArray(np.append(values, 0)[codes], codes < 0), index=column.index)


def _named(index: pd.Index, text: str) -> pd.Series:
    """Return a column of one text for all rows."""
    values = pd.Categorical.from_codes(np.zeros(len(index), dtype=np.int8), categories=pd.Index([text], dtype="str"))
    return pd.Series(values, index=index)


# --- devices --------------------------------------------------------------------------------------------------------------


def _device_events(plane: xplane.Plane, device: str, number: int) -> pd.DataFrame:
    """Return a plane's events with their device and, as lane, a number of their line that no other plane nor thread has.

    A device's own numbers of lines are small and repeat.
    """
    lanes = (plane.events["line_id"] & _LINE_BITS) + (number + 1 << 48)
    return plane.events.assign(device=_named(plane.events.index, device), lane=lanes)


def _work_columns(events: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that all tables of device work share; added-up events have no time of their own."""
    timed = (events["count"] == 1).to_numpy(dtype=bool)
    start = events["start_ns"].astype("Int64").where(timed)
    return pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": start + events["duration_ns"],
            "duration_ns": events["duration_ns"],
            "count": events["count"],
            "device": events["device"],
            "thread": events["line_id"],
            "process": events["process"],
            "correlation": events["stat_correlation_id"],
        },
        index=events.index,
    )


def _gpu(events: pd.DataFrame, tables: Tables, diagnostics: dict[str, int]) -> None:
    """Take the planes of GPUs apart."""
    derived = events["line"].isin(_DERIVED).to_numpy(dtype=bool)
    _count(
        diagnostics, "derived events not read", int((derived & (events["line"] != xplane_steps.LINE).to_numpy(dtype=bool)).sum())
    )
    work = events[~derived]
    has = {name: work[f"stat_{name}"].notna().to_numpy(dtype=bool) for name in TEXTS}
    is_set = has["Memset_details"] | _matching(work["name"], "(?i)^Memset$")
    unified = _matching(work["name"], "^UnifiedMemory")
    is_copy = has["memcpy_details"] | _matching(work["name"], r"(?i)^Memcpy|^MEMORY_COPY|^Copy\w+To\w+$") | is_set | unified
    is_copy &= ~has["kernel_details"] | _matching(work["name"], _COPY_KERNEL)
    is_memory = has["memalloc_details"] | has["MemFree_details"]
    is_graph = work["stat_cuda_graph_exec_id"].notna().to_numpy(dtype=bool) & ~has["kernel_details"] & ~is_copy
    other = has["MemoryResidency_details"] | (_matching(work["name"], _NO_WORK) & ~has["kernel_details"])
    is_kernel = ~(is_copy | is_memory | is_graph | other)
    tables["kernels"].append(_gpu_kernels(work[is_kernel]))
    tables["copies"].append(_copies(work[is_copy], is_set[is_copy], unified[is_copy]))
    tables["memory"].append(_gpu_memory(work[is_memory]))
    graphs = work[is_graph]
    tables["graphs"].append(_work_columns(graphs).assign(graph=graphs["stat_cuda_graph_exec_id"]))
    _count(diagnostics, "other device events not read", int((other & ~is_memory).sum()))


def _gpu_kernels(events: pd.DataFrame) -> pd.DataFrame:
    details = events["stat_kernel_details"]
    shared = [_number(details, rf"\b{name}:(\d{{1,18}})\b") for name in ("static_shared", "dynamic_shared", "group_mem")]
    cuda = shared[0] + shared[1]
    return _work_columns(events).assign(
        name=events["name"],
        grid=_extracted(details, r"\bgrid:(\d+,\d+,\d+)\b"),
        block=_extracted(details, r"\bblock:(\d+,\d+,\d+)\b"),
        registers=_number(details, r"\bregs:(\d{1,6})\b"),
        shared_memory=cuda.fillna(shared[2]),
        graph=events["stat_cuda_graph_id"],
        **_described(events),
    )


def _described(events: pd.DataFrame) -> dict[str, pd.Series]:
    """Return operator, layer, phase and attribution of device work from the statistics that name its operator."""
    keys = pd.MultiIndex.from_arrays([events[f"stat_{name}"].cat.codes for name in ("name", "tf_op", "hlo_op")])
    codes, distinct = pd.factorize(keys)
    texts = [events[f"stat_{name}"].cat.categories for name in ("name", "tf_op", "hlo_op")]
    named = [
        _operator_of(*[str(text[code]) if code >= 0 else "" for text, code in zip(texts, row, strict=True)]) for row in distinct
    ]
    columns = {"operator": pd.Series([kind or None for _, kind in named], dtype="string"), **scopes.described(named)}
    return {name: values.take(codes).set_axis(events.index).astype("category") for name, values in columns.items()}


def _operator_of(name: str, tf_op: str, hlo_op: str) -> tuple[str, str]:
    """Return an operator's full name and its type: from JAX's op_name, TensorFlow's name:Type, or else XLA's operation."""
    tf_name, _, tf_type = tf_op.rpartition(":") if ":" in tf_op else (tf_op, "", "")
    if tf_name in ("XlaModule", "Thunk"):
        tf_name, tf_type = "", ""
    scope = name or tf_name
    if scope:
        return scope, (tf_type if not name else "") or re.sub(r"\[.*$", "", scope.rsplit("/", 1)[-1], flags=re.DOTALL)
    return "", re.sub(r"[.\d]+$", "", hlo_op)


def _copies(events: pd.DataFrame, is_set: Flags, unified: Flags) -> pd.DataFrame:
    """Return copies and memory sets with direction, size and kinds of memory as far as known."""
    details = events["stat_memcpy_details"]
    table = _work_columns(events)
    operation = np.full(len(events), "other", dtype=object)
    for pattern, name in _COPY_OPERATIONS:
        operation[_matching(events["name"], pattern)] = name
    operation[_matching(events["name"], _COPY_KERNEL)] = "device to device"
    operation[unified], operation[is_set] = "unified memory", "set"
    source, target = (_extracted(details, rf"\bkind_{end}:(\w+)").astype("string") for end in ("src", "dst"))
    size = _number(details, r"\bsize:(\d{1,18})\b").fillna(_number(events["stat_Memset_details"], r"\bnum_bytes:(\d{1,18})\b"))
    return table.assign(operation=operation, bytes=size, memory=source + " to " + target)


def _gpu_memory(events: pd.DataFrame) -> pd.DataFrame:
    """Return the driver's allocations and releases."""
    taken = _number(events["stat_memalloc_details"], r"\bnum_bytes:(\d{1,18})\b")
    given = _number(events["stat_MemFree_details"], r"\bnum_bytes:(\d{1,18})\b")
    table = pd.DataFrame(
        {"time_ns": events["start_ns"], "device": events["device"], "bytes": taken.fillna(0 - given), "thread": events["line_id"]}
    )
    return table[table["bytes"].notna()]


def _tpu(events: pd.DataFrame, tables: Tables, diagnostics: dict[str, int]) -> None:
    """Take the planes of TPUs' cores apart."""
    is_work = events["line"].isin(_TPU_WORK).to_numpy(dtype=bool)
    is_module = events["line"].isin(_TPU_MODULES).to_numpy(dtype=bool)
    asynchronous = (events["line"] == _TPU_ASYNCHRONOUS).to_numpy(dtype=bool)
    is_copy = asynchronous & _matching(events["stat_hlo_category"], "copy|async-copy")
    holds = is_work.copy()
    holds[is_work] = _holders(events[is_work])
    waits = is_work & _matching(events["stat_hlo_category"], _OF_TRANSFERS)
    seen = events["device"].isin(events.loc[is_copy, "device"].unique()).to_numpy(bool)
    stands = waits & ~seen & _matching(events["stat_hlo_category"], "copy-done")
    tables["kernels"].append(_tpu_kernels(events[is_work & ~holds & ~waits]))
    tables["syncs"].append(_tpu_waits(events[waits & ~stands]))
    tables["copies"].append(_tpu_copies(events[is_copy | stands]))
    for chosen, nested in ((holds, True), ((asynchronous & ~is_copy) | is_module, False)):
        rows = events[chosen]
        domain = (rows["device"].astype("string") + " " + rows["line"].astype("string")).astype("category")
        end = rows["start_ns"] + rows["duration_ns"]
        tables["ranges"].append(
            rows[["start_ns", "name"]].assign(
                end_ns=end, thread=rows["lane"], domain=domain, nested=nested, category=_named(rows.index, "user")
            )
        )
    steps = (events["line"] == xplane_steps.LINE).to_numpy(dtype=bool)
    _count(diagnostics, "derived events not read", int((~(is_work | is_module | asynchronous | steps)).sum()))


def _holders(work: pd.DataFrame) -> Flags:
    """Return which operations only hold others: loops, branches and calls with operations inside."""
    spans = pd.DataFrame({"thread": work["lane"], "start_ns": work["start_ns"], "end_ns": work["start_ns"] + work["duration_ns"]})
    return holders(spans) & _matching(work["stat_hlo_category"], _HOLDERS)


def _tpu_kernels(events: pd.DataFrame) -> pd.DataFrame:
    """Return operations as kernels under their short names; what only moves or exchanges data is known by XLA's category."""
    kind = np.full(len(events), None, dtype=object)
    for pattern, name in _TPU_KINDS:
        kind[_matching(events["stat_hlo_category"], pattern)] = name
    short = events["display_name"].astype("string").fillna(events["name"].astype("string"))
    return _work_columns(events).assign(name=short.astype("category"), kind=kind, **_described(events))


def _tpu_waits(events: pd.DataFrame) -> pd.DataFrame:
    """Return operations that start a transfer or wait for one; the transfer itself is a copy."""
    spans = events[["start_ns", "device", "process"]].assign(end_ns=events["start_ns"] + events["duration_ns"])
    return spans.assign(thread=events["line_id"], kind=events["stat_hlo_category"])


def _tpu_copies(events: pd.DataFrame) -> pd.DataFrame:
    """Return transfers, or waits for them; the shapes' marks for the host's memory tell their direction.

    A transfer's text has the shape at its target, then that at its source: "= (TARGET, SOURCE, ", "copy-done((TARGET, SOURCE, ".
    """
    target, source = (
        _extracted(events["name"], rf".*?(?:= |copy-done\()\({shape}").astype("string").str.contains(_HOST_MEMORY, regex=False)
        for shape in (r"(?P<shape>\S+), ", r"\S+, (?P<shape>\S+?),? ")
    )
    operation = np.select(
        [(target & source).fillna(False), target.fillna(False), source.fillna(False), target.notna()],
        ["host to host", "device to host", "host to device", "device to device"],
        default="other",
    )
    size = events["stat_bytes_accessed"].where(events["line"] == _TPU_ASYNCHRONOUS)  # a wait's time is not its transfer's
    return _work_columns(events).assign(operation=operation, bytes=size)


# --- the host -------------------------------------------------------------------------------------------------------------


def _host_events(planes: list[tuple[xplane.Plane, int]]) -> list[pd.DataFrame]:
    """Return the events of the host's planes, which have the number of their process beside them.

    Where two hosts share a plane's name, their threads are distinguished.
    """
    names = [plane.name for plane, _ in planes]
    repeated = len(set(names)) < len(names)
    tables = []
    for number, (plane, process) in enumerate(planes):
        end = plane.events["start_ns"] + plane.events["duration_ns"]
        events = plane.events.assign(end_ns=end, process=process)
        if repeated:
            events["line_id"] = events["line_number"] + (number << 32)
        tables.append(events)
    return tables


def _host(events: pd.DataFrame, on_cpu: bool, gpu: str, tables: Tables, diagnostics: dict[str, int]) -> None:
    """Take a host's plane apart.

    on_cpu: no device computed, so operators that compute are kernels. gpu: what GPUs are called here, cuda or rocm.
    """
    instant = (events["duration_ns"] == 0).to_numpy(dtype=bool)
    is_call = _matching(events["name"], _API)
    is_memory = events["stat_allocator_name"].notna().to_numpy(dtype=bool) & instant
    is_nvtx = _matching(events["name"], "^NVTX:")
    is_operator = _matching(events["name"], _OPERATOR) & ~is_nvtx & ~is_call & ~instant
    is_hlo = events["stat_hlo_op"].notna().to_numpy(dtype=bool) & ~is_call & ~is_operator & ~instant
    tables["calls"].append(_calls(events[is_call]))
    tables["memory"].append(_allocator_memory(events[is_memory], gpu, diagnostics))
    operators = _operators(events[is_operator], events[is_hlo])
    tables["operators"].append(operators.drop(columns=["operation"]))
    if on_cpu:
        tables["kernels"].append(_cpu_kernels(operators))
    rest = events[~(is_call | is_memory | is_operator | is_hlo)]
    marks = (rest["duration_ns"] == 0).to_numpy(dtype=bool)
    category = pd.Categorical.from_codes(marks.astype(np.int8), categories=pd.Index(["user", "mark"], dtype="str"))
    tables["ranges"].append(rest[["start_ns", "end_ns", "name"]].assign(thread=rest["line_id"], category=category, nested=~marks))


def _calls(events: pd.DataFrame) -> pd.DataFrame:
    """Return calls of CUDA's or HIP's API; a graph's number behind the name is left out."""
    name = _extracted(events["name"], r"^(\w+)")
    driver = _matching(name, r"cu[A-Z]")
    api = pd.Categorical.from_codes(driver.astype(np.int8), categories=pd.Index(["runtime", "driver"], dtype="str"))
    return events[["start_ns", "end_ns"]].assign(
        process=events["process"],
        thread=events["line_id"],
        api=api,
        name=name,
        correlation=events["stat_correlation_id"],
        device_id=events["stat_device_id"],
    )


def _allocator_memory(events: pd.DataFrame, gpu: str, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return what the framework's allocators took and gave back."""
    taken = _matching(events["name"], "^MemoryAllocation$")
    given = _matching(events["name"], "^MemoryDeallocation$")
    known = (taken | given) & events["stat_allocation_bytes"].notna().to_numpy(dtype=bool)
    _count(diagnostics, "allocator events not read", int((~known).sum()))
    rows = events[known]
    size = rows["stat_allocation_bytes"].astype("int64")
    allocator = rows["stat_allocator_name"]
    number = _extracted(allocator, r"(?i)^gpu_(\d{1,6})_bfc").astype("string")
    device = (f"{gpu}:" + number).mask(_matching(allocator, r"(?i).*(cpu|host)"), "cpu")
    reserved = rows["stat_bytes_reserved"]
    return pd.DataFrame(
        {
            "time_ns": rows["start_ns"],
            "device": device,
            "thread": rows["line_id"],
            "bytes": np.where(taken[known], size, -size),
            "allocated_bytes": rows["stat_bytes_allocated"],
            "reserved_bytes": reserved.where(reserved > 0),
        }
    )


def _operators(executed: pd.DataFrame, compiled: pd.DataFrame) -> pd.DataFrame:
    """Return TensorFlow's executions and XLA's operations on the host as operators.

    operation: the name of a kernel that the operator would be.
    """
    spans = ["start_ns", "end_ns", "line_id"]
    types = _extracted(executed["name"], _OPERATOR.replace("?P<scope>", "?:").replace("?P<type>", ""))
    names = _extracted(executed["name"], _OPERATOR.replace("?P<scope>", "").replace("?P<type>", "?:"))
    attributed = scopes.columns(names.astype("string"), types.astype("string"))
    first = executed[spans].assign(name=types, scope=names, operation=types, **attributed)
    described = _described(compiled)
    second = compiled[spans].assign(
        name=described["operator"],
        scope=compiled["stat_name"].astype("string").fillna(compiled["stat_tf_op"].astype("string")),
        operation=compiled["name"],
        **{name: described[name] for name in ("layer", "phase", "attribution")},
    )
    text = ["name", "scope", "operation", "layer", "phase", "attribution"]
    parts = [part.astype(dict.fromkeys(text, "string")) for part in (first, second) if len(part)]
    table = pd.concat(parts, ignore_index=True) if parts else first.astype(dict.fromkeys(text, "string"))
    return table.rename(columns={"line_id": "thread"})


def _cpu_kernels(operators: pd.DataFrame) -> pd.DataFrame:
    """Return the operators that compute by themselves: those that hold no other and do not only steer."""
    steering = operators["name"].str.match(scopes.STEERING).fillna(False).to_numpy(dtype=bool)
    chosen = operators[~holders(operators) & ~steering]
    return chosen.drop(columns=["operation", "scope"]).assign(
        kind=scopes.kinds(chosen["name"], chosen["phase"]),
        name=chosen["operation"],
        operator=chosen["name"],
        duration_ns=chosen["end_ns"] - chosen["start_ns"],
        count=1,
        device="cpu",
    )


# --- steps and what is known of the file --------------------------------------------------------------------------------------


def _steps(planes: _Planes, hosts: list[pd.DataFrame], trace: Trace, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return the steps that the file tells."""
    on_devices = next((steps for part in (planes.gpu, planes.tpu) if len(steps := _device_steps(part))), pd.DataFrame())
    on_host = next((steps for events in hosts if len(steps := xplane_steps.of_host(events))), pd.DataFrame())
    steps = conform("steps", xplane_steps.chosen(on_host, on_devices, trace))
    kept = xplane_steps.apart(steps)
    _count(diagnostics, "steps inside of others", len(steps) - len(kept))
    return kept


def _device_steps(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return xplane_steps.of_devices(_joined(parts)) if parts else pd.DataFrame()


def _framework(trace: Trace) -> str | None:
    """Return the framework that names in the file prove."""
    ranges = trace.ranges["name"].cat.categories.astype("str")
    if len(ranges) and ranges.str.startswith(("PjitFunction", "TfrtTpuLoadedExecutable", "PyClient", "PjRt")).any():
        return "jax"
    if trace.operators["scope"].notna().any() or (
        len(ranges) and ranges.str.startswith(("ExecutorState::", "EagerExecute")).any()
    ):
        return "tensorflow"
    return None


def _info(trace: Trace, space: xplane.Space, planes: _Planes) -> dict[str, Any]:
    devices, empty = planes.devices, planes.empty
    notes = ["the profiler's picoseconds are rounded to ns"]
    if empty:
        more = ", ..." if len(empty) > _LISTED else ""
        notes.append(f"{len(empty)} devices without events: {', '.join(row['device'] for row in empty[:_LISTED])}{more}")
    if trace.kernels["name"].astype("string").str.startswith("__amd_rocclr_").any():
        notes.append("ROCm copies and fills memory with kernels of its own, named __amd_rocclr_...")
    if (
        len(trace.calls)
        and len(trace.ranges)
        and not np.isin(trace.calls["thread"].unique(), trace.ranges["thread"].unique()).any()
    ):
        notes.append("calls bear the system's numbers of threads and ranges hashes of them: kernels cannot be tied to ranges")
    unavailable = {}
    if trace.kernels.empty:
        unavailable["kernels"] = "no plane of a device holds work, and the host's plane no operator that computes"
    if len(trace.kernels) and trace.calls.empty:
        unavailable["launches"] = "the file holds no calls of a GPU's API"
    if not devices and len(trace.kernels):
        devices = [{"device": "cpu", "name": None}]
    info: dict[str, Any] = {
        "source": {"format": "xplane", "tool": "XLA profiler", "version": None, "schema": None},
        "clock": "wall" if space.wall_clock else "relative",
        "framework": _framework(trace),
        "devices": devices,
        "unavailable": unavailable,
        "notes": notes,
    }
    if planes.unknown:
        shown = ", ".join(f"{name} {count:,}" for name, count in list(planes.unknown.items())[:_NAMED])
        info |= {"not_read": planes.unknown, "warnings": [f"events of devices that are not known are not read: {shown}"]}
    return info
