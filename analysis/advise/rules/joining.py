"""Tensors that grow piece by piece: joining a piece copies all earlier pieces once more."""

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
_FEWEST = 20  # pieces: fewer may as well be joined one by one
_STEPS = 5  # successive steps in which a tensor grows
_REMEDY = "collect the pieces in a list and call torch.cat once, or write them into a tensor allocated at its final size"


def piece_by_piece(subject: Subject) -> list[Advice]:
    """The host joins tensors to the result of an earlier join, outside all layers."""
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
    made = f"the result of an earlier call, which grows to {most:,} elements: {took}."
    return [
        Advice(
            "tensors that grow",
            "a tensor grows piece by piece, and each piece copies all of it",
            min(again, float(words.time_of(rows))),
            "the share of each join that was joined before",
            [f"{words.count(count)} calls of {_JOINS} {subject.in_each} append to {made}"],
            _REMEDY,
            "https://docs.pytorch.org/docs/stable/generated/torch.cat.html",
            words.ids(rows),
        )
    ]


def from_step_to_step(subject: Subject) -> list[Advice]:
    """Each step joins a tensor to the result of the step before: it is copied and processed, and grows each time."""
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
    follows |= np.isin(total, first[follows])  # the join of the first step
    operators = subject.inside_steps(subject.trace.operators)
    works = np.isin(_of_first(operators["shapes"]), total[follows]) | operators.index.isin(joins.index[follows])
    mine, kernels = operators[works], subject.kernels()
    rows = kernels[(kernels["name"].isin(mine["name"]) & kernels["layer"].isna()).fillna(False).to_numpy(bool)]
    lengths = (steps["end_ns"] - steps["start_ns"]).sum()
    lasted = (mine["end_ns"] - mine["start_ns"]).groupby(mine["name"], observed=True).sum().sort_values(ascending=False)
    names = [str(name) for name in lasted.index if name != _JOINS][:3]
    grown = f"from {int(first[follows].min()):,} to {int(total[follows].max()):,} elements over the {len(steps)} recorded steps"
    return [
        Advice(
            "tensors that grow",
            "a tensor grows from step to step, and each step copies and processes all of it",
            min(_time_of(mine) / int(lengths) * subject.step_ns, float(words.time_of(rows))),
            "the time of operators on it, which grows from step to step",
            [f"In each step {_JOINS} appends to the result of the step before, {grown}.", *_worked(names)],
            "keep running values of the past (a count, a mean, a sum of squares), or only its last few steps",
            "https://docs.pytorch.org/docs/stable/generated/torch.cat.html",
            words.ids(rows),
        )
    ]


def _worked(names: list[str]) -> list[str]:
    return [f"Processed in full by {', '.join(names)}."] if names else []


def _time_of(operators: pd.DataFrame) -> int:
    """Return how long any of these operators runs, in ns; they may be nested."""
    start, end = intervals.edges(operators)
    window = np.array([start.min()]), np.array([end.max()])
    free_start, free_end = intervals.uncovered(start, end, *window)
    return int((window[1] - window[0]).sum() - (free_end - free_start).sum())


def _of_first(shapes: pd.Series) -> npt.NDArray[np.int64]:
    """Return how many elements the first tensor of each operator has; 0 if unknown."""
    known = {text: _first(text) for text in shapes.dropna().unique()}
    return np.array([known.get(text, 0) for text in shapes], dtype=np.int64)


def _first(text: str) -> int:
    try:
        return int(np.prod([int(one) for one in json_text.listed(text)[0]], dtype=np.int64))
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0


def _joins(subject: Subject) -> pd.DataFrame:
    """Return the joins in the measured steps that are in no layer."""
    joins = subject.inside_steps(subject.trace.operators)
    return joins[((joins["name"] == _JOINS) & joins["layer"].isna()).fillna(False).to_numpy(bool)]


def _elements(shapes: pd.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many elements the first tensor of each join has, and all its tensors together; 0 if unknown."""
    known = {text: _of(text) for text in shapes.dropna().unique()}
    pairs = np.array([known.get(text, (0, 0)) for text in shapes], dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _of(text: str) -> tuple[int, int]:
    """Return the same for one join's shapes, such as [[[63, 129], [63, 129]], []]."""
    try:
        tensors: Any = json_text.listed(text)[0]
        sizes = [int(np.prod([int(one) for one in tensor], dtype=np.int64)) for tensor in tensors]
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0, 0
    return (sizes[0], sum(sizes)) if sizes and min(sizes) >= 0 else (0, 0)


RULES: tuple[Rule, ...] = (piece_by_piece, from_step_to_step)
