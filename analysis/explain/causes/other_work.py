"""Other work: layers on one side only, layers that compute another function, and the same work in smaller pieces.

All these apply only to two programs of one framework. Between frameworks, one function has operators of two names, and a layer
without a counterpart may just not have been matched.
"""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes import recurrent
from kernelscope.analysis.explain.causes.work import operations
from kernelscope.analysis.explain.layer_names import module_of
from kernelscope.analysis.explain.model import SIDES, Case, Layer, Match, Rule, Suspicion
from kernelscope.analysis.trace import MAIN

FUNCTION = "another function"
LAYERS = "other layers"
PIECES = "smaller batches"

_PIECE = 0.75  # of the other side's operations in a kernel: a kernel with less is a piece of the same work
_AS_MUCH = 1.1  # times as many operations in all still count as the same work
_RESIZED = 1.5  # times as long: processes of one program differ by less in a layer
_MOST = 0.5  # of the layers and phases with products and convolutions, not of kernels: one layer's loop may have most of them
_CHOOSE = "compare programs that compute the same, or count this as the price of the change"


def other_function(case: Case) -> list[Suspicion]:
    """Layers in which each side executes operators that the other does not, about equally many."""
    if not case.same_framework:
        return []
    own = {group: _replaced(case, group) for group in ev.candidates(case)}
    chosen = [group for group, operators in own.items() if operators is not None]
    claims = ev.merged(_claims(case, group, own[group] or {}) for group in chosen)
    sides = ev.slower(claims, chosen)
    if sides is None:
        return []
    slow, fast = sides
    example = ev.largest([group for group in chosen if group.phase == "forward"] or chosen)
    used = {side: ev.listed(sorted((own[example] or {})[side])) for side in SIDES}
    title = f"{ev.name(case, slow)} computes {used[slow]} in {ev.layers(chosen)}, {ev.name(case, fast)} {used[fast]}"
    sentences = [
        f"{ev.place(group)}: {ev.executions(group.kernels(slow))} in {ev.name(case, slow)}, "
        f"{ev.executions(group.kernels(fast))} in {ev.name(case, fast)}"
        for group in sorted(chosen, key=lambda group: -abs(group.delta_ns))[:2]
    ]
    return [Suspicion(FUNCTION, title, claims, "high", sentences, _CHOOSE)]


def _replaced(case: Case, group: ev.RowGroup) -> dict[str, set[str]] | None:
    """Return, by side, the operators that only it executes, if they replace one another; else None.

    Products and convolutions have rules of their own, and many kernels in place of a few are a chain.
    """
    if not group.is_layer or ev.stronger(case, group) or ev.chained(case, group) or group.phase in ("optimizer", "data"):
        return None
    counts = {}
    for side in SIDES:
        mine = [one for one in group.of(side) if one.kind not in (*MAIN, *ev.MOVES) and one.count >= ev.ONCE]
        if any(one.operator is None for one in mine):
            return None
        names: dict[str, float] = {}
        for one in mine:
            name = str(one.operator).rstrip("_")  # an in-place variant is not another function
            names[name] = names.get(name, 0.0) + one.count
        counts[side] = names
    own = {"a": counts["a"].keys() - counts["b"].keys(), "b": counts["b"].keys() - counts["a"].keys()}
    numbers = [sum(counts[side][name] for name in own[side]) for side in SIDES]
    alike = abs(numbers[0] - numbers[1]) < ev.CHAIN
    return {side: set(own[side]) for side in SIDES} if all(numbers) and alike else None


def _claims(case: Case, group: ev.RowGroup, own: dict[str, set[str]]) -> dict[str, float]:
    """Return the claims of operators that replace one another; the whole layer if it computes nothing else."""
    rest = [
        one
        for side in SIDES
        for one in group.of(side)
        if one.kind not in ev.MOVES and one.count >= ev.ONCE and str(one.operator).rstrip("_") not in own[side]
    ]
    if not rest:
        return ev.claim(case, group, [])
    chosen = {}
    for side in SIDES:
        cells = group.kernels(side)
        operators = cells["operator"].astype("string").str.rstrip("_")
        chosen[side] = cells[operators.isin(list(own[side])).to_numpy(bool)]
    return ev.cell_claims(chosen)


def other_layers(case: Case) -> list[Suspicion]:
    """Layers without a counterpart, in programs whose layers mostly have one; and the layers behind them.

    A missing layer, such as pooling, gives later layers inputs of another size.
    """
    alone = {"a": _alone(case, "a"), "b": _alone(case, "b")}
    if not case.same_framework or not (alone["a"] or alone["b"]) or len(alone["a"]) + len(alone["b"]) > len(case.matches) / 2:
        return []
    labels = {match.label for matches in alone.values() for match in matches}
    own = [group for group in ev.candidates(case) if group.layer in labels and group.phase != "optimizer"]
    following = _behind(case, labels)
    behind = [group for group in ev.candidates(case) if group.layer in following and _resized(group)]
    chosen = [*own, *behind]
    claims = ev.merged(ev.whole(group) for group in chosen)
    sides = ev.slower(claims, chosen)
    if sides is None or not (alone[sides[0]] or behind):
        return []
    sentences = [
        f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side))}, {ev.duration(group.time_ns(side))}"
        for group in sorted(chosen, key=lambda group: -abs(group.delta_ns))[:3]
        for side in SIDES
        if group.count(side)
    ]
    return [Suspicion(LAYERS, _of_layers(case, alone, sides, behind), claims, "high", sentences, _CHOOSE)]


