"""Layouts and casts: kernels that compute nothing, and only change how tensors lie in memory or of which type they are."""

from __future__ import annotations

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_REMEDIES = {
    "pytorch": "model.to(memory_format=torch.channels_last) and the same for the input",
    "tensorflow": "one data_format in all layers, in which the convolutions compute: 'channels_last' on processors and for "
    "tensor cores, else 'channels_first', to which TensorFlow's layout optimizer converts on GPUs",
    "mxnet": "layout='NHWC' on GPUs",
    "": "keep one layout throughout, the one in which the convolutions compute",
}
_NO_CONVOLUTIONS = "fewer transposes and permutations: keep tensors in the order in which the products read them"
# Of the time of products and convolutions: a transformer that cuts an image into pieces has one convolution, too
_CONVOLVES = 0.2
# Of conversions: libraries for processors lay weights out anew in any layout (docs/validation/confirming.md)
_ON_HOST = 1 / 3
_CASTS = {
    "pytorch": "make data and parameters of one type at the start; keep weights in the type that autocast uses (or cache them)",
    "": "keep one type throughout",
}


def conversions(subject: Subject) -> list[Advice]:
    """Tensors change their layout between layers."""
    if subject.on_host and subject.framework.endswith("jax"):
        return []  # XLA chooses layouts there, whatever the program says
    rows = subject.kernels(("layout",))
    ns = words.time_of(rows)
    convolves = words.time_of(subject.kernels(CONVOLUTIONS)) > _CONVOLVES * words.time_of(subject.kernels(MAIN))
    saves, estimate = ns, "all of it, where one layout is kept"
    if subject.on_host:
        saves, estimate = round(_ON_HOST * ns), "a third of it: libraries for processors lay weights out anew in any layout"
    return [
        Advice(
            "layout",
            "tensors change their layout in memory between layers",
            saves,
            estimate,
            [
                f"Conversions take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}.",
                *words.where(rows, "layer"),
            ],
            words.text(subject, _REMEDIES) if convolves else _NO_CONVOLUTIONS,
            "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
            if subject.framework == "pytorch"
            else "",
            words.ids(rows),
        )
    ]


_QUANTISED = r"(?i)quant"  # changes of type that quantisation is made of
_UNPACKS = r"(?i)dequant"


def casts(subject: Subject) -> list[Advice]:
    """Tensors change their type."""
    rows = subject.kernels(("cast",))
    rows = rows[~rows["name"].str.contains(_QUANTISED).fillna(False).to_numpy(bool)]
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


def unpacking(subject: Subject) -> list[Advice]:
    """Weights of few bits are unpacked by kernels of their own, before products that need them."""
    rows = subject.kernels(("cast",))
    rows = rows[rows["name"].str.contains(_UNPACKS).fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    return [
        Advice(
            "quantisation",
            "quantised weights are unpacked before they are multiplied",
            ns,
            "all of it, where the product unpacks what it multiplies",
            [f"Unpacking takes {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}."],
            "products that unpack weights as they read them (Marlin, AWQ and GPTQ kernels, llama.cpp mul_mat_q), or weights "
            "that stay unpacked where many rows are multiplied at once",
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (conversions, casts, unpacking)
