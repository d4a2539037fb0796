"""Layouts and casts: kernels that compute nothing, and only change how tensors lie in memory or of which type they are."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_REMEDIES = {
    "pytorch": "model.to(memory_format=torch.channels_last) and the same for the input",
    "tensorflow": "data_format='channels_last' in all layers",
    "mxnet": "layout='NHWC' on GPUs",
    "": "keep one layout throughout: channels last for tensor cores and oneDNN",
}
_CASTS = {
    "pytorch": "make data and parameters of one type at the start; keep weights in the type that autocast uses (or cache them)",
    "": "keep one type throughout",
}


def conversions(subject: Subject) -> list[Advice]:
    """Tensors change their layout between layers."""
    rows = subject.kernels(("layout",))
    ns = words.time_of(rows)
    return [
        Advice(
            "layout",
            "tensors change their layout in memory between layers",
            ns,
            "all of it, where one layout is kept",
            [
                f"Conversions take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}.",
                *([f"Most of it in {named}."] if (named := words.largest(rows[rows["layer"].notna()], "layer")) else []),
            ],
            words.text(subject, _REMEDIES),
            "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
            if subject.framework == "pytorch"
            else "",
            words.ids(rows),
        )
    ]


def casts(subject: Subject) -> list[Advice]:
    """Tensors change their type."""
    rows = subject.kernels(("cast",))
    ns = words.time_of(rows)
    return [
        Advice(
            "casts",
            "tensors change their type in each step",
            ns,
            "all of it, where one type is kept",
            [f"Casts take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}."],
            words.text(subject, _CASTS),
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (conversions, casts)
