"""The kind of a layer by its name in an engine.

TensorRT joins the names of what it fuses: with " + " what runs in succession, with " || " what runs side by side. PWN(...) is
pointwise work, braces enclose what another compiler (Myelin) or the DLA runs as one. Names are the program's: they count only
where they are types of operators, as exporters of ONNX name nodes, or end with the plain word for one.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.kernels.classify import UNKNOWN, operator_kind
from kernelscope.analysis.trace import MAIN

_REFORMAT = re.compile(r"Reformatting CopyNode for .+|.+ (?:in|out)put reformatter \d+")
_COPY = re.compile(
    r"\[?(?:Shape)?(?:Host|Device)To(?:Shape)?(?:Host|Device)Copy\b.*|copied_.*|.* copy|.*_copy_(?:in|out)put|.* (?:to|from) nvm"
)
_OF_THE_DLA = re.compile(r".* (?:to|from) nvm|data copy finish|.* finish")  # of TensorRT 5 to 7
_NODE_OF_THE_DLA = re.compile(r"\{(?!ForeignNode\[).*\}?")
_AFTER = re.compile(r"(?:reshape|squeeze|unsqueeze)(?:_node)?_after_.*")
_COMPILED = re.compile(r"\{.*\}?|__my[el]\w*")
_OF_MYELIN = re.compile(r"_my[el]\w*\d+_\d+$")
_KERNEL = re.compile(r"(?:sm\d+|ampere|turing|volta|hopper)_\w+|\w*_mha_v\d\w*|cu(?:dnn|blas)\w*|void .*")  # named by its kernel
_UNNAMED = re.compile(r"\(Unnamed Layer\* ?\d+\) \[(?P<type>[\w ]+)\]")
_POINTWISE = re.compile(r"PWN\(")
_NO_WORK = re.compile(r".*[._](?:weights?|bias|gamma|beta)|onnx::.*|\(Unnamed Layer\* ?\d+\) \[(?:Constant|Shape)\]")
# Conv_12, MatMul, CONVOLUTION_0
_TYPE = re.compile(r"[A-Z][A-Za-z]*[a-z][A-Za-z0-9]*(?:_\d+)*|[A-Z]+(?:_[A-Z]+)*_\d+|(?:Deq|Q)uantizeLinear_\w+")
_SMALL = frozenset({"elementwise", "activation", "cast"})
# Types of TensorRT's layers without a name of their own, in lower case without spaces
_TYPES = {
    "convolution": "convolution forward", "deconvolution": "convolution forward", "fullyconnected": "gemm",
    "matrixmultiply": "gemm", "einsum": "gemm", "activation": "activation", "pooling": "pooling", "lrn": "normalisation",
    "normalization": "normalisation", "scale": "elementwise", "softmax": "softmax", "raggedsoftmax": "softmax",
    "elementwise": "elementwise", "unary": "elementwise", "select": "elementwise", "resize": "elementwise",
    "concatenation": "copy", "padding": "copy", "slice": "copy", "shuffle": "layout", "reduce": "reduction",
    "topk": "reduction", "gather": "embedding", "rnn": "recurrent", "rnnv2": "recurrent", "cast": "cast", "quantize": "cast",
    "dequantize": "cast",
}  # fmt: skip
# Last words of names that programs give
_WORDS = {
    "conv": "convolution forward", "deconv": "convolution forward", "convolution": "convolution forward", "relu": "activation",
    "sigmoid": "activation", "tanh": "activation", "softmax": "softmax", "pool": "pooling", "maxpool": "pooling",
    "avgpool": "pooling", "pooling": "pooling", "bn": "normalisation", "batchnorm": "normalisation", "upsample": "elementwise",
}  # fmt: skip
_MOSTLY = 0.5  # of the time
_LONGEST = 4096  # characters of a name that are looked at


def of(names: pd.Series) -> pd.Series:
    """Return the kinds of layers by their names, aligned with them; null where the name is a kernel's, which has its own rules.

    Where a DLA computes, the time until it is done counts as that of a layer after it, which TensorRT calls a reformatter: then
    it is unknown what those do.
    """
    codes, distinct = pd.factorize(names.astype("string"))
    texts = [str(name)[:_LONGEST] for name in distinct]
    waits = any(map(_OF_THE_DLA.fullmatch, texts))
    found = [UNKNOWN if waits and _REFORMAT.fullmatch(text) else _kind(text) for text in texts]
    return pd.Series(pd.array(found, dtype="string").take(codes), index=names.index)


def dla(names: pd.Series) -> dict[str, list[str]]:
    """Return the layers of a DLA: which "computes", which "waits" until it is done, and those of the "exchange" with it.

    names: in order of execution. They are known by the names that TensorRT gives to the exchange; empty without such names.
    What runs after a layer of the DLA's, or what copies from its memory, waits for it.
    """
    texts = [str(name)[:_LONGEST] for name in names]
    if not any(map(_OF_THE_DLA.fullmatch, texts)):
        return {}
    result: dict[str, list[str]] = {"computes": [], "waits": [], "exchange": []}
    started = False
    for name, text in zip(names, texts, strict=True):
        if _NODE_OF_THE_DLA.fullmatch(text):
            result["computes"].append(str(name))
            started = True
        elif started and (_REFORMAT.fullmatch(text) or text.endswith(" from nvm")):
            result["waits"].append(str(name))
            started = False
        elif _OF_THE_DLA.fullmatch(text):
            result["exchange"].append(str(name))
        else:
            started = False
    return result


def compiled(names: pd.Series, took: npt.NDArray[np.float64]) -> str | None:
    """Return a sentence if most of the time is in blocks of layers that another compiler runs as one; None if not."""
    blocks = names.astype("string").str.startswith("{ForeignNode[").fillna(False).to_numpy(bool)
    share = took[blocks].sum() / max(took.sum(), 1.0)
    if share < _MOSTLY:
        return None
    number = int(blocks.sum())
    which = "one block" if number == 1 else f"{number} blocks"
    return (
        f"{share:.0%} is in {which} of layers that were compiled into one (ForeignNode): nsys profile trtexec ... shows the "
        "kernels inside, --profilingVerbosity=detailed --dumpLayerInfo the layers"
    )


def _kind(name: str) -> str | None:
    """Return the kind of a layer; None for a kernel's name."""
    if _REFORMAT.fullmatch(name):
        return "layout"
    if _COPY.fullmatch(name) or _AFTER.fullmatch(name):
        return "copy"
    if _KERNEL.fullmatch(name):
        return None
    if _COMPILED.fullmatch(name):
        return "fused"
    found = {_kind_of_part(part) for part in _parts(_OF_MYELIN.sub("", name)) if not _NO_WORK.fullmatch(part)}
    main = found & set(MAIN)
    if main or not found or UNKNOWN in found:
        return UNKNOWN if len(main) != 1 else main.pop()
    special = found - _SMALL
    if not special:
        return found.pop() if len(found) == 1 else "elementwise"
    return special.pop() if len(special) == 1 else "fused"


