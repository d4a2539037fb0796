"""Theano: the nodes of its functions as its profile timed them, and numpy's OpenBLAS calls inside them.

Theano's profile records how long nodes ran, not when. They run in order in one thread. The hooks place them between those nodes
that call OpenBLAS, whose times are known; the other nodes' times are uncertain by a few microseconds each.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernelscope.analysis.attribution.frameworks import Context, Evidence, timed

_KINDS = (
    (r"^CorrMM_gradWeights|^AbstractConv2d_gradWeights", "convolution weight gradient"),
    (r"^CorrMM_gradInputs|^AbstractConv2d_gradInputs", "convolution data gradient"),
    (r"^CorrMM\{|^AbstractConv2d\{", "convolution forward"),
    (r"^(?:Dot22|Gemm|Gemv|Ger|BatchedDot)", "gemm"),
    (r"Softmax", "softmax"),
    (r"Pool", "pooling"),
    (r"^mrg_|^RandomFunction|^GPUA_mrg", "random"),
    (r"^Sum|^Max|^Argmax|^CAReduce|^MaxAndArgmax", "reduction"),
    (r"^(?:Inplace)?DimShuffle|^Shape|^MakeVector|^ScalarFromTensor|^TensorFromScalar|^Rebroadcast", "copy"),
    (r"^(?:Inc|Advanced)?(?:Inc)?Subtensor|^Alloc|^Reshape|^Join|^Split|^DeepCopy", "copy"),
    (r"^Elemwise\{Cast", "cast"),
    (r"^Elemwise\{(?:Composite\{)?.*(?:tanh|sigm|abs|maximum|Switch|sqr\(i2\))", "activation"),
    (r"^Elemwise", "elementwise"),
)


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if one of its files cannot be read."""
    result = timed.read(folder, "theano", kind_of, "operator name", context)
    result.unavailable["starts of operators"] = "Theano's profile has only the nodes' durations; they are placed in their order"
    return result


def kind_of(name: str) -> str | None:
    """Return the kind of a Theano operator by its text, such as Elemwise{Composite{tanh((i0 + i1))}}[(0, 0)]."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, name)), None)
