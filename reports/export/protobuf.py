"""Encode Perfetto's packets for many events at once: protobuf classes make the shared parts once, and columns fill the rest.

A packet is a concatenation of pieces from the classes and of numbers. Numbers are varints of the same width in all packets, which
every reader accepts, since a varint may end in empty groups. So no Python code runs per event.
Format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

Int = npt.NDArray[np.int64]
Binary = Any  # pa.Array of large_binary

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def event_packets(time: Int, track: Int, bodies: Sequence[bytes], body: Int, extra: Binary, common: bytes) -> pa.Buffer:
    """Return packets of track events, in order, as in a trace.

    time: ns from 0. track: uuids. bodies and body: encoded parts of TrackEvent, and which one each event has. extra: encoded
    fields of TrackEvent for each event. common: encoded fields of every packet.
    """
    event = TrackEvent.DESCRIPTOR.fields_by_name
    packet = TracePacket.DESCRIPTOR.fields_by_name
    texts = pa.array(list(bodies), pa.large_binary()).take(body)
    inner = joined(texts, tag(event["track_uuid"].number, _VARINT), varints(track), extra)
    outer = joined(
        tag(packet["timestamp"].number, _VARINT), varints(time), common,
        tag(packet["track_event"].number, _BYTES), varints(_lengths(inner)), inner,
    )  # fmt: skip
    whole: Any = joined(tag(Trace.DESCRIPTOR.fields_by_name["packet"].number, _BYTES), varints(_lengths(outer)), outer)
    _, offsets, data = whole.buffers()
    places = np.frombuffer(offsets, dtype=np.int64)[whole.offset :]
    packets: pa.Buffer = data.slice(int(places[0]), int(places[len(whole)] - places[0]))
    return packets


def field(number: int, values: npt.NDArray[Any]) -> Binary:
    """Return each value as an encoded field: int64 as varint, uint64 as fixed64, float64 as double."""
    if values.dtype == np.int64:
        return joined(tag(number, _VARINT), varints(values))
    return joined(tag(number, _FIXED64), _fixed(values.astype("<u8" if values.dtype == np.uint64 else "<f8")))


def joined(*pieces: Binary | bytes) -> Binary:
    """Return the concatenated pieces of each event; bytes are a piece that all events share."""
    parts = [pa.scalar(piece, pa.large_binary()) if isinstance(piece, bytes) else piece for piece in pieces]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def tag(number: int, kind: int) -> bytes:
    """Return the tag before a field's value."""
    key, out = number << 3 | kind, bytearray()
    while key >= 0x80:
        out.append(key & 0x7F | 0x80)
        key >>= 7
    return bytes([*out, key])


def varints(values: Int) -> Binary:
    """Return integers as varints, all as long as the longest one needs."""
    bits = values.astype(np.uint64)
    width = max(1, -(-int(bits.max(initial=0)).bit_length() // 7))
    groups = bits[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7)) & np.uint64(0x7F)
    groups[:, :-1] |= np.uint64(0x80)
    return _binary(groups.astype(np.uint8))


def _fixed(values: npt.NDArray[Any]) -> Binary:
    return _binary(np.ascontiguousarray(values).view(np.uint8).reshape(len(values), 8))


def _binary(rows: npt.NDArray[np.uint8]) -> Binary:
    """Return the rows of a matrix of bytes."""
    count, width = rows.shape
    buffers: list[Any] = [np.arange(0, (count + 1) * width, width, dtype=np.int64), np.ascontiguousarray(rows)]
    return pa.Array.from_buffers(pa.large_binary(), count, [None, *map(pa.py_buffer, buffers)])


def _lengths(values: Binary) -> Int:
    lengths: Any = pc.binary_length(values)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
