"""Small sets of combinations of numbers: the code of each row, and the combinations by code. Imports numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]

_DENSE = 1 << 16  # values within a smaller range are numbered with a table of the whole range


class Combinations(NamedTuple):
    """The combination of numbers that each row has, as a code, and the combinations by code."""

    codes: NDArray[np.intp]
    distinct: list[tuple[int | None, ...]]


def combinations(*columns: tuple[Integers, Mask | None]) -> Combinations:
    """Return which combination of the columns' values each row has, numbered in order of appearance; null is a value too."""
    size = columns[0][0].size
    codes, result = np.zeros(size, dtype=np.intp), 1
    for column, null in columns:
        if null is None and size and column.min() == column.max():
            continue
        code, values = _numbered(column)
        if null is not None:
            code[null] = values
        elif result == 1:
            codes, result = code, values
            continue
        codes, result = _numbered(codes * (values + 1) + code)
    if result == 1:
        return Combinations(codes, [_combination(columns, 0)] if size else [])
    first = np.zeros(result, dtype=np.int64)
    first[codes[::-1]] = np.arange(size)[::-1]  # the last of several writes to one place stays
    order = np.argsort(first)
    rank = np.empty(result, dtype=np.intp)
    rank[order] = np.arange(result)
    return Combinations(rank[codes], [_combination(columns, row) for row in first[order].tolist()] if size else [])


def _combination(columns: Sequence[tuple[Integers, Mask | None]], row: int) -> tuple[int | None, ...]:
    return tuple(None if null is not None and null[row] else int(column[row]) for column, null in columns)


def _numbered(values: NDArray[Any]) -> tuple[NDArray[np.intp], int]:
    """Number the distinct values: (number of each row, count of distinct values)."""
    if not values.size:
        return np.zeros(0, dtype=np.intp), 0
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span > _DENSE:
        distinct, codes = np.unique(values, return_inverse=True)
        return codes, len(distinct)
    shifted = values - low
    seen = np.zeros(span, dtype=np.bool_)
    seen[shifted] = True
    number = np.cumsum(seen) - 1
    return number[shifted], int(number[-1]) + 1
