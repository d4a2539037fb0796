"""Embeddings with dense gradients: each step clears and updates all of a large table for a few of its entries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from kernelscope.analysis.advise import lookups, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

TOPIC = "embedding gradients"
_DENSE = "aten::embedding_dense_backward"
_FEW = 0.1  # of the table's entries: a step looks up at most this share
_CLEARING = ("aten::zero_", "aten::fill_", "aten::zeros", "aten::new_zeros")
_REMEDY = (
    "nn.Embedding(..., sparse=True), with an optimizer that accepts sparse gradients for it (torch.optim.SparseAdam, SGD or "
    "Adagrad): entries that are not in a batch then stay unchanged, and so do their moments"
)


def dense_gradients(subject: Subject) -> list[Advice]:
    """A large table gets a gradient for every entry, although few entries were looked up."""
    rows = subject.kernels()
    dense = rows["operator"].eq(_DENSE).fillna(False) | rows["name"].eq(_DENSE).fillna(False)
    if not dense.any():
        return []
    operators = subject.inside_steps(subject.trace.operators)
    looking = lookups.among(operators)
    table, used = _largest(looking["shapes"], max(subject.count, 1))
    if not table or used > _FEW * table[0] or _is_used_elsewhere(operators, table):
        return []
    layers = looking.loc[[_table(text) == table for text in looking["shapes"]], "layer"].dropna().unique()
    clearing = rows["layer"].isin(layers) & rows["phase"].eq("backward") & rows["operator"].isin(_CLEARING)
    making = rows[(dense | clearing.fillna(False)).to_numpy(bool)]
    update = rows[(rows["phase"] == "optimizer").fillna(False).to_numpy(bool)]
    share = _share(operators[(operators["phase"] == "optimizer").fillna(False).to_numpy(bool)]["shapes"], table)
    making_ns, update_ns = words.time_of(making), words.time_of(update) * share
    return [
        Advice(
            TOPIC,
            "an embedding's whole table gets a gradient, although few entries are looked up",
            (making_ns + update_ns) * (1 - used / table[0]),
            "the share of entries that are not looked up, of the time of the table's gradient and update",
            [
                f"A table has {table[0]:,} x {table[1]:,} numbers; at most {used:,.0f} entries are looked up "
                f"{subject.in_each}. Its gradient takes {words.share(subject, making_ns)}, and its update "
                f"{words.share(subject, update_ns)} ({share:.0%} of what the optimizer updates)."
            ],
            _REMEDY,
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
            words.ids(making),
        )
    ]


def _largest(shapes: pd.Series, steps: int) -> tuple[tuple[int, ...], float]:
    """Return the largest table that is looked up in, (entries, width), and how many lookups a step makes in it; () and 0 if
    none.
    """
    told = {str(text): int(count) for text, count in shapes.dropna().value_counts().items()}
    found = [(one, count) for text, count in told.items() if (one := lookups.lookup(text))]
    table = max(((one.entries, one.width) for one, _ in found), key=math.prod, default=(0, 0))
    if not all(table):
        return (), 0.0
    return table, sum(math.prod(one.sizes) * count for one, count in found if (one.entries, one.width) == table) / steps


def _table(text: object) -> tuple[int, ...]:
    one = lookups.lookup(text)
    return (one.entries, one.width) if one else ()


def _is_used_elsewhere(operators: pd.DataFrame, table: Sequence[int]) -> bool:
    """Return whether a product also uses the table, as when it is tied to the last layer: then its gradient is dense anyway."""
    products = operators[operators["name"].isin(("aten::mm", "aten::addmm", "aten::linear", "aten::matmul", "aten::t"))]
    either = [list(table), list(table)[::-1]]
    return any(one in either for text in products["shapes"].dropna().unique() for one in lookups.shapes(text))


def _share(shapes: pd.Series, table: Sequence[int]) -> float:
    """Return the table's share of all elements that the optimizer's operators update."""
    mine = every = 0
    for text, count in shapes.dropna().value_counts().items():
        parsed = lookups.shapes(text)
        updated = parsed[0] if parsed else []
        for tensor in updated if updated and isinstance(updated[0], list) else [updated]:  # a list of tensors, or a single one
            elements = math.prod(tensor) * int(count) if tensor else 0
            every += elements
            mine += elements if tensor == list(table) else 0
    return mine / every if every else 0.0


RULES: tuple[Rule, ...] = (dense_gradients,)
