"""Theano: the nodes of its functions as its profile timed them, and numpy's calls of OpenBLAS inside of them.

Theano's profile keeps how long nodes ran, not when (see the hooks). They run in order in one thread, so what is uncertain is a
few microseconds at each; a call of OpenBLAS, which has its own times, belongs to the product nearest to it, and is cut to it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from kernelscope.analysis.evidence import Context, Evidence, timed

_PRODUCTS = r"^(?:Dot22|Gemm|Gemv|Ger|CorrMM|BatchedDot)"  # operators that multiply matrices
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
    """Return operators and kernels of a kernels pass; raises EvidenceError when a file of it cannot be read."""
    found = timed.read(folder, "theano", kind_of, "operator name", context, fit=_in_products)
    found.unavailable["starts of operators"] = "Theano's profile keeps how long nodes ran; they are laid out in their order"
    return found


def kind_of(name: str) -> str | None:
    """Return the kind of a Theano operator by its text, such as Elemwise{Composite{tanh((i0 + i1))}}[(0, 0)]."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, name)), None)


def _in_products(calls: pd.DataFrame, operators: pd.DataFrame) -> pd.DataFrame:
    """Return the calls inside of the operators that multiply matrices: each in the one whose middle is nearest."""
    products = operators[operators["name"].str.contains(_PRODUCTS)].sort_values("start_ns")
    if products.empty or calls.empty:
        return calls.iloc[:0]
    start, end = (products[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    first, last = (calls[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    middle = (first + last) // 2
    before = np.maximum(np.searchsorted(start, middle, side="right") - 1, 0)
    after = np.minimum(before + 1, len(start) - 1)
    nearer = np.abs(start[after] - middle) < np.maximum(middle - end[before], 0)
    own = np.where(nearer, after, before)
    latest = np.maximum(end[own] - 1, start[own])  # what begins at an operator's end is no longer in it
    return calls.assign(start_ns=np.clip(first, start[own], latest), end_ns=np.clip(last, start[own], end[own]))
