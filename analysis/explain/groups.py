"""Where one layer of a side may stand for several consecutive ones of the other: fused, split or shared modules.

Likeness alone would call every missing layer fused into its neighbour. So a group needs evidence: FLOPs or parameters that add up
to those of the one layer, better than any single member has them; or an output shape that only the last member has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from kernelscope.analysis.explain import similarity
from kernelscope.analysis.explain.sequences import Move
from kernelscope.analysis.explain.similarity import Likeness, Matrix, Traits, Vector

LARGEST = 6  # layers that one may stand for
_CLOSER = 4.0  # the sum must be closer to the one layer's number than any single member by this factor
_CLOSE = 0.02  # and differ by less than this share: tools count biases and the like differently
_REFUTED = 0.5  # likeness of a known number below which it speaks against a group

_Mask = npt.NDArray[np.bool_]


def moves(a: Traits, b: Traits, pairs: Likeness) -> list[Move]:
    """Return the groups that an alignment may use, several of A for one of B and the other way round."""
    sizes = range(2, LARGEST + 1)
    fused = [_several(a, b, pairs, size) for size in sizes if size <= len(a)]
    split = [_several(b, a, pairs.mirrored(), size) for size in sizes if size <= len(b)]
    return fused + [Move(move.width, move.height, move.alike.T) for move in split]


def _several(many: Traits, one: Traits, pairs: Likeness, size: int) -> Move:
    """Return how alike each run of `size` layers is to each layer of the other side; NaN where there is no evidence for it."""
    runs = len(many) - size + 1
    types, shapes, names = ([values[n : n + runs] for n in range(size)] for values in (pairs.types, pairs.shapes, pairs.names))
    flops, parameters = _Numbers(many.flops, one.flops, size), _Numbers(many.parameters, one.parameters, size)
    joined = similarity.of_ratio(_sums(many.elements, size), one.elements)  # several outputs side by side in one
    shape = np.fmax(shapes[-1], np.where(joined == 1.0, 1.0, np.nan))
    kind = np.fmax.reduce(types)
    share = np.fmax(parameters.alike, parameters.shared)
    alike, _ = similarity.joined(kind, shape, flops.alike, share, np.maximum.reduce(names))
    adds_up = (flops.adds_up & (~flops.slight | parameters.exact)) | (parameters.adds_up & (~parameters.slight | flops.exact))
    first = np.fmax(flops.first, parameters.first)
    evidence = (adds_up | _ends_as(shapes, types, first)) & ~(flops.refuted | parameters.refuted)
    padded = np.full((len(many), len(one)), np.nan)
    padded[size - 1 :] = np.where(evidence & ~(kind < similarity.LOOSE), alike, np.nan)
    return Move(size, 1, padded)


class _Numbers:
    """What one kind of number says of runs of layers (rows) and single layers (columns)."""

    def __init__(self, many: Vector, one: Vector, size: int):
        total, x = _sums(many, size)[:, None], one[None, :]
        runs = sliding_window_view(many, size)
        with np.errstate(invalid="ignore"):
            off = np.abs(total - x)
            single = np.minimum.reduce([np.abs(runs[:, [n]] - x) for n in range(size)])
            self.adds_up: _Mask = (off <= _CLOSE * x) & (off * _CLOSER <= single) & (single > 0)
            self.slight: _Mask = single <= _CLOSE * x  # one member alone is nearly it: an activation, or a bias counted elsewhere
            self.exact: _Mask = (off == 0) | np.isnan(off)
            equal = np.logical_and.reduce([runs[:, [n]] == x for n in range(size)]) & (x > 0)
        self.alike = similarity.of_ratio(total[:, 0], one)
        self.first = similarity.of_ratio(many[: len(runs)], one)
        self.shared: Matrix = np.where(equal, 1.0, np.nan)  # all have what the one has: the same module, called several times
        self.refuted: _Mask = (self.alike < _REFUTED) & ~equal


def _ends_as(shapes: list[Matrix], types: list[Matrix], first: Matrix) -> _Mask:
    """Return where the one layer is the first member (type and numbers; first: how alike these are) with the last one's output.

    As where a convolution and the pooling after it are one: its output is not the convolution's any more.
    """
    with np.errstate(invalid="ignore"):
        begins = (types[0] >= similarity.SAME) & (shapes[0] < similarity.JOINED) & (first >= similarity.SAME)
        others = np.logical_and.reduce([kind < similarity.LOOSE for kind in types[1:]])
        return np.asarray(begins & others & (shapes[-1] == 1.0))


def _sums(values: Vector, size: int) -> Vector:
    return np.asarray(sliding_window_view(values, size).sum(axis=1), dtype=float)
