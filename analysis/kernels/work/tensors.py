"""Operators' inputs as PyTorch's profiler writes them: JSON text of shapes, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod

from kernelscope.analysis.files import json_text

Shape = tuple[int, ...]


def short_name(name: str) -> str:
    """Return an operator's name without its namespace and leading underscores."""
    return name.rpartition("::")[2].lstrip("_")


@lru_cache(maxsize=65536)
def shapes_of(text: str) -> tuple[Shape, ...]:
    """Return a shape for each input; empty for inputs that are not tensors."""
    return tuple(
        tuple(entry) if isinstance(entry, list) and all(type(size) is int for size in entry) else ()
        for entry in json_text.listed(text)
    )


def bytes_of(tensors: Iterable[tuple[Shape, int | None]]) -> int | None:
    """Return the bytes of tensors with their element sizes; None if a size is unknown."""
    pairs = list(tensors)
    return None if any(size is None for _, size in pairs) else sum(prod(shape) * (size or 0) for shape, size in pairs)


def as_problem(tensors: Sequence[Shape]) -> str:
    """Return shapes as problems are written: 64x28x28:10x784."""
    return ":".join("x".join(map(str, shape)) for shape in tensors if shape)
