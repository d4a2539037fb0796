"""The time of both sides as two bars on one scale: computing by kind, and what happens while nothing computes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelscope.analysis.advise.advice import idle_part
from kernelscope.reports import colours
from kernelscope.reports.advice import part_class
from kernelscope.reports.explanation import SIDES, Result, names, scale

_MOST = 7  # named parts
_OTHER = "other"
_COLOURS = {**colours.KINDS, _OTHER: colours.OTHER}
_DEVICE = {"(copy ": "copying", "(memory set": "copying", "(exposed communication": "communication"}  # beginnings of rows' names
_WAITS = re.compile(r"\((?P<where>idle|host): (?P<cause>.+)\)$")


@dataclass(frozen=True)
class BarPart:
    """One part of a side's bar. width: in percent of the longer side's bar. part: a class of style.css; empty for kinds."""

    what: str
    part: str
    colour: str
    time: str
    width: float


@dataclass(frozen=True)
class SideBar:
    """One side's bar."""

    name: str
    total: str
    pieces: list[BarPart]

    @property
    def alternative(self) -> str:
        """The bar in words."""
        return f"{self.name}, {self.total}: " + ", ".join(f"{piece.what} {piece.time}" for piece in self.pieces)


def bars(result: Result) -> list[SideBar]:
    """Return the bars of both sides, with the same parts in the same order; empty if nothing was measured."""
    sums: dict[str, dict[str, int]] = {}
    for row in result["rows"]:
        of_part = sums.setdefault(_part(str(row["cell"])), dict.fromkeys(SIDES, 0))
        for side in SIDES:
            of_part[side] += int(row[f"{side}_ns"] or 0)
    longest = max((sum(part[side] for part in sums.values()) for side in SIDES), default=0)
    if not longest:
        return []
    order = sorted(sums, key=lambda what: (what == _OTHER, -max(sums[what].values())))
    if len(order) > _MOST + 1:
        small, order = order[_MOST:], [*order[:_MOST], _OTHER]
        sums[_OTHER] = {side: sum(sums[what][side] for what in small) for side in SIDES}
    return [_bar(result, side, {what: sums[what][side] for what in order}, longest) for side in SIDES]


def _bar(result: Result, side: str, parts: Mapping[str, int], longest: int) -> SideBar:
    unit = scale(result)
    rounded = unit.together(list(parts.values()))
    pieces = [
        BarPart(
            what,
            "" if what in _COLOURS else part_class(what),
            _COLOURS.get(what, ""),
            f"{unit.number(time)} {unit.unit}",
            100 * ns / longest,
        )
        for (what, ns), time in zip(parts.items(), rounded, strict=True)
    ]
    return SideBar(dict(zip(SIDES, names(result), strict=True))[side], f"{unit.number(sum(rounded))} {unit.unit}", pieces)


def _part(cell: str) -> str:
    """Return the part that a row of an explanation belongs to: a kind of kernel, or a part in the words of advice."""
    if cell in colours.KINDS:
        return cell
    for begin, what in _DEVICE.items():
        if cell.startswith(begin):
            return what
    match = _WAITS.match(cell)
    return idle_part(match["cause"], match["where"] == "host") if match else _OTHER
