"""Elementwise arithmetic: chains of small kernels where the other side has one kernel, or has them fused into another."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.amounts import size
from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion
from kernelscope.analysis.trace import MAIN

_BYTES = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "s64": 8, "s32": 4, "s8": 1, "u8": 1, "bool": 1}
_FUSE = {
    "pytorch": "call one operator that does all of it (torch.nn.functional), or torch.compile the module",
    "tensorflow": "call one operator that does all of it (tf.nn), or use tf.function(jit_compile=True)",
    "mxnet": "call one operator that does all of it (mx.nd.LayerNorm, mx.nd.LeakyReLU(act_type='gelu')), and hybridize the net; "
    "MXNET_USE_FUSION=1 fuses on GPUs",
    "cntk": "call one operator that does all of it (C.ops)",
    "": "use one operator that does all of it, or a compiler that fuses elementwise operators",
}


def unfused_chains(case: Case) -> list[Suspicion]:
    """Layers in which one side executes several more elementwise kernels than the other."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if ev.chained(case, group) == (slow, fast)]
        kinds = (*ev.SMALL, *ev.MOVES, "reduction") if case.same_framework else ev.SMALL
        claims = ev.merged(ev.claim(case, group, kinds, strict=True) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        count = {side: sum(group.count(side, ev.SMALL) for group in chosen) for side in SIDES}
        title = (
            f"{ev.name(case, slow)} computes {ev.layers(chosen)} by {ev.number(count[slow])} elementwise kernels, "
            f"{ev.name(case, fast)} by {ev.number(count[fast])}"
        )
        sentences = _examples(case, chosen, (slow, fast))
        result.append(Suspicion("unfused elementwise chain", title, claims, "high", sentences, ev.remedy(case, slow, _FUSE)))
    return result


def unfused_ends(case: Case) -> list[Suspicion]:
    """Bias and activation in separate kernels on one side, and inside the previous layer's kernel on the other."""
    result = []
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group in ev.candidates(case) if _fused_away(case, group, slow, fast)]
        claims = ev.merged(ev.claim(case, group, ev.SMALL, strict=True) for group in chosen)
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        title = (
            f"{ev.name(case, slow)} computes bias or activation of {ev.layers(chosen)} in separate kernels, "
            f"{ev.name(case, fast)} inside other kernels"
        )
        sentences = _examples(case, chosen, (slow, fast))
        result.append(Suspicion("unfused bias or activation", title, claims, "medium", sentences, ev.remedy(case, slow, _FUSE)))
    return result


def _fused_away(case: Case, group: ev.RowGroup, slow: str, fast: str) -> bool:
    """Return whether only one side has small kernels in a layer that both compute, or that consists of them on that side."""
    if not group.is_layer or group.count(slow, ev.SMALL) < ev.ONCE or group.count(fast, ev.SMALL) >= ev.ONCE:
        return False
    if ev.types_differ(case, group) or ev.unrolled(group) is not None or ev.chained(case, group) is not None:
        return False
    if all(group.count(side, MAIN) >= ev.ONCE for side in SIDES):
        return True
    if group.phase != "forward" or group.count(fast) or not group.computing(slow) <= set(ev.SMALL):
        return False
    return any(match.label == group.layer and match.a and match.b for match in case.matches)


def _examples(case: Case, chosen: list[ev.RowGroup], order: tuple[str, str]) -> list[str]:
    """Name each side's small kernels in the group with the largest difference."""
    group = ev.largest(chosen)
    return [
        f"{ev.place(group)}, {ev.name(case, side)}: {ev.executions(group.kernels(side, ev.SMALL), most=4)}"
        f"{_moved(group.kernels(side, ev.SMALL))}, {ev.duration(group.time_ns(side, ev.SMALL))}"
        for side in order
    ]


def _moved(cells: pd.DataFrame) -> str:
    """Say how many bytes elementwise kernels read and write at least; empty if shapes are unknown."""
    sizes = [_bytes(problem, dtype) for problem, dtype in zip(cells["problem"], cells["dtype"], strict=True)]
    known = [one * count for one, count in zip(sizes, cells["count"], strict=True) if one is not None]
    return f", at least {size(sum(known))}" if known and None not in sizes else ""


def _bytes(problem: object, dtype: object) -> int | None:
    """Return the bytes of the tensors in a problem such as 64x120:64x120, and of a result as large as the largest; None if
    unknown.
    """
    if not isinstance(problem, str) or not isinstance(dtype, str) or dtype not in _BYTES:
        return None
    sizes = ev.tensor_sizes(problem)
    return None if sizes is None else (sum(sizes) + max(sizes)) * _BYTES[dtype]


RULES: tuple[Rule, ...] = (unfused_chains, unfused_ends)
