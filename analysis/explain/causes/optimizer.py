"""The optimizer's implementation: one kernel for many parameters, or a loop over them."""

from __future__ import annotations

import re

import pandas as pd

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

# As many kernels more that the step makes them count, and enough that it is another implementation
LEAST_MORE, RATIO = 3.0, 1.25
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

    Not where it works on another type, which has other kernels.
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
            f"{ev.name(case, side)}: {ev.executions(kernels)} per step, {ev.ms(int(kernels['time_ns'].sum()))} in kernels and "
            f"{ev.ms(host)} of the host"
        )
    title = f"the optimizer's update is written otherwise: {texts[0]} per step, {texts[1]}"
    return [Suspicion("optimizer implementation", title, claims, "high", sentences, ev.remedy(case, slow, _REMEDY))]


def _names(chosen: list[ev.RowGroup], side: str) -> set[str]:
    return {name for group in chosen for name in group.executed(side, "kernel")}


def _differs(case: Case, chosen: list[ev.RowGroup], count: dict[str, float]) -> bool:
    """Return whether the sides have another implementation: by the number of kernels, or in one framework by their names."""
    low, high = sorted(count.values())
    if high - low >= LEAST_MORE and high >= RATIO * low:
        return True
    a, b = (_names(chosen, side) for side in SIDES)
    return case.same_framework and a != b


def _way(chosen: list[ev.RowGroup], side: str) -> str:
    """Return in words how a side updates parameters, where its kernels' names tell."""
    names = " ".join(sorted(_names(chosen, side)))
    return next((f" ({way})" for way, pattern in _IMPLEMENTATIONS if re.search(pattern, names)), "")


RULES: tuple[Rule, ...] = (implementation,)
