"""Which layers of two networks correspond.

Names come first: in our own runs they are canonical. Layers without a namesake are aligned as sequences (S. B. Needleman, C. D.
Wunsch, J. Mol. Biol. 48, 1970): the pairs in order, with gaps, that are most alike in operator type, output shape, FLOPs and
parameters (see similarity). One layer may also correspond to several consecutive layers of the other side, if FLOPs, parameters
or shapes add up. Layers of the same name anchor the alignment. Layers that are left on both sides, close by and alike, are
paired in another order, as branches of a network run in any order.

Misleading names (such as numbers from a framework) show as a clearly better alignment without them; then they only break ties.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import containers, groups, layer_names, similarity
from kernelscope.analysis.explain.model import Layer, Match
from kernelscope.analysis.explain.sequences import GAP, NEVER, Move, best
from kernelscope.tracer.outside.suggestions import meant

MISLED = 0.1  # names are dropped if the alignment without them is better by this share of the layers, and by a whole pair
CLOSE = 0.05  # numbers that differ by less do not contradict each other: tools count biases and the like differently
SURE = 0.95  # confidence of a pair whose names are the same except for wrappers, or whose traits are all equal
NEARBY, ALIKE, KNOWN = 24, 0.8, 0.5  # of a pair in another order: steps apart, likeness, and share of the traits known
FUSED = 0.8  # confidence of one layer for several
CONTRADICTED = 0.25  # what each contradicting trait subtracts from the confidence of a name
LARGEST_GROUPED = 1_000_000  # pairs up to which groups are searched: beyond that they take too much memory

_Positions = tuple[int, ...]


def align(a: list[Layer], b: list[Layer], mapping: dict[str, str] | None = None) -> list[Match]:
    """Return the matches of the layers of A and B, in A's order, with layers that only B has in between.

    Every layer is in exactly one match. mapping: A's name -> B's name (see layer_names.read_map), which overrides the search;
    raises EvidenceError if it names an unknown layer. The result for (b, a) mirrors that for (a, b).
    """
    a, b = (sorted(side, key=lambda layer: layer.order) for side in (a, b))
    mapped = _mapped(a, b, mapping or {})
    again = [_again(layers, {p for pair in mapped for p in pair[side]}) for side, layers in enumerate((a, b))]
    if _identity(b) < _identity(a):  # ties are then decided alike, whichever side comes first
        result = [group.mirrored() for group in _Search(b, a, [(y, x) for x, y in mapped], again[::-1]).groups()]
    else:
        result = _Search(a, b, mapped, again).groups()
    return [_match(group, a, b, again) for group in _in_order(result)]


@dataclass(frozen=True)
class _Group:
    """Positions of layers that correspond, how that was found, and how alike and how well known they are."""

    a: _Positions
    b: _Positions
    how: str
    alike: float = 1.0
    exact: bool = True
    crossed: bool = False

    def mirrored(self) -> _Group:
        return replace(self, a=self.b, b=self.a)


def _identity(layers: Sequence[Layer]) -> list[str]:
    return [repr(replace(layer, order=0)) for layer in layers]


def _in_order(result: list[_Group]) -> list[_Group]:
    """Return the matches in A's order; a layer that only B has follows the layer that it follows in B."""
    anchored = sorted((group for group in result if group.a), key=lambda group: group.a)
    after = {position: number for number, group in enumerate(anchored) for position in group.b}
    keyed: list[tuple[int, _Positions, _Group]] = [(number, (), group) for number, group in enumerate(anchored)]
    alone = {group.b[0]: group for group in result if not group.a}
    before = -1
    for position in sorted({*after, *alone}):
        before = after.get(position, before)
        if position in alone:
            keyed.append((before, alone[position].b, alone[position]))
    return [group for _, _, group in sorted(keyed, key=lambda entry: entry[:2])]


# --- the map ------------------------------------------------------------------------------------------------------------------


