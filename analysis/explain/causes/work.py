"""Extra and repeated work: unneeded gradients, forward work done again, more of the same, and other operators."""

from __future__ import annotations

from collections.abc import Collection

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.causes.groups import Kernel
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

MORE, OTHER = "more work", "other operators"

# If all kernels of a group run this many times as often, the work is done again
REPEATED = 1.5
_SLIGHT = 0.02  # of a group's time in kernels: smaller kernels do not show what it does
# A layer's products may be written with somewhat more or fewer multiplications; this much more is other work
MORE_FLOPS = 1.2
_GRADIENT = {
    "pytorch": "do not set requires_grad on the input (x.requires_grad_(False)), and do not train what comes before the layer",
    "tensorflow": "do not watch the input (GradientTape.watch), nor ask for its gradient",
    "mxnet": "do not attach_grad() to the input",
    "cntk": "C.input_variable(..., needs_gradient=False)",
    "": "do not ask for the gradient of the input",
}
_RECOMPUTED = {
    "pytorch": "call the layers without torch.utils.checkpoint if memory allows, or checkpoint fewer of them",
    "tensorflow": "remove tf.recompute_grad if memory allows",
    "mxnet": "unset MXNET_BACKWARD_DO_MIRROR and MXNET_MEMORY_OPT if memory allows",
    "": "keep the activations if memory allows, instead of computing them again",
}
_OTHER = "leave out what the step does not need, or move it out of the loop"
_MORE = (
    "compare programs that compute the same, with equal layer widths, input sizes and numbers of calls; or count this as the "
    "price of the change"
)


def input_gradient(case: Case) -> list[Suspicion]:
    """The gradient of the input in the first layer with parameters, which only one side computes."""
    group = _first(case)
    if group is None:
        return []
    for slow, fast in (("b", "a"), ("a", "b")):
        if not _one_more_gradient(group, slow, fast):
            continue
        kinds = ["convolution data gradient"] if group.count(slow, CONVOLUTIONS) else ["gemm"]
        claims = ev.claim(case, group, kinds)
        if ev.slower(claims, [group]) != (slow, fast):
            return []
        title = f"{ev.name(case, slow)} computes the gradient of the input in {group.layer}, {ev.name(case, fast)} does not"
        sentences = [
            f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side, MAIN))}, "
            f"{ev.duration(group.time_ns(side, MAIN))}"
            for side in (slow, fast)
        ]
        return [Suspicion("needless gradient of the input", title, claims, "high", sentences, ev.remedy(case, slow, _GRADIENT))]
    return []


def _first(case: Case) -> ev.RowGroup | None:
    """Return the backward group of the first layer in which both sides compute convolutions, products or recurrences."""
    order = {match.label: _rank(case, match.a, match.b) for match in case.matches}
    result = [
        group
        for group in ev.groups(case)
        if group.phase == "backward" and group.layer in order and all(group.count(side, MAIN) >= ev.ONCE for side in SIDES)
    ]
    return min(result, key=lambda group: order[group.layer], default=None)


def _rank(case: Case, a: tuple[str, ...], b: tuple[str, ...]) -> int:
    orders = [layer.order for names, side in ((a, case.a), (b, case.b)) for layer in side.layers if layer.name in names]
    return min(orders, default=1 << 30)


