"""What a node of an ONNX graph computes, by its name, its operator, its execution provider and its tensors.

ONNX Runtime's optimizer names a fused node after the last operator in it: Conv + BatchNormalization + Relu may be
"/layer1/relu/Relu_nchwc". It numbers what it puts in itself (ReorderInput, ReorderOutput_token_5). Exporters write the path of
the module before the operator: "/layer1/conv1/Conv", "model/dense/MatMul".
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import msgspec

from kernelscope.analysis.kernels import classify

CPU = "CPUExecutionProvider"
_ENDING = "ExecutionProvider"
_KINDS = (
    (r"conv(?!ert)", "convolution forward"),
    (r"gemm|matmul", "gemm"),
    (r"^(dynamicquantize)?(lstm|gru|rnn)$", "recurrent"),
    (r"attention", "attention"),
    (r"normalization", "normalisation"),
    (r"pool", "pooling"),
    (r"^(relu|tanh|sigmoid)$|gelu", "activation"),
    (r"softmax", "softmax"),
    (r"^reorder|^transpose$", "layout"),
    (r"^(reshape|flatten|squeeze|unsqueeze|concat|split|slice|expand|shape|identity)$", "copy"),
    (r"^(memcpy(from|to)host|constant(ofshape)?|size|nonzero|compress|trilu)$", "copy"),
    (r"^gather", "embedding"),
    (r"^(qlinear)?(add|mul|sub|div|sum)$", "elementwise"),
    (r"^(resize|gridsample|affinegrid|isnan|dft)$", "elementwise"),
    (r"^(cumsum|cumprod|nonmaxsuppression)$", "reduction"),
    (r"^roialign$", "pooling"),
)
# Names that providers give to a part of the graph that they compile and run as one node
_COMPILED = re.compile(
    r"^TRTKernel_|^(?:Dml)?FusedNode|^DmlFused|subgraph|^(?:CoreML|NNAPI|QNN|OpenVINO|MIGraphX|MGXKernel|VitisAI|WebNN|DNNL)_",
    re.IGNORECASE,
)
# Types that contain the nodes of other graphs
CONTROL = ("If", "Loop", "Scan", "SequenceMap")
_MLAS = re.compile("conv|gemm|matmul|^(lstm|gru)$|attention|pool|^reorder|^(relu|tanh|sigmoid)$|gelu|softmax", re.IGNORECASE)
_TYPES = {"float": "f32", "float16": "f16", "bfloat16": "bf16", "double": "f64", "int64": "s64", "int32": "s32", "bool": "bool"}
_LIBRARIES = {"Dnnl": "onednn", "MKLDNN": "onednn", "CUDA": None, "ROCM": None, "Dml": "directml"}
_PUT_IN = re.compile(r"^(?:ReorderInput|ReorderOutput|Memcpy(?:FromHost|ToHost)?|InsertedCast)\w*$")
# Before the names of nodes of float16 that compute in float32, and of the casts around them
CAST_IN = "InsertedPrecisionFreeCast_"
_OPTIMISED = re.compile(
    r"(?:_nchwc|_nhwc)(?:_token_\d+)?$|^fused |^(?:Reorder(?:Input|Output)|Fused\w+)(?:_token_\d+)?$", re.IGNORECASE
)
# The optimizer's pass that made a node, behind the name of a node that it replaced: fc/MatMulAddFusion, norm/LayerNormFusion/
_BY_PASS = re.compile(r"/[A-Z][A-Za-z0-9]*Fusion/?(?:_\d+|_token_\d+|_quant(?:ized)?)*$")
# What the optimizer appends, and the tensor's ending where it names a node after its result
_ADDED = re.compile(r"_nchwc$|_token_\d+$|_nhwc$|_quant(?:ized)?$|_output_\d+$")
_OPERATOR_PART = re.compile(r"[A-Z][A-Za-z0-9]*(?:_\d+)?")
_ROOT = ("StatefulPartitionedCall", "PartitionedCall", "")

Tensors = Sequence[tuple[str, Sequence[int]]]
_SHAPES = msgspec.json.Decoder(list[dict[str, list[int]]])


class Described(NamedTuple):
    """What a node computes: columns of the Trace's kernels, None where unknown. m, n, k: of products, if shapes are known."""

    kind: str
    library: str | None
    dtype: str | None
    layout: str | None
    problem: str | None
    m: int | None
    n: int | None
    k: int | None


