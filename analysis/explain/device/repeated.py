"""Several captures a side, each of another process of one program: how far processes of a program differ.

The capture of the middle step stands for its side. The difference then is uncertain by how far the steps of the other processes
lie from it, which the steps of one process do not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.device import explanation, words
from kernelscope.analysis.explain.device.side import CaptureSide
from kernelscope.analysis.explain.model import SIDES
from kernelscope.analysis.trace import same_work

Captures = Sequence[CaptureSide]


class Steps(NamedTuple):
    """The step of each process of both sides (ns), in the order of their captures."""

    a: list[int]
    b: list[int]


def explain_processes(a: Captures, b: Captures, request: Request | None = None) -> dict[str, Any]:
    """Explain why B takes longer or shorter than A by the captures of the middle steps, as `explanation.explain` does.

    The interval of the difference is the wider one of those over processes and over steps. Raises EvidenceError if a capture is
    there twice, or if captures of one side are of several ranks.
    """
    if len(a) == len(b) == 1:
        return explanation.explain(a[0], b[0], request)
    for side in (a, b):
        _refuse_others(side)
    steps = Steps([], [])
    for number in range(max(len(a), len(b))):
        sides = explanation.sides_of(a[min(number, len(a) - 1)], b[min(number, len(b) - 1)], request or Request())
        for one, captures, known in zip(sides, (a, b), steps, strict=True):
            if number < len(captures):
                known.append(one.account.step_ns)
    middle = [captures[_middle(known)] for captures, known in zip((a, b), steps, strict=True)]
    result = explanation.explain(middle[0], middle[1], request, steps)
    result["notes"] = [*_notes(middle, steps), *result["notes"]]
    return result


def _middle(steps: Sequence[int]) -> int:
    """Return the place of the middle step; of an even number the shorter one of the two."""
    return int(np.argsort(steps, kind="stable")[(len(steps) - 1) // 2])


def _refuse_others(captures: Captures) -> None:
    """Refuse copies, as processes that agree so well would feign certainty, and ranks of a job, which are no repetitions."""
    for one, other in combinations(captures, 2):
        same_work.refuse_same_times((one.trace, one.path), (other.trace, other.path))
    ranks = {str(rank) for one in captures if (rank := (one.trace.info.get("distributed") or {}).get("rank")) is not None}
    if len(ranks) > 1:
        remedy = "name the folder to `kernelscope ranks`"
        raise EvidenceError(f"{captures[0].path}: beside it are captures of other ranks ({', '.join(sorted(ranks))}); {remedy}")


def _notes(middle: Captures, steps: Steps) -> Iterator[str]:
    """Yield for each side the steps of its processes, and which capture stands for them."""
    for key, one, known in zip(SIDES, middle, steps, strict=True):
        if len(known) > 1:
            shown = ", ".join(words.duration(ns) for ns in known)
            yield f"{key.upper()}: {len(known)} recordings with steps of {shown}; the account is that of {one.path}"
