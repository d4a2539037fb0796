"""Values that a helper process and the one that started it share, without a copy: in memory that both have mapped.

Columns stay where the helper wrote them (memfd; /dev/shm is small in containers). A message describes an array as [kind of
values, how many, the place of their memory among the descriptors that come with it], or, where all values are the same, as
[kind, how many, null, the value].
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# Kinds of values, as numpy writes them, and what one is in a message: all that columns are made of
_KINDS: dict[str, type] = {"|b1": bool, "|i1": int, "<i4": int, "<i8": int, "<f8": float}

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
        """Describe values for the message, and pass on their memory; raise LookupError for values that are not in this memory.

        A view of one value, with a stride of 0, needs none.
        """
        if not values.size or values.strides == (0,):
            return [values.dtype.str, values.size, None, *values[:1].tolist()]
        self.passed.append(self._descriptors[_address(values)])
        return [values.dtype.str, values.size, len(self.passed) - 1]

    def close(self) -> None:
        """Close the descriptors; the values stay as long as somebody has them."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _address(values: NDArray[Any]) -> int:
    return int(values.__array_interface__["data"][0])


def shared(memory: Sequence[mmap.mmap], kind: str, length: int, place: int | None, *same: Any) -> NDArray[Any]:
    """Return an array that a message describes, in the memory that came along or a view of the value that all have.

    Raises ValueError where it is not as agreed.
    """
    if kind not in _KINDS:
        raise ValueError("not a kind of value")
    if checked(int, length) == 0:
        return np.empty(0, dtype=kind)
    if place is None:
        return np.broadcast_to(_one(kind, *same), length)
    if same:
        raise ValueError("memory and a value")
    if not 0 <= checked(int, place) < len(memory):
        raise ValueError("no such memory")
    if not 0 <= length <= len(memory[checked(int, place)]) // np.dtype(kind).itemsize:
        raise ValueError("more values than memory")
    return np.frombuffer(memory[checked(int, place)], dtype=kind, count=length)


def _one(kind: str, value: Any) -> NDArray[Any]:
    """Return a value as an array without dimensions."""
    found: NDArray[Any] = np.array(checked(_KINDS[kind], value))
    if found.dtype != kind and not (found.dtype == np.int64 and np.iinfo(kind).min <= value <= np.iinfo(kind).max):
        raise ValueError("a value that its kind does not have")
    return found.astype(kind)


def checked(kind: type[T], value: Any) -> T:
    """Return the value if it is of this kind."""
    if type(value) is not kind:
        raise ValueError(f"not of type {kind.__name__}")
    return value
