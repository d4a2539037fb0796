"""Convolutions of PyTorch's operators: their three shapes, from recorded inputs or from other operators of the trace."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import pandas as pd

from kernelscope.analysis.files import json_text
from kernelscope.analysis.kernels.work.amounts import Amount
from kernelscope.analysis.kernels.work.tensors import Shape, as_problem, shapes_of, short_name

Triple = tuple[Shape, Shape, Shape]  # input, weights and output of a convolution, channels first
_BACKWARD = ("convolution_backward", "cudnn_convolution_backward", "miopen_convolution_backward")


def known_convolutions(operators: pd.DataFrame) -> list[Triple]:
    """Return the convolutions whose three shapes are known, from operators that compute both of their gradients."""
    names = [name for name in operators["name"].cat.categories if short_name(str(name)) in _BACKWARD]
    pairs = operators.loc[operators["name"].isin(names), ["name", "shapes"]].dropna().drop_duplicates()
    result = []
    for name, text in pairs.itertuples(index=False, name=None):
        tensors = [shape for shape in shapes_of(str(text)) if len(shape) > 2]
        if len(tensors) == 3:
            result.append(_roles(short_name(str(name)), tensors))
    return result


def _roles(short: str, tensors: list[Shape]) -> Triple:
    """Return input, weights and output of a backward convolution: ATen's has the gradient first, older ones the input."""
    first, second, weights = tensors
    return (second, weights, first) if short == "convolution_backward" else (first, weights, second)


def _fitting_ones(seen: Sequence[Triple], **known: Shape) -> list[Triple]:
    """Return the distinct convolutions that have these shapes (x, weights, y)."""
    places = {"x": 0, "weights": 1, "y": 2}
    return sorted({triple for triple in seen if all(triple[places[name]] == shape for name, shape in known.items())})


def of_convolution(name: str, tensors: Sequence[Shape], arguments: str, size: int | None, seen: Sequence[Triple]) -> Amount:
    """Return the work of a convolution; if several are possible, only what they agree on."""
    result = _candidates(short_name(name), [shape for shape in tensors if len(shape) > 2], arguments, seen)
    if not result or any(len({len(shape) for shape in triple}) != 1 for triple in result):
        return Amount()
    problems = {as_problem([x, weights]) for x, weights, _ in result}
    flops = {2 * prod(y) * prod(weights[1:]) for _, weights, y in result}
    elements = {sum(map(prod, triple)) for triple in result}
    moved = size * elements.pop() if size and len(elements) == 1 else None
    known = flops.pop() if len(flops) == 1 else None
    source = f"shapes of {name}" if known is not None else None
    return Amount(problems.pop() if len(problems) == 1 else None, flops=known, bytes=moved, source=source)


def _candidates(short: str, known: list[Shape], arguments: str, seen: Sequence[Triple]) -> list[Triple]:
    """Return input, weights and output of the convolutions that an operator may be."""
    if ("convolution" not in short and short not in _PLACES) or "transpose" in short:
        return []
    if short in _BACKWARD:
        return [_roles(short, known)] if len(known) == 3 else []
    if len(known) != 2:
        return []
    first, second = known
    if short.endswith("backward_input"):
        return _fitting_ones(seen, y=first, weights=second)
    if short.endswith("backward_weight"):
        return _fitting_ones(seen, y=first, x=second)
    y = _convolved(short, first, second, arguments)
    return [(first, second, y)] if y else _fitting_ones(seen, x=first, weights=second)


# Positions of stride, padding and dilation among the operators' inputs
_PLACES = {
    "convolution": (3, 4, 5), "cudnn_convolution": (3, 2, 4), "miopen_convolution": (4, 3, 5), "mkldnn_convolution": (4, 3, 5),
    "convolution_overrideable": (3, 4, 5), "conv1d": (3, 4, 5), "conv2d": (3, 4, 5), "conv3d": (3, 4, 5),
}  # fmt: skip


def _convolved(short: str, x: Shape, weights: Shape, arguments: str) -> Shape | None:
    """Return a convolution's output shape; on each axis floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1."""
    places, values = _PLACES.get(short), json_text.listed(arguments)
    if places is None or len(values) <= max(places):
        return None
    stride, padding, dilation = (json_text.listed(values[place]) if isinstance(values[place], str) else [] for place in places)
    axes = len(x) - 2
    settings = [[*one] * axes if len(one) == 1 else one for one in (stride, padding, dilation)]
    if any(len(one) != axes or any(type(n) is not int for n in one) for one in settings) or 0 in settings[0]:
        return None
    space = [
        (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spread in zip(x[2:], weights[2:], *settings, strict=True)
    ]
    return (x[0], weights[0], *space) if all(size > 0 for size in space) else None
