"""Operations and bytes of CPU kernels, from what their libraries reported about them (see kernels.work)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt, prod
from typing import NamedTuple

from kernelscope.analysis.kernels.work.amounts import ELEMENT_BYTES, ELEMENTS, Amount
from kernelscope.analysis.kernels.work.tensors import Shape
from kernelscope.analysis.trace import CONVOLUTIONS

_SIZE = re.compile(r"(?<![a-z])([a-z]+)(\d{1,18})(?!\d)")
_TENSORS = re.compile(r"\d+(?:x\d+)*(?::\d+(?:x\d+)*)*")
_VECTOR = re.compile(r"n(\d{1,18})(?: .*)?")
_TERMS = 3  # tensors of a product: both factors and the result
_GATES = (("vanilla_rnn", 1), ("vanilla_lstm", 4), ("augru", 3), ("gru", 3))


class KernelColumns(NamedTuple):
    """A kernel's own columns of a Trace; None for unknown ones."""

    kind: str | None
    library: str | None
    name: str | None
    operator: str | None
    phase: str | None
    problem: str | None
    dtype: str | None
    algorithm: str | None
    m: int | None
    n: int | None
    k: int | None
    transpose: str | None


def of_description(columns: KernelColumns) -> Amount:
    """Return the work of one execution of a CPU kernel, from its columns of the trace; no work if they do not suffice."""
    nothing = Amount(columns.problem, columns.m, columns.n, columns.k, columns.transpose)
    size = _element_bytes(columns.dtype)
    if columns.library is None or (columns.problem is None and columns.m is None):
        return nothing
    if columns.m is not None and columns.n is not None and columns.k is not None:
        return _product(nothing, columns.problem, size)
    text = str(columns.problem)
    backward = columns.phase == "backward" or "backward" in f"{columns.name} {columns.operator}".lower()
    if columns.kind in CONVOLUTIONS or columns.kind == "pooling":
        return _window(nothing, _sizes(text), size) if "_" in text else _pooled(nothing, text, columns.library, size)
    if columns.kind == "recurrent":
        return _recurrent(nothing, _sizes(text), str(columns.algorithm), backward, size)
    if match := _VECTOR.fullmatch(text):
        return _of_vector(nothing, str(columns.name), int(match[1]), size)
    if _TENSORS.fullmatch(text):
        shapes = [tuple(map(int, part.split("x"))) for part in text.split(":")]
        moved = _moved(str(columns.kind), columns.library, str(columns.operator or columns.name), shapes, backward, size)
        flops = _of_tensors(shapes) if columns.kind == "gemm" and len(shapes) == _TERMS else None
        if flops is not None:
            return replace(nothing, flops=flops, bytes=moved, source="shapes of both factors and the product")
        return replace(nothing, bytes=moved, source="shapes" if moved is not None else None)
    return nothing


def with_pooled(kernels: Sequence[KernelColumns], works: Sequence[Amount]) -> list[Amount]:
    """Add the bytes of PyTorch's forward pooling, which records only its input: its backward pass has both shapes."""
    outputs: dict[str, set[str]] = {}
    for kernel in kernels:
        problem = kernel.problem
        if kernel.kind == "pooling" and problem and problem.count(":") == 1 and _TENSORS.fullmatch(problem):
            after, before = problem.split(":")
            outputs.setdefault(before, set()).add(after)
    result = []
    for kernel, work in zip(kernels, works, strict=True):
        sizes = outputs.get(str(kernel.problem), set()) if kernel.kind == "pooling" and kernel.library == "aten" else set()
        both = f"{kernel.problem}:{next(iter(sizes))}" if len(sizes) == 1 else ""
        result.append(replace(_pooled(work, both, "aten", _element_bytes(kernel.dtype)), problem=work.problem) if both else work)
    return result


def _element_bytes(dtype: str | None) -> tuple[int, int] | None:
    """Return the bytes of an element read and of one written: f32, or f32 to bf16; None if unknown."""
    parts = str(dtype).split(" to ")
    sizes = [ELEMENT_BYTES.get(part) for part in (parts[0], parts[-1])]
    return (sizes[0], sizes[1]) if sizes[0] and sizes[1] else None


def _sizes(problem: str) -> dict[str, int]:
    """Return the named dimensions of a problem such as mb64_ic1oc6_ih28oh28kh5sh1dh0ph2."""
    return {name: int(size) for name, size in _SIZE.findall(problem)}


