"""Graph optimisation of ONNX Runtime: one side's nodes are those of the model, the other's are fused."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Side, Suspicion
from kernelscope.analysis.formats.onnxruntime import unoptimised

CAUSE = "graph optimisation"
_NAMED = 3


def not_optimised(case: Case) -> list[Suspicion]:
    """One side has nodes that the optimizer fuses or removes, and the other side, on which they would show, has none of them."""
    if not case.same_framework or not all(unoptimised.can_tell(one.trace) for one in (case.a, case.b)):
        return []
    left = {side: unoptimised.left_over(one.trace) for side, one in zip(SIDES, (case.a, case.b), strict=True)}
    if len({table.empty for table in left.values()}) == 1:
        return []
    slow, fast = ("a", "b") if left["b"].empty else ("b", "a")
    if not _lacks(case.a if fast == "a" else case.b, left[slow]):
        return []
    chosen = [group for group in ev.candidates(case) if _nodes(group, "a") != _nodes(group, "b")]
    claims = ev.merged(ev.whole(group) for group in chosen)
    if not claims or ev.slower(claims, chosen) != (slow, fast):
        return []
    names = left[slow]["name"].astype("string").fillna("").drop_duplicates()
    shown = ev.listed([f"{name} ({operator})" for name, operator in zip(names, left[slow]["operator"][names.index], strict=True)])
    sentences = [
        f"{ev.name(case, slow)} executes {shown} as nodes of their own, which the optimizer fuses or removes; "
        f"{ev.name(case, fast)} has no such nodes",
        *(
            f"{ev.place(group)}: {ev.executions(group.kernels(slow))} in {ev.name(case, slow)}, "
            f"{ev.executions(group.kernels(fast))} in {ev.name(case, fast)}"
            for group in sorted(chosen, key=lambda group: -abs(group.delta_ns))[:_NAMED]
        ),
    ]
    title = f"{ev.name(case, slow)} seems to run without graph optimisation, {ev.name(case, fast)} with it"
    return [Suspicion(CAUSE, title, claims, "medium", sentences, unoptimised.LEVEL, 0)]


def _lacks(side: Side, left: pd.DataFrame) -> bool:
    """Return whether a side executes none of these nodes, by their names and operators."""
    pairs = [
        set(zip(*(table[name].astype("string").fillna("") for name in ("name", "operator")), strict=True))
        for table in (unoptimised.executed(side.trace), left)
    ]
    return bool(pairs[0]) and not pairs[0] & pairs[1]


def _nodes(group: ev.RowGroup, side: str) -> set[tuple[str, str]]:
    """Return the names and operators of the nodes that a side executes in a group."""
    return {(str(one.kernel), str(one.operator)) for one in group.of(side) if one.count >= ev.ONCE}


RULES: tuple[Rule, ...] = (not_optimised,)
