"""Values that a helper process and the one that started it share, without a copy: in memory that both have mapped.

Columns stay where the helper wrote them (memfd; /dev/shm is small in containers). A message describes an array as [kind of
values, how many, the place of their memory among the descriptors that come with it, or null].
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_KINDS = {"|b1", "|i1", "<i4", "<i8", "<f8"}  # of values, as numpy writes them: all that columns are made of

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


def shared(memory: Sequence[mmap.mmap], kind: str, length: int, place: int | None) -> NDArray[Any]:
    """Return an array that a message describes, in the memory that came along; raise ValueError where it is not as agreed."""
    if kind not in _KINDS:
        raise ValueError("not a kind of value")
    if checked(int, length) == 0:
        return np.empty(0, dtype=kind)
    if not 0 <= checked(int, place) < len(memory):
        raise ValueError("no such memory")
    if not 0 <= length <= len(memory[checked(int, place)]) // np.dtype(kind).itemsize:
        raise ValueError("more values than memory")
    return np.frombuffer(memory[checked(int, place)], dtype=kind, count=length)


def checked(kind: type[T], value: Any) -> T:
    """Return the value if it is of this kind."""
    if type(value) is not kind:
        raise ValueError(f"not of type {kind.__name__}")
    return value
