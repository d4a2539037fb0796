"""Perfetto traces: protobuf for ui.perfetto.dev and trace_processor, to the nanosecond.

A side is a group of named, ordered tracks, one per thread or stream. Slices have their details as arguments, arrows lead from
calls to the device work that they launched, and memory and samples are counters. Slices without length are instants.
Format: https://perfetto.dev/docs/reference/synthetic-track-event
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import InternedData, Trace, TracePacket, TrackDescriptor, TrackEvent

from kernelscope.reports.export.events import CounterTrack, Slices, TraceEvents, plain
from kernelscope.reports.export.protobuf import event_packets, field

Int = npt.NDArray[np.int64]

_SEQUENCE = 1
_SIDES = 1 << 20  # uuids reserved for the tracks of a side


def write(sides: Sequence[tuple[str, TraceEvents, int]], about: str, target: Path) -> None:
    """Write the events of sides (name, events, time zero); gzip if target ends in .gz.

    about: description of every side. Raises OSError if the file cannot be written.
    """
    texts = _Texts()
    packets: list[TracePacket] = []
    parts: list[_Part] = []
    for number, (name, found, origin) in enumerate(sides, 1):
        uuid = number * _SIDES
        packets += _descriptors(name, found, number, uuid, about)
        parts += [_slices(part, texts, uuid + 1, origin, number) for part in found.slices]
        first = uuid + 1 + len(found.tracks)
        parts += [_counter(counter, first + place, origin) for place, counter in enumerate(found.counters)]
    packets[0].first_packet_on_sequence = True
    head = Trace(packet=[TracePacket(**_sequence(1), interned_data=texts.data), *packets])
    with gzip.open(target, "wb") if target.suffix == ".gz" else target.open("wb") as file:
        file.write(head.SerializeToString())
        file.write(_events(parts))


def _sequence(flags: int) -> dict[str, int]:
    """Return the fields of every packet. flags: 1 clears earlier interned data, 2 uses it."""
    return {"trusted_packet_sequence_id": _SEQUENCE, "sequence_flags": flags}


def _descriptors(name: str, found: TraceEvents, number: int, uuid: int, about: str) -> list[TracePacket]:
    """Return the packets that describe a side and its tracks."""
    side = TrackDescriptor(uuid=uuid, name=plain(name), description=plain(about), sibling_order_rank=number)
    side.child_ordering = TrackDescriptor.EXPLICIT  # viewers ignore the order of tracks below a process
    tracks = [side]
    for place, track in enumerate(found.tracks):
        tracks.append(TrackDescriptor(uuid=uuid + 1 + place, parent_uuid=uuid, name=plain(track.name), sibling_order_rank=place))
    for place, counter in enumerate(found.counters, len(found.tracks)):
        tracks.append(
            TrackDescriptor(uuid=uuid + 1 + place, parent_uuid=uuid, name=plain(counter.name), sibling_order_rank=place)
        )
        tracks[-1].counter.unit_name = counter.unit
    return [TracePacket(**_sequence(2), track_descriptor=track) for track in tracks]


class _Texts:
    """Names and arguments that packets refer to by number."""

    def __init__(self) -> None:
        self.data = InternedData()
        self._known: dict[tuple[str, str], int] = {}
        self._next = count(1)

    def name(self, text: str) -> int:
        return self._number("event_names", text, name=plain(text))

    def category(self, text: str) -> int:
        return self._number("event_categories", text, name=text)

    def argument(self, text: str) -> int:
        return self._number("debug_annotation_names", text, name=text)

    def value(self, text: str) -> int:
        return self._number("debug_annotation_string_values", text, str=plain(text).encode())

    def _number(self, table: str, text: str, **entry: Any) -> int:
        number = self._known.get((table, text))
        if number is None:
            number = self._known[table, text] = next(self._next)
            getattr(self.data, table).add(iid=number, **entry)
        return number


class _Part:
    """Events of one table or counter. bodies, body, extra: see protobuf.event_packets. rank: order among those of one time."""

    def __init__(self, time: Int, track: Int, bodies: list[bytes], body: Int, extra: Any, rank: tuple[Int, Int]):
        self.time, self.track, self.bodies, self.body, self.extra, self.rank = time, track, bodies, body, extra, rank


def _slices(part: Slices, texts: _Texts, first: int, origin: int, side: int) -> _Part:
    """Return begin and end of every slice; a slice without length is an instant.

    At the same time, ends precede begins; an outer slice begins first and ends last.
    """
    lasting = part.end > part.start
    bodies, body = _bodies(part, texts, lasting)
    ends = np.flatnonzero(lasting)
    kind = np.where(lasting, 2, 1)
    zero = np.zeros(len(ends), dtype=np.int64)
    return _Part(
        np.concatenate([part.start, part.end[ends]]) - origin,
        np.concatenate([part.track, part.track[ends]]) + first,
        [*bodies, TrackEvent(type=TrackEvent.TYPE_SLICE_END).SerializeToString()],
        np.concatenate([body, zero + len(bodies)]),
        _arrows(np.concatenate([part.flow, zero - 1]), side),
        (np.concatenate([kind, zero]), np.concatenate([-part.end, -part.start[ends]])),
    )


def _bodies(part: Slices, texts: _Texts, lasting: npt.NDArray[np.bool_]) -> tuple[list[bytes], Int]:
    """Return the bodies of begin events, each combination of name and details once, and which one each slice has."""
    key = (part.code * len(part.details) + part.detail) * 2 + lasting
    distinct, body = np.unique(key, return_inverse=True)
    category = texts.category(part.table)
    bodies = []
    for number in distinct.tolist():
        rest, long = divmod(number, 2)
        name, detail = divmod(rest, len(part.details))
        event = TrackEvent(type=TrackEvent.TYPE_SLICE_BEGIN if long else TrackEvent.TYPE_INSTANT)
        event.name_iid = texts.name(part.texts[name])
        event.category_iids.append(category)
        _annotate(event, part.details[detail], texts)
        bodies.append(event.SerializeToString())
    return bodies, body.astype(np.int64)


def _annotate(event: TrackEvent, details: Mapping[str, Any], texts: _Texts) -> None:
    for name, value in details.items():
        said = event.debug_annotations.add(name_iid=texts.argument(name))
        if isinstance(value, bool):
            said.bool_value = value
        elif isinstance(value, int):
            said.int_value = value
        else:
            said.string_value_iid = texts.value(value)


def _arrows(flow: Int, side: int) -> Any:
    """Return the encoded number of the arrow at each event; empty for -1."""
    number = flow.astype(np.uint64) + np.uint64(side * (1 << 48))
    encoded = field(TrackEvent.DESCRIPTOR.fields_by_name["flow_ids"].number, number)
    return pa.compute.if_else(pa.array(flow >= 0), encoded, pa.scalar(b"", pa.large_binary()))


def _counter(counter: CounterTrack, uuid: int, origin: int) -> _Part:
    whole = counter.values.dtype == np.int64
    name = "counter_value" if whole else "double_counter_value"
    zero = np.zeros(len(counter.time), dtype=np.int64)
    return _Part(
        counter.time - origin,
        zero + uuid,
        [TrackEvent(type=TrackEvent.TYPE_COUNTER).SerializeToString()],
        zero,
        field(TrackEvent.DESCRIPTOR.fields_by_name[name].number, counter.values),
        (zero, zero),
    )


def _events(parts: Sequence[_Part]) -> bytes | pa.Buffer:
    """Return the packets of all events, sorted by time."""
    if not parts:
        return b""
    time, track = (np.concatenate([getattr(part, name) for part in parts]) for name in ("time", "track"))
    kind, tie = (np.concatenate([part.rank[number] for part in parts]) for number in (0, 1))
    first = np.cumsum([0, *(len(part.bodies) for part in parts)])
    body = np.concatenate([part.body + before for part, before in zip(parts, first, strict=False)])
    extra = pa.concat_arrays([part.extra for part in parts])
    order = np.lexsort((tie, kind, time))
    common = TracePacket(**_sequence(2)).SerializeToString()
    bodies = [body for part in parts for body in part.bodies]
    return event_packets(time[order], track[order], bodies, body[order], extra.take(pa.array(order)), common)