def _one_more_gradient(group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether one side computes weight and data gradients, and the other only weight gradients."""
    data, weights = "convolution data gradient", "convolution weight gradient"
    if group.count(slow, [weights]) >= ev.ONCE and group.count(fast, [weights]) >= ev.ONCE:
        return group.count(slow, [data]) >= ev.ONCE > group.count(fast, [data])
    if any(group.count(side, [*CONVOLUTIONS, "recurrent", "attention"]) >= ev.ONCE for side in SIDES):
        return False
    return round(group.count(slow, ["gemm"])) == 2 and round(group.count(fast, ["gemm"])) == 1


def recomputation(case: Case) -> list[Suspicion]:
    """Forward work that one side repeats in the backward phase, as gradient checkpointing does."""
    repeated = {side: ev.repeats(case, side) for side in SIDES}
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        again = ev.recomputed(case)[slow]
        backward = [group for group in ev.groups(case) if group.phase == "backward"]
        chosen = [group for group in backward if group.layer in again and (group.noticed or case.same_framework)]
        claims = ev.merged(_recomputed_claims(case, group, slow) for group in chosen)
        if case.same_framework and chosen:  # saving and restoring the inputs is the host's work around layers
            claims = ev.merged([claims, _host_claims(case)])
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        count = {side: sum(repeated[side].get(layer, 0.0) for layer in again) for side in SIDES}
        title = f"{ev.name(case, slow)} computes the forward pass of {ev.layers(chosen)} again in the backward phase"
        group = ev.largest(chosen)
        sentences = [
            f"{ev.number(count[slow])} forward kernels per step run in {ev.name(case, slow)}'s backward phase, "
            f"{ev.number(count[fast])} in {ev.name(case, fast)}'s",
            f"{group.layer} backward takes {ev.duration(int(group.rows[f'{slow}_ns'].sum()))} in {ev.name(case, slow)}, "
            f"{ev.duration(int(group.rows[f'{fast}_ns'].sum()))} in {ev.name(case, fast)}",
        ]
        result.append(Suspicion("recomputation", title, claims, "high", sentences, ev.remedy(case, slow, _RECOMPUTED)))
    return result


def _recomputed_claims(case: Case, group: ev.RowGroup, slow: str) -> dict[str, float]:
    if case.same_framework:
        return ev.whole(group)
    kinds = group.executed(slow, "kind")
    return ev.claim(case, group, kinds)


def _host_claims(case: Case) -> dict[str, float]:
    rows = case.rows[case.rows["layer"].str.startswith("(") & (case.rows["phase"] == "backward")]
    rows = rows[rows["cell"].str.startswith("(host")]
    return {str(row): float(ns) for row, ns in rows["delta_ns"].items() if ns}


def more_of_the_same(case: Case) -> list[Suspicion]:
    """Layers that one side computes more often, or on more data, than the other."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        again = [group for group in ev.candidates(case) if group.is_layer and _once_more(case, group, slow, fast)]
        larger = [group for group in ev.candidates(case) if group.is_layer and _more_work(case, group, slow, fast)]
        behind = [group for group in ev.candidates(case) if larger and _larger_data(case, group, slow, fast)]
        chosen = [*again, *(group for group in (*larger, *behind) if group not in again)]
        claims = ev.merged(ev.claim(case, group, MAIN) for group in larger)
        claims = ev.merged([claims, *(ev.whole(group) for group in (*again, *behind))])
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        group = ev.largest(chosen)
        title = (
            f"{ev.name(case, slow)} does more work in {ev.layers(chosen)} than {ev.name(case, fast)}{_times(chosen, slow, fast)}"
        )
        kinds = MAIN if any(len(group.kernels(side, MAIN)) for side in SIDES) else None
        sentences = [
            f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side, kinds))}"
            f"{_flops(group, side)}, {ev.duration(group.time_ns(side, kinds))}"
            for side in (slow, fast)
        ]
        confidence = "medium" if all(_unknown(one, fast) for one in chosen) else "high"
        result.append(Suspicion(MORE, title, claims, confidence, sentences, _MORE))
    return result


def _times(chosen: list[ev.RowGroup], slow: str, fast: str) -> str:
    """Say how many times the other side's operations a side does in these groups, if known for all that multiply."""
    products = [group for group in chosen if any(group.count(side, MAIN) for side in SIDES)]
    works = [[operations(group.of(side, MAIN)) for group in products] for side in (slow, fast)]
    if any(None in side for side in works):
        return ""
    more, less = (sum(work or 0 for work in side) for side in works)
    return f": {more / less:.3g} times the operations" if more > less > 0 else ""


