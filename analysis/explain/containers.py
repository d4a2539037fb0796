"""A module on one side that contains several modules of the other: fused attention, or a recurrent layer and its parts.

An alignment in order finds the container's own work, or some of its parts. The other parts belong to the same match; they are
recognised by names that begin with the container's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from kernelscope.analysis.explain.model import Layer

# Types of layers that frameworks write as one module or several
MADE_OF_PARTS = {"attention", "recurrent", "lstm", "gru", "rnn"}

_Positions = tuple[int, ...]


class LayerGroup(Protocol):
    """Positions of layers that correspond on both sides, and how that was found."""

    @property
    def a(self) -> _Positions:
        """Positions in A."""

    @property
    def b(self) -> _Positions:
        """Positions in B."""

    @property
    def how(self) -> str:
        """How it was found: name, map, alignment, fused, missing."""


G = TypeVar("G", bound=LayerGroup)


def joined(groups: list[G], layers: tuple[Sequence[Layer], Sequence[Layer]]) -> list[G]:
    """Return the groups with the parts of containers that the other side has as one module.

    An unmatched part joins if the parameters do not contradict it. A part that was matched with something else joins only if
    the module is of a type that is made of parts; its partner is then unmatched. Matches by name or map stay.
    """
    result = list(groups)
    for at in range(len(result)):
        for side in (0, 1):
            result = _with_parts(result, at, side, layers)
    return [group for group in result if group.a or group.b]


def _with_parts(groups: list[G], at: int, side: int, layers: tuple[Sequence[Layer], Sequence[Layer]]) -> list[G]:
    """Return the groups with the parts of the container that group `at` has on this side."""
    mine, whole = _sides(groups[at], side)
    if len(whole) != 1 or not mine:
        return groups
    one, own = layers[1 - side][whole[0]], layers[side]
    container = _container([own[position].name for position in mine])
    if not container or any(other.name.startswith(f"{one.name}.") for other in layers[1 - side]):
        return groups
    result = list(groups)
    for number, group in enumerate(groups):
        parts, partners = _sides(group, side)
        if number == at or group.how in ("name", "map") or not all(own[p].name.startswith(f"{container}.") for p in parts):
            continue
        if (
            not parts
            or (partners and one.type not in MADE_OF_PARTS)
            or not _fit(one, [own[p] for p in mine], [own[p] for p in parts])
        ):
            continue
        mine = tuple(sorted({*mine, *parts}))
        result[number] = _of(group, side, (), partners, "missing")
        result[at] = _of(groups[at], side, mine, whole, groups[at].how if groups[at].how in ("name", "map") else "fused")
    return result


def _container(names: Sequence[str]) -> str:
    """Return the innermost path that all names equal or are inside; empty if there is none."""
    paths = [name.split(".") for name in names]
    if len(paths) > 1 and len({tuple(path) for path in paths}) == len(paths):
        shortest = min(paths, key=len)
        paths = [path if path == shortest else path[:-1] for path in paths]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)


def _fit(one: Layer, mine: Sequence[Layer], parts: Sequence[Layer]) -> bool:
    """Return whether these parts' parameters can belong to the one layer as well; unknown ones contradict nothing."""
    numbers = [layer.parameters for layer in (*mine, *parts)]
    if one.parameters is None or None in numbers:
        return one.type in MADE_OF_PARTS
    before = sum(layer.parameters or 0 for layer in mine)
    after = before + sum(layer.parameters or 0 for layer in parts)
    return abs(after - one.parameters) <= abs(before - one.parameters)


def _sides(group: LayerGroup, side: int) -> tuple[_Positions, _Positions]:
    """Return a group's positions on this side and on the other."""
    return (group.b, group.a) if side else (group.a, group.b)


def _of(group: G, side: int, mine: _Positions, others: _Positions, how: str) -> G:
    """Return the group with these positions."""
    a, b = (others, mine) if side else (mine, others)
    changed: G = replace(group, a=a, b=b, how=how)  # type: ignore[type-var]
    return changed