def _of_layers(case: Case, alone: dict[str, list[Match]], sides: tuple[str, str], behind: list[ev.RowGroup]) -> str:
    """Say which layers the slow side has or lacks."""
    slow, fast = sides
    sized = f": {ev.layers(behind)} behind it then work on another size" if behind else ""
    if not alone[slow]:
        return f"{ev.name(case, slow)} lacks {_layers(case, fast, alone[fast])}, which {ev.name(case, fast)} has{sized}"
    replaced = f"; {ev.name(case, fast)} has {_layers(case, fast, alone[fast])} instead" if alone[fast] else ""
    return f"{ev.name(case, slow)} has {_layers(case, slow, alone[slow])}, which {ev.name(case, fast)} lacks{replaced}{sized}"


def _behind(case: Case, labels: set[str]) -> set[str]:
    """Return the layers that both sides have and that come after the first of these labels."""
    found = set()
    for side, key in ((case.a, "a"), (case.b, "b")):
        order = {layer.name: layer.order for layer in side.layers}
        ranks = {match.label: min((order[name] for name in getattr(match, key)), default=None) for match in case.matches}
        first = min((rank for label, rank in ranks.items() if label in labels and rank is not None), default=None)
        found |= {label for label, rank in ranks.items() if first is not None and rank is not None and rank > first}
    return {match.label for match in case.matches if match.a and match.b and match.label in found}


def _resized(group: ev.RowGroup) -> bool:
    """Return whether both sides execute the same kernels with times that only other sizes explain; known sizes must differ."""
    names, problems = ({side: group.executed(side, column) for side in SIDES} for column in ("kernel", "problem"))
    if group.phase in ("optimizer", "data") or names["a"] != names["b"] or not names["a"]:
        return False
    low, high = sorted(group.time_ns(side) for side in SIDES)
    return high > _RESIZED * low and (problems["a"] != problems["b"] or not problems["a"])


def _alone(case: Case, side: str) -> list[Match]:
    """Return the layers that only this side has, except further calls of a module that both have."""
    others = (case.b if side == "a" else case.a).layers
    known = {module_of(layer.name) for layer in others}
    cells = recurrent.loops(case)[side]
    matches = [match for match in case.matches if not (match.b if side == "a" else match.a) and match.label not in cells]
    return [match for match in matches if not all(module_of(name) in known for name in (match.a or match.b))]


def smaller_batches(case: Case) -> list[Suspicion]:
    """The same operations in more and smaller kernels, in most layers: a batch that is computed in pieces.

    Layers with other types are left out: another type may need other, and more, kernels.
    """
    main = [group for group in ev.groups(case) if group.is_layer and all(group.count(side, MAIN) for side in SIDES)]
    main = [group for group in main if not ev.types_differ(case, group)]
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in main if _in_pieces(group, slow, fast)]
        if not case.same_framework or not chosen or len(chosen) < _MOST * len(main):
            continue
        groups = [group for group in ev.groups(case) if group.phase not in ("optimizer", "data") or group in chosen]
        claims = ev.merged(ev.whole(group) for group in groups)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        example = ev.largest(chosen)
        pieces = example.count(slow, MAIN) / example.count(fast, MAIN)
        title = (
            f"{ev.name(case, slow)} splits a step into {ev.number(pieces)} times as many, smaller pieces as {ev.name(case, fast)}"
        )
        sentences = [
            f"{ev.place(example)}, {ev.name(case, side)}: {ev.executions(example.kernels(side, MAIN))} per step, "
            f"{ev.duration(example.time_ns(side, MAIN))} for the same amount of work"
            for side in (slow, fast)
        ]
        remedy = "compute larger batches at once, as far as memory allows, and accumulate over fewer of them"
        return [Suspicion(PIECES, title, claims, "high", sentences, remedy)]
    return []


def _in_pieces(group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether a side needs more kernels of products and convolutions for the same operations."""
    many, few = (operations(group.of(side, MAIN)) for side in (slow, fast))
    if many is None or few is None or max(many, few) > _AS_MUCH * min(many, few):
        return False
    each = many / group.count(slow, MAIN), few / group.count(fast, MAIN)
    return each[0] < _PIECE * each[1]


def _layers(case: Case, side: str, matches: list[Match]) -> str:
    """List layers with their types: conv3 (convolution) and gelu."""
    known: dict[str, Layer] = {layer.name: layer for layer in (case.a if side == "a" else case.b).layers}
    names = [name for match in matches for name in (match.a or match.b)]
    kinds = {name: known[name].type if name in known else None for name in names}
    return ev.listed(f"{name} ({kinds[name]})" if kinds[name] and kinds[name] != name else name for name in names)


RULES: tuple[Rule, ...] = (other_function, other_layers, smaller_batches)
