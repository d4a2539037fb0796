"""Where one layer may correspond to several consecutive layers of the other side: fused, split or shared modules.

Likeness alone would fuse every missing layer into its neighbour. So a group needs evidence: FLOPs or parameters that add up to
those of the one layer, closer than any single member; or an output shape that only the last member has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from kernelscope.analysis.explain import similarity
from kernelscope.analysis.explain.sequences import Move
from kernelscope.analysis.explain.similarity import Likeness, Traits, Vector

LARGEST = 8  # layers that one may correspond to: attention is query, key, value, products, softmax, dropout and output
_CLOSER = 4.0  # the sum must be closer to the one layer's number than any single member by this factor
_CLOSE = 0.02  # and differ by less than this share: tools count biases and the like differently
_REFUTED = 0.5  # likeness of a known number below which it speaks against a group

_Mask = npt.NDArray[np.bool_]


def moves(a: Traits, b: Traits, pairs: Likeness) -> list[Move]:
    """Return the groups that an alignment may use, several of A for one of B and vice versa."""
    sizes = range(2, LARGEST + 1)
    fused = [_several(a, b, pairs, size) for size in sizes if size <= len(a)]
    split = [_several(b, a, pairs.mirrored(), size) for size in sizes if size <= len(b)]
    result = [move for move in fused if move is not None]
    return result + [Move(move.width, move.height, move.alike.T) for move in split if move is not None]


def _several(many: Traits, one: Traits, pairs: Likeness, size: int) -> Move | None:
    """Return how alike each run of `size` layers is to each layer of the other side, NaN without evidence for it.

    Few runs are candidates, so everything after the first look works on these only. None if there is evidence for none.
    """
    flops, parameters = _RunNumbers(many.flops, one.flops, size), _RunNumbers(many.parameters, one.parameters, size)
    row, column = np.nonzero(flops.near | parameters.near | _ends_as(pairs, size))
    if not len(row):
        return None
    flops.look_at(row, column)
    parameters.look_at(row, column)
    member = row[:, None] + np.arange(size), column[:, None]
    types, shapes, names = pairs.types[member], pairs.shapes[member], pairs.names[member]
    elements = similarity.of_ratio(many.elements[member[0]].sum(axis=1), one.elements[column])
    shape = np.fmax(shapes[:, -1], np.where(elements == 1.0, 1.0, np.nan))  # or one output holds several side by side
    kind = np.fmax.reduce(types, axis=1)
    alike, _ = similarity.joined(kind, shape, flops.alike, np.fmax(parameters.alike, parameters.shared), names.max(axis=1))
    adds_up = (flops.adds_up & (~flops.slight | parameters.exact)) | (parameters.adds_up & (~parameters.slight | flops.exact))
    ends = _ends_as(pairs, size)[row, column] & (np.fmax(flops.first, parameters.first) >= similarity.SAME)
    evidence = (adds_up | ends) & ~(flops.refuted | parameters.refuted) & ~(kind < similarity.LOOSE)
    whole = np.full((len(many), len(one)), np.nan)
    whole[row[evidence] + size - 1, column[evidence]] = alike[evidence]
    return Move(size, 1, whole) if evidence.any() else None


class _RunNumbers:
    """How one kind of number compares runs of layers with single layers of the other side.

    near: [runs, single layers], whether the run's sum is close to the single layer's number. The rest is for the pairs looked
    at.
    """

    def __init__(self, many: Vector, one: Vector, size: int):
        self._runs, self._one = sliding_window_view(many, size), one
        total = self._runs.sum(axis=1)[:, None]
        with np.errstate(invalid="ignore"):
            self.near: _Mask = (np.abs(total - one[None, :]) <= _CLOSE * one[None, :]) & (one[None, :] > 0)

    def look_at(self, row: npt.NDArray[np.int64], column: npt.NDArray[np.int64]) -> None:
        """Compute these pairs of runs and single layers."""
        members, x = self._runs[row], self._one[column]
        total = members.sum(axis=1)
        with np.errstate(invalid="ignore"):
            off, single = np.abs(total - x), np.abs(members - x[:, None]).min(axis=1)
            self.adds_up: _Mask = self.near[row, column] & (off * _CLOSER <= single) & (single > 0)
            self.slight: _Mask = single <= _CLOSE * x  # one member nearly suffices: the rest is an activation or a bias
            self.exact: _Mask = (off == 0) | np.isnan(off)
            equal = (members == x[:, None]).all(axis=1) & (x > 0)
        self.alike = similarity.of_ratio(total, x)
        self.first = similarity.of_ratio(members[:, 0], x)
        self.shared: Vector = np.where(equal, 1.0, np.nan)  # all have the one layer's number: one module, called several times
        self.refuted: _Mask = (self.alike < _REFUTED) & ~equal


def _ends_as(pairs: Likeness, size: int) -> _Mask:
    """Return where a run begins with the single layer's type and ends with its output, which the first member's output is not.

    An example is a convolution and the pooling after it as one layer: the output is no longer the convolution's.
    """
    runs = len(pairs.types) - size + 1
    with np.errstate(invalid="ignore"):
        begins = (pairs.types[:runs] >= similarity.SAME) & (pairs.shapes[:runs] < similarity.JOINED)
        others = np.logical_and.reduce([pairs.types[n : n + runs] < similarity.LOOSE for n in range(1, size)])
        return np.asarray(begins & others & (pairs.shapes[size - 1 :] == 1.0))
