"""XSpace files (*.xplane.pb) of the profiler that TensorFlow, JAX and PyTorch/XLA share, read without any of them.

A file holds planes (a host, a GPU, ...), planes hold lines (threads, streams), lines hold events whose names stand once in the
plane's metadata. `read` returns one row an event:

    plane          string  such as /host:CPU or /device:GPU:0
    line_id        int64   the line's number; a hash of the thread's number for threads of TensorFlow's pools
    line           string  the line's name, such as python, tf_Compute/123 or "Stream #16(Kernel)"
    start_ns       int64   start in ns; of the wall clock's epoch where attrs["wall_clock"] is true, else of some start
    duration_ns    int64   duration, rounded to ns; 0 for instants
    name           string  such as lenet_1/conv1_1/BiasAdd:_MklNativeFusedConv2D, or a kernel's name
    display_name   string  a shorter name for display; null where there is none

Events are decoded with numpy, a field of all events at a time; only what is outside of events goes through protobuf.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from kernelscope.analysis.errors import EvidenceError

_INT64, _UINT64, _STRING = (
    descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
)
_BYTES, _MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE

# message -> (field, number, type, repeated, message of the field). Names are bytes, because a damaged one is no reason to
# refuse a file; events stay bytes, to be decoded all at once; a map is a repeated message of key and value.
_MESSAGES: dict[str, tuple[tuple[str, int, int, bool, str | None], ...]] = {
    "Stat": (("metadata_id", 1, _INT64, False, None), ("uint64_value", 3, _UINT64, False, None)),
    "Metadata": (("name", 2, _BYTES, False, None), ("display_name", 4, _BYTES, False, None)),
    "Entry": (("key", 1, _INT64, False, None), ("value", 2, _MESSAGE, False, "Metadata")),
    "Line": (
        ("id", 1, _INT64, False, None),
        ("name", 2, _BYTES, False, None),
        ("timestamp_ns", 3, _INT64, False, None),
        ("events", 4, _BYTES, True, None),
    ),
    "Plane": (
        ("name", 2, _BYTES, False, None),
        ("lines", 3, _MESSAGE, True, "Line"),
        ("event_metadata", 4, _MESSAGE, True, "Entry"),
        ("stat_metadata", 5, _MESSAGE, True, "Entry"),
        ("stats", 6, _MESSAGE, True, "Stat"),
    ),
    "Space": (("planes", 1, _MESSAGE, True, "Plane"),),
}
_EVENT_METADATA_ID, _EVENT_OFFSET_PS, _EVENT_DURATION_PS = 1, 2, 3
_START_TIME = "profile_start_time"  # a plane's statistic: when the profiler was started, ns since the epoch
_VARINT_BYTES = 10

Integers = npt.NDArray[np.int64]


def read(path: Path | str) -> pd.DataFrame:
    """Return the events of an XSpace file (columns above), in the order of the file.

    attrs: wall_clock (bool). Raises EvidenceError when the file cannot be read or is none.
    """
    space = _parse(Path(path))
    start_ns = _profile_start_ns(space)
    tables = [_events(plane, line, path) for plane in space.planes for line in plane.lines if line.events]
    if tables:
        table = pd.concat(tables, ignore_index=True)
    else:
        table = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in _COLUMNS.items()})
    if start_ns and not table.empty:
        # lines count from the profiler's start, in files of older releases from the epoch
        relative = table["start_ns"] < start_ns // 2
        table["start_ns"] += np.where(relative, start_ns, 0)
    table = table.astype(_COLUMNS)
    table.attrs["wall_clock"] = start_ns > 0
    return table


_COLUMNS = {
    "plane": "string",
    "line_id": "int64",
    "line": "string",
    "start_ns": "int64",
    "duration_ns": "int64",
    "name": "string",
    "display_name": "string",
}


@cache
def _space_class() -> Any:
    """Return the message class for an XSpace, made from _MESSAGES."""
    package = "kernelscope.xplane"
    file = descriptor_pb2.FileDescriptorProto(name="kernelscope/xplane.proto", package=package, syntax="proto3")
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for name, number, kind, repeated, of in fields:
            label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
            if not repeated:
                label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
            type_name = f".{package}.{of}" if of else None
            declared.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Space"))


def _parse(path: Path) -> Any:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror or error}") from error
    if not content:
        raise EvidenceError(f"{path}: empty, as the profiler leaves it where its trace exceeds 2 GiB; record fewer steps")
    try:
        space = _space_class().FromString(content)
    except DecodeError as error:
        raise EvidenceError(f"{path}: not an XSpace file, or cut short ({error}); record the trace again") from error
    if not space.planes:
        raise EvidenceError(f"{path}: not an XSpace file: it holds no planes")
    return space


def _text(value: bytes) -> str:
    return value.decode("utf8", errors="replace")


def _profile_start_ns(space: Any) -> int:
    """Return when the profiler was started, ns since the epoch, or 0 where the file does not tell."""
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for stat in plane.stats:
            if names.get(stat.metadata_id) == _START_TIME.encode():
                return int(stat.uint64_value)
    return 0


def _events(plane: Any, line: Any, path: Path | str) -> pd.DataFrame:
    """Return the events of one line, with names from their plane."""
    content = b"".join(line.events)
    lengths = np.fromiter(map(len, line.events), dtype=np.int64, count=len(line.events))
    ends = np.cumsum(lengths)
    wanted = (_EVENT_METADATA_ID, _EVENT_OFFSET_PS, _EVENT_DURATION_PS)
    try:
        fields = integers(content, ends - lengths, ends, wanted)
    except ValueError as error:
        raise EvidenceError(f"{path}: line {_text(line.name)!r}: {error}; the file is damaged, record it again") from error
    entries = plane.event_metadata
    keys = np.fromiter((entry.key for entry in entries), dtype=np.int64, count=len(entries))
    position = pd.Index(keys).get_indexer(pd.Index(fields[_EVENT_METADATA_ID]))
    names = pd.array([_text(entry.value.name) for entry in entries], dtype="string")
    shown = pd.array([_text(entry.value.display_name) or None for entry in entries], dtype="string")
    return pd.DataFrame(
        {
            "plane": _text(plane.name),
            "line_id": int(line.id),
            "line": _text(line.name),
            "start_ns": int(line.timestamp_ns) + _rounded_ns(fields[_EVENT_OFFSET_PS]),
            "duration_ns": _rounded_ns(fields[_EVENT_DURATION_PS]),
            "name": names.take(position, allow_fill=True),
            "display_name": shown.take(position, allow_fill=True),
        }
    )


def _rounded_ns(picoseconds: Integers) -> Integers:
    return (picoseconds + 500) // 1000


def integers(content: bytes, starts: Integers, ends: Integers, wanted: tuple[int, ...]) -> dict[int, Integers]:
    """Decode integer fields of many protobuf messages at once.

    content holds the messages, the i-th in [starts[i], ends[i]). Returns for each wanted field number an array with its value
    in every message, 0 where it is absent (proto3's default). Raises ValueError when a message is malformed.
    """
    buffer = np.frombuffer(content + bytes(_VARINT_BYTES), dtype=np.uint8)
    found = {number: np.zeros(len(starts), dtype=np.int64) for number in wanted}
    cursor = starts.copy()
    rows = np.flatnonzero(cursor < ends)
    while len(rows):  # one round decodes one field of every message that has another
        keys, position = _varints(buffer, cursor[rows])
        numbers, wire = keys >> 3, keys & 7
        is_integer, is_block = wire == 0, wire == 2
        values, after = _varints(buffer, position)
        position = np.where(is_integer | is_block, after, position)
        position += np.select([is_block, wire == 1, wire == 5], [values, 8, 4], default=0)
        if not np.isin(wire, (0, 1, 2, 5)).all() or (values[is_block] < 0).any() or (position > ends[rows]).any():
            raise ValueError("an event's fields do not end where the event ends")
        for number, column in found.items():
            chosen = is_integer & (numbers == number)
            column[rows[chosen]] = values[chosen]
        cursor[rows] = position
        rows = rows[position < ends[rows]]
    return found


def _varints(buffer: npt.NDArray[np.uint8], start: Integers) -> tuple[Integers, Integers]:
    """Return the variable-length integers that begin at these positions, and where each ends."""
    values = np.zeros(len(start), dtype=np.uint64)
    position = start.copy()
    open_rows = np.arange(len(start))
    limit = len(buffer) - 1
    for shift in range(0, 7 * _VARINT_BYTES, 7):
        byte = buffer[np.minimum(position[open_rows], limit)]
        values[open_rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        position[open_rows] += 1
        open_rows = open_rows[byte >= 0x80]
        if not len(open_rows):
            break
    return values.astype(np.int64), position
