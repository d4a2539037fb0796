"""What operators and kernels compute, as far as recorded shapes show it: output, FLOPs and parameters.

Operators: PyTorch's, from their input shapes, by the definitions of torch.nn.functional. Kernels: from m, n and k of matrix
products, and from oneDNN's problem descriptors (https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html), which MKL's
convolutions also use. A multiply-accumulate is two operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from kernelscope.analysis.files import json_text

Shape = tuple[int, ...]

# Kinds of kernels in the words of layers
GENERAL = {
    "convolution forward": "convolution",
    "convolution data gradient": "convolution",
    "convolution weight gradient": "convolution",
    "gemm": "dense",
}

# More specific types that operators may show for a layer than the kind of its kernels
SPECIFIC = {
    "dense": ("convolution", "lstm", "gru", "rnn"),
    "activation": ("relu", "tanh", "sigmoid", "gelu", "silu"),
    "elementwise": ("relu", "tanh", "sigmoid", "gelu", "silu", "dropout", "normalisation"),
    "pooling": ("pooling_max", "pooling_average"),
    "reduction": ("normalisation", "pooling_average", "loss"),
    "recurrent": ("lstm", "gru", "rnn"),
    "softmax": ("loss",),
}
RESHAPING = (
    "pooling",
    "pooling_max",
    "pooling_average",
    "flatten",
    "layout",
)  # types whose output has another shape than the input

_TYPES = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"backward|grad", ""),  # another pass: it says nothing here
        (r"scaled_dot_product|attention", "attention"),
        (r"conv(?!ert)", "convolution"),
        (r"lstm", "lstm"),
        (r"gru\b|gru_", "gru"),
        (r"\brnn|_rnn", "rnn"),
        (r"embedding", "embedding"),
        (r"(batch|layer|group|instance|rms)_?norm", "normalisation"),
        (r"max_?pool", "pooling_max"),
        (r"(avg|average)_?pool", "pooling_average"),
        (r"pool", "pooling"),
        (r"dropout", "dropout"),
        (r"gelu", "gelu"),
        (r"silu|swish", "silu"),
        (r"relu", "relu"),
        (r"tanh", "tanh"),
        (r"sigmoid", "sigmoid"),
        (r"cross_?entropy|nll_loss|_loss\b", "loss"),
        (r"softmax", "softmax"),
        (r"linear|addmm|matmul|\bmm\b|\bbmm\b|fullyconnected|^times$|dense", "dense"),
        (r"flatten|reshape|\bview\b", "flatten"),
    )
)

_CONVOLUTION = re.compile(
    r"mb(?P<mb>\d+)_?(?:g(?P<g>\d+))?ic(?P<ic>\d+)(?:oc(?P<oc>\d+))?"
    r"(?:_id\d+od(?P<od>\d+)kd(?P<kd>\d+)[a-z\d]*)?(?:_ih\d+oh(?P<oh>\d+)kh(?P<kh>\d+)[a-z\d]*)?"
    r"_iw\d+ow(?P<ow>\d+)kw(?P<kw>\d+)"
)
_INNER_PRODUCT = re.compile(r"mb(?P<mb>\d+)ic(?P<ic>\d+)(?:i[dhw]\d+)*oc(?P<oc>\d+)")
_MATMUL = re.compile(r"(\d+(?:x\d+)*):(\d+(?:x\d+)*)")
_TENSOR = re.compile(r"\d+(?:x\d+)+")


@dataclass(frozen=True)
class Problem:
    """What one call computes for the whole batch. None is unknown.

    channels and inputs: for a convolution with unknown output, its channels and the number of values that each output is made
    of. batch: the size of the batch, if the call's first dimension is that.
    """

    output: Shape | None = None
    flops: int | None = None
    parameters: int | None = None
    batch: int | None = None
    channels: int | None = None
    inputs: int | None = None
    rank: int | None = None
    bias: bool = False

    def fits(self, output: Shape) -> bool:
        """Return whether a tensor can be the output of this convolution (channels first)."""
        return self.channels is not None and len(output) == self.rank and output[:2] == (self.batch, self.channels)

    def with_output(self, output: Shape) -> Problem:
        """Return this convolution's work, given its output."""
        flops = prod(output) * (2 * (self.inputs or 0) + self.bias)
        return Problem(output, flops, self.parameters, self.batch)


def type_of_operator(name: str) -> str | None:
    """Return the type of layer that an operator of any framework stands for; None if its name does not show it."""
    return next((result or None for pattern, result in _TYPES if pattern.search(name)), None)


def may_become(before: Shape, after: Shape, kind: str) -> bool:
    """Return whether pooling or flattening may turn one shape into the other, channels first."""
    if kind.startswith("pooling"):
        return len(before) == len(after) > 2 and before[:2] == after[:2] and prod(after) <= prod(before)
    return prod(before) == prod(after)


