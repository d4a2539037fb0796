"""PyTorch's operators on their threads' stacks: which compute themselves, which run backward, and for which forward operator.

Tables of operators have name, start_ns, end_ns, thread, sequence, forward_thread, shapes, types (the last four as the profiler
writes them, null if it does not) and parent: the row of the innermost operator around each, or -1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.kernels import aten
from kernelscope.analysis.kernels.classify import operator_kind
from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_COMPUTES_NS = 10_000  # more than what calling and recording a few other operators takes
ENGINE = "autograd::engine::evaluate_function"


def owners(chosen: Bool, parent: Int) -> Int:
    """Return for each operator the innermost chosen one that it runs in, itself included; -1 if there is none."""
    # pointers are doubled, so even deep nesting takes only a few rounds
    up = np.append(np.where(chosen, np.arange(len(chosen)), parent), -1)
    while not np.array_equal(further := up[up], up):
        up = further
    return up[:-1]


def backward_sequence(operators: pd.DataFrame) -> pd.Series:
    """Return for each operator the sequence number of the backward function that it runs in; null outside of these."""
    starts = (operators["forward_thread"].fillna(0) > 0).to_numpy()
    owner = owners(starts, operators["parent"].to_numpy())
    return operators["sequence"].take(np.maximum(owner, 0)).where(owner >= 0).reset_index(drop=True)


def in_backward(operators: pd.DataFrame) -> Bool:
    """Return which operators run in a backward function or in the autograd engine's work around one."""
    engine = where_text(operators["name"], lambda name: name.startswith(ENGINE))
    starts = engine | (operators["forward_thread"].fillna(0) > 0).to_numpy()
    return owners(starts, operators["parent"].to_numpy()) >= 0


def noted(operators: pd.DataFrame) -> pd.Series:
    """Return for each operator whether autograd made a node for it, for one that it calls or for a caller; null if unknown.

    A forward operator has the sequence number that the next node will get. If the next operator of its thread has the same
    number, it made no node, because none of its inputs needs a gradient. Operators below autograd have no number; their caller
    decides.
    """
    parent = operators["parent"].to_numpy()
    sequence = operators["sequence"].fillna(-1).to_numpy(dtype=np.int64)
    backward = owners((operators["forward_thread"].fillna(0) > 0).to_numpy(), parent) >= 0
    numbered = (sequence >= 0) & ~backward
    rows = np.flatnonzero(numbered)
    threads = intervals.whole(operators["thread"])
    rows = rows[np.lexsort((rows, threads[rows]))]
    follows = threads[rows][1:] == threads[rows][:-1]
    none_made = np.append(follows & (sequence[rows][1:] <= sequence[rows][:-1]), False)  # a thread's last one counts as made
    made = np.zeros(len(operators), dtype=bool)
    made[rows[~none_made[: len(rows)]]] = True
    within = owners(made, parent) >= 0
    owner = owners(numbered, parent)
    result = (_with_ancestors(np.flatnonzero(made), parent) | within)[owner] | within
    return pd.Series(pd.array(result, dtype="boolean")).where((owner >= 0) & ~backward)


def forward_operators(operators: pd.DataFrame) -> Int:
    """Return for each operator in a backward function the row of the forward operator that it belongs to; -1 for the others.

    Sequence numbers count per thread, so the key is (forward thread, number). A backward function names its forward thread by a
    number of the profiler's own. It is taken for the thread that has most of the sequence numbers used with it; a tie counts as
    unknown.
    """
    if not (operators["forward_thread"] > 0).any():
        return np.full(len(operators), -1, dtype=np.int64)
    sequence = operators["sequence"].fillna(-1).to_numpy(dtype=np.int64)
    number = operators["forward_thread"].fillna(-1).to_numpy(dtype=np.int64)
    rows = np.arange(len(operators))
    forward = pd.DataFrame({"thread": operators["thread"], "sequence": sequence, "forward": rows})[
        (number == 0) & (sequence >= 0)
    ]
    # several operators carry a number until one makes its node: the last one to start
    made = forward.drop_duplicates(["thread", "sequence"], keep="last")
    asked = pd.DataFrame({"number": number, "sequence": sequence, "row": rows})[(number > 0) & (sequence >= 0)]
    matches = asked.merge(_threads_of(asked, made), on="number").merge(made, on=["thread", "sequence"])
    start = operators["start_ns"].to_numpy()
    matches = matches[start[matches["forward"]] <= start[matches["row"]]]
    result = np.full(len(operators) + 1, -1, dtype=np.int64)
    result[matches["row"]] = matches["forward"]
    return result[owners(number > 0, operators["parent"].to_numpy())]


