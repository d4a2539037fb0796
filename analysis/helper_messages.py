"""What a helper process tells the process that started it (see analysis.helper): one message a task, checked when it is read.

Columns stay where the helper wrote them, in memory that both processes share (memfd; /dev/shm is small in containers). A message,
which is JSON, says which of the descriptors that come with it holds which column:

    {"task": ..., "columns": {name: {"values": array, "null": array or null, "distinct": [...], "texts": [...]}},
     "counts": {...}, "lists": {...}}
    {"task": ..., "failed": why it cannot be read}
    {"task": ..., "remarks": [[kind, line], ...]}

An array is [kind of values, how many, the place of their memory among the descriptors or null]. Texts that stand in the column
itself are [row they begin at, array of each row's place among the distinct ones (-1 for null), distinct texts].
"""

from __future__ import annotations

import json
import mmap
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.nsys_tables import Column, Gathered, Texts

_KINDS = {"|b1", "|i1", "<i4", "<i8", "<f8"}  # of values, as numpy writes them: all that columns are made of

Remarks = list[tuple[str, str]]  # as secrets.remarks returns them
Content = Gathered | EvidenceError | Remarks
T = TypeVar("T")


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

    def array(self, values: NDArray[Any]) -> list[Any]:
        """Describe values for the message, and pass on their memory; raise LookupError for values that are not in this memory."""
        if not values.size:
            return [values.dtype.str, 0, None]
        self.passed.append(self._descriptors[_address(values)])
        return [values.dtype.str, values.size, len(self.passed) - 1]

    def close(self) -> None:
        """Close the descriptors; the values stay as long as somebody has them."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _address(values: NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])


# --- in the helper ------------------------------------------------------------------------------------------------------------


def found(task: str, gathered: Gathered, memory: Memory) -> bytes:
    """Return the message that a task gathered these columns, in this memory."""
    columns = {name: _described(column, memory) for name, column in gathered.columns.items()}
    return _packed({"task": task, "columns": columns, "counts": gathered.counts, "lists": gathered.lists})


def failed(task: str, reason: str) -> bytes:
    """Return the message that what a task was to read cannot be read: an EvidenceError's text."""
    return _packed({"task": task, "failed": reason})


def searched(task: str, remarks: Remarks) -> bytes:
    """Return the message of what is to be said of secrets."""
    return _packed({"task": task, "remarks": remarks})


def _packed(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def _described(column: Column, memory: Memory) -> dict[str, Any]:
    null = column.null()
    return {
        "values": memory.array(column.values()),
        "null": None if null is None else memory.array(null),
        "distinct": list(column.distinct),
        "texts": [_inline(start, texts, memory) for start, texts in column.texts],
    }


def _inline(start: int, texts: Texts, memory: Memory) -> list[Any]:
    codes = memory.room(len(texts), np.dtype(np.int32))
    codes[:] = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return [start, memory.array(codes), texts.dictionary.to_pylist()]


# --- in the process that started it -------------------------------------------------------------------------------------------


def unpacked(body: bytes | bytearray, memory: Sequence[mmap.mmap]) -> tuple[str, Content] | None:
    """Return a message's task and what came out of it, its columns in the memory that came along; None if it is not as agreed."""
    try:
        message = _is(dict, json.loads(body))
        return _is(str, message.pop("task")), _content(message, memory)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _content(message: dict[str, Any], memory: Sequence[mmap.mmap]) -> Content:
    keys = message.keys()
    if keys == {"failed"}:
        return EvidenceError(_is(str, message["failed"]))
    if keys == {"remarks"}:
        return [(_is(str, kind), _is(str, line)) for kind, line in _is(list, message["remarks"])]
    if keys != {"columns", "counts", "lists"}:
        raise ValueError("no kind of message")
    columns = {name: _column(memory, **part) for name, part in _is(dict, message["columns"]).items()}
    counts = Counter({name: _is(int, count) for name, count in _is(dict, message["counts"]).items()})
    lists = {name: list(map(_domain, _is(list, rows))) for name, rows in _is(dict, message["lists"]).items()}
    return Gathered(columns, counts, lists)


def _is(kind: type[T], value: Any) -> T:
    """Return the value if it is of this kind."""
    if type(value) is not kind:
        raise ValueError(f"not of type {kind.__name__}")
    return value


def _domain(row: list[Any]) -> tuple[int, int, int, str | None]:
    """Return a readers.nsys_columns.Domain."""
    process, number, place, name = row
    return _is(int, process), _is(int, number), _is(int, place), None if name is None else _is(str, name)


def _column(
    memory: Sequence[mmap.mmap], values: list[Any], null: list[Any] | None, distinct: list[Any], texts: list[Any]
) -> Column:
    rows = _values(memory, *values)
    none = None if null is None else _values(memory, *null)
    if none is not None and (none.dtype != np.bool_ or none.size != rows.size):
        raise ValueError("null is not told for every row")
    own = [(_is(int, start), _texts(_values(memory, *codes), known)) for start, codes, known in _is(list, texts)]
    if any(not 0 <= start <= rows.size - len(part) for start, part in own):
        raise ValueError("texts of rows that the column does not have")
    numbers = [tuple(None if number is None else _is(int, number) for number in _is(list, each)) for each in _is(list, distinct)]
    return Column.of(rows, none, {each: code for code, each in enumerate(numbers)}, own)


def _values(memory: Sequence[mmap.mmap], kind: str, length: int, place: int | None) -> NDArray[Any]:
    if kind not in _KINDS:
        raise ValueError("not a kind of value")
    if _is(int, length) == 0:
        return np.empty(0, dtype=kind)
    if not 0 <= _is(int, place) < len(memory):
        raise ValueError("no such memory")
    if not 0 <= length <= len(memory[_is(int, place)]) // np.dtype(kind).itemsize:
        raise ValueError("more values than memory")
    return np.frombuffer(memory[_is(int, place)], dtype=kind, count=length)


def _texts(codes: NDArray[Any], distinct: list[Any]) -> Texts:
    import pyarrow as pa  # late: most columns have no texts of their own

    if codes.dtype != np.int32 or (codes.size and int(codes.max()) >= len(_is(list, distinct))):
        raise ValueError("not the places of texts")
    indices: Any = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array([_is(str, text) for text in distinct], type=pa.large_string()))
