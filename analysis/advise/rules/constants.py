"""Constants: products in a trained layer without a gradient. While their inputs stay the same, so do they."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise import lookups, operators, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.operators import OperatorTree
from kernelscope.analysis.advise.subject import STEPS, Subject

Bool = npt.NDArray[np.bool_]

TOPIC = "constant products"
_PRODUCTS = ("aten::mm", "aten::bmm")
_OF_WEIGHTS = ("aten::linear", "aten::addmm", "aten::convolution", "aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
_DETACHES = ("aten::detach", "aten::detach_")
_DIAGONAL = ("aten::diag", "aten::diag_embed")
_NAMED = 3
_REMEDY = (
    "compute what does not change once, before the loop, and keep it (register_buffer in the module), such as a normalised "
    "adjacency matrix or a table of positions; compute what several layers share once for all of them"
)
_BY_A_VECTOR = "; multiply by a vector instead of a diagonal matrix: v[:, None] * a * v for diag(v) @ a @ diag(v)"


def without_gradient(subject: Subject) -> list[Advice]:
    """Products in trained layers for which autograd was on and recorded nothing."""
    if subject.per != STEPS or subject.program or not (subject.trace.operators["phase"] == "backward").any():
        return []
    if not _plain(subject.trace.operators).any():
        return []
    found = operators.read(subject)
    chosen = _constant(subject, found)
    shares = operators.taken(subject, found, chosen) if chosen.any() else pd.Series(dtype=float)
    rows = subject.rows.loc[shares.index]
    ns = operators.time_of(subject, shares)
    if rows.empty:
        return []
    products = found.table[chosen]
    times = _times(products)
    diagonal = found.table["name"].isin(_DIAGONAL) & found.table["layer"].isin(products["layer"].unique())
    return [
        Advice(
            TOPIC,
            f"matrix products that depend on no trained parameter take {words.duration(ns)} {subject.in_each}",
            ns,
            "all of it, if their inputs are the same in each step"
            + ("; else what one step computes several times" if any(count > 1 for _, count, _ in times) else ""),
            [
                f"No gradient goes through {words.count(len(products) / subject.count)} products {subject.in_each}, "
                f"{words.share(subject, ns)}, in trained layers: {_listed(subject, times)}.",
                *words.lines_of(subject, rows),
            ],
            _REMEDY + (_BY_A_VECTOR if diagonal.any() else ""),
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
            words.ids(rows),
        )
    ]


def _constant(subject: Subject, found: OperatorTree) -> Bool:
    """Return which operators are products without a gradient that no data of the step, weight or teacher explains."""
    table = found.table
    gradient, products = table["gradient"].fillna(False).to_numpy(bool), _products(table)
    plain = _plain(table) & ~found.within(table["name"].isin(_OF_WEIGHTS).to_numpy(bool))
    plain &= _in_layers(table["layer"], _trained(table)) & ~_in_layers(table["layer"], _apart(found))
    problems = table["shapes"].astype("string").where(products)
    # The same product with a gradient elsewhere: a teacher's student, or a layer behind a frozen one
    plain &= ~problems.isin(problems[products & gradient].unique()).to_numpy(bool)
    counts = problems[plain].value_counts()
    batch, teaches = _batch(subject), bool((_off(found) & products).any())
    kept = {text for text, count in counts.items() if _is_kept(str(text), count / subject.count, batch, teaches)}
    return plain & problems.isin(kept).to_numpy(bool)


def _products(table: pd.DataFrame) -> Bool:
    return (table["name"].isin(_PRODUCTS) & table["shapes"].notna()).to_numpy(bool)


def _plain(table: pd.DataFrame) -> Bool:
    """Return which operators are products of the forward pass that ran with autograd on but were not recorded by it."""
    known = table["gradient"].notna() & (table["phase"] == "forward") & table["layer"].notna()
    noted: Bool = table["gradient"].fillna(False).to_numpy(bool)
    return _products(table) & known.to_numpy(bool) & ~noted


def _is_kept(shapes: str, count: float, batch: int, teaches: bool) -> bool:
    """Return whether a product of these shapes, so many times in a step, is certainly not of the batch.

    None of its sizes is a multiple of the batch; or it relates all samples to each other, as an adjacency matrix does, more
    than once. If the batch is unknown, it must multiply two matrices and run more than once, in a step without a teacher.
    """
    match lookups.shapes(shapes):
        case [[*left], [*right], *_] if count == int(count):
            sizes = [size for size in (*left, *right) if isinstance(size, int)]
        case _:
            return False
    if batch > 1:
        return all(size % batch for size in sizes) or (count > 1 and left == [batch, batch])
    return count > 1 and len(sizes) == 4 and not teaches


def _batch(subject: Subject) -> int:
    """Return the samples of a step; 0 if unknown."""
    batch = subject.trace.info.get("batch") or (subject.facts.get("options") or {}).get("batch")
    return batch if type(batch) is int else 0


def _trained(table: pd.DataFrame) -> list[str]:
    """Return the layers with operators that autograd recorded, and the layers around them."""
    return _holding(table[(table["gradient"].fillna(False) & (table["phase"] == "forward")).to_numpy(bool)])


def _off(found: OperatorTree) -> Bool:
    """Return which operators of the forward pass take tensors and run with autograd off."""
    table = found.table
    outermost = (found.parent < 0) & table["gradient"].isna().to_numpy(bool)
    takes = table["shapes"].astype("string").str.contains(r"\[\d").fillna(False).to_numpy(bool)
    ahead = table["phase"].isin(["forward", "other"]).to_numpy(bool)
    return found.within(outermost & takes & ahead)


def _apart(found: OperatorTree) -> list[str]:
    """Return the layers that use values made outside autograd: these may depend on trained weights."""
    detached = found.table["name"].isin(_DETACHES).to_numpy(bool) & (found.table["phase"] == "forward").to_numpy(bool)
    return _holding(found.table[detached | _off(found)])


def _holding(table: pd.DataFrame) -> list[str]:
    """Return the layers of operators, and the layers around them."""
    parts = [str(layer).replace("/", ".").split(".") for layer in table["layer"].dropna().unique()]
    return sorted({".".join(part[:size]) for part in parts for size in range(1, len(part) + 1)})


def _in_layers(layers: pd.Series, names: list[str]) -> Bool:
    return layers.astype("string").str.replace("/", ".").isin(names).to_numpy(bool)


def _times(products: pd.DataFrame) -> list[tuple[str, int, pd.Series]]:
    """Return the problems, longest first: shapes, number of products in all, and number in each layer."""
    lasted = (products["end_ns"] - products["start_ns"]).groupby(products["shapes"].astype("string")).sum()
    result = []
    for text in lasted.sort_values(ascending=False, kind="stable").index:
        layers = products.loc[(products["shapes"] == text).to_numpy(bool), "layer"].astype("string").value_counts()
        result.append((str(text), int(layers.sum()), layers.sort_index()))
    return result


def _listed(subject: Subject, times: list[tuple[str, int, pd.Series]]) -> str:
    """List which problems are computed how often, and in which layers."""
    parts = []
    for text, _, layers in times[:_NAMED]:
        left, right, *_ = (" x ".join(f"{size:,}" for size in shape) for shape in lookups.shapes(text)[:2])
        each = layers / max(subject.count, 1)
        same = len(layers) > 1 and each.nunique() == 1
        often = f"{words.count(each.iloc[0])} in each of" if same else f"{words.count(each.sum())} in"
        parts.append(f"{left} by {right}, {often} {words.listed(map(str, layers.index))}")
    return "; ".join(parts)


RULES: tuple[Rule, ...] = (without_gradient,)
