"""How alike two layers are: by operator type, output shape, FLOPs and parameters, and by name if nothing else decides.

All pairs are computed at once, as matrices [layers of A, layers of B] of numbers from 0 (nothing in common) to 1. What a side
does not know counts neither for nor against a pair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kernelscope.analysis.explain.model import Layer

T = TypeVar("T")

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]
Shape = tuple[int, ...]

# Weight of each trait in the mean. Parameters say more than FLOPs, as strides do not change them. A name weighs little next to
# any of the others, but is all there is without them.
TYPE, SHAPE, FLOPS, PARAMETERS, NAME = 3.0, 3.0, 1.5, 3.0, 0.3
LOOSE = 0.4  # types that match less well than this contradict each other
OTHER_TYPE = 0.2  # factor on the likeness of two layers whose types have nothing in common
SAME = 0.9  # types that match this well are the same in other words
JOINED = 0.8  # likeness of shapes with as many elements in fewer axes: flattened
SIZE = 0.2  # weight of the number of elements against the sizes of the axes

# Types of layers and kinds of kernels that mean the same
_FAMILIES = {
    "convolution": ("convolution", "convolution forward", "convolution data gradient", "convolution weight gradient"),
    "dense": ("dense", "gemm"),
    "recurrent": ("recurrent", "lstm", "gru", "rnn"),
    "pooling": ("pooling", "pooling_max", "pooling_average"),
    "activation": ("activation", "tanh", "relu", "sigmoid", "gelu", "silu"),
    "loss": ("loss", "softmax"),
    "dropout": ("dropout", "random"),
    "layout": ("layout", "flatten", "copy", "cast"),
}
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}
_GENERAL = {*_FAMILIES, "gemm", "convolution forward"}  # names that say no more than the family
_UNKNOWN = {"", "unknown"}

# How alike two families are if one tool's name for the same work may be another's
_RELATED = {
    ("activation", "elementwise"): 0.7,
    ("attention", "dense"): 0.4,
    ("attention", "loss"): 0.4,
    ("convolution", "dense"): 0.4,  # a convolution computed by GEMM; 1 x 1 convolutions
    ("dropout", "elementwise"): 0.6,
    ("elementwise", "layout"): 0.4,
    ("elementwise", "loss"): 0.3,
    ("elementwise", "normalisation"): 0.6,
    ("elementwise", "reduction"): 0.4,
    ("embedding", "layout"): 0.4,
    ("loss", "reduction"): 0.5,
    ("normalisation", "reduction"): 0.6,
    ("pooling", "reduction"): 0.5,
}


@dataclass(frozen=True)
class Traits:
    """The compared traits of one side's layers, as arrays. Unknown numbers are NaN, unknown texts None."""

    types: list[str | None]
    shapes: list[Shape | None]  # without sizes of 1 and in order of size: layouts differ between frameworks
    elements: Vector
    flops: Vector
    parameters: Vector
    names: list[str]

    def __len__(self) -> int:
        return len(self.names)

    def of(self, rows: Sequence[int]) -> Traits:
        """Return the traits of these layers only."""
        texts: tuple[list[Any], ...] = tuple([values[n] for n in rows] for values in (self.types, self.shapes, self.names))
        at = np.asarray(rows, dtype=np.int64)
        return Traits(texts[0], texts[1], self.elements[at], self.flops[at], self.parameters[at], texts[2])


def traits(layers: Sequence[Layer]) -> Traits:
    """Return the compared traits of these layers."""
    shapes = [None if layer.output_shape is None else tuple(sorted(n for n in layer.output_shape if n != 1)) for layer in layers]
    return Traits(
        [None if layer.type is None or layer.type in _UNKNOWN else layer.type for layer in layers],
        shapes,
        numbers([None if shape is None else float(np.prod(shape, dtype=float)) for shape in shapes]),
        numbers([layer.flops for layer in layers]),
        numbers([layer.parameters for layer in layers]),
        [layer.name for layer in layers],
    )


