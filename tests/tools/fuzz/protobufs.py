"""Damage to protocol buffers: varints, lengths, field numbers and wire types, fields repeated or gone, deep nesting."""

from __future__ import annotations

from random import Random
from typing import TypeAlias

# a field: (number, wire type, value); the value of wire type 2 is a list of fields where the bytes parse as a message
Field: TypeAlias = "tuple[int, int, int | bytes | list[Field]]"

_VARINTS = (0, 1, 127, 128, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes((value,))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("no varint")


def parse(data: bytes, depth: int = 0) -> list[Field]:
    """Return a message's fields; raise ValueError where the bytes are none."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 10_000 or wire not in (0, 1, 2, 5):
            raise ValueError("no message")
        if wire == 0:
            value, at = _read_varint(data, at)
            fields.append((number, wire, value))
            continue
        length = {1: 8, 5: 4}.get(wire, 0)
        if wire == 2:
            length, at = _read_varint(data, at)
        piece = data[at : at + length]
        if len(piece) != length:
            raise ValueError("cut short")
        at += length
        fields.append((number, wire, _inner(piece, depth) if wire == 2 else piece))
    return fields


def _inner(piece: bytes, depth: int) -> bytes | list[Field]:
    if not piece or depth > 8 or (piece.isascii() and piece.decode("ascii").isprintable()):
        return piece
    try:
        return parse(piece, depth + 1)
    except ValueError:
        return piece


def write(fields: list[Field]) -> bytes:
    out = []
    for number, wire, value in fields:
        out.append(varint(number << 3 | wire))
        if wire == 0:
            assert isinstance(value, int)
            out.append(varint(value))
            continue
        piece = write(value) if isinstance(value, list) else value
        assert isinstance(piece, bytes)
        out.append(varint(len(piece)) + piece if wire == 2 else piece)
    return b"".join(out)


def thin(fields: list[Field], most: int) -> list[Field]:
    """Return the message with at most so many fields of each number, at all depths."""
    kept: list[Field] = []
    counts: dict[int, int] = {}
    for number, wire, value in fields:
        counts[number] = counts.get(number, 0) + 1
        if counts[number] <= most:
            kept.append((number, wire, thin(value, most) if isinstance(value, list) else value))
    return kept


def _messages(fields: list[Field]) -> list[list[Field]]:
    found = [fields]
    for message in found:
        found.extend(value for _, _, value in message if isinstance(value, list))
    return [message for message in found if message]


def change_fields(rng: Random, data: bytes) -> bytes:
    """Change fields so that the whole stays a message with right lengths."""
    try:
        fields = parse(data)
    except ValueError:
        return data
    messages = _messages(fields)
    for _ in range(rng.choice((1, 1, 3, 10)) if messages else 0):
        message = rng.choice(messages)
        if not message:
            continue
        place = rng.randrange(len(message))
        number, wire, value = message[place]
        action = rng.randrange(6)
        if action == 0:
            del message[place]
        elif action == 1:
            message.insert(place, message[rng.randrange(len(message))])
        elif action == 2:
            message[place] = (rng.choice((number + 1, max(1, number - 1), 1, 536_870_911)), wire, value)
        elif action == 3:
            message[place] = (number, 0, rng.choice(_VARINTS))
        elif action == 4:
            message[place] = (number, 2, rng.choice((b"", b"\xff\xfe", b"x" * 1000, b"\x08", b"\x0a\x7f", b"NaN")))
        else:
            message[place] = (number, rng.choice((1, 5)), rng.choice((b"\xff", b"\x00", b"\x7f")) * (8 if wire == 1 else 4))
    return write(fields)


def change_varints(rng: Random, data: bytes) -> bytes:
    """Put a varint anywhere: lengths no longer fit."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + varint(rng.choice(_VARINTS)) + data[at + rng.randrange(3) :]


def nest(rng: Random, data: bytes) -> bytes:
    """Put a message nested very deep in front, in one of the first fields."""
    number, inner = rng.randrange(1, 6), b""
    for _ in range(rng.choice((50, 200, 3000))):
        inner = varint(number << 3 | 2) + varint(len(inner)) + inner
    return inner + data
