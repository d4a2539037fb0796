"""Chrome's JSON trace events with the names of torch.profiler (Kineto), so that tools for its traces can read these.

Kernels, copies and waits of devices, operators, API calls and annotations have Kineto's categories and arguments; steps are
called ProfilerStep#N. Events that Kineto lacks have their own categories: cpu_kernel, cuda_graph, host_line. Times are
microseconds with three decimals, made from integers. Each of several sides has its own processes.
Format: Trace Event Format, and pytorch/kineto libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.reports.export.events import DEVICE, WAITS, CounterTrack, Slices, TraceEvents, plain

Int = npt.NDArray[np.int64]

_CATEGORIES = {
    "steps": "user_annotation", "ranges": "user_annotation", "operators": "cpu_op", "calls": "cuda_runtime",
    "host_lines": "host_line", "kernels": "kernel", "graphs": "cuda_graph", "copies": "gpu_memcpy", "syncs": "cuda_sync",
}  # fmt: skip
# Kineto's names of arguments; others keep their columns' names
_ARGUMENTS = {
    "shapes": "Input Dims", "types": "Input type", "strides": "Input Strides", "registers": "registers per thread",
    "shared_memory": "shared memory", "graph": "graph id",
}  # fmt: skip
_AS_JSON = frozenset({"shapes", "types", "strides"})
_OPERATIONS = {
    "host to device": "Memcpy HtoD", "device to host": "Memcpy DtoH", "device to device": "Memcpy DtoD",
    "host to host": "Memcpy HtoH", "peer to peer": "Memcpy PtoP", "set": "Memset",
}  # fmt: skip
_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "rocm": 6, "xpu": 12, "hpu": 15, "mtia": 19}  # c10/core/DeviceType.h


def write(sides: Sequence[tuple[str, TraceEvents, pd.DataFrame, int]], about: Mapping[str, Any], target: Path) -> None:
    """Write the events of sides (name, events, memory, time zero); gzip if target ends in .gz.

    memory: the Trace's table, written like Kineto's allocator events. about: keys of the file's object. Raises OSError if the
    file cannot be written.
    """
    base = {"baseTimeNanoseconds": sides[0][3]} if len(sides) == 1 else {}
    head = {"schemaVersion": 1, "displayTimeUnit": "ns", **base, "kernelscope": about}
    with gzip.open(target, "wb", 6) if target.suffix == ".gz" else target.open("wb") as file:
        file.write(msgspec.json.encode(head)[:-1] + b',"traceEvents":[\n')
        separator = b""
        for lines in _all_lines(sides):
            for piece in _pieces(lines):
                file.write(separator + piece)
                separator = b",\n"
        file.write(b"\n]}\n")


def _all_lines(sides: Sequence[tuple[str, TraceEvents, pd.DataFrame, int]]) -> Iterator[Any]:
    """Yield the lines of every table of every side, as arrays of text."""
    tracks = 0
    for number, (name, found, memory, origin) in enumerate(sides):
        process = _Processes(name, found, 100 * number + 1, tracks + 1)
        yield pa.array(process.names(), pa.large_string())
        for part in found.slices:
            yield _slice_lines(part, process, origin)
            yield from _arrow_lines(part, process, origin, number)
        yield from (_counter_lines(counter, process.host, origin) for counter in found.counters)
        if len(memory):
            yield _memory_lines(memory, process, origin)
        tracks += len(found.tracks)


class _Processes:
    """Numbers of processes and threads in the file: one process for the host and one for each device."""

    def __init__(self, name: str, found: TraceEvents, host: int, first: int):
        self.name, self.host, self.first = name, host, first
        self.tracks = found.tracks
        devices = dict.fromkeys(track.device or "unknown" for track in found.tracks if track.place in (DEVICE, WAITS))
        self.devices = {device: host + 1 + place for place, device in enumerate(devices)}
        self.process = np.array([self._of(track) for track in found.tracks], dtype=np.int64)

    def _of(self, track: Any) -> int:
        return self.devices[track.device or "unknown"] if track.place in (DEVICE, WAITS) else self.host

    def names(self) -> list[str]:
        """Return the lines that name processes and threads."""
        called = {self.host: f"{self.name}: host", **{number: f"{self.name}: {name}" for name, number in self.devices.items()}}
        found = [_metadata("process_name", pid, 0, {"name": plain(text)}) for pid, text in called.items()]
        for place, (track, pid) in enumerate(zip(self.tracks, self.process.tolist(), strict=True)):
            tid = self.first + place
            found.append(_metadata("thread_name", pid, tid, {"name": plain(track.name)}))
            found.append(_metadata("thread_sort_index", pid, tid, {"sort_index": place}))
        return found


def _metadata(what: str, pid: int, tid: int, said: Mapping[str, Any]) -> str:
    return _json({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": said})


def _slice_lines(part: Slices, process: _Processes, origin: int) -> Any:
    names = [_json(_named(part.table, text)) for text in part.texts]
    arguments = [_json(_arguments(detail))[1:-1] for detail in part.details]
    own = _own_arguments(part)
    said = _picked(arguments, part.detail)
    between = pc.if_else(pc.and_(pc.not_equal(said, _same("")), pc.not_equal(own, _same(""))), _same(","), _same(""))
    return _joined(
        '{"ph":"X","cat":', _picked([_json(text) for text in _categories(part)[0]], _categories(part)[1]),
        ',"name":', _picked(names, part.code), *_where(part, process),
        ',"ts":', _microseconds(part.start - origin), ',"dur":', _microseconds(part.end - part.start),
        ',"args":{', said, between, own, "}}",
    )  # fmt: skip


def _categories(part: Slices) -> tuple[list[str], Int]:
    """Return the categories of a table's slices, and which one each has."""
    zero = np.zeros(len(part.start), dtype=np.int64)
    if part.table == "kernels":
        return [_CATEGORIES["kernels"], "cpu_kernel"], zero + (part.rows["device"] == "cpu").to_numpy()
    if part.table == "copies":
        return [_CATEGORIES["copies"], "gpu_memset"], zero + (part.rows["operation"] == "set").to_numpy()
    if part.table == "ranges":
        return [_CATEGORIES["ranges"], "gpu_user_annotation"], zero + (part.rows["domain"] == "gpu").to_numpy(dtype=bool)
    if part.table == "calls":
        return [_CATEGORIES["calls"], "cuda_driver"], zero + (part.rows["api"] == "driver").to_numpy()
    return [_CATEGORIES[part.table]], zero


