"""Compare two jobs: the mean rank's step part by part, and for whom ranks wait in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.analysis.trace import intervals

SCHEMA = "kernelscope/ranks-compared/1"
SIDES = ("a", "b")
_CAUSE = ("rank", "operation", "cause", "where", "name")


def compared(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Return how job B (the result of ranks.job) differs from job A, as plain data.

    Keys: schema; a, b (ranks, step_ns of the mean rank, slowest_ns of the slowest one, partial); delta_ns, of the mean rank's
    step; parts: part, a_ns, b_ns and delta_ns of the mean rank, which add up to these steps and their difference, largest
    difference first; blame: what ranks waited for (see ranks.job) with a_ns, b_ns and delta_ns summed over ranks, largest
    difference first; notes.
    """
    means = [_mean(one) for one in (a, b)]
    rows = [
        {"part": part, "a_ns": means[0][part], "b_ns": means[1][part], "delta_ns": means[1][part] - means[0][part]}
        for part in JOB_PARTS
    ]
    sides = {
        side: {"ranks": len(one["ranks"]), "step_ns": sum(mean.values()), "slowest_ns": one["step_ns"], "partial": one["partial"]}
        for side, one, mean in zip(SIDES, (a, b), means, strict=True)
    }
    waited = [{_key(row): row["ns"] for row in one["blame"]} for one in (a, b)]
    blame = [
        {**dict(zip(_CAUSE, key, strict=True)), "a_ns": waited[0].get(key, 0), "b_ns": waited[1].get(key, 0),
         "delta_ns": waited[1].get(key, 0) - waited[0].get(key, 0)}
        for key in dict.fromkeys([*waited[0], *waited[1]])
    ]  # fmt: skip
    return {
        "schema": SCHEMA, **sides, "delta_ns": sides["b"]["step_ns"] - sides["a"]["step_ns"],
        "parts": sorted(rows, key=lambda row: -abs(row["delta_ns"])),
        "blame": sorted(blame, key=lambda row: -abs(row["delta_ns"])),
        "notes": [f"{side.upper()}: {note}" for side, one in zip(SIDES, (a, b), strict=True) for note in one["notes"]],
    }  # fmt: skip


def _mean(job: Mapping[str, Any]) -> dict[str, int]:
    """Return the parts of the mean rank's step; they add up to it."""
    count = len(job["ranks"])
    whole = round(sum(row["step_ns"] for row in job["ranks"]) / count)
    parts = intervals.apportion(np.array([job["parts"][part] for part in JOB_PARTS], dtype=float) / count, whole)
    return dict(zip(JOB_PARTS, map(int, parts), strict=True))


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _CAUSE)
