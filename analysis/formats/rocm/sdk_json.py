"""rocprofv3's JSON: records with numbers, and tables of the kinds, operations, kernels and agents that the numbers stand for.

A file holds one process or several. Records are decoded by type, so only the wanted fields become Python objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.formats.rocm import work
from kernelscope.analysis.formats.rocm.work import RowsRead
from kernelscope.analysis.trace import Trace

T = TypeVar("T")

_SIGN = re.compile(rb'^(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_GPU = 2  # rocprofiler_agent_type_t
_Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Small = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_AXES = ("x", "y", "z")
_GRID, _BLOCK = tuple(f"grid_{axis}" for axis in _AXES), tuple(f"block_{axis}" for axis in _AXES)
_HOST = re.compile(r"_api$")
_READ = frozenset({"kernel_dispatch", "memory_copy", "memory_allocation"})


class _Record(msgspec.Struct, frozen=True, gc=False):
    """The base of all objects; fields that the file lacks are null."""


class _Handle(_Record, frozen=True, gc=False):
    handle: _Int | None = None


class _Extent(_Record, frozen=True, gc=False):
    x: _Int
    y: _Int
    z: _Int


class _Correlation(_Record, frozen=True, gc=False):
    internal: _Int | None = None


class _Dispatched(_Record, frozen=True, gc=False):
    agent_id: _Handle
    queue_id: _Handle
    kernel_id: _Int
    workgroup_size: _Extent
    grid_size: _Extent
    group_segment_size: _Int | None = None
    private_segment_size: _Int | None = None
    dispatch_id: _Int | None = None


class _Kernel(_Record, frozen=True, gc=False):
    start_timestamp: _Int
    end_timestamp: _Int
    dispatch_info: _Dispatched
    correlation_id: _Correlation = _Correlation()
    stream_id: _Handle = _Handle()


class _CountedDispatch(_Record, frozen=True, gc=False):
    dispatch_data: _Kernel
    stream_id: _Handle = _Handle()


class _Copy(_Record, frozen=True, gc=False):
    kind: _Small
    operation: _Small
    start_timestamp: _Int
    end_timestamp: _Int
    src_agent_id: _Handle = _Handle()
    dst_agent_id: _Handle = _Handle()
    bytes: _Int | None = None
    correlation_id: _Correlation = _Correlation()
    stream_id: _Handle = _Handle()


class _Call(_Record, frozen=True, gc=False):
    kind: _Small
    operation: _Small
    thread_id: _Int
    start_timestamp: _Int
    end_timestamp: _Int
    correlation_id: _Correlation = _Correlation()


class _Allocation(_Record, frozen=True, gc=False):
    kind: _Small
    operation: _Small
    start_timestamp: _Int
    end_timestamp: _Int
    thread_id: _Int | None = None
    agent_id: _Handle = _Handle()
    allocation_size: _Int | None = None
    address: msgspec.Raw = msgspec.Raw(b"null")


class _Agent(_Record, frozen=True):
    id: _Handle = _Handle()
    node_id: _Small | None = None
    type: _Small | None = None
    name: str | None = None
    product_name: str | None = None
    cu_count: _Int | None = None


class _Symbol(_Record, frozen=True):
    kernel_id: _Int
    kernel_name: str | None = None
    formatted_kernel_name: str | None = None
    arch_vgpr_count: _Small | None = None
    accum_vgpr_count: _Small | None = None


class _Kind(_Record, frozen=True):
    kind: str
    operations: list[str] = []


class _Message(_Record, frozen=True):
    key: _Int
    value: str


class _Strings(_Record, frozen=True):
    buffer_records: list[_Kind] = []
    marker_api: list[_Message] = []


class _Metadata(_Record, frozen=True):
    pid: _Int | None = None


class _Process(_Record, frozen=True):
    metadata: _Metadata = _Metadata()
    agents: list[_Agent] = []
    strings: _Strings = _Strings()
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, msgspec.Raw] = {}
    callback_records: dict[str, msgspec.Raw] = {}


class _SdkFile(_Record, frozen=True):
    processes: list[_Process] | _Process = msgspec.field(name="rocprofiler-sdk-tool")


def matches(head: Head) -> bool:
    """Return whether the file begins with rocprofv3's key."""
    return _SIGN.match(head.content[:4096]) is not None


def read(path: Path) -> Trace:
    """Return the Trace of all processes in a file; raise EvidenceError if it is damaged."""
    content = read_content(path).removeprefix(b"\xef\xbb\xbf")
    result = _decoded(path, content, _SdkFile, "")
    del content
    processes = result.processes if isinstance(result.processes, list) else [result.processes]
    findings = RowsRead()
    devices: dict[str, dict[str, Any]] = {}
    for one in processes:
        reading = _ProcessReader(path, one, findings)
        reading.read()
        devices |= {row["device"]: row for row in reading.devices()}
    source = {"format": "rocprof-json", "tool": "rocprofv3", "version": None, "schema": None}
    return findings.trace(source, [devices[name] for name in sorted(devices, key=lambda name: (len(name), name))])