def _threads_of(asked: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Return the profiler's number and the thread id of each forward thread that is certain."""
    pairs = asked[["number", "sequence"]].drop_duplicates().merge(made[["thread", "sequence"]], on="sequence")
    votes = pairs.groupby(["number", "thread"], as_index=False).size()
    most = votes.groupby("number")["size"].transform("max")
    return votes[votes["size"] == most].drop_duplicates("number", keep=False)[["number", "thread"]]


def computing_operators(operators: pd.DataFrame, holding: Int) -> pd.DataFrame:
    """Return as kernels the operators that compute themselves and contain no library's primitive.

    holding: rows of operators in which a primitive ran. An operator computes itself if its name may compute and it calls at
    most views, allocations and fills; a fill is part of such a caller. So does an operator that calls others but spends most of
    its time outside of them, such as a reduction that gathers its threads' results with copies: the operators that it calls are
    part of it.
    """
    parent = operators["parent"].to_numpy()
    names = operators["name"].astype("object").where(operators["name"].notna(), "")
    holds = _with_ancestors(holding, parent)
    minor = names.isin(aten.COMPUTE_NOTHING | aten.FILLS | aten.ALLOCATE_AND_FILL).to_numpy()
    calls_others = np.zeros(len(operators), dtype=bool)
    calls_others[parent[~minor & (parent >= 0)]] = True
    possible = names.map({name: aten.may_compute(name) for name in names.unique()}).to_numpy(dtype=bool)
    own = possible & ~holds & ~calls_others
    mostly = possible & ~holds & calls_others & _mostly_itself(operators, parent)
    inside = own[np.maximum(parent, 0)] & (parent >= 0)
    filled_inside = inside & names.isin(aten.FILLS).to_numpy()
    part = (parent >= 0) & (owners(mostly, parent)[parent] >= 0)
    result = operators[((own & ~filled_inside) | mostly) & ~part].copy()
    result["operator"], result["library"] = result["name"], "aten"
    result["problem"] = of_text(result["shapes"], aten.problem)
    result["dtype"] = of_text(result["types"], aten.dtype)
    # a scalar becomes a tensor without dimensions, whose type may differ from its operand's: no conversion of data
    converting = (
        where_text(result["types"], aten.converts) & ((result["name"] == "aten::copy_") & result["problem"].notna()).to_numpy()
    )
    result["kind"] = _kinds(names, parent).loc[result.index].mask(converting, "cast")
    result = result.join(aten.products(result["name"], result["shapes"]))
    kernels: pd.DataFrame = result.assign(duration_ns=result["end_ns"] - result["start_ns"], count=1, device="cpu")
    return kernels


def _mostly_itself(operators: pd.DataFrame, parent: Int) -> Bool:
    """Return which operators spend most of their time, and more than calling others costs, outside of those that they call.

    This is decided for all calls of one name and shapes together: on a busy machine a single call may have waited anywhere.
    """
    lasted = (operators["end_ns"] - operators["start_ns"]).to_numpy(np.int64)
    called = np.bincount(parent[parent >= 0], weights=lasted[parent >= 0], minlength=len(lasted))
    alike = operators.groupby(["name", "shapes"], observed=True, dropna=False, sort=False).ngroup().to_numpy()
    calls = called > 0
    count, all_ns, alone_ns = (
        np.bincount(alike[calls], weights=weights, minlength=int(alike.max(initial=-1)) + 1)[alike]
        for weights in (None, lasted[calls], (lasted - called)[calls])
    )
    mine: Bool = calls & (alone_ns >= _COMPUTES_NS * count) & (2 * alone_ns >= all_ns)
    return mine


def _kinds(names: pd.Series, parent: Int) -> pd.Series:
    """Return each operator's kind; plain arithmetic called by an activation, normalisation or softmax has the caller's kind.

    So aten::relu in inference, which calls aten::clamp_min, is an activation as in training.
    """
    kinds = names.map({name: operator_kind(name) for name in names.unique()})
    callers = kinds.reset_index(drop=True).reindex(np.where(parent >= 0, parent, -1)).set_axis(names.index)
    inherited = (kinds == "elementwise") & callers.isin(["activation", "normalisation", "softmax"])
    return kinds.mask(inherited, callers)


def _with_ancestors(chosen: Int, parent: Int) -> Bool:
    """Return the mask of the chosen operators and all operators around them."""
    marked = np.zeros(len(parent), dtype=bool)
    level = np.unique(chosen)
    while len(level):
        marked[level] = True
        above = np.unique(parent[level])
        level = above[(above >= 0) & ~marked[np.maximum(above, 0)]]
    return marked


def of_text(values: pd.Series, function: Callable[[str], Any]) -> pd.Series:
    """Apply a function to a text column, once per distinct text; return a categorical column, null for null."""
    category = values.astype("category").cat
    codes, distinct = pd.factorize(np.array([*(function(text) for text in category.categories), None], dtype=object))
    result = codes.astype(np.int32)[category.codes.to_numpy()]
    return pd.Series(pd.Categorical.from_codes(result, pd.Index(distinct)), index=values.index, copy=False)


def where_text(values: pd.Series, predicate: Callable[[str], Any]) -> Bool:
    """Return where a text column has a text for which the predicate is true."""
    category = values.astype("category").cat
    result = np.array([*(bool(predicate(text)) for text in category.categories), False])
    return result[category.codes.to_numpy()]
