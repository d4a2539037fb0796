"""Format times and bytes for people, in a fitting unit. Unknown values are shown as unknown, never as 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import TypeGuard

UNKNOWN = "—"
NS_PER = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

Number = int | float


def known(value: Number | None) -> TypeGuard[Number]:
    """Return whether a value is a number that can be shown, numpy's included: not null, not a bool, finite."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def common_unit(values: Iterable[Number | None]) -> str:
    """Return the unit (a key of NS_PER) in which the smallest of these ns values is at least 1; ms if none is known."""
    smallest = min((abs(value) for value in values if known(value) and value), default=None)
    if smallest is None:
        return "ms"
    return max((unit for unit, size in NS_PER.items() if size <= max(smallest, 1)), key=NS_PER.__getitem__)


def duration(ns: Number | None) -> str:
    """Return ns in a fitting unit, with three significant digits: 4.31 ms, 215 µs."""
    if not known(ns):
        return UNKNOWN
    if not ns:
        return "0 ns"
    unit = common_unit([ns])
    larger = next((name for name, size in NS_PER.items() if size == 1000 * NS_PER[unit]), None)
    if larger and abs(ns) >= 0.9995 * NS_PER[larger]:  # it would read 1,000 in the smaller unit
        unit = larger
    return f"{significant(ns / NS_PER[unit])} {unit}"


def size(count: Number | None) -> str:
    """Return bytes: 312 MB."""
    if not known(count):
        return UNKNOWN
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= scale:
            return f"{significant(count / scale)} {unit}"
    return f"{count:.0f} B"


def significant(value: float) -> str:
    """Return a number with three significant digits, as an integer from 100 on."""
    magnitude = abs(value)
    return f"{value:,.2f}" if magnitude < 9.995 else f"{value:,.1f}" if magnitude < 99.95 else f"{value:,.0f}"
