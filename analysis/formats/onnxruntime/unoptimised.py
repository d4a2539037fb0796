"""Nodes that show that ONNX Runtime did not optimise the graph of a profile."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.formats.onnxruntime import first_run, nodes
from kernelscope.analysis.trace import Trace

Bool = npt.NDArray[np.bool_]

LEVEL = "sess_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL"
# Nodes that the optimizer puts into a convolution before them; not Sigmoid, whose product with its input is no such node
_LEFT = ("Relu", "BatchNormalization", "LeakyRelu", "Clip")
_MOST = 0.5  # of the convolutions: fewer followers may be those of tensors that are used twice


def left_over(trace: Trace) -> pd.DataFrame:
    """Return the nodes of processors, of runs if there are any, that the optimizer would have fused or removed.

    None if a node shows that it ran. They are activations and normalisations right behind a convolution, and pairs of
    transpositions that cancel each other.
    """
    kernels = executed(trace)
    if not can_tell(trace):
        return kernels.iloc[:0]
    names, operators = (kernels[column].astype("string").fillna("") for column in ("name", "operator"))
    if any(nodes.is_optimised(*pair) for pair in set(zip(names, operators, strict=True))):
        return kernels.iloc[:0]
    following = _behind_convolutions(kernels, operators)
    followed, convolutions = int(following.sum()), int((operators == "Conv").sum())
    if followed < _MOST * convolutions:
        following[:] = False
    return kernels[following | _cancelling(kernels, operators)]


def can_tell(trace: Trace) -> bool:
    """Return whether such nodes would show: other providers fuse nodes by themselves, or only queue them."""
    providers = (trace.info.get("settings") or {}).get("providers", nodes.CPU)  # older versions do not write them
    return first_run.is_profile(trace) and providers == nodes.CPU


def executed(trace: Trace) -> pd.DataFrame:
    """Return the nodes that compute on processors, of measured runs if there are runs."""
    if trace.steps.empty:
        return trace.kernels
    measured = trace.steps.loc[~trace.steps["warmup"].to_numpy(bool), "step"]
    return trace.kernels[trace.kernels["step"].isin(measured).to_numpy(bool)]


def _behind_convolutions(kernels: pd.DataFrame, operators: pd.Series) -> Bool:
    """Return which nodes come right behind a convolution, or behind such a node, and take what it gives."""
    given, taken = _shapes(kernels)
    fits = (given.shift() == taken).fillna(False) | given.shift().isna() | taken.isna()
    left = operators.isin(_LEFT) & fits & _same_thread(kernels)
    first = left & (operators.shift() == "Conv").fillna(False)
    second = left & first.shift(fill_value=False) & (operators != operators.shift())
    return (first | second).to_numpy(dtype=bool, copy=True)


def _cancelling(kernels: pd.DataFrame, operators: pd.Series) -> Bool:
    """Return which nodes are transpositions that the next one takes back. Sizes that are equal do not show where axes went."""
    given, taken = _shapes(kernels)
    axes = taken.str.split("x")
    distinct = axes.map(lambda sizes: isinstance(sizes, list) and len(set(sizes)) == len(sizes)).astype(bool)
    moved = (operators == "Transpose") & distinct & (given != taken).fillna(False)
    second = moved & moved.shift(fill_value=False) & (taken == given.shift()).fillna(False) & _same_thread(kernels)
    second &= (given == taken.shift()).fillna(False)
    return (second | second.shift(-1, fill_value=False)).to_numpy(dtype=bool)


def _shapes(kernels: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the sizes of each node's result and of its first input, as AxBxC; null where the profile does not give them."""
    first = kernels["problem"].astype("string").str.extract(r"^([\dx]+):")[0]
    last = kernels["problem"].astype("string").str.extract(r":([\dx]+)$")[0]
    return last, first


def _same_thread(kernels: pd.DataFrame) -> pd.Series:
    """Return which nodes ran on the thread, and in the run, of the node before them."""
    keys = kernels[["thread", "step"]].astype("Int64").fillna(-1)
    return (keys == keys.shift()).all(axis=1)
