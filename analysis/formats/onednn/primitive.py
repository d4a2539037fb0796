"""The description of one oneDNN primitive: the fields between "exec," and the duration of a verbose line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# columns of a description and their pandas types; their meaning is documented in onednn_verbose
COLUMNS: Mapping[str, str] = {
    "engine": "string",
    "primitive": "string",
    "implementation": "string",
    "propagation": "string",
    "memory": "string",
    "attributes": "string",
    "auxiliary": "string",
    "problem": "string",
    "name": "string",
    "kind": "string",
    "dtype": "string",
    "layout": "string",
    "algorithm": "string",
    "m": "Int64",
    "n": "Int64",
    "k": "Int64",
    "batch": "Int64",
    "transpose": "string",
    "flops": "Int64",
}

_ENGINE = re.compile(r"(cpu|gpu)[:\d]*")
_DTYPE = r"undef|f64|f32|tf32|f16|bf16|f8_e5m2|f8_e4m3|e8m0|f4_e2m1|f4_e3m0|s64|s32|s16|s8|u8|s4|u4|boolean|bin"
# arg:f32:properties:kind:tag:strides:flags (3.x), arg_f32:properties:kind:tag:flags (1.x, 2.x, gemm_api)
_DESCRIPTOR = re.compile(
    rf"(?P<argument>\w+?)[_:](?P<dtype>{_DTYPE}):(?P<properties>[^:]*):(?P<kind>[^:]*):(?P<tag>[^:]*)(?::(?P<rest>.*))?"
)
_OLD_TYPED = re.compile(rf"(?P<argument>in|out):(?P<dtype>{_DTYPE})_(?P<tag>\w+)")  # reorders of 0.x
_OLD = re.compile(r"f(?P<argument>src|wei|bia|dst|data|diff|ws|stat):(?P<tag>\w+)")  # other primitives of 0.x
_OLD_ARGUMENTS = {"in": "src", "out": "dst"}
_ASIDE = re.compile(r"bias?|ws|workspace|scratchpad|stat\w*|\w+_iter\w*|diff_\w+")
_OLD_MATRICES = {"nc": "ab", "oi": "ab", "io": "ba"}
_DIMENSION = re.compile(r"(?<![a-z])([a-z]+)([0-9]{1,18})(?![0-9])")  # numbers that fit 64 bits
PROBLEM = re.compile(r"(?![a-z]+:)[\w:]*\d[\w:]*")
_SHAPE = re.compile(r"[0-9]{1,18}(x[0-9]{1,18}){1,11}")  # oneDNN has at most 12 dimensions

_KINDS = {
    "inner_product": "gemm",
    "matmul": "gemm",
    "gemm_api": "gemm",
    "gemm": "gemm",
    "brgemm": "gemm",
    "gated_mlp": "gemm",
    "pooling": "pooling",
    "softmax": "softmax",
    "logsoftmax": "softmax",
    "batch_normalization": "normalisation",
    "layer_normalization": "normalisation",
    "group_normalization": "normalisation",
    "lrn": "normalisation",
    "rnn": "recurrent",
    "binary": "elementwise",
    "sum": "elementwise",
    "resampling": "elementwise",
    "prelu": "activation",
    "concat": "copy",
    "zero_pad": "copy",
    "shuffle": "layout",
    "reduction": "reduction",
    "sdpa": "attention",
}
# functions of eltwise that no network uses as its activation
_ARITHMETIC = {"linear", "square", "abs", "sqrt", "exp", "log", "pow", "round"}
_CONVOLUTIONS = {
    "forward_training": "convolution forward",
    "forward_inference": "convolution forward",
    "forward": "convolution forward",
    "backward_data": "convolution data gradient",
    "backward_weights": "convolution weight gradient",
    "backward_bias": "convolution weight gradient",
}
# how an implementation computes, according to its name; the first match counts
_LEVELS = (
    (re.compile(r"wino"), "winograd"),
    (re.compile(r"brg"), "brgemm"),
    (re.compile(r"gemm"), "gemm"),
    (re.compile(r"^ref|[:_]ref\b"), "reference"),
    (re.compile(r"^simple"), "simple"),
    (re.compile(r"jit"), "jit"),
    (re.compile(r"^acl"), "acl"),
    (re.compile(r"^ocl"), "opencl"),
)
# products of a recurrent cell with its input, and with its state: one each per gate
_RNN_GATES = (("vanilla_rnn", 1), ("vanilla_lstm", 4), ("gru", 3), ("augru", 3))


@dataclass(frozen=True)
class _Operand:
    """One memory descriptor: the operand, its type, its layout and its strides."""

    argument: str
    dtype: str | None
    tag: str
    strides: str = ""


@dataclass(frozen=True)
class _Product:
    """A matrix product: m x k times k x n, `batch` times."""

    m: int
    n: int
    k: int
    batch: int
    transpose: str | None


def describe(body: str) -> dict[str, Any]:
    """Return the columns of a description; `primitive` is None if the fields match no known version."""
    fields = body.split(",")
    engine = fields.pop(0) if _ENGINE.fullmatch(fields[0]) else None
    if len(fields) == 6 and (engine is None or PROBLEM.fullmatch(fields[5])):
        fields.insert(4, "")  # 0.x and 1.0 have no attributes; later versions have six fields if the duration is missing
    if len(fields) != 7 or not re.fullmatch(r"\w+", fields[0]):
        return dict.fromkeys(COLUMNS)
    name, implementation, propagation, memory, attributes, auxiliary, problem = fields
    if problem.isdecimal() and PROBLEM.fullmatch(auxiliary):  # the whole part of a time with a decimal comma
        return dict.fromkeys(COLUMNS)
    operands = _operands(memory)
    algorithm = auxiliary.removeprefix("alg:").split(" ")[0] if auxiliary.startswith("alg:") else ""
    level = next((text for pattern, text in _LEVELS if pattern.search(implementation)), "")
    base = re.sub(r"_v\d+$", "", name)
    product = _product(base, propagation, operands, problem)
    return {
        "engine": engine,
        "primitive": name,
        "implementation": implementation or None,
        "propagation": propagation,
        "memory": memory,
        "attributes": attributes or None,
        "auxiliary": auxiliary or None,
        "problem": problem,
        "name": f"{name} {implementation}".strip(),
        "kind": _kind(base, propagation, operands, algorithm),
        "dtype": _dtype(base, operands),
        "layout": ", ".join(_layouts(operands)) or None,
        "algorithm": _algorithm(base, algorithm, level) or None,
        "m": product and _fitting(product.m),
        "n": product and _fitting(product.n),
        "k": product and _fitting(product.k),
        "batch": product and _fitting(product.batch),
        "transpose": product and product.transpose,
        "flops": _fitting(_flops(base, propagation, auxiliary, problem, product)),
    }


def _fitting(number: int | None) -> int | None:
    """Return the number, or None if it does not fit 64 bits, which only damaged lines cause."""
    return number if number is not None and number < 2**63 else None


def _operands(memory: str) -> list[_Operand]:
    """Return the operands that are present, in the order printed."""
    result = []
    for text in memory.split():
        if match := _DESCRIPTOR.fullmatch(text):
            if match["dtype"] == "undef" or match["kind"] == "undef":
                continue
            rest = (match["rest"] or "").split(":")
            strides = rest[0] if len(rest) > 1 else ""  # a single remaining field is the flags
            result.append(_Operand(match["argument"], match["dtype"], match["tag"] or match["kind"], strides))
        elif match := _OLD_TYPED.fullmatch(text):
            result.append(_Operand(_OLD_ARGUMENTS[match["argument"]], match["dtype"], match["tag"]))
        elif match := _OLD.fullmatch(text):
            result.append(_Operand(match["argument"], None, match["tag"]))
    return result


def _kind(primitive: str, propagation: str, operands: list[_Operand], algorithm: str) -> str:
    if primitive in ("convolution", "deconvolution"):
        return _CONVOLUTIONS.get(propagation, "unknown")
    if primitive == "eltwise":
        function = algorithm.removeprefix("eltwise_").removesuffix("_use_dst_for_bwd")
        return "elementwise" if function in _ARITHMETIC else "activation"
    if primitive == "reorder":
        source, target = _ends(operands)
        if source is None or target is None:
            return "layout"
        if source.dtype != target.dtype:
            return "cast"
        return "copy" if (source.tag, source.strides) == (target.tag, target.strides) else "layout"
    return _KINDS.get(primitive, "unknown")


def _ends(operands: list[_Operand]) -> tuple[_Operand | None, _Operand | None]:
    """Return a reorder's source and destination."""
    source = next((operand for operand in operands if operand.argument.startswith("src")), None)
    target = next((operand for operand in operands if operand.argument.startswith("dst")), None)
    return source, target


