"""Broadcasts: two tensors are expanded against each other into a far larger one, only to be summed; a product avoids it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise import lookups, operators, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.operators import OperatorTree
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.files import json_text
from kernelscope.analysis.kernels.aten import COMPUTE_NOTHING

Bool = npt.NDArray[np.bool_]

TOPIC = "broadcast"
_MOSTLY = 0.5  # of a row
_LARGER = 8  # times as many elements as either of the two
_DIFFERENCE, _PRODUCT, _COSINE, _DISTANCE = "aten::sub", "aten::mul", "aten::cosine_similarity", "aten::pairwise_distance"
_WHOLE = (_COSINE, _DISTANCE)  # these also reduce
# What may be done to the large tensor before the sum if a product is to give the same result
_INTO = ("pow", "pow_", "square", "square_", "mul", "mul_", "div", "div_", "neg", "clone")
_BETWEEN = frozenset(f"aten::{name}" for name in _INTO)
_REDUCTIONS = frozenset(f"aten::{name}" for name in ("sum", "mean", "norm", "linalg_vector_norm"))
_SQUARES = {"aten::pow": 1, "aten::pow_": 1, "aten::norm": 1, "aten::linalg_vector_norm": 1}  # where these have the power: 2
_ROOTS = ("aten::norm", "aten::linalg_vector_norm")
_PASSES = 3  # products, including both gradients
_REMEDIES = {
    _DIFFERENCE: "torch.cdist(a, b) for distances; their squares are a.pow(2).sum(-1)[:, None] + b.pow(2).sum(-1) - 2 * a @ b.T, "
    "or 2 - 2 * a @ b.T for unit vectors (less exact where points nearly coincide)",
    _PRODUCT: "use a matrix product, which sums as it multiplies: a @ b.T, or torch.einsum('id,jd->ij', a, b)",
    _COSINE: "F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T",
}
_REMEDIES[_DISTANCE] = _REMEDIES[_DIFFERENCE]


class Spread(NamedTuple):
    """Two tensors that are broadcast against each other. shape: of the result; both: axes that both tensors have in full."""

    name: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    shape: tuple[int, ...]
    both: tuple[int, ...]


Found = tuple[OperatorTree | None, Bool, dict[Spread, int]]


def summed_up(subject: Subject) -> list[Advice]:
    """A difference or product of all pairs is stored as a tensor, although only sums of it are needed."""
    found, chosen, kept = _find(subject)
    if found is None:
        return []
    computing, beside = operators.taken(subject, found, chosen), operators.beside(subject, found, found.around(chosen))
    ns, beside_ns = operators.time_of(subject, computing), operators.time_of(subject, beside)
    rows = subject.rows.loc[computing.index.union(beside.index)]
    if computing.empty:
        return []
    first = max(kept, key=lambda one: math.prod(one.shape))
    steps = max(subject.count, 1)
    elements, number = sum(math.prod(one.shape) * count for one, count in kept.items()), sum(kept.values())
    remains, how = _remains(found, chosen, elements / steps, number / steps)
    outside = f"; operators on it take {words.duration(beside_ns)} outside of kernels, as its memory is allocated and freed"
    return [
        Advice(
            TOPIC,
            f"tensors of {_sizes(first.left)} and {_sizes(first.right)} are expanded to {_sizes(first.shape)}, and then summed",
            max(ns + beside_ns - remains, 0.0),
            f"all of it except {how}",
            [
                f"Kernels that make or use the expanded tensor take {words.share(subject, ns)} {subject.per}: "
                f"{words.kernels(rows.loc[computing.index])}{outside if beside_ns > ns / _LARGER else ''}.",
                *words.where(rows, "layer"),
                *words.lines_of(subject, rows),
            ],
            _REMEDIES[first.name],
            "https://docs.pytorch.org/docs/stable/generated/torch.cdist.html" if first.name in (_DIFFERENCE, _DISTANCE) else "",
            words.ids(rows),
            modelled=True,
        )
    ]


def rows_and_kernels(subject: Subject) -> tuple[frozenset[int], Bool | None]:
    """Return the subject's rows that are mostly such broadcasts, and which of sequences.ordered's kernels are; or none and
    None.
    """
    found, chosen, _ = _find(subject)
    if found is None:
        return frozenset(), None
    shares = operators.taken(subject, found, chosen)
    return words.ids(subject.rows.loc[shares.index[shares > _MOSTLY]]), np.append(chosen, False)[found.owner]


def _find(subject: Subject) -> Found:
    """Return what a subject has of these, for this rule and for what fusion leaves alone; it is computed once."""
    if TOPIC not in subject.derived:
        subject.derived[TOPIC] = _found(subject)
    result: Found = subject.derived[TOPIC]
    return result


def _found(subject: Subject) -> Found:
    """Return the operators; which of them make and use large tensors that are only summed; and how many of each are made.

    The operators are None if there are none.
    """
    spreads = _spreads(subject.inside_steps(subject.trace.operators))
    found = operators.read(subject) if spreads else None
    chosen, kept = _chosen(found, spreads) if found else (np.zeros(0, dtype=bool), {})
    return found if kept else None, chosen, kept


def _spreads(table: pd.DataFrame) -> dict[tuple[str, str, str], Spread]:
    """Return what broadcasting operators make before the backward pass, by name, shapes and strides."""
    distinct = table[_may_spread(table)][["name", "shapes", "strides"]].drop_duplicates().astype("string").fillna("")
    found = {(name, text, strides): _spread(name, text, strides) for name, text, strides in distinct.itertuples(index=False)}
    return {key: one for key, one in found.items() if one}


def _may_spread(table: pd.DataFrame) -> Bool:
    named = table["name"].isin([_DIFFERENCE, _PRODUCT, *_WHOLE]) & table["shapes"].notna() & (table["phase"] != "backward")
    return named.fillna(False).to_numpy(bool)


def _spread(name: str, shapes: str, strides: str) -> Spread | None:
    """Return the broadcast that an operator does with two tensors; None if its result is not much larger than both."""
    tensors = [_own(shape, step) for shape, step in _pairs(lookups.shapes(shapes)[:2], json_text.listed(strides))]
    if len(tensors) != 2 or not all(tensors):
        return None
    width = max(map(len, tensors))
    left, right = ((1,) * (width - len(one)) + one for one in tensors)
    shape = tuple(max(pair) for pair in zip(left, right, strict=True))
    both = tuple(axis for axis, size in enumerate(shape) if left[axis] == right[axis] == size > 1)
    fits = all(1 in pair or pair[0] == pair[1] for pair in zip(left, right, strict=True))
    if not both or not fits or math.prod(shape) < _LARGER * max(math.prod(left), math.prod(right)):
        return None
    return Spread(name, left, right, shape, both)


def _pairs(shapes: list[Any], strides: list[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(shapes, [*strides, None, None][:2], strict=False)


def _own(shape: Any, strides: Any) -> tuple[int, ...]:
    """Return the sizes of a tensor's own data: 1 for an expanded axis, whose stride is 0; () if it is no tensor."""
    if not isinstance(shape, list) or not all(isinstance(size, int) and size > 0 for size in shape):
        return ()
    steps = strides if isinstance(strides, list) and len(strides) == len(shape) else shape
    return tuple(1 if step == 0 else size for size, step in zip(shape, steps, strict=True))


