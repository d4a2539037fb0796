"""Lookups in embedding tables, from the shapes of PyTorch's operators."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pandas as pd

from kernelscope.analysis.files import json_text

_OPERATOR = "aten::embedding"  # its shapes: the table's [entries, width], then those of the indices
_IMPOSSIBLE = 1 << 62


class Lookup(NamedTuple):
    """One lookup. entries, width: of its table; sizes: of the tensor of indices, each above zero."""

    entries: int
    width: int
    sizes: tuple[int, ...]


def among(operators: pd.DataFrame) -> pd.DataFrame:
    """Return the operators that are lookups."""
    return operators[(operators["name"] == _OPERATOR).fillna(False).to_numpy(bool)]


def lookup(text: object) -> Lookup | None:
    """Return the lookup that an operator's shapes describe, such as [[200000, 64], [64, 20], [], [], []]; None if they describe
    none.
    """
    match shapes(text):
        case [[int(entries), int(width)], [*sizes], *_] if sizes and all(isinstance(one, int) and one > 0 for one in sizes):
            return Lookup(entries, width, tuple(sizes)) if math.prod(sizes) < _IMPOSSIBLE else None
    return None


def shapes(text: object) -> list[Any]:
    """Return an operator's shapes: lists of sizes, or lists of these; empty if the text holds none, or impossible ones."""
    found = json_text.listed(str(text))
    return found if _are_sizes(found) else []


def _are_sizes(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_are_sizes, value))
    return isinstance(value, int) and 0 <= value < _IMPOSSIBLE
