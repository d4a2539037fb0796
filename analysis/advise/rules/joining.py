"""Tensors that grow piece by piece: each piece is joined to all before it, which are copied once more."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.files import json_text

_JOINS = "aten::cat"  # torch.stack calls it, too
_FEWEST = 20  # pieces: of fewer, joining them one by one may be how the program is written best
_REMEDY = "collect the pieces in a list and call torch.cat once, or write them into a tensor that has its size from the beginning"


def piece_by_piece(subject: Subject) -> list[Advice]:
    """The host joins tensors to the result of an earlier join, outside of all layers."""
    if not subject.on_host:
        return []
    joins = subject.inside_steps(subject.trace.operators)
    joins = joins[((joins["name"] == _JOINS) & joins["layer"].isna()).fillna(False).to_numpy(bool)]
    first, total = _elements(joins["shapes"])
    grows = (first > 0) & np.isin(first, total)
    if len(np.unique(first[grows])) < _FEWEST:
        return []
    lasted = (joins["end_ns"] - joins["start_ns"]).to_numpy(np.float64)[grows] / max(subject.count, 1)
    again = float((lasted * first[grows] / total[grows]).sum())
    kernels = subject.kernels()
    rows = kernels[(kernels["name"] == _JOINS).fillna(False).to_numpy(bool)]
    count, most = float(grows.sum()) / max(subject.count, 1), int(total[grows].max())
    took = words.share(subject, float(lasted.sum()))
    made = f"an earlier one made, which grows to {most:,} elements: {took}."
    return [
        Advice(
            "tensors that grow",
            "a tensor grows piece by piece: all of it is copied for each",
            min(again, float(words.time_of(rows))),
            "of each join the share of what was joined before",
            [f"{words.count(count)} calls of {_JOINS} {subject.in_each} add to what {made}"],
            _REMEDY,
            "https://docs.pytorch.org/docs/stable/generated/torch.cat.html",
            words.ids(rows),
        )
    ]


def _elements(shapes: pd.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many elements the first tensor of each join has, and all of them; 0 where that is not known."""
    known = {text: _of(text) for text in shapes.dropna().unique()}
    pairs = np.array([known.get(text, (0, 0)) for text in shapes], dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _of(text: str) -> tuple[int, int]:
    """Return the same of one join's shapes, [[[63, 129], [63, 129]], []]."""
    try:
        tensors: Any = json_text.listed(text)[0]
        sizes = [int(np.prod([int(one) for one in tensor], dtype=np.int64)) for tensor in tensors]
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0, 0
    return (sizes[0], sum(sizes)) if sizes and min(sizes) >= 0 else (0, 0)


RULES: tuple[Rule, ...] = (piece_by_piece,)