def numbers(values: Sequence[float | None]) -> Vector:
    """Return the values with NaN for None."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)


@dataclass(frozen=True)
class Likeness:
    """How alike the types, shapes and names of all pairs are: matrices [layers of A, layers of B]."""

    types: Matrix
    shapes: Matrix
    names: Matrix

    def of(self, rows: Sequence[int], columns: Sequence[int]) -> Likeness:
        """Return the pairs of these layers only."""
        at = np.ix_(rows, columns)
        return Likeness(self.types[at], self.shapes[at], self.names[at])

    def mirrored(self) -> Likeness:
        """Return the same with the sides exchanged."""
        return Likeness(self.types.T, self.shapes.T, self.names.T)


def likeness(a: Traits, b: Traits) -> Likeness:
    """Return how alike the types, shapes and names of all pairs are."""
    return Likeness(type_likeness(a, b), shape_likeness(a, b), name_likeness(a.names, b.names))


def joined(types: Matrix, shapes: Matrix, flops: Matrix, parameters: Matrix, names: Matrix) -> tuple[Matrix, Matrix]:
    """Return the weighted mean of the known traits (not NaN), and the share of their weights."""
    total, known = NAME * names, np.full(names.shape, NAME)
    for weight, values in ((TYPE, types), (SHAPE, shapes), (FLOPS, flops), (PARAMETERS, parameters)):
        there = ~np.isnan(values)
        total = total + weight * np.where(there, values, 0.0)
        known = known + weight * there
    share = (known - NAME) / (TYPE + SHAPE + FLOPS + PARAMETERS)
    unlike = (types == 0) | ((types < SAME) & (parameters == 0))  # unrelated types; or other types and far fewer weights
    return total / known * np.where(unlike, OTHER_TYPE, 1.0), share


def parameter_likeness(a: Vector, b: Vector) -> Matrix:
    """Return how well the parameters of all pairs match; some tools count moving averages, which doubles a normalisation's."""
    return of_ratio(a[:, None], b[None, :], span=2.0)


def of_types(a: str | None, b: str | None) -> float:
    """Return how well two types match, from 0 to 1; NaN if one is unknown."""
    if a is None or b is None:
        return float("nan")
    if a == b:
        return 1.0
    first, second = sorted((_FAMILY.get(a, a), _FAMILY.get(b, b)))
    if first == second:
        return 0.95 if a in _GENERAL or b in _GENERAL else 0.6
    return _RELATED.get((first, second), 0.0)


def type_likeness(a: Traits, b: Traits) -> Matrix:
    """Return how well the types of every pair match."""
    return _of_pairs(a.types, b.types, of_types)


def shape_likeness(a: Traits, b: Traits) -> Matrix:
    """Return how well the output shapes of every pair match: the share of equal axes, in any order."""
    return _of_pairs(a.shapes, b.shapes, of_shapes)


def _of_pairs(a: Sequence[T], b: Sequence[T], likeness: Callable[[T, T], float]) -> Matrix:
    """Return the likeness of every pair; each distinct pair is computed once."""
    rows, columns = ({value: number for number, value in enumerate(dict.fromkeys(side))} for side in (a, b))
    table = np.array([[likeness(x, y) for y in columns] for x in rows], dtype=float).reshape(len(rows), len(columns))
    return table[np.ix_([rows[value] for value in a], [columns[value] for value in b])]


def of_shapes(a: Shape | None, b: Shape | None) -> float:
    """Return how well two shapes match, from 0 to 1; NaN if one is unknown."""
    if a is None or b is None:
        return float("nan")
    if a == b:
        return 1.0
    elements = prod(a), prod(b)
    if elements[0] == elements[1] and len(a) != len(b):
        return JOINED
    common = (Counter(a) & Counter(b)).total() / max(len(a), len(b))
    near = max(0.0, 1.0 - abs(log2(elements[0] / elements[1]))) if all(elements) else 0.0
    return (1.0 - SIZE) * common + SIZE * near


def of_ratio(a: Vector, b: Vector, span: float = 1.0) -> Vector:
    """Return 1 for equal numbers, falling with the logarithm of their ratio to 0 if one is 2 ** span times the other.

    NaN if one is unknown. The numbers are broadcast against each other.
    """
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.clip(1.0 + np.log2(low / high) / span, 0.0, 1.0)
    return np.where(np.isnan(low), np.nan, np.where(low == high, 1.0, score))


def name_likeness(a: Sequence[str], b: Sequence[str]) -> Matrix:
    """Return the share of letter triples that two names have in common (Dice's coefficient)."""
    sides = [[_triples(name) for name in names] for names in (a, b)]
    ids = {triple: number for number, triple in enumerate(sorted({t for side in sides for one in side for t in one}))}
    rows, columns = (_indicator(side, ids) for side in sides)
    sizes = rows.sum(axis=1)[:, None] + columns.sum(axis=1)[None, :]
    return np.asarray(2.0 * (rows @ columns.T) / np.maximum(sizes, 1.0), dtype=float)


def _triples(name: str) -> set[str]:
    plain = f"  {re.sub(r'[^a-z0-9]+', ' ', name.lower()).strip()} "
    return {plain[i : i + 3] for i in range(len(plain) - 2)}


def _indicator(side: list[set[str]], ids: dict[str, int]) -> npt.NDArray[np.float32]:
    result = np.zeros((len(side), len(ids)), dtype=np.float32)
    for row, triples in enumerate(side):
        result[row, [ids[triple] for triple in triples]] = 1.0
    return result