def _mapped(a: Sequence[Layer], b: Sequence[Layer], mapping: dict[str, str]) -> list[tuple[_Positions, _Positions]]:
    """Return the groups that the mapping asks for; layers of A with the same counterpart are one group."""
    places: list[dict[str, list[int]]] = [{}, {}]
    for side, layers in zip(places, (a, b), strict=True):
        for position, layer in enumerate(layers):
            side.setdefault(layer.name, []).append(position)
    wanted: dict[str, list[int]] = {}
    alone: list[tuple[_Positions, _Positions]] = []
    for left, right in mapping.items():
        mine = _positions(left, places[0], "A")
        if right:
            wanted.setdefault(right, []).extend(mine)
        else:
            alone.append((tuple(mine), ()))
    whole = [(tuple(sorted(mine)), tuple(_positions(right, places[1], "B"))) for right, mine in wanted.items()]
    for number, layers, name in ((0, a, "A"), (1, b, "B")):
        taken = [position for group in whole + alone for position in group[number]]
        twice = next((position for position in taken if taken.count(position) > 1), None)
        if twice is not None:
            raise EvidenceError(f"the map names {layers[twice].name!r} of {name} twice; keep one")
    return whole + alone


def _positions(name: str, places: dict[str, list[int]], side: str) -> list[int]:
    if name in places:
        return places[name]
    result: list[int] = []
    for part in (text.strip() for text in name.split(layer_names.JOINT)):
        if part not in places:
            raise EvidenceError(f"the map names {part!r}, which is no layer of {side}{meant(part, places)}")
        result.extend(places[part])
    return sorted(result)


# --- the search ---------------------------------------------------------------------------------------------------------------


