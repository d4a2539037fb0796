"""Attention: one fused operator on one side, separate products and a softmax on the other."""

from __future__ import annotations

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import Case, Rule, Suspicion

CAUSE = "attention in parts"
_FUSED = {
    "pytorch": "call torch.nn.functional.scaled_dot_product_attention for all heads at once, with is_causal or a mask",
    "tensorflow": "keras.layers.MultiHeadAttention with flash_attention=True, or keras.config.enable_flash_attention()",
    "jax": "jax.nn.dot_product_attention for all heads at once",
    "": "use the framework's fused attention for all heads at once",
}


def in_parts(case: Case) -> list[Suspicion]:
    """Layers that one side computes with a fused attention kernel and the other with products and a softmax."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if group.is_layer and _written_out(case, group, slow, fast)]
        claims = ev.merged(ev.whole(group) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        count = {side: sum(group.count(side) for group in chosen) for side in (slow, fast)}
        title = (
            f"{ev.name(case, slow)} computes the attention of {ev.layers(chosen)} in parts, with {ev.number(count[slow])} "
            f"kernels, {ev.name(case, fast)} with a fused kernel ({ev.number(count[fast])} in all)"
        )
        example = ev.largest(chosen)
        place = ev.place(example)
        sentences = [
            f"{place}, {ev.name(case, side)}: {ev.executions(example.kernels(side))}, {ev.duration(example.time_ns(side))}"
            for side in (slow, fast)
        ]
        result.append(Suspicion(CAUSE, title, claims, "high", sentences, ev.remedy(case, slow, _FUSED)))
    return result


def _written_out(case: Case, group: ev.RowGroup, parts: str, fused: str) -> bool:
    """Return whether only one side has a fused operator in a group, and the other has products or a softmax in its place."""
    if not case.same_framework or ev.types_differ(case, group) or ev.again(case, group):
        return False
    if not ev.attends(group, fused) or ev.attends(group, parts):
        return False
    return group.count(parts, ["gemm", "softmax"]) >= ev.ONCE


RULES: tuple[Rule, ...] = (in_parts,)