@lru_cache(maxsize=65536)
def shapes(text: str) -> tuple[Shape, ...]:
    """Return the shapes of an operator's inputs, with lists of tensors flattened; empty if it has none."""
    try:
        entries = json_text.parsed(text)
    except ValueError:
        return ()
    result: list[Shape] = []
    for entry in entries if isinstance(entries, list) else ():
        inner = entry if isinstance(entry, list) and entry and isinstance(entry[0], list) else [entry]
        result += [tuple(sizes) if isinstance(sizes, list) and all(type(n) is int for n in sizes) else () for sizes in inner]
    return tuple(result)


@lru_cache(maxsize=65536)
def of_operator(name: str, text: str) -> Problem | None:
    """Return what an operator of PyTorch or ONNX computes; None for operators without weights or matrix products."""
    short = name.rpartition("::")[2].lstrip("_")
    inputs = shapes(text)
    sizes = [shape for shape in inputs if shape]
    if len(sizes) < 2 or "backward" in short:
        return None
    if short in ("linear", "mkldnn_linear"):
        return _linear(sizes)
    if short in ("addmm", "baddbmm") and len(sizes) > 2:
        return _product(sizes[1], sizes[2], sizes[0])
    if short in ("mm", "bmm", "matmul"):
        return _product(sizes[0], sizes[1], None)
    of_onnx = short in ("Conv", "FusedConv")
    if of_onnx or (re.fullmatch(r"(\w+_)?conv(olution(_overrideable)?|[123]d)(_\w+)?", short) and "transpose" not in short):
        return _convolution(sizes)
    if short == "embedding":
        return Problem(output=(*sizes[1], sizes[0][-1]), parameters=prod(sizes[0]), batch=sizes[1][0])
    if short.endswith(("batch_norm", "layer_norm", "group_norm")):
        scale = [shape for shape in sizes[1:] if len(shape) == 1][:2]
        return Problem(output=sizes[0], parameters=sum(map(prod, scale)), batch=sizes[0][0])
    return None


def _linear(sizes: list[Shape]) -> Problem | None:
    x, weight = sizes[:2]
    if len(weight) != 2 or x[-1] != weight[1]:
        return None
    bias = len(sizes) > 2
    output = (*x[:-1], weight[0])
    return Problem(output, 2 * prod(x) * weight[0] + bias * prod(output), prod(weight) + bias * weight[0], x[0])


def _product(x: Shape, y: Shape, bias: Shape | None) -> Problem | None:
    if len(x) < 2 or len(y) < 2 or x[-1] != y[-2]:
        return None
    output = (*x[:-1], y[-1])
    added = bias is not None and len(bias) == 1
    parameters = prod(y) + prod(bias) if added and bias is not None else None
    return Problem(output, 2 * prod(x) * y[-1] + added * prod(output), parameters)


def _convolution(sizes: list[Shape]) -> Problem | None:
    x, weight = sizes[:2]
    if len(x) != len(weight) or len(x) < 3:
        return None
    bias = len(sizes) > 2 and sizes[2] == weight[:1]
    parameters = prod(weight) + bias * weight[0]
    return Problem(parameters=parameters, batch=x[0], channels=weight[0], inputs=prod(weight[1:]), rank=len(x), bias=bias)


@lru_cache(maxsize=65536)
def of_problem(text: str) -> Problem | None:
    """Return the problem that a descriptor of a forward primitive states; None if its form is unknown."""
    if match := _CONVOLUTION.match(text):
        size = {name: int(value) for name, value in match.groupdict(default="1").items()}
        space = tuple(size[name] for name in ("od", "oh", "ow") if match[name] is not None)
        if match["oc"] is None:  # pooling
            return Problem(output=(size["mb"], size["ic"], *space), batch=size["mb"])
        weights = size["oc"] * size["ic"] // size["g"] * size["kd"] * size["kh"] * size["kw"]
        return Problem((size["mb"], size["oc"], *space), 2 * size["mb"] * weights * prod(space), weights, size["mb"])
    if match := _INNER_PRODUCT.fullmatch(text):
        mb, ic, oc = int(match["mb"]), prod(int(n) for n in re.findall(r"i[a-z](\d+)", text)), int(match["oc"])
        return Problem((mb, oc), 2 * mb * ic * oc, ic * oc, mb)
    if match := _MATMUL.fullmatch(text):
        x, y = (tuple(map(int, part.split("x"))) for part in match.groups())
        return _product(x, y, None)
    return Problem(output=tuple(map(int, text.split("x")))) if _TENSOR.fullmatch(text) else None


def of_kernel(problem: str | None, m: int | None, n: int | None, k: int | None) -> Problem | None:
    """Return what a forward kernel computes if it is a convolution or a matrix product; else None."""
    work = of_problem(problem) if problem is not None else None
    if work is not None and work.flops is not None:
        return work
    return Problem(flops=2 * m * n * k) if m is not None and n is not None and k is not None else None


def completed(calls: Iterable[Problem], candidates: Iterable[Shape]) -> list[Problem]:
    """Return the calls, with the outputs of convolutions filled in from shapes seen after them."""
    seen = list(candidates)
    result = []
    for call in calls:
        output = next((shape for shape in seen if call.fits(shape)), None) if call.channels is not None else None
        result.append(call.with_output(output) if output else call)
    return result