def _dtype(primitive: str, operands: list[_Operand]) -> str | None:
    typed = [operand for operand in operands if operand.dtype]
    if not typed:
        return None
    source, target = _ends(typed)
    if primitive == "reorder" and source and target and source.dtype != target.dtype:
        return f"{source.dtype} to {target.dtype}"
    return typed[0].dtype


def _layouts(operands: list[_Operand]) -> list[str]:
    """Return the layouts worth showing, those of the main operands; a gradient has the layout of its operand."""
    shown = [operand for operand in operands if not _ASIDE.fullmatch(operand.argument) and operand.tag != "x"]
    return [f"{operand.argument} {operand.tag}" + (" strided" if operand.strides else "") for operand in shown]


def _algorithm(primitive: str, algorithm: str, level: str) -> str:
    """Return how the primitive computes; a convolution's "direct" only means "not Winograd", so the level comes first."""
    if primitive in ("convolution", "deconvolution"):
        if "winograd" in algorithm or level == "winograd":
            return "winograd"
        direct = {"jit": "direct", "": "direct"}
        return direct.get(level, level if level in ("gemm", "brgemm") else f"direct, {level}")
    function = algorithm.removeprefix(primitive + "_")
    return ", ".join(text for text in (function, level) if text)


def _product(primitive: str, propagation: str, operands: list[_Operand], problem: str) -> _Product | None:
    if primitive == "inner_product":
        return _inner_product(propagation, operands, problem)
    if primitive in ("matmul", "gemm_api", "gemm", "brgemm"):
        return _matmul(operands, problem)
    return None


