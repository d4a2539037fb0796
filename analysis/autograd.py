"""PyTorch's operators on their threads' stacks: which compute by themselves, which run backward, and for which forward operator.

Tables of operators have name, start_ns, end_ns, thread, sequence, forward_thread, shapes, types (the last four as the profiler
writes them, null where it does not) and parent: the row of the innermost operator that called each, or -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.classify import operator_kind
from kernelscope.analysis.evidence import aten

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

ENGINE = "autograd::engine::evaluate_function"


def owners(chosen: Bool, parent: Int) -> Int:
    """Return for each operator the innermost chosen one that it runs in, itself included; -1 without."""
    owner = np.where(chosen, np.arange(len(chosen)), -1)
    up = np.where(chosen, -1, parent)
    while (pending := np.flatnonzero(up >= 0)).size:
        above = up[pending]
        owner[pending] = np.where(chosen[above], above, -1)
        up[pending] = np.where(chosen[above], -1, parent[above])
    return owner


def backward_sequence(operators: pd.DataFrame) -> pd.Series:
    """Return for each operator the sequence number of the backward function that it runs in; null in other phases."""
    starts = (operators["forward_thread"].fillna(0) > 0).to_numpy()
    owner = owners(starts, operators["parent"].to_numpy())
    return operators["sequence"].take(np.maximum(owner, 0)).where(owner >= 0).reset_index(drop=True)


def in_backward(operators: pd.DataFrame) -> Bool:
    """Return which operators run in a backward function or in the engine's work around one."""
    engine = of_text(operators["name"], lambda name: name.startswith(ENGINE) or None).notna().to_numpy()
    starts = engine | (operators["forward_thread"].fillna(0) > 0).to_numpy()
    return owners(starts, operators["parent"].to_numpy()) >= 0


def computing_operators(operators: pd.DataFrame, holding: Int) -> pd.DataFrame:
    """Return as kernels the operators that compute by themselves and hold no library's primitive.

    holding: rows of operators in which a primitive ran. An operator computes by itself when its name may and it calls at
    most views, allocation and fills; a fill is part of such a caller.
    """
    parent = operators["parent"].to_numpy()
    names = operators["name"].astype("object")
    holds = _with_ancestors(holding, parent)
    minor = names.isin(aten.COMPUTE_NOTHING | aten.FILLS | aten.ALLOCATE_AND_FILL).to_numpy()
    calls_others = np.zeros(len(operators), dtype=bool)
    calls_others[parent[~minor & (parent >= 0)]] = True
    possible = names.map({name: aten.may_compute(name) for name in names.unique()}).to_numpy(dtype=bool)
    own = possible & ~holds & ~calls_others
    inside = own[np.maximum(parent, 0)] & (parent >= 0)
    filled_inside = inside & names.isin(aten.FILLS).to_numpy()
    found = operators[own & ~filled_inside].copy()
    found["operator"], found["library"] = found["name"], "aten"
    found["kind"] = _kinds(names, parent).loc[found.index]
    found["problem"] = of_text(found["shapes"], aten.problem)
    found["dtype"] = of_text(found["types"], aten.dtype)
    found = found.join(aten.products(found["name"], found["shapes"]))
    return found.assign(duration_ns=found["end_ns"] - found["start_ns"], count=1, device="cpu")


def _kinds(names: pd.Series, parent: Int) -> pd.Series:
    """Return each operator's kind; plain arithmetic on behalf of an activation, normalisation or softmax is of that kind.

    So inference's aten::relu, which calls aten::clamp_min, is an activation as it is in training.
    """
    kinds = names.map({name: operator_kind(name) for name in names.unique()})
    callers = kinds.reset_index(drop=True).reindex(np.where(parent >= 0, parent, -1)).set_axis(names.index)
    inherited = (kinds == "elementwise") & callers.isin(["activation", "normalisation", "softmax"])
    return kinds.mask(inherited, callers)


def _with_ancestors(chosen: Int, parent: Int) -> Bool:
    """Return the mask of the chosen operators and of all that they run in."""
    marked = np.zeros(len(parent), dtype=bool)
    level = np.unique(chosen)
    while len(level):
        marked[level] = True
        above = np.unique(parent[level])
        level = above[(above >= 0) & ~marked[np.maximum(above, 0)]]
    return marked


def of_text(values: pd.Series, function: Callable[[str], Any]) -> pd.Series:
    """Return a function of a text column, computed once per distinct text; null for null."""
    category = values.astype("category").cat
    found = np.array([*(function(text) for text in category.categories), None], dtype=object)
    return pd.Series(found[category.codes.to_numpy()], index=values.index)
