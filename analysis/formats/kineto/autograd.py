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

from kernelscope.analysis.kernels import aten
from kernelscope.analysis.kernels.classify import operator_kind
from kernelscope.analysis.trace import intervals

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_COMPUTES_NS = 10_000  # more than what calling and recording a few other operators takes
ENGINE = "autograd::engine::evaluate_function"


def owners(chosen: Bool, parent: Int) -> Int:
    """Return for each operator the innermost chosen one that it runs in, itself included; -1 without."""
    # pointers are doubled, so that no depth of nesting takes more than a few rounds
    up = np.append(np.where(chosen, np.arange(len(chosen)), parent), -1)
    while not np.array_equal(further := up[up], up):
        up = further
    return up[:-1]


def backward_sequence(operators: pd.DataFrame) -> pd.Series:
    """Return for each operator the sequence number of the backward function that it runs in; null in other phases."""
    starts = (operators["forward_thread"].fillna(0) > 0).to_numpy()
    owner = owners(starts, operators["parent"].to_numpy())
    return operators["sequence"].take(np.maximum(owner, 0)).where(owner >= 0).reset_index(drop=True)


def in_backward(operators: pd.DataFrame) -> Bool:
    """Return which operators run in a backward function or in the engine's work around one."""
    engine = where_text(operators["name"], lambda name: name.startswith(ENGINE))
    starts = engine | (operators["forward_thread"].fillna(0) > 0).to_numpy()
    return owners(starts, operators["parent"].to_numpy()) >= 0


def noted(operators: pd.DataFrame) -> pd.Series:
    """Return whether autograd made a node for each operator, or for one that it calls or that calls it; null where it was off.

    A forward operator bears the number that the next node gets: where the next operator of its thread bears the same one, it made
    none, as nothing that it takes needs a gradient. Those below autograd have no number, and are as what calls them.
    """
    parent = operators["parent"].to_numpy()
    sequence = operators["sequence"].fillna(-1).to_numpy(dtype=np.int64)
    backward = owners((operators["forward_thread"].fillna(0) > 0).to_numpy(), parent) >= 0
    numbered = (sequence >= 0) & ~backward
    rows = np.flatnonzero(numbered)
    threads = intervals.whole(operators["thread"])
    rows = rows[np.lexsort((rows, threads[rows]))]
    follows = threads[rows][1:] == threads[rows][:-1]
    none_made = np.append(follows & (sequence[rows][1:] <= sequence[rows][:-1]), False)  # of the last ones nothing tells
    made = np.zeros(len(operators), dtype=bool)
    made[rows[~none_made[: len(rows)]]] = True
    within = owners(made, parent) >= 0
    owner = owners(numbered, parent)
    result = (_with_ancestors(np.flatnonzero(made), parent) | within)[owner] | within
    return pd.Series(pd.array(result, dtype="boolean")).where((owner >= 0) & ~backward)


def forward_operators(operators: pd.DataFrame) -> Int:
    """Return for each operator in a backward function the row of the forward operator that it belongs to; -1 for the others.

    Sequence numbers count per thread, so (forward thread, number) is the key. A backward function names its forward thread by a
    number of the profiler's own: that is the thread with most of the sequence numbers it asks for; where two have as many, none.
    """
    if not (operators["forward_thread"] > 0).any():
        return np.full(len(operators), -1, dtype=np.int64)
    sequence = operators["sequence"].fillna(-1).to_numpy(dtype=np.int64)
    number = operators["forward_thread"].fillna(-1).to_numpy(dtype=np.int64)
    rows = np.arange(len(operators))
    forward = pd.DataFrame({"thread": operators["thread"], "sequence": sequence, "forward": rows})[
        (number == 0) & (sequence >= 0)
    ]
    # several operators carry a number until one makes its node: that is the last one to start
    made = forward.drop_duplicates(["thread", "sequence"], keep="last")
    asked = pd.DataFrame({"number": number, "sequence": sequence, "row": rows})[(number > 0) & (sequence >= 0)]
    matches = asked.merge(_threads_of(asked, made), on="number").merge(made, on=["thread", "sequence"])
    start = operators["start_ns"].to_numpy()
    matches = matches[start[matches["forward"]] <= start[matches["row"]]]
    result = np.full(len(operators) + 1, -1, dtype=np.int64)
    result[matches["row"]] = matches["forward"]
    return result[owners(number > 0, operators["parent"].to_numpy())]


def _threads_of(asked: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Return the profiler's number and the thread's id of each forward thread that is certain."""
    pairs = asked[["number", "sequence"]].drop_duplicates().merge(made[["thread", "sequence"]], on="sequence")
    votes = pairs.groupby(["number", "thread"], as_index=False).size()
    most = votes.groupby("number")["size"].transform("max")
    return votes[votes["size"] == most].drop_duplicates("number", keep=False)[["number", "thread"]]


def computing_operators(operators: pd.DataFrame, holding: Int) -> pd.DataFrame:
    """Return as kernels the operators that compute by themselves and hold no library's primitive.

    holding: rows of operators in which a primitive ran. An operator computes by itself when its name may and it calls at
    most views, allocation and fills; a fill is part of such a caller. So does one that calls others and takes most of its time
    outside of them, as reductions do that copy together what their threads found: what it calls is part of it.
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
    # numbers become tensors without dimensions, of another type than what they are multiplied with: no conversion of data
    converting = (
        where_text(result["types"], aten.converts) & ((result["name"] == "aten::copy_") & result["problem"].notna()).to_numpy()
    )
    result["kind"] = _kinds(names, parent).loc[result.index].mask(converting, "cast")
    result = result.join(aten.products(result["name"], result["shapes"]))
    kernels: pd.DataFrame = result.assign(duration_ns=result["end_ns"] - result["start_ns"], count=1, device="cpu")
    return kernels


def _mostly_itself(operators: pd.DataFrame, parent: Int) -> Bool:
    """Return where most of an operator's time, and more than calls of others cost, is in none of those that it calls.

    It is one of all calls of one name and shapes: on a busy machine a single one may have waited anywhere.
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
    """Return a function of a text column as a categorical one, computed once per distinct text; null for null."""
    category = values.astype("category").cat
    codes, distinct = pd.factorize(np.array([*(function(text) for text in category.categories), None], dtype=object))
    result = codes.astype(np.int32)[category.codes.to_numpy()]
    return pd.Series(pd.Categorical.from_codes(result, pd.Index(distinct)), index=values.index, copy=False)


def where_text(values: pd.Series, predicate: Callable[[str], Any]) -> Bool:
    """Return where a text column has a text of which the predicate is true."""
    category = values.astype("category").cat
    result = np.array([*(bool(predicate(text)) for text in category.categories), False])
    return result[category.codes.to_numpy()]
