"""Steps that get longer one after another: lists, tensors or graphs that a program adds to and processes again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.growth import agreement
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import host_lines
from kernelscope.analysis.trace import intervals

_AGREE = 0.5  # Kendall's tau of a line's time over the recorded steps, which are few
_PART = 0.25  # of the growth of the recorded steps: a line with less is not named
_GROWN = 0.05  # of a recorded step: if steps grow less, it may be noise, and no line is named
_NAMED = 2
_REMEDY = (
    "find what is kept from step to step: a list or tensor that grows, a loss that is summed with its graph (use "
    "loss.item() or loss.detach()); keep a running value, or the last few, instead of all"
)


def longer(subject: Subject) -> list[Advice]:
    """The steps of the clean pass get longer while the program runs."""
    found = subject.growth if subject.facts else None
    if found is None or subject.step_ns <= found.first_ns:
        return []
    first, last = words.duration(found.first_ns), words.duration(found.last_ns)
    return [
        Advice(
            "steps that get longer",
            f"steps get longer as the program runs: {first} at first, {last} at the end of {found.steps} steps",
            subject.step_ns - found.first_ns,
            "the median step less the first ones",
            [f"Of {found.steps} clean steps, the median of the second quarter is {first}, of the last {last}.", *_lines(subject)],
            _REMEDY,
            "https://docs.pytorch.org/docs/stable/notes/faq.html" if "pytorch" in subject.framework else "",
        )
    ]


def _lines(subject: Subject) -> list[str]:
    """Name the program's lines that grow over the recorded steps; nothing if none stands out."""
    if subject.trace.host_lines.empty or not subject.on_host or host_lines.computes_behind(subject.trace):
        return []
    lines, by_step = _by_step(subject)
    whole = by_step.sum(axis=0)
    total = _growth(whole) if _growth(whole) >= _GROWN * whole.mean() else 0.0
    grown = np.array([_growth(row) if agreement(row.astype(np.int64)) >= _AGREE else 0.0 for row in by_step])
    order = [row for row in np.argsort(-grown, kind="stable")[:_NAMED] if total > 0 and grown[row] >= _PART * total]
    if not order:
        return []
    named = [
        f"{lines['file'][row]}:{lines['line'][row]} `{str(lines['text'][row]).strip()}` "
        f"({words.duration(by_step[row][0])} in the first, {words.duration(by_step[row][-1])} in the last)"
        for row in order
    ]
    return [f"Over {by_step.shape[1]} recorded steps, what grows most is {' and '.join(named)}."]


def _growth(times: npt.NDArray[np.float64]) -> float:
    third = max(len(times) // 3, 1)
    return float(np.mean(times[-third:]) - np.mean(times[:third]))


def _by_step(subject: Subject) -> tuple[pd.DataFrame, npt.NDArray[np.float64]]:
    """Return the lines on the host's timeline, and the host's time in each line in each measured step: [lines, steps], ns."""
    trace = subject.trace
    lines, code, pieces = host_lines.numbered(trace)
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    index, step, start, end = intervals.split_at(*pieces, *intervals.edges(steps))
    times = np.zeros((len(lines), len(steps)))
    np.add.at(times, (code[index], step), (end - start).astype(float))
    return lines, times


RULES: tuple[Rule, ...] = (longer,)
