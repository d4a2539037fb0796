"""XSpace files (*.xplane.pb, also gzip) of the profiler that TensorFlow, JAX and PyTorch/XLA share, read without any of them.

A file holds planes (a host, a GPU, ...), planes hold lines (threads, streams), and lines hold events, whose names are in the
plane's metadata. Events and their metadata have statistics, which are also named in the plane's metadata. `read` returns one row
per event:

    plane          string  such as /host:CPU or /device:GPU:0
    line_id        int64   the line's number; a hash of the thread's number for threads of TensorFlow's pools
    line           string  the line's name, such as python, tf_Compute/123 or "Stream #16(Kernel)"
    start_ns       int64   start in ns, since the epoch if attrs["wall_clock"] is true, else since an unknown time
    duration_ns    int64   duration, rounded to ns; 0 for instants
    name           string  such as lenet_1/conv1_1/BiasAdd:_MklNativeFusedConv2D, or a kernel's name
    display_name   string  a shorter name for display; null if there is none

`read_planes` returns the separate planes, with the requested statistics; `read_programs` returns the programs that XLA compiled.
Events are decoded with numpy, one field of all events at a time; only data outside events goes through protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.packed import read_content
from kernelscope.analysis.files.protobuf_classes import message_classes
from kernelscope.analysis.files.protobuf_columns import decode, distinct_texts, padded

_INT64, _UINT64 = descriptor_pb2.FieldDescriptorProto.TYPE_INT64, descriptor_pb2.FieldDescriptorProto.TYPE_UINT64
_BYTES, _MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES, descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE

# message -> (field, number, type, repeated, message of the field). Names are bytes, so a damaged one does not make the file
# unreadable; planes stay bytes, to be decoded one by one, and events, to be decoded all at once; a map is a repeated message of
# key and value. From tsl/profiler/protobuf/xplane.proto.
_MESSAGES: dict[str, tuple[tuple[str, int, int, bool, str | None], ...]] = {
    "Stat": (
        ("metadata_id", 1, _INT64, False, None),
        ("uint64_value", 3, _UINT64, False, None),
        ("int64_value", 4, _INT64, False, None),
        ("str_value", 5, _BYTES, False, None),
        ("bytes_value", 6, _BYTES, False, None),
        ("ref_value", 7, _UINT64, False, None),
    ),
    "Metadata": (
        ("name", 2, _BYTES, False, None),
        ("display_name", 4, _BYTES, False, None),
        ("stats", 5, _MESSAGE, True, "Stat"),
    ),
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
    "Space": (("planes", 1, _BYTES, True, None), ("errors", 2, _BYTES, True, None), ("warnings", 3, _BYTES, True, None)),
}
_METADATA_ID, _OFFSET_PS, _DURATION_PS, _STATS, _OCCURRENCES = 1, 2, 3, 4, 5  # fields of an event
_STAT_ID, _STAT_UINT64, _STAT_INT64, _STAT_STR, _STAT_REF = 1, 3, 4, 5, 7  # fields of a statistic
_METADATA_PLANE = "/host:metadata"  # holds compiled programs and no events
_START_TIME = "profile_start_time"  # a plane's statistic: when the profiler started, ns since the epoch
_LAST_NS = 4_000_000_000_000_000_000  # year 2096; later times are damage, and sums of two of them would not fit 64 bits
_LONGEST_NS = 100_000_000_000_000_000  # three years
_MOST_PLANES, _MOST_FILLED = 4096, 256  # a host has a few dozen at most; every plane with events costs time

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plane:
    """One plane. stats: its statistics by name, numbers and texts.

    lines: names of the lines; none if the plane has no events.
    events: columns line_number (of the plane's lines, int64), line_id, line (category), start_ns, duration_ns, count (int64; the
    executions that the row stands for: 1, or more if the profiler added them up, and then start_ns is meaningless), name,
    display_name (category), and the requested statistics as stat_NAME, Int64 or category.
    """

    name: str
    stats: dict[str, int | str]
    lines: list[str]
    events: pd.DataFrame


@dataclass(frozen=True)
class Space:
    """A file's planes in its order.

    wall_clock: whether times are ns since the epoch, else since an unknown time. damaged: events with impossible times, which are
    left out. messages: errors and warnings that the profiler left.
    """

    planes: list[Plane]
    wall_clock: bool
    damaged: int
    messages: list[str]


def read(path: Path | str) -> pd.DataFrame:
    """Return the events of an XSpace file (columns above), in the order of the file.

    attrs: wall_clock (bool). Raise EvidenceError if the file cannot be read or is not an XSpace.
    """
    space = read_planes(path)
    tables = [plane.events.assign(plane=plane.name) for plane in space.planes if len(plane.events)]
    text = ("plane", "line", "name", "display_name")
    columns = [table[list(_COLUMNS)].astype(dict.fromkeys(text, "string")) for table in tables]
    if columns:
        table = pd.concat(columns, ignore_index=True).astype(_COLUMNS)
    else:
        table = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in _COLUMNS.items()})
    table.attrs["wall_clock"] = space.wall_clock
    return table


def read_planes(path: Path | str, integer_stats: Sequence[str] = (), text_stats: Sequence[str] = ()) -> Space:
    """Return the planes of an XSpace file with these statistics of their events.

    A statistic of an event's metadata counts for all its events that do not have it themselves. Raise EvidenceError if the file
    cannot be read or is not an XSpace.
    """
    space = _parse(Path(path))
    planes, damaged, filled = [], 0, 0
    empty = _events(_classes()["Plane"](), path, integer_stats, text_stats)
    for content in space.planes:
        plane = _message("Plane", content, path)
        if not any(len(line.events) for line in plane.lines):
            planes.append(Plane(_text(plane.name), _plane_stats(plane), [], empty))
            continue
        filled += 1
        if filled > _MOST_FILLED:
            raise EvidenceError(f"{path}: over {_MOST_FILLED} planes with events: no profiler writes so many; record it again")
        events = _events(plane, path, integer_stats, text_stats)
        usable = _usable(events)
        damaged += int((~usable).sum())
        events = events if usable.all() else events[usable].reset_index(drop=True)
        lines = [_text(line.name) for line in plane.lines]
        planes.append(Plane(_text(plane.name), _plane_stats(plane), lines, events))
    start = next((plane.stats[_START_TIME] for plane in planes if _START_TIME in plane.stats), 0)
    start_ns = start if isinstance(start, int) else 0
    wall_clock = 0 < start_ns < _LAST_NS
    if wall_clock:
        for plane in [plane for plane in planes if len(plane.events)]:
            # lines count from the profiler's start, or, in files of older releases, from the epoch
            plane.events["start_ns"] += np.where(plane.events["start_ns"] < start_ns // 2, start_ns, 0)
    messages = [_text(message) for message in [*space.errors, *space.warnings]]
    return Space(planes, wall_clock, damaged, messages)


def read_programs(path: Path | str) -> dict[str, bytes]:
    """Return the compiled programs that XLA's profiler stores beside the events: serialised HloProto messages by name.

    A name is the module's with the program's number, such as jit_step(42). Raise EvidenceError as `read_planes` does.
    """
    programs: dict[str, bytes] = {}
    for content in _parse(Path(path)).planes:
        plane = _message("Plane", content, path)
        if _text(plane.name) != _METADATA_PLANE:
            continue
        for entry in plane.event_metadata:
            result = next((bytes(stat.bytes_value) for stat in entry.value.stats if stat.bytes_value), None)
            if result is not None:
                programs[_text(entry.value.name)] = result
    return programs


_COLUMNS = {
    "plane": "string",
    "line_id": "int64",
    "line": "string",
    "start_ns": "int64",
    "duration_ns": "int64",
    "name": "string",
    "display_name": "string",
}


def program_key(contents: Mapping[str, bytes], module: str, number: object) -> str | None:
    """Return the key of an event's program among those that `read_programs` returns; None if there is none.

    A program that JAX took from its compilation cache has another number in events than in the file: then it is the only one with
    the module's name.
    """
    key = f"{module}({number})"
    if key in contents:
        return key
    others = [name for name in contents if name.rpartition("(")[0] == module]
    return others[0] if len(others) == 1 else None


@cache
def _classes() -> dict[str, Any]:
    """Return the message classes of an XSpace by name, made from _MESSAGES."""
    return message_classes("kernelscope.xplane", _MESSAGES)


def _parse(path: Path) -> Any:
    content = read_content(path)
    if not content:
        raise EvidenceError(f"{path}: empty, as the profiler leaves it if its trace exceeds 2 GiB; record fewer steps")
    space = _message("Space", content, path)
    if not space.planes:
        raise EvidenceError(f"{path}: not an XSpace file: it holds no planes")
    if len(space.planes) > _MOST_PLANES:
        raise EvidenceError(f"{path}: {len(space.planes)} planes: no profiler writes so many; record it again")
    return space


def _message(name: str, content: bytes, path: Path | str) -> Any:
    try:
        return _classes()[name].FromString(content)
    except DecodeError as error:
        raise EvidenceError(f"{path}: not an XSpace file, or cut short ({error}); record the trace again") from error


def _text(value: bytes) -> str:
    return value.decode("utf8", errors="replace")


def _plane_stats(plane: Any) -> dict[str, int | str]:
    """Return a plane's own statistics by name; they are integers or texts."""
    names = {entry.key: _text(entry.value.name) for entry in plane.stat_metadata}
    return {names[stat.metadata_id]: _value(stat, names) for stat in plane.stats if stat.metadata_id in names}


