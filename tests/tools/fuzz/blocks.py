"""Damage to files of checked blocks (cupti.records) that keeps the checksums right: to rows, to headers, to the blocks' order."""

from __future__ import annotations

import struct
import zlib
from random import Random

_BLOCK = struct.Struct("<4sIII")
_MAGIC = 8
_NUMBERS = (b"\x00" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\x7f", b"\x00" * 7 + b"\x80", b"\x01" + b"\x00" * 7)


def change_blocks(rng: Random, data: bytes) -> bytes:
    """Change one block's rows, or its place among the others."""
    blocks = list(_blocks(data))
    if not blocks:
        return data
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(blocks))
        action = rng.randrange(6)
        if action == 0 and len(blocks) > 1:
            del blocks[at]
        elif action == 1:
            blocks.insert(rng.randrange(len(blocks) + 1), blocks[at])
        elif action == 2:
            _, rows, content = blocks[at]
            blocks[at] = rng.choice(blocks)[0], rows, content
        else:
            blocks[at] = _changed(rng, *blocks[at])
    return data[:_MAGIC] + b"".join(_BLOCK.pack(tag, rows, len(part), zlib.crc32(part)) + part for tag, rows, part in blocks)


def _changed(rng: Random, tag: bytes, rows: int, content: bytes) -> tuple[bytes, int, bytes]:
    at = rng.randrange(len(content) + 1)
    if content[:1] in (b"{", b"["):
        word = rng.choice((b"null", b"-1", b"1e999", b'"x"', b"[]", b"{}", b"18446744073709551616", b"true"))
        found = content.find(b":", at)
        return tag, rows, content[: found + 1] + word + content[content.find(b",", found) :] if found >= 0 else content
    number = rng.choice(_NUMBERS)[: rng.choice((1, 2, 4, 8))]
    if rng.random() < 0.2:
        return tag, rows * 2, content * 2
    return tag, rows, (content[:at] + number + content[at + len(number) :])[: len(content)]


def _blocks(data: bytes) -> list[tuple[bytes, int, bytes]]:
    found, place = [], _MAGIC
    while place + _BLOCK.size <= len(data):
        tag, rows, length, _ = _BLOCK.unpack_from(data, place)
        place += _BLOCK.size
        found.append((tag, rows, data[place : place + length]))
        place += length
    return found