def _matmul(operands: list[_Operand], problem: str) -> _Product | None:
    """Read AxB:BxC, with batch dimensions in front and perhaps the result's shape behind, or b1m2n3k4 of early versions."""
    sides = problem.split(":")
    tags = {operand.argument: operand for operand in operands}
    flags = [_flag(tags.get("src")), _flag(tags.get("wei"))]
    transpose = "".join(flag for flag in flags if flag) if all(flags) else None
    if len(sides) >= 2 and all(_SHAPE.fullmatch(side) for side in sides[:2]):
        left, right = ([int(size) for size in side.split("x")] for side in sides[:2])
        if left[-1] != right[-2]:
            return None
        batch = math.prod(max(sizes) for sizes in zip(left[:-2], right[:-2], strict=False))
        return _Product(left[-2], right[-1], left[-1], batch, transpose)
    sizes = _sizes(problem)
    if {"m", "n", "k"} <= sizes.keys():
        return _Product(sizes["m"], sizes["n"], sizes["k"], sizes.get("b", sizes.get("mb", 1)), transpose)
    return None


def _inner_product(propagation: str, operands: list[_Operand], problem: str) -> _Product | None:
    """Read mb64ic400oc120: forward is src (mb, ic) times wei (oc, ic) transposed, and the gradients follow from it."""
    sizes = _sizes(problem)
    if not {"mb", "ic", "oc"} <= sizes.keys():
        return None
    rows, outputs = sizes["mb"], sizes["oc"]
    inputs = sizes["ic"] * sizes.get("id", 1) * sizes.get("ih", 1) * sizes.get("iw", 1)
    tags = {operand.argument.removeprefix("diff_"): operand for operand in operands}
    src, wei, dst = (_flag(tags.get(name)) for name in ("src", "wei", "dst"))
    if propagation == "backward_data":
        return _Product(rows, inputs, outputs, 1, _pair(dst, wei))
    if propagation.startswith("backward"):
        return _Product(outputs, inputs, rows, 1, _pair(_other(dst), src))
    return _Product(rows, outputs, inputs, 1, _pair(src, _other(wei)))


def _pair(left: str | None, right: str | None) -> str | None:
    return left + right if left and right else None


def _other(flag: str | None) -> str | None:
    return {"N": "T", "T": "N", None: None}[flag]


def _flag(operand: _Operand | None) -> str | None:
    """Return N if the operand's matrices are row-major, T if column-major, None if it is blocked or absent.

    A layout names the dimensions from the slowest to the fastest: acb is a stack of column-major matrices.
    """
    if operand is None:
        return None
    tag = _OLD_MATRICES.get(operand.tag, operand.tag)
    if not re.fullmatch(r"[a-z]{2,}", tag):
        return None
    row, column = sorted(tag)[-2:]
    return {column: "N", row: "T"}.get(tag[-1])


def _sizes(problem: str) -> dict[str, int]:
    """Return the named dimensions of a problem such as mb64_ic1oc6_ih28oh28kh5sh1dh0ph2."""
    return {name: int(size) for name, size in _DIMENSION.findall(problem)}


def _flops(primitive: str, propagation: str, auxiliary: str, problem: str, product: _Product | None) -> int | None:
    if product is not None:
        return 2 * product.batch * product.m * product.n * product.k
    sizes = _sizes(problem)
    if primitive in ("convolution", "deconvolution") and {"mb", "ic", "oc"} <= sizes.keys():
        side = "o" if primitive == "convolution" else "i"
        points = math.prod(sizes.get(side + axis, 1) for axis in "dhw")
        window = math.prod(sizes.get("k" + axis, 1) for axis in "dhw")
        return 2 * sizes["mb"] * sizes["ic"] * sizes["oc"] // sizes.get("g", 1) * points * window
    if primitive == "rnn" and {"l", "t", "mb", "sic", "slc", "dhc"} <= sizes.keys():
        gates = next((count for cell, count in _RNN_GATES if f"{cell} " in auxiliary + " "), None)
        directions = 2 if "bidirectional" in auxiliary else 1
        cells = sizes["l"] * sizes["t"] * sizes["mb"] * directions * sizes["dhc"] * (sizes["sic"] + sizes["slc"])
        passes = 1 if propagation.startswith("forward") else 2  # gradients of the inputs and of the weights
        return 2 * gates * cells * passes if gates else None
    return None
