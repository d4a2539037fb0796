"""What a helper process tells the process that started it (see analysis.helper): one message a task, checked when it is read.

Columns stay where the helper wrote them, in memory that both processes share (memfd; /dev/shm is small in containers). A message
says which of the descriptors that come with it holds which column.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.nsys_columns import Domain
from kernelscope.analysis.readers.nsys_tables import Column, Gathered, Texts

_KINDS = {"|b1", "|i1", "<i4", "<i8", "<f8"}  # of values, as numpy writes them: all that columns are made of

Remarks = list[tuple[str, str]]  # as secrets.remarks returns them


class Array(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Values: their kind, how many, and the place of their memory among the message's descriptors, None where there is none."""

    kind: str
    length: int
    memory: int | None


class Inline(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Texts that stand in a column itself, from a row on: each row's place among the distinct ones, as int32, -1 for null."""

    start: int
    codes: bytes
    distinct: list[str]


class Part(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A readers.nsys_tables.Column."""

    values: Array
    null: Array | None
    distinct: list[tuple[int | None, ...]]
    texts: list[Inline]


class Found(msgspec.Struct, tag=True, frozen=True, forbid_unknown_fields=True):
    """Columns that a task gathered, with all that readers.nsys_tables.Gathered has."""

    task: str
    columns: dict[str, Part]
    counts: dict[str, int]
    lists: dict[str, list[Domain]]


class Failed(msgspec.Struct, tag=True, frozen=True, forbid_unknown_fields=True):
    """Why what a task was to read cannot be read: an EvidenceError's text."""

    task: str
    reason: str


class Searched(msgspec.Struct, tag=True, frozen=True, forbid_unknown_fields=True):
    """What is to be said of secrets."""

    task: str
    remarks: Remarks


Message = Found | Failed | Searched
Content = Gathered | EvidenceError | Remarks

_DECODER = msgspec.msgpack.Decoder(Message)


class Memory:
    """Memory for columns that another process can have too, without a copy. passed: descriptors that go with the message."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}  # by address
        self.passed: list[int] = []

    def room(self, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Return room for so many values of a type."""
        if not count:
            return np.empty(0, dtype=kind)
        descriptor = os.memfd_create("kernelscope")
        os.ftruncate(descriptor, count * kind.itemsize)
        values = np.frombuffer(mmap.mmap(descriptor, count * kind.itemsize), dtype=kind)
        self._descriptors[_address(values)] = descriptor
        return values

    def array(self, values: NDArray[Any]) -> Array:
        """Describe values for the message, and pass on their memory; raise LookupError for values that are not in this memory."""
        if not values.size:
            return Array(values.dtype.str, 0, None)
        self.passed.append(self._descriptors[_address(values)])
        return Array(values.dtype.str, values.size, len(self.passed) - 1)

    def close(self) -> None:
        """Close the descriptors; the values stay as long as somebody has them."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _address(values: NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])


def found(task: str, gathered: Gathered, memory: Memory) -> Found:
    """Return the message that a task gathered these columns, in this memory."""
    columns = {}
    for name, column in gathered.columns.items():
        null = column.null()
        columns[name] = Part(
            memory.array(column.values()),
            None if null is None else memory.array(null),
            list(column.distinct),
            [_inline(start, texts) for start, texts in column.texts],
        )
    return Found(task, columns, gathered.counts, gathered.lists)


def _inline(start: int, texts: Texts) -> Inline:
    codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Inline(start, codes.astype(np.int32).tobytes(), texts.dictionary.to_pylist())


def packed(message: Message) -> bytes:
    """Return a message as bytes."""
    return msgspec.msgpack.encode(message)


def unpacked(body: bytes | bytearray, memory: Sequence[mmap.mmap]) -> tuple[str, Content] | None:
    """Return a message's task and what came out of it, its columns in the memory that came along; None if it is not as agreed."""
    try:
        message = _DECODER.decode(body)
        if isinstance(message, Found):
            columns = {name: _column(part, memory) for name, part in message.columns.items()}
            lists: dict[str, list[Any]] = {**message.lists}
            return message.task, Gathered(columns, Counter(message.counts), lists)
    except (msgspec.DecodeError, ValueError, LookupError):
        return None
    return message.task, EvidenceError(message.reason) if isinstance(message, Failed) else message.remarks


def _column(part: Part, memory: Sequence[mmap.mmap]) -> Column:
    values = _values(part.values, memory)
    null = None if part.null is None else _values(part.null, memory)
    if null is not None and (null.dtype != np.bool_ or null.size != values.size):
        raise ValueError("null is not told for every row")
    texts = [(inline.start, _texts(inline)) for inline in part.texts]
    if any(not 0 <= start <= values.size - len(own) for start, own in texts):
        raise ValueError("texts of rows that the column does not have")
    return Column.of(values, null, {distinct: code for code, distinct in enumerate(part.distinct)}, texts)


def _values(array: Array, memory: Sequence[mmap.mmap]) -> NDArray[Any]:
    if array.kind not in _KINDS:
        raise ValueError("not a kind of value")
    kind = np.dtype(array.kind)
    if not array.length:
        return np.empty(0, dtype=kind)
    if array.memory is None or not 0 <= array.memory < len(memory):
        raise ValueError("no such memory")
    if not 0 <= array.length <= len(memory[array.memory]) // kind.itemsize:
        raise ValueError("more values than memory")
    return np.frombuffer(memory[array.memory], dtype=kind, count=array.length)


def _texts(inline: Inline) -> Texts:
    import pyarrow as pa  # late: most columns have no texts of their own

    codes: Any = np.frombuffer(inline.codes, dtype=np.int32)
    indices: Any = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(inline.distinct, type=pa.large_string()))
