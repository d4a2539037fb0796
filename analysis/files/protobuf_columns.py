"""Fields of many protobuf messages at once, as columns: one numpy pass decodes one field of every message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Blocks = tuple[Integers, Integers, Integers]  # the message's row, and where the field's bytes begin and end in the buffer

VARINT_BYTES = 10


def varint(content: bytes, position: int) -> tuple[int, int]:
    """Return the variable-length number at a position, and where it ends; raise IndexError if the content ends first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, position


def padded(content: bytes) -> npt.NDArray[np.uint8]:
    """Return messages' bytes in the form that `decode` needs: padded by the length of a number."""
    return np.frombuffer(content + bytes(VARINT_BYTES), dtype=np.uint8)


def decode(
    buffer: npt.NDArray[np.uint8], starts: Integers, ends: Integers, wanted: tuple[int, ...], wanted_blocks: tuple[int, ...]
) -> tuple[dict[int, Integers], dict[int, Blocks]]:
    """Return the wanted integer fields (0 if absent), and the positions of the wanted fields of bytes.

    buffer: see `padded`. Raise ValueError if a message's fields do not end where the message ends.
    """
    result = {number: np.zeros(len(starts), dtype=np.int64) for number in wanted}
    blocks: dict[int, list[Blocks]] = {number: [] for number in wanted_blocks}
    cursor = starts.copy()
    rows = np.flatnonzero(cursor < ends)
    while len(rows):  # one round decodes one field of every message that has another
        keys, position = _varints(buffer, cursor[rows])
        numbers, wire = keys >> 3, keys & 7
        is_integer, is_block = wire == 0, wire == 2
        values, after = _varints(buffer, position)
        position = np.where(is_integer | is_block, after, position)
        begin = position.copy()
        # a length beyond the buffer must not wrap around into a plausible position
        too_long = is_block & ((values < 0) | (values > len(buffer)))
        position += np.select([is_block & ~too_long, wire == 1, wire == 5], [values, 8, 4], default=0)
        if not np.isin(wire, (0, 1, 2, 5)).all() or too_long.any() or (position > ends[rows]).any():
            raise ValueError("an event's fields do not end where the event ends")
        for number, column in result.items():
            chosen = is_integer & (numbers == number)
            column[rows[chosen]] = values[chosen]
        for number, pieces in blocks.items():
            chosen = is_block & (numbers == number)
            pieces.append((rows[chosen], begin[chosen], position[chosen]))
        cursor[rows] = position
        rows = rows[position < ends[rows]]
    return result, {number: _joined(pieces) for number, pieces in blocks.items()}


def _joined(pieces: list[Blocks]) -> Blocks:
    """Concatenate pieces of three arrays each into three arrays."""
    if not pieces:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    rows, begins, ends = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return rows, begins, ends


def _varints(buffer: npt.NDArray[np.uint8], start: Integers) -> tuple[Integers, Integers]:
    """Return the variable-length integers that begin at these positions, and where each ends."""
    values = np.zeros(len(start), dtype=np.uint64)
    position = start.copy()
    open_rows = np.arange(len(start))
    limit = len(buffer) - 1
    for shift in range(0, 7 * VARINT_BYTES, 7):
        byte = buffer[np.minimum(position[open_rows], limit)]
        values[open_rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        position[open_rows] += 1
        open_rows = open_rows[byte >= 0x80]
        if not len(open_rows):
            break
    return values.astype(np.int64), position


def distinct_texts(buffer: npt.NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[Integers, list[str]]:
    """Return the code of each of these stretches of the buffer, and their distinct texts by code."""
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    # the bytes of all stretches, concatenated
    gathered = buffer[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
    strings = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(gathered.tobytes())]
    )
    encoded = strings.dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), [
        (value or b"").decode("utf8", errors="replace") for value in encoded.dictionary.to_pylist()
    ]