def described(name: str, operator: str, inputs: Tensors, outputs: Tensors, provider: str = CPU) -> Described:
    """Return what a node computes. name: the node's; inputs, outputs: (type, sizes) of its tensors, as `tensors` returns them."""
    kind = node_kind(operator)
    product = kind == "gemm" and inputs and outputs and inputs[0][1] and outputs[0][1]
    m, n, k = (prod(outputs[0][1][:-1]), outputs[0][1][-1], inputs[0][1][-1]) if product else (None, None, None)
    return Described(
        kind=kind,
        library=_library(operator, provider),
        dtype=_TYPES.get(outputs[0][0], outputs[0][0]) if outputs else None,
        layout="nchwc" if name.endswith("_nchwc") else None,
        problem=":".join("x".join(map(str, shape)) for _, shape in [*inputs, *outputs[:1]] if shape) or None,
        m=m,
        n=n,
        k=k,
    )


def tensors(given: Any) -> list[tuple[str, list[int]]]:
    """Return (type, sizes) of tensors, which the profile writes as [{"float": [4, 6, 28, 28]}, ...]."""
    return [(kind, [int(size) for size in sizes]) for tensor in given for kind, sizes in tensor.items()]


def tensors_of(text: str | None) -> list[tuple[str, list[int]]]:
    """Return (type, sizes) of tensors from their JSON text; none if it is null or of another form."""
    try:
        return tensors(_SHAPES.decode(text)) if text else []
    except msgspec.DecodeError:
        return []


def as_json(given: Tensors) -> tuple[str | None, str | None]:
    """Return the sizes and the types of tensors as JSON texts, None without tensors."""
    if not given:
        return None, None
    return json.dumps([list(sizes) for _, sizes in given]), json.dumps([kind for kind, _ in given])


@cache
def node_kind(operator: str) -> str:
    """Return the kind (one of analysis.trace.KINDS) of a node by its operator's type."""
    if is_compiled(operator):
        return "fused"
    match = next((kind for sign, kind in _KINDS if re.search(sign, operator.lower())), None)
    return match or classify.operator_kind(operator, "forward")


def path(name: str, operator: str) -> str | None:
    """Return the layer that a node's name tells: the path before the operator, or the whole name if it has none.

    A part of a graph that a provider compiled is one layer. None for what ONNX Runtime put in itself, and without a name.
    """
    bare = name
    while (shorter := _ADDED.sub("", bare)) != bare:
        bare = shorter
    bare = bare.removeprefix("fused ")
    if not bare or _PUT_IN.match(bare) or (bare.startswith(CAST_IN) and operator == "Cast"):
        return None
    bare = bare.removeprefix(CAST_IN)
    if is_compiled(operator):
        return operator
    parts = [part for part in bare.split("/") if part not in _ROOT]
    last = parts[-1] if parts else ""
    if len(parts) > 1 and (_OPERATOR_PART.fullmatch(last) or last.lower() == operator.lower()):
        parts.pop()
    return "/".join(parts) or None


@cache
def is_optimised(name: str, operator: str) -> bool:
    """Return whether a node is one that ONNX Runtime's optimizer fused, or put into its own layout."""
    return _BY_PASS.search(name) is not None or any(_OPTIMISED.search(text) for text in (name, operator))


@cache
def is_compiled(operator: str) -> bool:
    """Return whether a node is a part of the graph that a provider compiled: what nodes it was is not to be seen."""
    return _COMPILED.search(operator) is not None


@cache
def is_inserted_cast(name: str) -> bool:
    """Return whether ONNX Runtime put a cast in, as it computes nodes of float16 in float32."""
    return name.startswith(CAST_IN)


def _library(operator: str, provider: str) -> str | None:
    if provider == CPU:
        return "mlas" if _MLAS.search(operator) else "onnxruntime"
    bare = provider.removesuffix(_ENDING)
    return _LIBRARIES.get(bare, bare.lower() or None)