def _chosen(found: OperatorTree, spreads: dict[tuple[str, str, str], Spread]) -> tuple[Bool, dict[Spread, int]]:
    """Return which operators make large tensors that are only summed, or compute on them; and how many of each are made."""
    table = found.table
    layers = table["layer"].astype("object").where(table["layer"].notna(), None).to_numpy()
    making = np.flatnonzero(_may_spread(table))
    keys = table.iloc[making][["name", "shapes", "strides"]].astype("string").fillna("")
    groups: dict[tuple[Any, Spread], list[int]] = {}
    for row, key in zip(making.tolist(), keys.itertuples(index=False, name=None), strict=True):
        if one := spreads.get(key):
            groups.setdefault((layers[row], one), []).append(row)
    chosen = np.zeros(len(table), dtype=bool)
    kept: dict[Spread, int] = {}
    for (layer, one), rows in groups.items():
        makers = np.zeros(len(table), dtype=bool)
        makers[rows] = True
        takes = _takes(table["shapes"], one.shape)
        mine = (layers == layer) & takes
        others = takes & ~np.isin(layers.astype(str), [str(name) for name, other in groups if other.shape == one.shape])
        if not (others & _ahead(table)).any() and _is_summed_up(found, one, makers, mine):
            chosen |= found.within(makers) | mine
            kept[one] = kept.get(one, 0) + len(rows)
    return chosen, kept