def _value(stat: Any, names: dict[int, str]) -> int | str:
    if stat.str_value:
        return _text(stat.str_value)
    if stat.ref_value:
        return names.get(stat.ref_value, "")
    return int(stat.int64_value or stat.uint64_value)


def _usable(events: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which events have a possible time."""
    start, duration = events["start_ns"].to_numpy(), events["duration_ns"].to_numpy()
    return np.asarray((np.abs(start) < _LAST_NS) & (duration >= 0) & (duration < _LONGEST_NS) & (events["count"] > 0))


def _events(plane: Any, path: Path | str, integer_stats: Sequence[str], text_stats: Sequence[str]) -> pd.DataFrame:
    """Return the events of all lines of a plane, with names and statistics."""
    counts = [len(line.events) for line in plane.lines]
    line_number = np.repeat(np.arange(len(counts)), counts)
    content = b"".join([b"".join(line.events) for line in plane.lines])
    lengths = np.fromiter((len(event) for line in plane.lines for event in line.events), dtype=np.int64, count=sum(counts))
    ends = np.cumsum(lengths)
    buffer = padded(content)
    wanted = (_METADATA_ID, _OFFSET_PS, _DURATION_PS, _OCCURRENCES)
    with_stats = bool(integer_stats or text_stats)
    try:
        fields, blocks = decode(buffer, ends - lengths, ends, wanted, (_STATS,) if with_stats else ())
        stats = _EventStats(plane, buffer, blocks[_STATS]) if with_stats else None
    except ValueError as error:
        raise EvidenceError(f"{path}: plane {_text(plane.name)!r}: {error}; the file is damaged, record it again") from error
    entries = plane.event_metadata
    keys = np.fromiter((entry.key for entry in entries), dtype=np.int64, count=len(entries))
    position = _positions(keys, fields[_METADATA_ID])
    lines = plane.lines
    stamps = np.array([line.timestamp_ns for line in lines], dtype=np.int64)
    # a damaged timestamp must not wrap around into a plausible time
    stamps = np.where(np.abs(stamps) < _LAST_NS, stamps, _LAST_NS)
    table = pd.DataFrame(
        {
            "line_number": line_number,
            "line_id": np.array([line.id for line in lines], dtype=np.int64)[line_number],
            "line": _categories([_text(line.name) for line in lines], line_number),
            "start_ns": stamps[line_number] + _rounded_ns(fields[_OFFSET_PS]),
            "duration_ns": _rounded_ns(fields[_DURATION_PS]),
            "count": np.where(fields[_OCCURRENCES] == 0, 1, fields[_OCCURRENCES]),
            "name": _categories([_text(entry.value.name) for entry in entries], position),
            "display_name": _categories([_text(entry.value.display_name) or None for entry in entries], position),
        }
    )
    if stats is not None:
        numbers = {f"stat_{name}": stats.integers(name, len(table), position) for name in integer_stats}
        texts = {f"stat_{name}": stats.texts(name, len(table), position) for name in text_stats}
        table = table.assign(**numbers, **texts)
    return table


class _EventStats:
    """The statistics of a plane's events, decoded once and looked up by name."""

    def __init__(self, plane: Any, buffer: npt.NDArray[np.uint8], blocks: tuple[Integers, Integers, Integers]):
        self._buffer = buffer
        self._event, starts, ends = blocks
        wanted = (_STAT_ID, _STAT_UINT64, _STAT_INT64, _STAT_REF)
        self._fields, result = decode(buffer, starts, ends, wanted, (_STAT_STR,))
        self._text_of, self._text_start, self._text_end = result[_STAT_STR]
        self._names = {entry.key: _text(entry.value.name) for entry in plane.stat_metadata}
        self._metadata_count = len(plane.event_metadata)
        self._of_metadata = [(n, entry.value.stats) for n, entry in enumerate(plane.event_metadata) if len(entry.value.stats)]

    def integers(self, name: str, count: int, position: Integers) -> pd.arrays.IntegerArray:
        """Return a statistic of `count` events as Int64, null if absent."""
        ids = self._ids(name)
        rows = np.flatnonzero(np.isin(self._fields[_STAT_ID], ids))
        values, missing = np.zeros(count, dtype=np.int64), np.ones(count, dtype=bool)
        known = self._find(ids)
        if known:
            common, has = np.zeros(self._metadata_count + 1, dtype=np.int64), np.zeros(self._metadata_count + 1, dtype=bool)
            numbers = [number for number, _ in known]
            common[numbers], has[numbers] = [_signed(stat) for _, stat in known], True
            values, missing = common[position], ~has[position]
        values[self._event[rows]] = self._fields[_STAT_UINT64][rows] | self._fields[_STAT_INT64][rows]
        missing[self._event[rows]] = False
        return pd.arrays.IntegerArray(values, missing)

    def texts(self, name: str, count: int, position: Integers) -> pd.Categorical:
        """Return a statistic of `count` events as a categorical, null if absent or not a text."""
        ids = self._ids(name)
        distinct: list[str | None] = [None]
        codes = np.zeros(count, dtype=np.int64)
        known = self._find(ids)
        if known:
            distinct += [_text(stat.str_value) or self._names.get(stat.ref_value) or None for _, stat in known]
            common = np.zeros(self._metadata_count + 1, dtype=np.int64)
            common[[number for number, _ in known]] = np.arange(1, len(known) + 1)
            codes = common[position]
        is_wanted = np.isin(self._fields[_STAT_ID], ids)
        refs = np.flatnonzero(is_wanted & (self._fields[_STAT_REF] != 0))
        ref_codes, ref_ids = pd.factorize(self._fields[_STAT_REF][refs])
        codes[self._event[refs]] = ref_codes + len(distinct)
        distinct += [self._names.get(int(ref)) for ref in ref_ids]
        own = np.flatnonzero(is_wanted[self._text_of])
        text_codes, texts = distinct_texts(self._buffer, self._text_start[own], self._text_end[own])
        codes[self._event[self._text_of[own]]] = text_codes + len(distinct)
        return _categories([*distinct, *texts], codes)

    def _ids(self, name: str) -> list[int]:
        return [key for key, text in self._names.items() if text == name]

    def _find(self, ids: list[int]) -> list[tuple[int, Any]]:
        """Return the metadata's number and the statistic, for all metadata that have it."""
        if not ids:
            return []
        return [(number, stat) for number, stats in self._of_metadata for stat in stats if stat.metadata_id in ids]


def _signed(stat: Any) -> int:
    value = int(stat.int64_value or stat.uint64_value)
    return value if value < 2**63 else value - 2**64


def _categories(texts: Sequence[str | None], codes: Integers) -> pd.Categorical:
    """Return a categorical from texts that may repeat or be None, and positions in them (-1: null)."""
    mapped, distinct = pd.factorize(np.array(texts, dtype=object))
    return pd.Categorical.from_codes(np.append(mapped, -1)[codes], categories=pd.Index(distinct, dtype="str"))


def _positions(keys: Integers, wanted: Integers) -> Integers:
    """Return the position of each wanted key in keys, the last one if it repeats, -1 if it is missing."""
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    result = np.searchsorted(keys[order], wanted, side="right") - 1
    at = order[np.maximum(result, 0)]
    return np.where((result >= 0) & (keys[at] == wanted), at, -1)


def _rounded_ns(picoseconds: Integers) -> Integers:
    return picoseconds // 1000 + (picoseconds % 1000 >= 500)
