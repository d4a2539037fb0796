"""The look of each name in all figures of a page: a colour, a marker, a hatch and dashes, so colour alone never distinguishes.

Colours are none of those of kinds of kernels, which the same page shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelscope.reports.colours import SERIES

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d", "8")
# lines only: dots and circles make large files
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "//--", "\\\\||", "x-", "/|", "\\-")
DASHES = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (3, 1), (8, 2, 2, 2, 2, 2))


@dataclass(frozen=True)
class Look:
    """The look of one name."""

    colour: str
    marker: str
    hatch: str
    dashes: tuple[float, ...]


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each name: the same names in the same order get the same looks."""
    return {
        name: Look(SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)], HATCHES[place % len(HATCHES)], _dashes(place))
        for place, name in enumerate(dict.fromkeys(names))
    }


def _dashes(place: int) -> tuple[float, ...]:
    return DASHES[place % len(DASHES)]
