"""Recomputation: the backward pass runs the forward pass again to save memory."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

# Operators that PyTorch's own backward pass does not call
_DECIDE = r"aten::(?:addmm|_convolution|(?:mkldnn|cudnn|miopen)_convolution|convolution)$"
_FORWARD = _DECIDE[:-2] + r"|native_batch_norm|native_layer_norm|gelu|relu|silu|_softmax|_scaled_dot_product\w*_attention)$"


def in_backward(subject: Subject) -> list[Advice]:
    """Operators of the forward pass run in the backward phase."""
    rows = subject.rows[((subject.rows["phase"] == "backward") & subject.rows["operator"].notna()).fillna(False).to_numpy(bool)]
    if not rows["operator"].str.fullmatch(_DECIDE).any():
        return []
    again = rows[rows["operator"].str.fullmatch(_FORWARD).to_numpy(bool)]
    ns = words.time_of(again)
    return [
        Advice(
            "recomputation",
            "the backward pass computes parts of the forward pass again (activation checkpointing)",
            ns,
            "all of it, if the activations fit in memory",
            [
                f"Forward operators in the backward phase take {words.share(subject, ns)} {subject.per}: "
                f"{words.largest(again, 'operator')}."
            ],
            "checkpoint fewer layers: only those with large activations and little computation",
            "https://docs.pytorch.org/docs/stable/checkpoint.html",
            words.ids(again),
        )
    ]


RULES: tuple[Rule, ...] = (in_backward,)
