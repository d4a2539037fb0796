"""What a helper process tells of a torch.profiler trace, as helper_messages puts it: the columns of groups of events.

{"task": ..., "tables": {group: {column: array, or {"values": array, "valid": array} of integers}}, "texts": {column: [...]},
 "counts": [[phase, category, number], ...], "untimed": {group: number}, "header": {key: JSON}, "repaired": number}
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.helper_values import Memory, checked, shared
from kernelscope.analysis.readers.kineto_categories import GROUPS
from kernelscope.analysis.readers.kineto_columns import TIME, Column, Columns, Integers, columns_of
from kernelscope.analysis.readers.kineto_groups import INTEGER

_KEYS = {"tables", "texts", "counts", "untimed", "header", "repaired"}


def described(found: Columns, memory: Memory) -> dict[str, Any]:
    """Return what a message says of columns that are in this memory."""
    return {
        "tables": {
            group: {name: _described(column, memory) for name, column in table.items()} for group, table in found.tables.items()
        },
        "texts": found.texts,
        "counts": [[*pair, count] for pair, count in found.counts.items()],
        "untimed": found.untimed,
        "header": {key: text.decode("utf8", "surrogateescape") for key, text in found.header.items()},
        "repaired": found.repaired,
    }


def _described(column: Column, memory: Memory) -> Any:
    if isinstance(column, Integers):
        return {"values": memory.array(column.values), "valid": memory.array(column.valid)}
    return memory.array(column)


def content(message: dict[str, Any], memory: Sequence[mmap.mmap]) -> Columns:
    """Return the columns that a message tells of, in the memory that came along; raise ValueError where it is not as agreed."""
    if message.keys() != _KEYS:
        raise ValueError("no kind of message")
    texts = {name: _texts(known) for name, known in checked(dict, message["texts"]).items()}
    tables = checked(dict, message["tables"])
    if tables.keys() != GROUPS.keys():
        raise ValueError("not the groups that are asked for")
    return Columns(
        {group: _table(group, checked(dict, table), texts, memory) for group, table in tables.items()},
        texts,
        {(checked(str, phase), checked(str, category)): checked(int, count) for phase, category, count in message["counts"]},
        {group: checked(int, checked(dict, message["untimed"])[group]) for group in GROUPS},
        {key: checked(str, text).encode("utf8", "surrogateescape") for key, text in checked(dict, message["header"]).items()},
        checked(int, message["repaired"]),
    )


def _texts(known: Any) -> list[str]:
    return [checked(str, text) for text in checked(list, known)]


def _table(group: str, table: dict[str, Any], texts: dict[str, list[str]], memory: Sequence[mmap.mmap]) -> dict[str, Column]:
    kinds = columns_of(GROUPS[group])
    if table and table.keys() != kinds.keys():
        raise ValueError("not the columns that are asked for")
    columns: dict[str, Column] = {}
    for name, told in table.items():
        if kinds[name] == INTEGER:
            columns[name] = _integers(checked(dict, told), memory)
        else:
            columns[name] = _times(told, memory) if kinds[name] == TIME else _numbers(told, len(texts[name]), memory)
    if len({len(column.values if isinstance(column, Integers) else column) for column in columns.values()}) > 1:
        raise ValueError("columns of different lengths")
    return columns


def _times(told: list[Any], memory: Sequence[mmap.mmap]) -> NDArray[np.int64]:
    return _of_type(np.dtype(np.int64), shared(memory, *told))


def _integers(told: dict[str, Any], memory: Sequence[mmap.mmap]) -> Integers:
    numbers = _of_type(np.dtype(np.int64), shared(memory, *told["values"]))
    valid = _of_type(np.dtype(np.bool_), shared(memory, *told["valid"]))
    if len(numbers) != len(valid):
        raise ValueError("it is not told of every integer whether it is there")
    return Integers(numbers, valid)


def _numbers(told: list[Any], count: int, memory: Sequence[mmap.mmap]) -> NDArray[np.int32]:
    codes = _of_type(np.dtype(np.int32), shared(memory, *told))
    if codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < count:
        raise ValueError("texts that are not told")
    return codes


def _of_type(kind: np.dtype[Any], found: NDArray[Any]) -> NDArray[Any]:
    if found.dtype != kind:
        raise ValueError("not the type that is asked for")
    return found
