"""Operations and bytes of PyTorch's operators, from what the profiler recorded of their inputs (see kernels.work)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from kernelscope.analysis.files import json_text
from kernelscope.analysis.kernels import aten
from kernelscope.analysis.kernels.work.amounts import ELEMENT_BYTES, ELEMENTS, Amount
from kernelscope.analysis.kernels.work.convolutions import Triple, of_convolution
from kernelscope.analysis.kernels.work.tensors import Shape, as_problem, bytes_of, shapes_of, short_name
from kernelscope.analysis.trace import CONVOLUTIONS

_TYPES = {
    "float": 4, "double": 8, "c10::BFloat16": 2, "c10::Half": 2, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "long int": 8,
    "long": 8, "int": 4, "short": 2, "short int": 2, "signed char": 1, "unsigned char": 1, "bool": 1,
}  # fmt: skip


def of_operator(
    name: str, kind: str, shapes: str, types: str, strides: str, arguments: str, dtype: str, seen: Sequence[Triple] = ()
) -> Amount:
    """Return the work of an operator's kernels of one kind, from what Kineto recorded of its inputs.

    shapes, types, strides, arguments: JSON text as in the trace's operators, empty if not recorded. dtype: the kernel's, used
    without types. seen: convolutions whose shapes are all known, used without arguments.
    """
    tensors = shapes_of(shapes)
    size = _sizes_of(types, tensors, dtype)
    if not any(tensors):
        return Amount()
    if kind == "gemm":
        return _of_product(name, shapes, tensors, strides, size)
    if kind in CONVOLUTIONS:
        element = next((one for one in size if one), None)
        return of_convolution(name, tensors, arguments, element, seen)
    if kind == "attention":
        return _of_attention(name, tensors, size)
    return _of_elements(name, kind, tensors, size)


def _sizes_of(types: str, tensors: tuple[Shape, ...], dtype: str) -> list[int | None]:
    """Return the bytes of an element of each input; None if unknown."""
    dtypes = json_text.listed(types)
    known = ELEMENT_BYTES.get(dtype)
    return [_TYPES.get(str(dtypes[place])) if place < len(dtypes) else known for place in range(len(tensors))]


def _of_product(name: str, text: str, tensors: tuple[Shape, ...], strides: str, size: list[int | None]) -> Amount:
    sizes = aten.dimensions(name, text)
    if sizes is None:
        return Amount()
    m, n, k = sizes
    first, second = aten.PRODUCTS[name]
    batch = prod(tensors[first][:-2])
    moved = bytes_of([(tensors[first], size[first]), (tensors[second], size[second]), ((batch, m, n), size[first])])
    lies = json_text.listed(strides)
    flags = [_flag(lies[place]) if place < len(lies) else None for place in (first, second)]
    transpose = "".join(flag for flag in flags if flag) if all(flags) else None
    problem = as_problem([tensors[first], tensors[second]])
    return Amount(problem, m, n, k, transpose, 2 * batch * m * n * k, moved, f"shapes of {name}")


def _flag(strides: Any) -> str | None:
    """Return N for a row-major matrix, T for a column-major one, None for others."""
    if not isinstance(strides, list) or len(strides) < 2:
        return None
    return "N" if strides[-1] == 1 else "T" if strides[-2] == 1 else None


def _of_attention(name: str, tensors: tuple[Shape, ...], size: list[int | None]) -> Amount:
    """Return the work of attention over query, key and value, each of four dimensions; a causal mask is not recorded.

    scaled_dot_product_* have (batch, heads, length, size); the functions that they call have (batch, length, heads, size).
    """
    known = [(shape, element) for shape, element in zip(tensors, size, strict=True) if len(shape) == 4]
    short = short_name(name)
    backward = "backward" in short
    inputs = known[1:4] if backward else known[:3]  # the gradient comes first
    if "attention" not in short or len(inputs) < 3:
        return Amount()
    shapes = [shape for shape, _ in inputs]
    heads, length = (1, 2) if short.startswith("scaled_dot_product") else (2, 1)
    query, key, value = shapes
    factor = 3 * query[3] + 2 * value[3] if backward else query[3] + value[3]
    output = ((*query[:3], value[3]), inputs[0][1])
    moved = bytes_of([*inputs, *inputs, output, output] if backward else [*inputs, output])
    flops = 2 * query[0] * query[heads] * query[length] * key[length] * factor
    return Amount(as_problem(shapes), flops=flops, bytes=moved, source=f"shapes of {name}")


def _of_elements(name: str, kind: str, tensors: tuple[Shape, ...], size: list[int | None]) -> Amount:
    known = [(shape, element) for shape, element in zip(tensors, size, strict=True) if shape]
    if not known or "::" not in name:
        return Amount()
    largest = max(known, key=lambda pair: prod(pair[0]))
    if name in aten.FILLS:
        moved = bytes_of([largest])
    elif name == "aten::copy_":
        moved = bytes_of(known[:2]) if len(known) > 1 else None
    elif kind == "reduction":
        moved = bytes_of(known)
    elif kind in ELEMENTS or (kind in ("cast", "copy") and len(known) == 1):
        moved = bytes_of([*known, largest])
    else:
        moved = None
    if moved is None:
        return Amount(as_problem(tensors))
    return Amount(as_problem(tensors), bytes=moved, source=f"shapes of {name}")