def _takes(shapes: pd.Series, shape: tuple[int, ...]) -> Bool:
    """Return which operators have an input of this shape."""
    texts = shapes.astype("category").cat
    taking = [list(shape) in lookups.shapes(text) for text in texts.categories]
    return np.array([*taking, False])[texts.codes.to_numpy()]


def _ahead(table: pd.DataFrame) -> Bool:
    """Return which operators compute before the backward pass."""
    views = table["name"].isin(COMPUTE_NOTHING).to_numpy(bool)
    return ~views & (table["phase"] != "backward").fillna(True).to_numpy(bool)


def _is_summed_up(found: OperatorTree, one: Spread, makers: Bool, mine: Bool) -> bool:
    """Return whether the result is only squared, scaled and summed over an axis that both tensors have in full."""
    table = found.table
    ahead = mine & _ahead(table) & ~found.within(makers)
    called = found.parent >= 0
    uses = table.loc[ahead & ~(called & ahead[found.parent]), ["name", "arguments"]].drop_duplicates()
    if one.name in _WHOLE:
        return uses.empty
    names = set(uses["name"].astype(str))
    allowed = _BETWEEN | (_REDUCTIONS if one.name == _DIFFERENCE else _REDUCTIONS - set(_ROOTS))
    sums = uses[uses["name"].isin(_REDUCTIONS).to_numpy(bool)]
    if not names <= allowed or sums.empty or (one.name == _DIFFERENCE and not _squares(uses)):
        return False
    return all(_reduces(str(text), one) for text in sums["arguments"].astype("string").fillna(""))


def _squares(uses: pd.DataFrame) -> bool:
    """Return whether differences are squared: multiplied, raised to the power of 2, or summed by a norm."""
    powers = [_argument(text, _SQUARES[str(name)]) for name, text in uses.itertuples(index=False) if name in _SQUARES]
    known = [power for power in powers if power]
    return bool(powers or uses["name"].isin(["aten::mul", "aten::mul_", "aten::square", "aten::square_"]).any()) and all(
        power in ("2", "2.") for power in known
    )


def _argument(text: Any, place: int) -> str:
    values = json_text.listed(str(text))
    return str(values[place]) if len(values) > place else ""


def _reduces(text: str, one: Spread) -> bool:
    """Return whether a sum is over an axis that both tensors have in full; one without axes is over all of them."""
    lists = [json_text.listed(str(value)) for value in json_text.listed(text) if str(value).startswith("[")]
    axes = [axis % len(one.shape) for axis in (lists[0] if lists else []) if isinstance(axis, int)]
    return not axes or any(axis in one.both for axis in axes)


def _remains(found: OperatorTree, chosen: Bool, elements: float, number: float) -> tuple[float, str]:
    """Return the time of matrix products that replace these tensors, in ns per step, and how it was worked out.

    elements, number: of the tensors in a step. Products are taken to run at the best rate of the step's other products; or each
    as long as the quickest kernel that reads the tensors, if that is less, as a product reads far less.
    """
    passes = _PASSES if ((found.table["phase"] == "backward").to_numpy(bool) & chosen).any() else 1
    which = f"{passes} matrix products of that size" if passes > 1 else "a matrix product of that size"
    kernels = found.kernels
    products = kernels[(kernels["m"].notna() & (kernels["duration_ns"] > 0)).to_numpy(bool)]
    sizes = products[["m", "n", "k"]].astype(float).prod(axis=1)
    by_product = float((products["duration_ns"] / sizes).min()) if len(products) else np.inf
    reading = kernels[np.append(chosen, False)[found.owner] & kernels["kind"].isin(["reduction", "elementwise"]).to_numpy(bool)]
    each = reading.groupby("operator", observed=True)["duration_ns"].max()  # some calls are on scalars
    by_kernel = float(each.min()) if len(each) else 0.0
    if by_product * elements < by_kernel * number:
        return passes * elements * by_product, f"{which}, at the best rate of the step's other products"
    return passes * by_kernel * number, f"{which}, each as long as the quickest kernel on it"


def _sizes(shape: Iterable[int]) -> str:
    return " x ".join(f"{size:,}" for size in shape if size > 1)


RULES: tuple[Rule, ...] = (summed_up,)
