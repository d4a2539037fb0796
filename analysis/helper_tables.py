"""What a helper process tells of an export of nsys, as helper_messages puts it: the columns of its tables.

    {"task": ..., "columns": {name: {"values": array, "null": array or null, "distinct": [...], "texts": [...]}},
     "counts": {...}, "lists": {...}}

Texts that stand in the column itself are [row they begin at, array of each row's place among the distinct ones (-1 for null),
distinct texts].
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.helper_values import Memory, checked, shared
from kernelscope.analysis.readers.nsys_tables import Column, Gathered, Texts
from kernelscope.analysis.readers.sqlite_pages import Database
from kernelscope.analysis.stacks import sorted_distinct

if TYPE_CHECKING:
    from kernelscope.analysis.kernel_lookup import Told

_KEYS = {"columns", "counts", "lists"}
_MOST_NAMES = 4096


def described(gathered: Gathered, memory: Memory) -> dict[str, Any]:
    """Return what a message says of columns that are in this memory."""
    columns = {name: _described(column, memory) for name, column in gathered.columns.items()}
    return {"columns": columns, "counts": gathered.counts, "lists": gathered.lists}


def _described(column: Column, memory: Memory) -> dict[str, Any]:
    null = column.stored_null()
    return {
        "values": memory.array(column.stored()),
        "null": None if null is None else memory.array(null),
        "distinct": list(column.distinct),
        "texts": [_inline(start, texts, memory) for start, texts in column.texts],
    }


def _inline(start: int, texts: Texts, memory: Memory) -> list[Any]:
    codes = memory.room(len(texts), np.dtype(np.int32))
    codes[:] = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return [start, memory.array(codes), texts.dictionary.to_pylist()]


def looked_up(database: Database, names: Column) -> dict[str, Told]:
    """Return what the names in a column tell, of at most _MOST_NAMES."""
    from kernelscope.analysis.kernel_lookup import look

    used = sorted_distinct(names.stored())
    used = used[used >= 0][:_MOST_NAMES]
    texts, first = list[str](), 0
    for rows in database.scan("StringIds", ("value",), lambda rows: rows):
        texts += rows.texts_at("value", used[(used >= first) & (used < first + rows.size)] - first)
        first += rows.size
    return {text: look(text) for text in texts}


def content(message: dict[str, Any], memory: Sequence[mmap.mmap]) -> Gathered:
    """Return the columns that a message tells of, in the memory that came along; raise ValueError where it is not as agreed."""
    if message.keys() != _KEYS:
        raise ValueError("no kind of message")
    columns = {name: _column(memory, **part) for name, part in checked(dict, message["columns"]).items()}
    counts = Counter({name: checked(int, count) for name, count in checked(dict, message["counts"]).items()})
    lists = {name: list(map(_domain, checked(list, rows))) for name, rows in checked(dict, message["lists"]).items()}
    return Gathered(columns, counts, lists)


def _domain(row: list[Any]) -> tuple[int, int, int, str | None]:
    """Return a readers.nsys_columns.Domain."""
    process, number, place, name = row
    return checked(int, process), checked(int, number), checked(int, place), None if name is None else checked(str, name)


def _column(
    memory: Sequence[mmap.mmap], values: list[Any], null: list[Any] | None, distinct: list[Any], texts: list[Any]
) -> Column:
    rows = shared(memory, *values)
    none = None if null is None else shared(memory, *null)
    if none is not None and (none.dtype != np.bool_ or none.size != rows.size):
        raise ValueError("null is not told for every row")
    own = [(checked(int, start), _texts(shared(memory, *codes), known)) for start, codes, known in checked(list, texts)]
    if any(not 0 <= start <= rows.size - len(part) for start, part in own):
        raise ValueError("texts of rows that the column does not have")
    numbers = [tuple(map(_number, checked(list, each))) for each in checked(list, distinct)]
    return Column.of(rows, none, {each: code for code, each in enumerate(numbers)}, own)


def _number(told: Any) -> int | None:
    return None if told is None else checked(int, told)


def _texts(codes: NDArray[Any], distinct: list[Any]) -> Texts:
    import pyarrow as pa  # late: most columns have no texts of their own

    if codes.dtype != np.int32 or (codes.size and int(codes.max()) >= len(checked(list, distinct))):
        raise ValueError("not the places of texts")
    indices: Any = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array([checked(str, text) for text in distinct], type=pa.large_string()))
