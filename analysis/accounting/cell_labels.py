"""Label the cells of a partition in tables, and find which of them are known from evidence.

It uses plain lists: for the few thousand cells of a capture, the overhead of pandas alone is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.trace import METHODS

# Known parts of a step that are no layers: the layer column names them in parentheses
_NAMED_PHASES = {"optimizer": "(optimizer)", "data": "(data)"}
KERNELS = ("kernel", "layer-kernel")  # tables of kernels; the second is also by layer and phase
_COMMUNICATION = "communication"  # a kind of kernel that belongs to no layer
BETWEEN_LAYERS = "(between layers)"
PROGRAM = f"({levels.SCRIPT})"
_OF_STEPS = (levels.DISPATCH, levels.COMPILING, levels.WAITING, levels.DATA, levels.SCRIPT, levels.QUEUED)
_NAMED_CAUSES = {cause: f"({cause})" for cause in _OF_STEPS}
_NAMED_CAUSES[levels.IN_PHASE] = BETWEEN_LAYERS
UNATTRIBUTED = "(unattributed)"  # work whose layer is unknown
ELSEWHERE = "(host: in no layer)"
OUTSIDE = f"({levels.OUTSIDE_OF_STEPS})"
# Time that is known to be no layer's is not unattributed, but it is no layer either: it does not raise the coverage
NO_LAYER = (UNATTRIBUTED, ELSEWHERE, BETWEEN_LAYERS, _NAMED_CAUSES[levels.QUEUED])
COMPUTING = "(computing)"
NO_NAME = "(no name)"  # kernels without a name in the capture
NO_RANGE = "(no range)"
_RANK = {method: number for number, method in enumerate(METHODS)}
_UNEXPLAINED = (levels.OUTSIDE, levels.UNSEEN, levels.OPAQUE_GRAPH)

Texts = list[str | None]


class CellLabels:
    """Columns of texts for tables of cells (partition.KEYS), made on demand and cached; None is null."""

    def __init__(self, cells: pd.DataFrame):
        self._cells = cells
        self._read: dict[str, Texts] = {}

    def column(self, by: str, key: str) -> Texts:
        """Return a column of the table `by`: the cells' own text, or a label where null has a meaning."""
        own = self._texts(key) if key != "activity" else []
        if key == "layer":
            return self.layers
        if key == "cause":
            return [COMPUTING if text is None else text for text in own]
        if key == "kind" and by in ("kind", *KERNELS):
            return self.kinds
        if key == "phase" and by == "kernel":  # a kernel is one row for all phases, but work outside of steps has its own
            return [text if text == levels.OUTSIDE_OF_STEPS else None for text in own]
        if key == "kernel" and by in KERNELS:
            causes = self._texts("cause")
            unnamed = [NO_NAME if cause is None else kind for cause, kind in zip(causes, self.kinds, strict=True)]
            return [other if text is None else text for text, other in zip(own, unnamed, strict=True)]
        if key == by == "operator":
            return [kind if text is None else text for text, kind in zip(own, self.kinds, strict=True)]
        if key == "range":
            return [self._without_range if text is None else text for text in own]
        if key == "activity":
            return ["kernels" if cause is None else kind for cause, kind in zip(self._texts("cause"), self.kinds, strict=True)]
        return own

    def numbered(self, by: str, keys: Sequence[str]) -> tuple[dict[tuple[str | None, ...], int], list[int]]:
        """Return the distinct rows of the table `by` with these columns, numbered as they appear, and each cell's number."""
        numbers: dict[tuple[str | None, ...], int] = {}
        group = [numbers.setdefault(row, len(numbers)) for row in zip(*(self.column(by, key) for key in keys), strict=True)]
        return numbers, group

    @cached_property
    def layers(self) -> Texts:
        """Each cell's layer, or in parentheses its part of the step; for the rest of the host's time (host: in no layer)."""

        def label(layer: str | None, phase: str | None, cause: str | None, kind: str | None) -> str | None:
            if layer is not None:
                return layer
            if phase == levels.OUTSIDE_OF_STEPS:
                return OUTSIDE
            if kind == _COMMUNICATION:
                return f"({_COMMUNICATION})"
            on_device = cause is None or cause.startswith(levels.DEVICE)
            rest = UNATTRIBUTED if on_device else ELSEWHERE
            return _NAMED_PHASES.get(phase or "") or _NAMED_CAUSES.get(cause or "", rest)

        return list(map(label, *(self._texts(name) for name in ("layer", "phase", "cause", "kind"))))

    @cached_property
    def kinds(self) -> Texts:
        """Each cell's kind, or in parentheses what the device or the host did while no kernel ran."""

        def label(kind: str | None, cause: str | None) -> str | None:
            if kind is not None or cause is None:
                return kind
            return f"({cause})" if cause.startswith(levels.DEVICE) else f"(host: {cause})"

        return list(map(label, self._texts("kind"), self._texts("cause")))

    def known(self, by: str) -> npt.NDArray[np.bool_]:
        """Return which cells' keys are known: not unattributed, not of unknown kind, not unexplained time of the loop itself."""
        if by == "operator" or (by == "range" and not self._has_layers):
            return _flags([text is not None for text in self._texts(by)])
        if by in ("layer", "range"):
            return _flags([text not in NO_LAYER for text in self.layers])
        # which kernels ran within a graph is unknown, but the device was not idle
        unexplained = _UNEXPLAINED if by != "idle" else tuple(one for one in _UNEXPLAINED if one != levels.OPAQUE_GRAPH)
        explained = _flags([text not in unexplained for text in self._texts("cause")])
        if by in ("kind", *KERNELS):
            return explained & _flags([text != "unknown" for text in self._texts("kind")])
        return explained & _flags([text is not None for text in self._texts("phase")]) if by == "phase" else explained

    def methods(self, group: Sequence[int], count: int) -> list[str]:
        """Return for each group of cells the methods by which its time was attributed, most time first."""
        texts = [str(method) for method in self._texts("method")]
        known = sorted(set(texts), key=lambda method: (_RANK.get(method, len(_RANK)), method))
        codes = {method: code for code, method in enumerate(known)}
        places = np.asarray(group, dtype=np.int64) * len(known) + np.array([codes[text] for text in texts], dtype=np.int64)
        used, time = np.zeros((count, len(known)), dtype=np.bool_), np.zeros((count, len(known)), dtype=np.int64)
        used.ravel()[places] = True
        np.add.at(time.ravel(), places, self._cells["time_ns"].to_numpy(np.int64))
        order = np.argsort(-time, axis=1, kind="stable").tolist()
        return [
            "; ".join(known[code] for code in codes_ if used_[code]) for codes_, used_ in zip(order, used.tolist(), strict=True)
        ]

    def _texts(self, name: str) -> Texts:
        result = self._read.get(name)
        if result is None:
            # pandas takes None here, its stubs do not know it
            result = self._read[name] = self._cells[name].to_numpy(dtype=object, na_value=None).tolist()  # type: ignore[call-overload]
        return result

    @property
    def _has_layers(self) -> bool:
        return any(text is not None for text in self._texts("layer"))

    @cached_property
    def _without_range(self) -> str:
        """The name of rows without a range: in our own runs, kernels belong to layers and not to ranges."""
        correlated = any(
            text is not None and cause is None for text, cause in zip(self._texts("range"), self._texts("cause"), strict=True)
        )
        return NO_RANGE if correlated or not self._has_layers else COMPUTING


def _flags(values: list[bool]) -> npt.NDArray[np.bool_]:
    return np.array(values, dtype=np.bool_)