class _Search:
    """The search for the best alignment of two ordered lists of layers."""

    def __init__(
        self, a: Sequence[Layer], b: Sequence[Layer], mapped: list[tuple[_Positions, _Positions]], again: Sequence[dict[int, int]]
    ):
        self.layers = (a, b)
        self.again = again
        self.mapped = [_Group(x, y, "map" if x and y else "missing") for x, y in mapped]
        self.traits = similarity.traits(a), similarity.traits(b)
        self.pairs = similarity.likeness(*self.traits)
        first, second = self.traits
        flops = similarity.of_ratio(first.flops[:, None], second.flops[None, :])
        parameters = similarity.parameter_likeness(first.parameters, second.parameters)
        self.alike, self.known = similarity.joined(self.pairs.types, self.pairs.shapes, flops, parameters, self.pairs.names)

    def groups(self) -> list[_Group]:
        """Return the better of the alignments with and without trust in names."""
        names = self._named()
        trusted = self._aligned(names)
        most = min(map(len, self.layers))
        to_beat = self._worth(trusted) + max(1.0, MISLED * most)
        if names and to_beat < most:
            free = self._aligned([])
            trusted = free if self._worth(free) > to_beat else trusted
        return [self._with_again(group) for group in trusted]

    def _with_again(self, group: _Group) -> _Group:
        """Return the group with the layers that compute its layers again."""
        whole = [
            tuple(sorted({*own, *(position for position, layer in again.items() if layer in own)}))
            for own, again in zip((group.a, group.b), self.again, strict=True)
        ]
        return replace(group, a=whole[0], b=whole[1])

    def _named(self) -> list[_Group]:
        """Return the layers of the same name that the map does not mention."""
        free = [self._left(self.mapped, side) for side in (0, 1)]
        names = [[layers[p].name for p in own] for layers, own in zip(self.layers, free, strict=True)]
        return [
            _Group(tuple(free[0][p] for p in same.a), tuple(free[1][p] for p in same.b), "name", exact=same.exact)
            for same in layer_names.same_names(*names)
        ]

    def _left(self, groups_: Sequence[_Group], side: int) -> list[int]:
        """Return a side's positions that are in no group and are not another layer computed again."""
        taken = {position for group in groups_ for position in (group.a, group.b)[side]} | self.again[side].keys()
        return [position for position in range(len(self.layers[side])) if position not in taken]

    def _worth(self, result: Sequence[_Group]) -> float:
        """Return the quality of an alignment, in pairs."""
        both = [group for group in result if group.a and group.b]
        return sum(min(len(group.a), len(group.b)) * float(self.alike[np.ix_(group.a, group.b)].max()) for group in both)

    def _aligned(self, names: Sequence[_Group]) -> list[_Group]:
        """Align in order, anchored by names and map; named groups, and pairs in another order, are set apart first."""
        fixed = [*names, *self.mapped]
        single = sorted((group for group in fixed if len(group.a) == len(group.b) == 1), key=lambda group: group.a)
        kept = [single[i] for i in _longest_rising([group.b[0] for group in single])]
        in_order = {(group.a, group.b) for group in kept}
        apart = [group for group in fixed if (group.a, group.b) not in in_order]
        left = [self._left(apart, side) for side in (0, 1)]
        at = [{position: number for number, position in enumerate(side)} for side in left]
        anchors = {(at[0][group.a[0]], at[1][group.b[0]]): group for group in kept}
        steps = best(self._moves(left, anchors), *(_gaps(len(left[side]), [pair[side] for pair in anchors]) for side in (0, 1)))
        result = []
        for rows, columns in steps:
            group = _Group(tuple(left[0][n] for n in rows), tuple(left[1][n] for n in columns), "alignment")
            anchor = anchors.get((rows[0], columns[0])) if len(rows) == len(columns) == 1 else None
            result.append(anchor or self._weighed(group))
        return apart + self._crossed(containers.joined(result, self.layers))

    def _crossed(self, steps: list[_Group]) -> list[_Group]:
        """Pair those gaps that are each other's counterpart nearby, in another order.

        Branches of a network run in any order. The most alike pairs come first; among these, the nearest.
        """
        gaps = [[at for at, group in enumerate(steps) if not (group.b, group.a)[side]] for side in (0, 1)]
        pairs = []
        for at in gaps[0]:
            for other_at in gaps[1][bisect_left(gaps[1], at - NEARBY) : bisect_left(gaps[1], at + NEARBY + 1)]:
                pair = steps[at].a[0], steps[other_at].b[0]
                if self.alike[pair] >= ALIKE and self.known[pair] >= KNOWN:
                    pairs.append((-float(self.alike[pair]), abs(at - other_at), at, other_at))
        used: set[int] = set()
        for _, _, at, other_at in sorted(pairs):
            if not used & {at, other_at}:
                used |= {at, other_at}
                steps[at] = self._weighed(_Group(steps[at].a, steps[other_at].b, "alignment", crossed=True))
                steps[other_at] = _Group((), (), "")
        return [group for group in steps if group.a or group.b]

    def _moves(self, left: list[list[int]], anchors: dict[tuple[int, int], _Group]) -> list[Move]:
        """Return the pairs and groups that the names and the map allow."""
        traits = [side.of(own) for side, own in zip(self.traits, left, strict=True)]
        every = [Move(1, 1, self.alike[np.ix_(*left)])]
        if len(left[0]) * len(left[1]) <= LARGEST_GROUPED:
            every += groups.moves(traits[0], traits[1], self.pairs.of(*left))
        fixed = [pair for pair, group in anchors.items() if group.how == "map"]
        return [move.keeping(list(anchors), fixed) for move in every]

    def _weighed(self, group: _Group) -> _Group:
        """Return the group with how it was found and how alike its layers are."""
        if not group.a or not group.b:
            return replace(group, how="missing")
        if len(group.a) + len(group.b) > 2:
            return replace(group, how="fused")
        pair = group.a[0], group.b[0]
        return replace(group, alike=float(self.alike[pair] * (0.5 + 0.5 * self.known[pair])))


