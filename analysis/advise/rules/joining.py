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
from kernelscope.analysis.trace import intervals

_JOINS = "aten::cat"  # torch.stack calls it, too
_FEWEST = 20  # pieces: of fewer, joining them one by one may be how the program is written best
_STEPS = 5  # in a row, whose tensors grow
_REMEDY = "collect the pieces in a list and call torch.cat once, or write them into a tensor that has its size from the beginning"


def piece_by_piece(subject: Subject) -> list[Advice]:
    """The host joins tensors to the result of an earlier join, outside of all layers."""
    if not subject.on_host:
        return []
    joins = _joins(subject)
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


def from_step_to_step(subject: Subject) -> list[Advice]:
    """In each step a tensor is joined to what the step before made: it is copied and worked through, and longer each time."""
    if not subject.on_host:
        return []
    joins, steps = _joins(subject), subject.trace.steps[~subject.trace.steps["warmup"]].sort_values("start_ns")
    first, total = _elements(joins["shapes"])
    step = intervals.containing(joins["start_ns"].to_numpy(np.int64), *intervals.edges(steps))
    made = dict(zip(total.tolist(), step.tolist(), strict=True))
    before = np.array([made.get(one, -2) for one in first.tolist()], dtype=np.int64)
    follows = (first > 0) & (total > first) & (before == step - 1)
    if len(np.unique(step[follows])) < max(_STEPS, len(steps) - 1):
        return []
    follows |= np.isin(total, first[follows])  # that of the first step
    operators = subject.inside_steps(subject.trace.operators)
    works = np.isin(_of_first(operators["shapes"]), total[follows]) | operators.index.isin(joins.index[follows])
    mine, kernels = operators[works], subject.kernels()
    rows = kernels[(kernels["name"].isin(mine["name"]) & kernels["layer"].isna()).fillna(False).to_numpy(bool)]
    lengths = (steps["end_ns"] - steps["start_ns"]).sum()
    lasted = (mine["end_ns"] - mine["start_ns"]).groupby(mine["name"], observed=True).sum().sort_values(ascending=False)
    names = [str(name) for name in lasted.index if name != _JOINS][:3]
    grown = f"from {int(first[follows].min()):,} to {int(total[follows].max()):,} elements in the {len(steps)} recorded ones"
    return [
        Advice(
            "tensors that grow",
            "a tensor grows from step to step: all of it is copied, and worked through, in each",
            min(_time_of(mine) / int(lengths) * subject.step_ns, float(words.time_of(rows))),
            "what is done with it, which takes longer from step to step",
            [f"{_JOINS} adds in each step to what the step before made, {grown}.", *_worked(names)],
            "keep what is wanted of the past as running values (a count, a mean, a sum of squares), or the last few steps only",
            "https://docs.pytorch.org/docs/stable/generated/torch.cat.html",
            words.ids(rows),
        )
    ]


def _worked(names: list[str]) -> list[str]:
    return [f"All of it is gone through by {', '.join(names)}."] if names else []


def _time_of(operators: pd.DataFrame) -> int:
    """Return how long any of these operators runs, ns: they may be within each other."""
    start, end = intervals.edges(operators)
    window = np.array([start.min()]), np.array([end.max()])
    free_start, free_end = intervals.uncovered(start, end, *window)
    return int((window[1] - window[0]).sum() - (free_end - free_start).sum())


def _of_first(shapes: pd.Series) -> npt.NDArray[np.int64]:
    """Return how many elements the first tensor of each operator has; 0 where that is not known."""
    known = {text: _first(text) for text in shapes.dropna().unique()}
    return np.array([known.get(text, 0) for text in shapes], dtype=np.int64)


def _first(text: str) -> int:
    try:
        return int(np.prod([int(one) for one in json_text.listed(text)[0]], dtype=np.int64))
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0


def _joins(subject: Subject) -> pd.DataFrame:
    """Return the joins of the measured steps that are in no layer."""
    joins = subject.inside_steps(subject.trace.operators)
    return joins[((joins["name"] == _JOINS) & joins["layer"].isna()).fillna(False).to_numpy(bool)]


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


RULES: tuple[Rule, ...] = (piece_by_piece, from_step_to_step)
