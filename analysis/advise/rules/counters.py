"""Kernels that use little of the device, according to hardware counters: what limits them, and what to change in their code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.device import counters, launches, limits

TOPIC = "kernel efficiency"
_LARGE = 0.05  # of the step: shorter kernels are not looked at
_LINK = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"


def inefficient(subject: Subject) -> list[Advice]:
    """Kernels that keep no unit busy, or only a cache."""
    result = []
    for row, limit in _limits(subject):
        rows = subject.kernels()
        rows = rows[(rows["name"] == row["kernel"]).fillna(False).to_numpy(bool)]
        ns = words.time_of(rows)
        if not limit.saves or not ns:
            continue
        evidence = [f"It takes {words.share(subject, ns)}.", f"Of their peaks it uses: {counters.shares(row)}.", *limit.evidence]
        evidence += launches.rules(subject.trace, row["kernel"]) if limit.of_grid or limit.unclear else []
        result.append(
            Advice(TOPIC, limit.title, ns * limit.saves, limit.estimate, evidence, limit.remedy, _LINK, words.ids(rows))
        )
    return result


def notes(subject: Subject) -> list[str]:
    """Name the kernels that use a unit of the device well, and what could still make them faster."""
    return [f"{limit.title}: {limit.remedy}" for _, limit in _limits(subject) if not limit.saves]


def _limits(subject: Subject) -> Iterator[tuple[dict[str, Any], limits.Limit]]:
    """Yield the counters of each large kernel, longest first, and what limits it, as far as they tell."""
    if subject.trace.metrics.empty or subject.on_host:
        return
    table = counters.table(subject.trace)
    table = table[(table["device"] == subject.device).fillna(False) & (table["duration_ns"] >= _LARGE * subject.step_ns)]
    for row in table.to_dict("records"):
        known = counters.over_elapsed(subject.trace, {str(key): value for key, value in row.items()})
        limit = None if all(pd.isna(known[unit]) for unit in counters.UNITS) else limits.of(subject.trace, known)
        if limit is not None:
            yield known, limit


RULES: tuple[Rule, ...] = (inefficient,)
