"""Elementwise arithmetic: chains of small kernels where the other side has one, or has them fused into another kernel."""

from __future__ import annotations

import math
import re

import pandas as pd

from kernelscope.analysis.explain.causes import evidence as ev
from kernelscope.analysis.explain.model import SIDES, Case, Rule, Suspicion

KINDS = ("elementwise", "activation")
# An activation may be two kernels on one side and one on the other without anybody having written it out by hand
LEAST_MORE = 2.0
_BYTES = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "s64": 8, "s32": 4, "s8": 1, "u8": 1, "bool": 1}
_FUSE = {
    "pytorch": "call the operator that does it in one (torch.nn.functional), or torch.compile the module",
    "tensorflow": "call the operator that does it in one (tf.nn), or tf.function(jit_compile=True)",
    "mxnet": "call the operator that does it in one (mx.nd.Activation), or net.hybridize() with MXNET_USE_FUSION=1 on GPUs",
    "cntk": "call the operator that does it in one (C.ops)",
    "": "use an operator that does it in one, or a compiler that fuses elementwise operators",
}


def unfused_chains(case: Case) -> list[Suspicion]:
    """Layers in which one side executes several elementwise kernels more than the other."""
    found = []
    pairs = list(ev.more(case, KINDS, LEAST_MORE))
    for slow, fast in (("b", "a"), ("a", "b")):
        chosen = [group for group, more, _ in pairs if more == slow and _a_chain(case, group, slow, fast)]
        claims = ev.merged(
            ev.claim(case, group, (*KINDS, *ev.MOVES, "reduction"), strict=True)
            if case.same_framework
            else ev.claim(case, group, KINDS)
            for group in chosen
        )
        if ev.slower(claims, chosen) != (slow, fast):
            continue
        count = {side: sum(group.count(side, KINDS) for group in chosen) for side in SIDES}
        title = (
            f"{ev.name(case, slow)} computes {ev.layers(chosen)} by {ev.number(count[slow])} elementwise kernels, "
            f"{ev.name(case, fast)} by {ev.number(count[fast])}"
        )
        group = ev.largest(chosen)
        sentences = [
            f"{group.layer} {group.phase}, {ev.name(case, side)}: {ev.executions(group.kernels(side, KINDS), most=4)}"
            f"{_moved(group.kernels(side, KINDS))}, {ev.ms(group.time_ns(side, KINDS))}"
            for side in (slow, fast)
        ]
        found.append(Suspicion("unfused elementwise chain", title, claims, "high", sentences, ev.remedy(case, slow, _FUSE)))
    return found


def _a_chain(case: Case, group: ev.Group, slow: str, fast: str) -> bool:
    """Return whether a side with more kernels also has at least half as many again, for no stronger reason."""
    if ev.unrolled(group) is not None or ev.types_differ(case, group) or ev.again(case, group) or group.phase == "optimizer":
        return False
    return group.count(slow, KINDS) >= 1.5 * group.count(fast, KINDS)


def _moved(cells: pd.DataFrame) -> str:
    """Return in words how many bytes elementwise kernels read and write at the least; empty where shapes are not told."""
    sizes = [_bytes(problem, dtype) for problem, dtype in zip(cells["problem"], cells["dtype"], strict=True)]
    known = [size * count for size, count in zip(sizes, cells["count"], strict=True) if size is not None]
    return f", at least {sum(known) / 1e6:.1f} MB" if known and None not in sizes else ""


def _bytes(problem: object, dtype: object) -> int | None:
    """Return the bytes of the tensors in a problem such as 64x120:64x120, and of a result as large as the largest."""
    if not isinstance(problem, str) or not isinstance(dtype, str) or dtype not in _BYTES:
        return None
    if not re.fullmatch(r"\d+(x\d+)*(:\d+(x\d+)*)*", problem):
        return None
    sizes = [math.prod(map(int, tensor.split("x"))) for tensor in problem.split(":")]
    return (sum(sizes) + max(sizes)) * _BYTES[dtype]


RULES: tuple[Rule, ...] = (unfused_chains,)
