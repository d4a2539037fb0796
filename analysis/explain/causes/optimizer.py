"""The optimizer: one kernel for many parameters, or a loop over them; and how many parameters it updates."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion
from kernelscope.analysis.trace import MAIN

PARAMETERS = "more parameters"

# So many more kernels matter in a step, and by this ratio they are another implementation
LEAST_MORE, RATIO = 3.0, 1.25
_LARGER = 1.02  # times as many parameters make a larger model
_NAMED = 3  # layers whose parameters are given
_IMPLEMENTATIONS = (
    ("fused", r"_fused_|multi_tensor_apply|FusedOptimizer|fused_?adam|multi_\w*(?:sgd|lamb|adam)\w*_update|Apply"),
    ("foreach", r"_foreach_"),
)
_REMEDY = {
    "pytorch": "use the library's optimizer with foreach=True or fused=True, such as torch.optim.SGD(..., foreach=True), and "
    "zero_grad(set_to_none=True)",
    "tensorflow": "apply gradients inside tf.function, with the optimizer's jit_compile=True",
    "mxnet": "use gluon.Trainer with an optimizer that aggregates (MXNET_OPTIMIZER_AGGREGATION_SIZE)",
    "cntk": "use the library's learner (C.sgd, C.momentum_sgd) in the trainer",
    "": "use the framework's optimizer that updates all parameters in few kernels",
}


def implementation(case: Case) -> list[Suspicion]:
    """An optimizer that executes other kernels, or many more of them; it claims the whole phase.

    It does not apply if the optimizer works on another type, which has other kernels.
    """
    chosen = [group for group in ev.groups(case) if group.phase == "optimizer"]
    if case.same_framework and any(ev.types_differ(case, group) for group in chosen):
        return []
    count = {side: sum(group.count(side) for group in chosen) for side in SIDES}
    if not all(count.values()) or not _differs(case, chosen, count):
        return []
    claims = ev.merged({str(row): float(ns) for row, ns in group.rows["delta_ns"].items()} for group in chosen)
    sides = ev.slower(claims, chosen)
    if sides is None:
        return []
    slow, fast = sides
    ways = {side: _way(chosen, side) for side in SIDES}
    texts = [f"{ev.name(case, side)} by {ev.number(count[side])} kernels{ways[side]}" for side in (slow, fast)]
    sentences = []
    for side in (slow, fast):
        kernels = pd.concat([group.kernels(side) for group in chosen])
        host = sum(int(group.rows[f"{side}_ns"].sum()) - group.time_ns(side) for group in chosen)
        sentences.append(
            f"{ev.name(case, side)}: {ev.executions(kernels)} per step, "
            f"{ev.duration(int(kernels['time_ns'].sum()))} in kernels and {ev.duration(host)} on the host"
        )
    title = f"the optimizer's update is implemented differently: {texts[0]} per step, {texts[1]}"
    return [Suspicion("optimizer implementation", title, claims, "high", sentences, ev.remedy(case, slow, _REMEDY))]


def more_parameters(case: Case) -> list[Suspicion]:
    """An optimizer that does the same for the additional parameters of a larger model.

    It claims the whole phase, and layers that look parameters up or scale by them (embeddings, normalisation). Products and
    convolutions with more parameters are more work.
    """
    numbers = {key: ev.parameters(side) for key, side in (("a", case.a), ("b", case.b))}
    totals = {side: sum(numbers[side].values()) for side in SIDES}
    chosen = [group for group in ev.groups(case) if group.phase == "optimizer"]
    if not case.same_framework or not chosen or not all(totals.values()) or len({*map(frozenset, _both_names(chosen))}) > 1:
        return []
    differing = sorted(
        (name for name in {**numbers["a"], **numbers["b"]} if numbers["a"].get(name) != numbers["b"].get(name)),
        key=lambda name: -abs(numbers["a"].get(name, 0) - numbers["b"].get(name, 0)),
    )
    alike = [group for group in ev.candidates(case) if group.layer in differing and _same_kernels(group)]
    claims = ev.merged(ev.whole(group) for group in (*chosen, *alike))
    sides = ev.slower(claims, chosen)
    if sides is None or totals[sides[0]] < _LARGER * totals[sides[1]]:
        return []
    names = [ev.name(case, side) for side in sides]
    more = [f"{name}: {' and '.join(_number(case, numbers, side, name) for side in sides)}" for name in differing[:_NAMED]]
    title = (
        f"{names[0]}'s optimizer updates {totals[sides[0]] / totals[sides[1]]:.3g} times as many parameters as {names[1]}'s: "
        f"{totals[sides[0]]:,} against {totals[sides[1]]:,}"
    )
    remedy = "compare models of the same size, or count this as the price of the change"
    return [Suspicion(PARAMETERS, title, claims, "high", [f"Parameters of {'; '.join(more)}."], remedy)]


def _number(case: Case, numbers: dict[str, dict[str, int]], side: str, module: str) -> str:
    number = numbers[side].get(module)
    return f"{'none' if number is None else f'{number:,}'} in {ev.name(case, side)}"


def _same_kernels(group: ev.RowGroup) -> bool:
    """Return whether both sides execute the same kernels in a layer, none of which multiplies."""
    names = [group.executed(side, "kernel") for side in SIDES]
    return names[0] == names[1] and not any(group.count(side, MAIN) for side in SIDES)


def _both_names(chosen: list[ev.RowGroup]) -> list[set[str]]:
    return [_names(chosen, side) for side in SIDES]


def _names(chosen: list[ev.RowGroup], side: str) -> set[str]:
    return {name for group in chosen for name in group.executed(side, "kernel")}


def _differs(case: Case, chosen: list[ev.RowGroup], count: dict[str, float]) -> bool:
    """Return whether the implementations differ: in the number of kernels or, within one framework, in their names."""
    low, high = sorted(count.values())
    if high - low >= LEAST_MORE and high >= RATIO * low:
        return True
    a, b = _both_names(chosen)
    return case.same_framework and a != b


def _way(chosen: list[ev.RowGroup], side: str) -> str:
    """Say how a side updates parameters, if its kernels' names show it."""
    names = " ".join(sorted(_names(chosen, side)))
    return next((f" ({way})" for way, pattern in _IMPLEMENTATIONS if re.search(pattern, names)), "")


def update(case: Case) -> list[Suspicion]:
    """More parameters; else, as these also need more kernels, another implementation."""
    return more_parameters(case) or implementation(case)


RULES: tuple[Rule, ...] = (update,)
