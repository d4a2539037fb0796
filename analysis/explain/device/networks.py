"""Whether engines of TensorRT hold one network, by the names of their layers.

TensorRT's own words are in all engines, and exporters number operators by their types, so that Conv_3 is in most networks. What
else is in a name is the program's.
"""

from __future__ import annotations

import re

from kernelscope.analysis.explain.device.alignment import hardly_alike
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase
from kernelscope.analysis.explain.device.side import DeviceSide

_NAMED = 0.5  # of the time of each side: layers with a word of the program's
_LONGEST = 4096  # characters of a name that are looked at
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+|_\d+)*_\d+|\d+")
_TENSORRTS = re.compile(
    r"reformatting|copynode|reformatter|foreignnode|pwn|unnamed|layer|tensor|network|input|output|for|from|to|nvm|data|finish|copy"
    r"|(?:host|device)to(?:shape)?(?:host|device)copy|shapehosttodevicecopy|shape|shuffle|constant|onnx|onnxtrt\w*|weights?|bias"
)
_TYPES = re.compile(
    r"add|sub|mul|div|pow|sqrt|exp|erf|min|max|clip|cast|where|identity|relu|leakyrelu|prelu|gelu|silu|sigmoid|tanh|softmax|conv"
    r"|convtranspose|gemm|matmul|linear|einsum|concat|split|slice|gather|pad|tile|expand|flatten|reshape|transpose|squeeze|unsqueeze"
    r"|resize|upsample|topk|mean|sum|reduce\w+|\w*norm|\w*normalization|\w*pool|\w*quantize\w*"
)


def is_engine(side: DeviceSide) -> bool:
    """Return whether a side is an engine of TensorRT."""
    return side.facts.get("framework") == "tensorrt"


def differ(case: DeviceCase) -> str | None:
    """Return a sentence if both sides are engines of TensorRT whose layers have hardly a word of the program's in common."""
    rows = case.all_kernels()
    if not all(map(is_engine, (case.a, case.b))) or any(map(case.is_cut, SIDES)) or rows.empty:
        return None
    said = rows["name"].map(_words)
    own = rows[said.map(bool).to_numpy(bool)]
    named = [float(own[f"{key}_ns"].sum()) / max(float(rows[f"{key}_ns"].sum()), 1.0) for key in SIDES]
    shared, hardly = hardly_alike(rows, said)
    if min(named) < _NAMED or (shared and not hardly):
        return None
    return f"{'hardly a' if shared else 'no'} layer of A has a name like one of B's: these seem to be different networks"


def _words(name: object) -> frozenset[str]:
    """Return the program's own words in a layer's name."""
    found = {word.lower() for word in _WORD.findall(str(name)[:_LONGEST]) if not _NUMBERED.fullmatch(word)}
    return frozenset(word for word in found if not _TENSORRTS.fullmatch(word) and not _TYPES.fullmatch(word))
