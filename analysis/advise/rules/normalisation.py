"""PyTorch's layer normalisation in several kernels, each of which reads the same tensors again."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_PART = 0.1  # of the step
_SCALES = r"\bLayerNormFor"  # reads the input and writes the output; names may be cut
_MOMENTS = r"\bRowwiseMom"
_GRADIENTS = r"\bGammaBetaBa|\bComputeInter|\bLayerNormBackward|\blayer_norm_grad"
_INPUTS = r"\bComputeInter|\blayer_norm_grad_input"  # runs once in each gradient
_OF_GRADIENT = 1.5  # times the tensors that the forward reads and writes: its input, and gradients of output and input


def layers(subject: Subject) -> list[Advice]:
    """Mean and variance are computed by a kernel of their own, and all kernels together take a large part of the time."""
    rows = subject.kernels(("normalisation",))
    parts = [_named(rows, pattern) for pattern in (_MOMENTS, _SCALES, _GRADIENTS)]
    moments, scales, gradients = parts
    count = float(scales["count"].sum())
    if subject.on_host or not count or float(moments["count"].sum()) != count:
        return []
    rows = pd.concat(parts)
    ns, once = words.time_of(rows), words.time_of(scales)
    backward = float(_named(gradients, _INPUTS)["count"].sum())
    saves = ns - once * (1 + _OF_GRADIENT * backward / count)
    if ns < _PART * subject.step_ns or (len(gradients) and not backward) or saves <= 0:
        return []
    also = ", 1.5 times that for its gradient" if backward else ""
    return [
        Advice(
            "layer normalisation",
            "layer normalisation reads its input again for each of its parts",
            saves,
            f"if one kernel does it, in {words.duration(once / count)} on average, as long as the one that reads the input and "
            f"writes the output{also}",
            [f"It takes {words.share(subject, ns)} {subject.per}: {words.kernels(rows, 4)}."],
            "a newer PyTorch, which computes it in one kernel (vectorized_layer_norm_kernel); torch.compile(model); or a fused "
            "one, such as apex.normalization.FusedLayerNorm",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html",
            words.ids(rows),
        )
    ]


def _named(rows: pd.DataFrame, pattern: str) -> pd.DataFrame:
    return rows[rows["name"].astype("string").str.contains(pattern).fillna(False).to_numpy(bool)]


RULES: tuple[Rule, ...] = (layers,)