def _parts(name: str) -> list[str]:
    """Return the names that TensorRT joined, without those within parentheses of pointwise work."""
    result, depth, start = [], 0, 0
    for match in re.finditer(r"PWN\(|[()]| (?:\+|\|\|) ", name):
        mark = match[0]
        depth += mark.endswith("(") - (mark == ")")
        if depth <= 0 and mark[0] == " ":
            result.append(name[start : match.start()])
            start = match.end()
    return [*result, name[start:]]


def _kind_of_part(part: str) -> str:
    if _POINTWISE.match(part):
        return "elementwise"
    if unnamed := _UNNAMED.fullmatch(part):
        return _TYPES.get(unnamed["type"].replace(" ", "").lower(), UNKNOWN)
    last = next((piece for piece in reversed(re.split(r"[/.]", part.partition(":")[0])) if piece and not piece.isdigit()), "")
    if last.isupper() and _TYPE.fullmatch(last):  # TensorRT-LLM names layers by their types, and says which elementwise one it is
        mark = re.sub(r"[_\d]", "", last).lower()
        return next((kind for name, kind in _TYPES.items() if mark.startswith(name)), UNKNOWN)
    if _TYPE.fullmatch(last):
        return operator_kind(last)
    words = [word for word in re.findall(r"[a-z]+", last.removesuffix("_fwd").lower().replace("2d", "")) if word]
    return _WORDS.get(words[-1], UNKNOWN) if words else UNKNOWN
