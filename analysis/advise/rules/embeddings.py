"""Embeddings with dense gradients: in each step all of a large table is cleared and updated, for a few entries of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.files import json_text

TOPIC = "embedding gradients"
_LOOKUP, _DENSE = "aten::embedding", "aten::embedding_dense_backward"
_FEW = 0.1  # of the table's entries are looked up in a step, at most
_CLEARING = ("aten::zero_", "aten::fill_", "aten::zeros", "aten::new_zeros")
_IMPOSSIBLE = 1 << 62
_REMEDY = (
    "nn.Embedding(..., sparse=True), with an optimizer that takes sparse gradients for it (torch.optim.SparseAdam, SGD or "
    "Adagrad): entries that do not occur in a batch then stay as they are, moments included"
)


def dense_gradients(subject: Subject) -> list[Advice]:
    """A large table gets a gradient for every entry, though few of them were looked up."""
    rows = subject.kernels()
    dense = rows["operator"].eq(_DENSE).fillna(False) | rows["name"].eq(_DENSE).fillna(False)
    if not dense.any():
        return []
    operators = subject.inside_steps(subject.trace.operators)
    looking = operators[(operators["name"] == _LOOKUP).fillna(False).to_numpy(bool)]
    table, used = _largest(looking["shapes"], max(subject.count, 1))
    if not table or used > _FEW * table[0] or _is_used_elsewhere(operators, table):
        return []
    layers = looking.loc[[_lookup(text)[:2] == table for text in looking["shapes"]], "layer"].dropna().unique()
    clearing = rows["layer"].isin(layers) & rows["phase"].eq("backward") & rows["operator"].isin(_CLEARING)
    making = rows[(dense | clearing.fillna(False)).to_numpy(bool)]
    update = rows[(rows["phase"] == "optimizer").fillna(False).to_numpy(bool)]
    share = _share(operators[(operators["phase"] == "optimizer").fillna(False).to_numpy(bool)]["shapes"], table)
    making_ns, update_ns = words.time_of(making), words.time_of(update) * share
    return [
        Advice(
            TOPIC,
            "all of an embedding's table gets a gradient, for a few of its entries",
            (making_ns + update_ns) * (1 - used / table[0]),
            "of what the table's gradient and update take, the share of the entries that are not looked up",
            [
                f"A table of {table[0]:,} x {table[1]:,} numbers, of which {used:,.0f} entries at most are looked up "
                f"{subject.in_each}: its gradient takes {words.share(subject, making_ns)}, and its update "
                f"{words.share(subject, update_ns)} ({share:.0%} of what the optimizer updates)."
            ],
            _REMEDY,
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html",
            words.ids(making),
        )
    ]


def _largest(shapes: pd.Series, steps: int) -> tuple[tuple[int, ...], float]:
    """Return the largest table of the lookups, (entries, width), and how many numbers a step looks up in it; () for none."""
    counts = shapes.dropna().value_counts()
    found = [(*_lookup(str(text)), int(count)) for text, count in counts.items()]
    table = max(((entries, width) for entries, width, _, _ in found), key=lambda one: one[0] * one[1], default=(0, 0))
    if not all(table):
        return (), 0.0
    return table, sum(numbers * count for *of, numbers, count in found if tuple(of) == table) / steps


def _lookup(text: object) -> tuple[int, int, int]:
    """Return entries, width and how many numbers are looked up, of shapes [[200000, 64], [64, 20], [], [], []]; else zeros."""
    match _parsed(text):
        case [[entries, width], [*numbers], *_] if numbers:
            return entries, width, int(np.prod(numbers, dtype=np.int64))
    return 0, 0, 0


def _is_used_elsewhere(operators: pd.DataFrame, table: Sequence[int]) -> bool:
    """Return whether a product takes the table, too, as where it is the last layer's: its gradient is dense then."""
    products = operators[operators["name"].isin(("aten::mm", "aten::addmm", "aten::linear", "aten::matmul", "aten::t"))]
    either = [list(table), list(table)[::-1]]
    return any(one in either for text in products["shapes"].dropna().unique() for one in _parsed(text))


def _share(shapes: pd.Series, table: Sequence[int]) -> float:
    """Return which share of the elements that the optimizer's operators update is the table's."""
    mine = every = 0
    for text, count in shapes.dropna().value_counts().items():
        parsed = _parsed(text)
        updated = parsed[0] if parsed else []
        for tensor in updated if updated and isinstance(updated[0], list) else [updated]:  # a list of tensors, or one
            elements = int(np.prod(tensor, dtype=np.int64)) * int(count) if tensor else 0
            every += elements
            mine += elements if tensor == list(table) else 0
    return mine / every if every else 0.0


def _parsed(text: object) -> list[Any]:
    """Return an operator's shapes; an empty list where they are none, or impossible."""
    try:
        found = json_text.listed(str(text))
    except (ValueError, TypeError):
        return []
    return found if _are_sizes(found) else []


def _are_sizes(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_are_sizes, value))
    return isinstance(value, int) and 0 <= value < _IMPOSSIBLE


RULES: tuple[Rule, ...] = (dense_gradients,)