def _decoded(path: Path, content: bytes | msgspec.Raw, kind: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        at = f", {place}" if place else ""
        raise EvidenceError(f"{path}{at}: not as rocprofv3 writes it ({error}); record again") from error
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise EvidenceError(f"{path}: damaged or cut short ({error}); copy it again, or let the program end by itself") from error


class _ProcessReader:
    """The records of one process."""

    def __init__(self, path: Path, process: _Process, findings: RowsRead) -> None:
        self.path, self.process, self.findings = path, process, findings
        self.agents = {agent.id.handle: _device(agent) for agent in process.agents if agent.id.handle is not None}
        self.kinds = process.strings.buffer_records

    def devices(self) -> list[dict[str, Any]]:
        """Return what is known about each GPU."""
        result = []
        for agent in self.process.agents:
            if agent.type == _GPU:
                entry: dict[str, Any] = {"device": _device(agent), "name": agent.product_name or agent.name}
                entry |= {"architecture": agent.name, "multiprocessors": agent.cu_count}
                result.append({name: value for name, value in entry.items() if value is not None})
        return [row for row in result if "device" in row]

    def read(self) -> None:
        """Read all records into the findings."""
        counted = self._records(self.process.callback_records, "counter_collection", _CountedDispatch)
        kernels = self._records(self.process.buffer_records, "kernel_dispatch", _Kernel)
        self.findings.diagnostics["dispatches with hardware counters, whose values are not read"] += len(counted)
        self.kernels(kernels or [_with_stream(record) for record in counted])
        del kernels, counted
        self.copies(self._records(self.process.buffer_records, "memory_copy", _Copy))
        self.memory(self._records(self.process.buffer_records, "memory_allocation", _Allocation))
        for name in self.process.buffer_records:
            if _HOST.search(name):
                self.host(name, self._records(self.process.buffer_records, name, _Call))
            elif name not in _READ:
                self._unread(name, self.process.buffer_records[name])
        for name in self.process.callback_records:
            if name != "counter_collection":
                self._unread(name, self.process.callback_records[name])

    def _records(self, records: dict[str, msgspec.Raw], name: str, kind: type[T]) -> list[T]:
        raw = records.get(name)
        return _decoded(self.path, raw, list[kind], name) if raw is not None else []  # type: ignore[valid-type]

    def _unread(self, name: str, raw: msgspec.Raw) -> None:
        count = len(_decoded(self.path, raw, list[msgspec.Raw], name)) if bytes(raw).lstrip().startswith(b"[") else 0
        if count:
            self.findings.diagnostics[f"records of {name[:60]}, which are not read"] += count

    def _numbers(self, records: Sequence[T], place: str, take: Callable[[T], int | None]) -> pd.Series:
        return work.integers([take(record) for record in records], f"{self.path}, {place}")

    def _names(self, records: Sequence[Any], place: str) -> tuple[Any, Any]:
        """Return the domains and operations of records."""
        kinds = self._numbers(records, place, lambda record: record.kind)
        operations = self._numbers(records, place, lambda record: record.operation)
        domain = kinds.map({number: one.kind for number, one in enumerate(self.kinds)}).astype("object")
        codes = kinds * (1 << 20) + operations.clip(0, (1 << 20) - 1)
        known = [(number << 20, one.operations[: 1 << 20]) for number, one in enumerate(self.kinds)]
        named = {first + at: name for first, names in known for at, name in enumerate(names)}
        return domain.fillna("").to_numpy(object), codes.map(named).astype("object").to_numpy(object)

    def _timed(self, records: Sequence[Any], place: str) -> dict[str, Any]:
        start = self._numbers(records, place, lambda record: record.start_timestamp)
        end = self._numbers(records, place, lambda record: record.end_timestamp)
        return {"start_ns": start, "end_ns": end}

    def kernels(self, records: list[_Kernel]) -> None:
        """Add kernels with their launch shapes."""
        place = "kernel_dispatch"
        info = [record.dispatch_info for record in records]
        numbers = self._numbers(info, place, lambda one: one.kernel_id)
        sizes = {
            f"{part}_{axis}": self._numbers(info, place, lambda one, size=size, axis=axis: getattr(getattr(one, size), axis))  # type: ignore[misc]
            for part, size in (("grid", "grid_size"), ("block", "workgroup_size"))
            for axis in _AXES
        }
        shapes = pd.DataFrame(sizes)
        symbols = {one.kernel_id: one for one in self.process.kernel_symbols}
        names = work.kernel_names({number: one.formatted_kernel_name or one.kernel_name for number, one in symbols.items()})
        registers = {number: (one.arch_vgpr_count or 0) + (one.accum_vgpr_count or 0) for number, one in symbols.items()}
        used = numbers.map(registers).astype("Int64")
        streams = self._numbers(records, place, lambda record: record.stream_id.handle)
        frame = pd.DataFrame(
            {
                **self._timed(records, place),
                "count": 1,
                "device": np.array([self.agents.get(one.agent_id.handle or -1) for one in info], dtype=object),
                "thread": work.stream(streams, self._numbers(info, place, lambda one: one.queue_id.handle)),
                "name": work.texts(numbers, names),
                "grid": work.shape(shapes, _GRID, _BLOCK),
                "block": work.shape(shapes, _BLOCK),
                "registers": used.where(used.between(1, 0xFFFF)).astype("Int32"),
                "shared_memory": self._numbers(info, place, lambda one: one.group_segment_size),
                "local_memory": self._numbers(info, place, lambda one: one.private_segment_size),
                **self._launched(records, place),
            }
        )
        self.findings.diagnostics["kernels without a name"] += int(frame["name"].isna().sum())
        result = self.findings.timed("kernels", frame)
        self.findings.add("kernels", result.assign(duration_ns=result["end_ns"] - result["start_ns"]))

    def _launched(self, records: Sequence[Any], place: str) -> dict[str, Any]:
        correlation = self._numbers(records, place, lambda record: record.correlation_id.internal)
        process = pd.Series([self.process.metadata.pid] * len(records), dtype="Int64")
        return {"process": process, "correlation": correlation.mask((correlation == 0).fillna(False))}

    def copies(self, records: list[_Copy]) -> None:
        """Add copies with their direction and bytes."""
        place = "memory_copy"
        _, names = self._names(records, place)
        frame = pd.DataFrame(
            {
                **self._timed(records, place),
                "count": 1,
                "thread": self._numbers(records, place, lambda record: record.stream_id.handle),
                "bytes": self._numbers(records, place, lambda record: record.bytes),
                **self._launched(records, place),
            }
        )
        sides = [[self.agents.get(side.handle or -1) for side in pair] for pair in _sides(records)]
        result = self.findings.timed("copies", work.copies(frame, pd.Categorical(names), sides[0], sides[1]))
        self.findings.add("copies", result.assign(duration_ns=result["end_ns"] - result["start_ns"]))

    def memory(self, records: list[_Allocation]) -> None:
        """Add allocations and frees of memory."""
        place = "memory_allocation"
        _, names = self._names(records, place)
        operation = pd.Series(names, dtype="object").fillna("")
        frame = pd.DataFrame(
            {
                "time_ns": self._numbers(records, place, lambda record: record.end_timestamp),
                "address": self._numbers(records, place, lambda record: _address(record.address)),
                "bytes": self._numbers(records, place, lambda record: record.allocation_size),
                "device": np.array([self.agents.get(record.agent_id.handle or -1) for record in records], dtype=object),
                "thread": self._numbers(records, place, lambda record: record.thread_id),
                "taken": operation.str.endswith("ALLOCATE").to_numpy(bool),
            }
        )
        work.allocations(self.findings, frame)

    def host(self, place: str, records: list[_Call]) -> None:
        """Add calls of an API, or ROCTX ranges."""
        domain, function = self._names(records, place)
        launched = self._launched(records, place)
        messages = {one.key: one.value for one in self.process.strings.marker_api} if work.is_marker(place) else {}
        rows = pd.DataFrame(
            {
                **self._timed(records, place),
                "process": launched["process"].fillna(0),
                "thread": self._numbers(records, place, lambda record: record.thread_id),
                "correlation": launched["correlation"],
                "domain": np.where(domain == "", place, domain),
                "function": function,
                "message": launched["correlation"].map(messages).astype("object").to_numpy(object),
            }
        )
        work.add_host_rows(self.findings, rows)


def _sides(records: list[_Copy]) -> tuple[list[_Handle], list[_Handle]]:
    return [record.src_agent_id for record in records], [record.dst_agent_id for record in records]


def _with_stream(record: _CountedDispatch) -> _Kernel:
    return msgspec.structs.replace(record.dispatch_data, stream_id=record.stream_id)


def _device(agent: _Agent) -> str | None:
    return work.device(agent.node_id, agent.type == _GPU if agent.type is not None else None)


def _address(raw: msgspec.Raw) -> int | None:
    """Return an address given as a number, a hexadecimal text or an object with one of them; None for the null pointer."""
    try:
        result = msgspec.json.decode(raw)
        result = next(iter(result.values()), None) if isinstance(result, dict) else result
        number = int(result, 16) if isinstance(result, str) else result
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return number if isinstance(number, int) and 0 < number < 1 << 63 else None