def _once_more(case: Case, group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether a side executes all that the other does in a group again: the same kernels on the same problems.

    If the group multiplies, only that counts, as gradients of several passes are added up once. If problems are unknown,
    products must run a whole number of times as often; and as half of a batch takes half of the time, the time must have grown
    as well.
    """
    if not case.same_framework or ev.unrolled(group) is not None or ev.again(case, group) or group.phase == "optimizer":
        return False
    kinds = MAIN if all(group.count(side, MAIN) >= ev.ONCE for side in SIDES) else None
    more, less = (_executions(group, side, kinds) for side in (slow, fast))
    if not less or any(more.get(work, 0.0) < REPEATED * count for work, count in less.items()):
        return False
    return not _unknown(group, fast) or _whole_times(group, slow, fast)


def _unknown(group: ev.RowGroup, side: str) -> bool:
    """Return whether the problem of a product or a convolution is unknown."""
    return any(one.problem is None and one.m is None for one in group.of(side, MAIN))


def _whole_times(group: ev.RowGroup, slow: str, fast: str) -> bool:
    ratio = group.count(slow, MAIN) / group.count(fast, MAIN)
    longer = group.time_ns(slow, MAIN) / max(group.time_ns(fast, MAIN), 1)
    return round(ratio) >= 2 and abs(ratio - round(ratio)) < ev.WAVER and longer > 1 + (ratio - 1) / 4


def _executions(group: ev.RowGroup, side: str, kinds: Collection[str] | None) -> dict[tuple[object, ...], float]:
    """Return how often per step a side executes each kernel on each problem, for those that matter in the group's time.

    kinds: only these. Moves of data accompany any computation, and the smallest kernels are not all recorded.
    """
    least = _SLIGHT * group.time_ns(side)
    counts: dict[tuple[object, ...], float] = {}
    times: dict[tuple[object, ...], int] = {}
    for one in group.of(side):
        if one.kind not in ev.MOVES and one.count >= ev.ONCE and (kinds is None or one.kind in kinds):
            work = one.kind, one.kernel, one.problem, one.m, one.n, one.k
            counts[work] = counts.get(work, 0.0) + one.count
            times[work] = times.get(work, 0) + one.time_ns
    return {work: count for work, count in counts.items() if times[work] >= least}


def _more_work(case: Case, group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether a side executes the same problem more often, or needs more operations for the same kinds of kernels."""
    if ev.unrolled(group) is not None or ev.again(case, group):
        return False
    for kind in (*CONVOLUTIONS, "recurrent", "attention"):
        more, less = (group.counts(side, "problem", [kind]) for side in (slow, fast))
        extra = sum(more[problem] - less[problem] for problem in more.keys() & less.keys())
        if extra >= ev.ONCE and (case.same_framework or kind in CONVOLUTIONS):
            return True
    kinds = [group.executed(side, "kind", MAIN) for side in SIDES]
    if kinds[0] != kinds[1] or not kinds[0]:
        return False
    works = [operations(group.of(side, MAIN)) for side in (slow, fast)]
    return works[0] is not None and works[1] is not None and works[0] > MORE_FLOPS * works[1] > 0


def _larger_data(case: Case, group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether a side runs a layer's same kernels, none of which multiplies, on larger tensors."""
    if not case.same_framework or not group.is_layer or any(group.count(side, MAIN) for side in SIDES):
        return False
    names = [group.executed(side, "kernel") for side in SIDES]
    sizes = [_elements(group.of(side)) for side in (slow, fast)]
    return names[0] == names[1] != set() and None not in sizes and (sizes[0] or 0) > MORE_FLOPS * (sizes[1] or 0) > 0


def _elements(kernels: list[Kernel]) -> float | None:
    """Return the elements of the tensors that kernels work on, per step; None if a problem is unknown."""
    each = [ev.tensor_sizes(one.problem) for one in kernels if one.kind not in ev.MOVES]
    if not each or None in each:
        return None
    counts = [one.count for one in kernels if one.kind not in ev.MOVES]
    return sum(max(sizes or [0]) * count for sizes, count in zip(each, counts, strict=True))


def operations(products: list[Kernel]) -> float | None:
    """Return the operations per step of kernels that multiply; None if unknown for any."""
    each = [one.flops for one in products]
    if not each or None in each:
        return None
    return sum((flops or 0) * one.count for flops, one in zip(each, products, strict=True))


def _flops(group: ev.RowGroup, side: str) -> str:
    work = operations(group.of(side, MAIN))
    return f" ({work / 1e6:.1f} MFLOP)" if work else ""


def other_operators(case: Case) -> list[Suspicion]:
    """Kernels that two runs of a framework execute in other numbers, for reasons that no other rule explains."""
    groups = [group for group in ev.candidates(case) if case.same_framework and not ev.stronger(case, group)]
    extra = {side: {group: _executes_more(group, side, other) for group in groups} for side, other in (("a", "b"), ("b", "a"))}
    chosen = [group for group in groups if extra["a"][group] or extra["b"][group]]
    claims = ev.merged(_more_claims(case, group, extra["a"][group] | extra["b"][group]) for group in chosen)
    sides = ev.slower(claims, chosen)
    if sides is None or not any(extra[sides[0]].values()):
        return []
    slow, fast = sides
    chosen = [group for group in chosen if extra[slow][group]]
    group = ev.largest(chosen)
    which = ev.names(group.kernels(slow), extra[slow][group])
    title = f"{ev.name(case, slow)} executes {which} in {ev.layers(chosen)} more often than {ev.name(case, fast)}"
    sentences = []
    for side in (slow, fast):
        cells = group.kernels(side)
        cells = cells[cells["kernel"].isin(list(extra["a"][group] | extra["b"][group]))]
        sentences.append(f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(cells, most=4)}")
    return [Suspicion(OTHER, title, claims, "medium", sentences, _OTHER, precedence=2)]


def _executes_more(group: ev.RowGroup, slow: str, fast: str) -> set[str]:
    """Return the names of the kernels that a side executes more often; those of optimizer and data have other rules."""
    if group.phase in ("optimizer", "data"):
        return set()
    mine, others = (group.counts(side, "kernel") for side in (slow, fast))
    return {name for name, count in mine.items() if count - others.get(name, 0.0) >= max(ev.ONCE, ev.WAVER * count)}


def _more_claims(case: Case, group: ev.RowGroup, more: set[str]) -> dict[str, float]:
    """Return all that differs in a layer; outside layers, the kernels and the host's time in operators of one side only."""
    if group.is_layer:
        return ev.claim(case, group, [])
    operators = {side: set(group.cells(side)["operator"].dropna()) for side in SIDES}
    own = operators["a"] ^ operators["b"]
    chosen = {}
    for side in SIDES:
        cells = group.cells(side)
        host = cells["kind"].isna() & cells["operator"].isin(list(own))
        chosen[side] = cells[cells["kernel"].isin(list(more)) | host]
    return ev.cell_claims(chosen)


RULES: tuple[Rule, ...] = (input_gradient, recomputation, more_of_the_same, other_operators)