def _gaps(count: int, anchors: Sequence[int]) -> similarity.Vector:
    cost = np.full(count, GAP)
    cost[list(anchors)] = NEVER
    return cost


def _longest_rising(values: Sequence[int]) -> list[int]:
    """Return the positions of a longest rising subsequence (C. Schensted, Canad. J. Math. 13, 1961)."""
    tails: list[int] = []
    ends: list[int] = []  # position of the last element of the best sequence of each length
    before = [-1] * len(values)
    for position, value in enumerate(values):
        length = bisect_left(tails, value)
        tails[length:length + 1], ends[length:length + 1] = [value], [position]  # fmt: skip
        before[position] = ends[length - 1] if length else -1
    result = []
    position = ends[-1] if ends else -1
    while position >= 0:
        result.append(position)
        position = before[position]
    return result[::-1]


# --- the matches --------------------------------------------------------------------------------------------------------------


def _again(layers: Sequence[Layer], spoken: set[int]) -> dict[int, int]:
    """Return which layers are other layers computed again, without those that the map mentions."""
    return {p: other for p, other in layer_names.recomputed(layers).items() if p not in spoken}


def _match(group: _Group, a: Sequence[Layer], b: Sequence[Layer], again: Sequence[dict[int, int]]) -> Match:
    names = tuple(a[p].name for p in group.a), tuple(b[p].name for p in group.b)
    own = [[p for p in side if p not in other] for side, other in zip((group.a, group.b), again, strict=True)]
    notes = [
        f"recomputed in {side}" for side, all_, mine in zip("AB", (group.a, group.b), own, strict=True) if len(all_) > len(mine)
    ]
    wrong: list[str] = []
    confidence = 1.0
    if not group.a or not group.b:
        notes.append(f"only in {'A' if group.a else 'B'}")
    elif len(own[0]) + len(own[1]) > 2:
        notes.append(_several([a[p] for p in own[0]], [b[p] for p in own[1]]))
        confidence = FUSED if group.how == "fused" else 1.0
    else:
        notes += ["in another order"] if group.crossed else []
        wrong = contradictions(a[own[0][0]], b[own[1][0]])
    if group.how == "name":
        confidence = max(0.1, (1.0 if group.exact else SURE) - CONTRADICTED * len(wrong))
    elif group.how == "alignment":
        confidence = SURE * group.alike
    return Match(*names, round(confidence, 3), group.how, "; ".join([*notes, *wrong]) or None)


def _several(a: Sequence[Layer], b: Sequence[Layer]) -> str:
    """Describe a match of several layers."""
    if len({layer.name for layer in a}) == len({layer.name for layer in b}) == 1:
        return f"repeated: {len(a)} in A, {len(b)} in B"
    if len(a) > 1 and len(b) > 1:
        return f"{len(a)} layers of A for {len(b)} of B"
    side, one, many = ("B", b[0], a) if len(b) < len(a) else ("A", a[0], b)
    if one.parameters and all(layer.parameters == one.parameters for layer in many):
        return f"shared: one module of {side}, run for {len(many)} layers of the other side"
    return f"fused: one layer of {side} for {len(many)} of the other side"


def contradictions(a: Layer, b: Layer) -> list[str]:
    """Name the traits of two layers that contradict each other; unknown traits contradict nothing."""
    first, second = similarity.traits([a]), similarity.traits([b])
    result = []
    if similarity.of_types(first.types[0], second.types[0]) < similarity.LOOSE:
        result.append(f"type {a.type} against {b.type}")
    for name, x, y in (
        ("output elements", first.elements[0], second.elements[0]),
        ("FLOPs", first.flops[0], second.flops[0]),
        ("parameters", first.parameters[0], second.parameters[0]),
    ):
        if abs(x - y) > CLOSE * max(x, y):  # false if one is unknown
            result.append(f"{name} {x:,.0f} against {y:,.0f}")
    return result
