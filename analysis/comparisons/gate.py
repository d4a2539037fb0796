"""Is NEW slower than BASE by more than is allowed? The answer is given only if the recordings show it despite their noise.

The estimate of an explanation alone would fail a third of all changes that change nothing, and pass others that are slower. So
a gate fails if the whole 95% interval of the slowdown lies beyond the limit, passes if it lies within, and is otherwise
undecided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kernelscope.analysis.explain.abstention import SMALLEST_DIFFERENCE

SCHEMA = "kernelscope/gate/1"
FEWEST_RESTARTS = 2
PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a gate. change, low, high and limit are shares of BASE's step, positive if NEW is slower.

    low, high: the 95% interval; None if one side has only one process. seen: the smallest change that the recordings could
    show, None if unknown. why: one sentence.
    """

    status: str
    change: float
    low: float | None
    high: float | None
    limit: float
    seen: float | None
    base_ns: int
    new_ns: int
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data, with its schema."""
        return {"schema": SCHEMA, **asdict(self)}


def judge(explanation: Mapping[str, Any], limit: float) -> Verdict:
    """Judge an explanation (analysis.explain, with A as the base); limit: the allowed slowdown as a share of BASE's step.

    Differences below SMALLEST_DIFFERENCE never fail: two runs of one program differ by as much.
    """
    base, new = explanation["a"]["step_ns"], explanation["b"]["step_ns"]
    change = explanation["wall_delta_ns"] / base
    interval = explanation["wall_interval_ns"]
    low, high = (bound / base for bound in interval) if interval else (None, None)
    seen = None if explanation["floor_ns"] is None else max(explanation["floor_ns"] / base, SMALLEST_DIFFERENCE)
    if min(explanation[side]["restarts"] for side in ("a", "b")) < FEWEST_RESTARTS:
        low = high = None  # an interval over the steps of one process does not cover how processes differ
    status, why = _status(change, low, high, limit, explanation["to_resolve"])
    return Verdict(status, change, low, high, limit, seen, base, new, why)


def _status(change: float, low: float | None, high: float | None, limit: float, again: str) -> tuple[str, str]:
    """Return the status and its reason. again: how to record so that more can be decided."""
    where = "within" if change <= limit else "beyond"
    if low is None or high is None:
        once = "one recording of a side does not show how processes of one program differ"
        return UNDECIDED, f"the estimate is {where} the limit, but {once}: {again}"
    if low > max(limit, SMALLEST_DIFFERENCE):
        return FAILED, "the whole 95% interval of the slowdown is beyond the limit"
    if high <= limit:
        return PASSED, "the whole 95% interval of the slowdown is within the limit"
    if low > limit:
        return UNDECIDED, f"two runs of one program may differ by {SMALLEST_DIFFERENCE:.1%}, which is more than the limit"
    return UNDECIDED, f"the estimate is {where} the limit, but the 95% interval reaches across it: {again}"