def _named(table: str, text: str) -> str:
    if table == "steps":
        return text.replace("step ", "ProfilerStep#")
    return _OPERATIONS.get(text, text) if table == "copies" else plain(text)


def _arguments(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return details as arguments; lists in text form become lists."""
    found: dict[str, Any] = {}
    for name, value in detail.items():
        if name in ("grid", "block"):
            value = [int(number) if number.lstrip("-").isdigit() else number for number in str(value).split(",")]
        elif name in _AS_JSON:
            value = _decoded(str(value))
        found[_ARGUMENTS.get(name, name)] = plain(value) if isinstance(value, str) else value
    return found


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _own_arguments(part: Slices) -> Any:
    """Return the arguments that differ from row to row: device, stream and correlation."""
    rows, found = part.rows, []
    if part.table in ("kernels", "graphs", "copies", "syncs"):
        number = rows["device"].astype("string").str.extract(r":(\d+)$", expand=False).astype("Int64")
        found = [("device", number), ("stream", rows["thread"].fillna(-1).where(number.notna()))]
    if "correlation" in rows:
        found.append(("correlation", rows["correlation"]))
    if part.table == "syncs":
        kinds = [f',"cuda_sync_kind":{_json(plain(text))}' for text in part.texts]
        return pc.utf8_ltrim(_joined(_numbers(found, len(rows)), _picked(kinds, part.code)), ",")
    return pc.utf8_ltrim(_numbers(found, len(rows)), ",")


def _numbers(columns: Sequence[tuple[str, pd.Series]], count: int) -> Any:
    """Return ,"name":value for the values of each row."""
    pieces = []
    for name, column in columns:
        values = pa.array(column.astype("Int64")).cast(pa.large_string())
        pieces.append(pc.fill_null(pc.binary_join_element_wise(_same(f',"{name}":'), values, _same("")), ""))
    return _joined(*pieces) if pieces else pa.array(np.full(count, ""), pa.large_string())


def _arrow_lines(part: Slices, process: _Processes, origin: int, side: int) -> Iterator[Any]:
    """Yield the ends of arrows from calls to the device work that they launched."""
    rows = np.flatnonzero(part.flow >= 0)
    if not len(rows):
        return
    kind = '{"ph":"s"' if part.table == "calls" else '{"ph":"f","bp":"e"'
    where = [piece.take(rows) if isinstance(piece, pa.Array) else piece for piece in _where(part, process)]
    number = pa.array(part.flow[rows] + side * (1 << 40)).cast(pa.large_string())
    yield _joined(
        f'{kind},"cat":"ac2g","name":"ac2g","id":', number, *where, ',"ts":', _microseconds(part.start[rows] - origin), "}"
    )


def _where(part: Slices, process: _Processes) -> list[Any]:
    pid, tid = process.process[part.track], process.first + part.track
    return [',"pid":', pa.array(pid).cast(pa.large_string()), ',"tid":', pa.array(tid).cast(pa.large_string())]


def _counter_lines(counter: CounterTrack, pid: int, origin: int) -> Any:
    finite = np.isfinite(counter.values)
    values = pa.array(counter.values[finite]).cast(pa.large_string())
    head = f'{{"ph":"C","name":{_json(plain(counter.name))},"pid":{pid},"tid":0,"ts":'
    unit = _json(counter.unit or "value")
    return _joined(head, _microseconds(counter.time[finite] - origin), f',"args":{{{unit}:', values, "}}")


def _memory_lines(memory: pd.DataFrame, process: _Processes, origin: int) -> Any:
    """Return allocations and frees in Kineto's form."""
    parts = memory["device"].astype("string").str.extract(r"^(\w+?)(?::(\d+))?$")
    kind = parts[0].map(_DEVICE_TYPES).astype("Int64")
    columns = [
        ("Bytes", memory["bytes"]), ("Total Allocated", memory["allocated_bytes"]), ("Total Reserved", memory["reserved_bytes"]),
        ("Addr", memory["address"]), ("Device Type", kind), ("Device Id", parts[1].astype("Int64").fillna(-1)),
    ]  # fmt: skip
    time = memory["time_ns"].to_numpy(dtype=np.int64) - origin
    head = f'{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":{process.host},"tid":0,"ts":'
    return _joined(head, _microseconds(time), ',"args":{', pc.utf8_ltrim(_numbers(columns, len(memory)), ","), "}}")


def _microseconds(times: Int) -> Any:
    """Return nanoseconds as the text of microseconds, exactly."""
    whole, part = (pa.array(values).cast(pa.large_string()) for values in np.divmod(np.abs(times), 1000))
    sign = _picked(["", "-"], (times < 0).astype(np.int64))
    return _joined(sign, whole, ".", pc.utf8_lpad(part, 3, "0"))


def _joined(*pieces: Any) -> Any:
    parts = [_same(piece) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*parts, _same(""))


def _same(text: str) -> Any:
    return pa.scalar(text, pa.large_string())


def _picked(texts: Sequence[str], code: Int) -> Any:
    return pa.array(list(texts), pa.large_string()).take(code)


def _pieces(lines: Any) -> Iterator[bytes]:
    """Yield the lines in blocks, separated."""
    for first in range(0, len(lines), 100_000):
        yield ",\n".join(lines.slice(first, 100_000).to_pylist()).encode()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