def _product(nothing: Amount, problem: str | None, size: tuple[int, int] | None) -> Amount:
    m, n, k = nothing.m or 0, nothing.n or 0, nothing.k or 0
    batch = 1
    if problem and re.fullmatch(r"\d+(?:x\d+)+:\d+(?:x\d+)+(?::\d+(?:x\d+)+)?", problem):  # oneDNN's, with the batch first
        left, right = (tuple(map(int, part.split("x"))) for part in problem.split(":")[:2])
        batch = prod(max(pair) for pair in zip(left[:-2], right[:-2], strict=False))
    moved = size and size[0] * batch * (m * k + k * n + m * n)
    return replace(nothing, flops=2 * batch * m * n * k, bytes=moved, source="m, n, k")


def _of_tensors(shapes: Sequence[Shape]) -> int | None:
    """Return the operations of a product from the shapes of its factors and result, whichever are transposed.

    They have b·m·k, b·k·n and b·m·n elements, so the product of these numbers is (b·m·n·k)²·b; b is the prefix that all three
    share. None if the shapes do not fit.
    """
    batch = 1
    for sizes in zip(*(shape[:-2] for shape in shapes), strict=False):
        if len(set(sizes)) > 1:
            break
        batch *= sizes[0]
    square, rest = divmod(prod(map(prod, shapes)), batch)
    root = isqrt(square)
    return 2 * root if not rest and root * root == square else None


def _window(nothing: Amount, sizes: dict[str, int], size: tuple[int, int] | None) -> Amount:
    """Return the work of a convolution or pooling that a oneDNN problem describes."""
    if not {"mb", "ic"} <= sizes.keys():
        return nothing
    before, after, window = (prod(sizes.get(side + axis, 1) for axis in "dhw") for side in "iok")
    read, written = sizes["mb"] * sizes["ic"] * before, sizes["mb"] * sizes.get("oc", sizes["ic"]) * after
    if "oc" not in sizes:
        return replace(nothing, bytes=size and size[0] * (read + written), source="problem")
    weights = sizes["oc"] * sizes["ic"] // sizes.get("g", 1) * window
    flops = 2 * sizes["mb"] * after * weights
    return replace(nothing, flops=flops, bytes=size and size[0] * (read + weights + written), source="problem")


def _pooled(nothing: Amount, text: str, library: str, size: tuple[int, int] | None) -> Amount:
    """Return the bytes of pooling if the shapes of input and output are both known."""
    if size is None or library != "aten" or text.count(":") != 1 or not _TENSORS.fullmatch(text):
        return nothing
    shapes = [tuple(map(int, part.split("x"))) for part in text.split(":")]
    return replace(nothing, bytes=size[0] * sum(map(prod, shapes)), source="shapes")


def _recurrent(nothing: Amount, sizes: dict[str, int], algorithm: str, backward: bool, size: tuple[int, int] | None) -> Amount:
    gates = next((count for cell, count in _GATES if cell in algorithm), None)
    if gates is None or not {"l", "t", "mb", "sic", "slc", "dhc"} <= sizes.keys():
        return nothing
    layers, cells = sizes["l"], sizes["t"] * sizes["mb"]
    weights = gates * sizes["dhc"] * (sizes["sic"] + sizes["slc"])
    passes = 2 if backward else 1
    moved = size and size[0] * passes * (layers * weights + cells * (sizes["slc"] + sizes["dhc"]))
    return replace(nothing, flops=2 * passes * layers * cells * weights, bytes=moved, source="problem")


def _of_vector(nothing: Amount, name: str, length: int, size: tuple[int, int] | None) -> Amount:
    """Return the work of BLAS's axpy (y += a x) and scal (x *= a)."""
    for ending, flops, elements in (("axpy", 2, 3), ("scal", 1, 2)):
        if name.lower().endswith(ending):
            return replace(nothing, flops=flops * length, bytes=size and size[0] * elements * length, source="length")
    return nothing


def _moved(
    kind: str, library: str, operator: str, shapes: list[Shape], backward: bool, size: tuple[int, int] | None
) -> int | None:
    """Return the bytes of a kernel that multiplies nothing, from the shapes of its tensors; None if unknown."""
    if size is None:
        return None
    read, written = size
    largest = max(map(prod, shapes))
    if operator.startswith(("aten::zero_", "aten::fill_")):
        return largest * written
    if kind in ("copy", "layout", "cast") or operator.startswith("aten::copy_"):
        return prod(shapes[0]) * (read + written) if library in ("onednn", "aten") else None
    if library == "onednn" and kind in ("activation", "softmax", "normalisation"):
        return (3 if backward else 2) * read * largest  # a gradient needs the forward input and the incoming gradient
    if library == "cntk":  # its nodes record only their output's shape, which suffices if there is one input
        return (3 if backward else 2) * read * largest if kind == "activation" else None
    if kind == "reduction":
        return read * sum(map(prod, shapes))
    return read * (sum(map(prod, shapes)) + largest) if kind in ELEMENTS else None
