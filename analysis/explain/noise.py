"""What two recordings of one program differ by, where each side was recorded in a single process.

Steps of one process tell little of the next one's: where memory lies, how threads share cores and what the machine does besides
move all of its steps together. So intervals of single recordings have a floor; restarts show that noise and need none.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.statistics import reach_of_difference, window_means

AS_IT_COMES = 0.15  # of a step, and of what is claimed of it
STEADY = 0.05  # with a steady heap and passive waiting
BUSY = 0.4  # share of the cores: with so much of other processes' work no single recording tells how long a step takes


def floor(a: Side, b: Side, restarts: int) -> float:
    """Return the share of a time by which two processes of one program differ; 0 where restarts show it."""
    if restarts > 1 or not (a.clean and b.clean):
        return 0.0
    steady = all((side.facts.get("options") or {}).get("steady") for side in (a, b))
    return STEADY if steady else AS_IT_COMES


def reach(least_ns: float, a: pd.DataFrame, b: pd.DataFrame) -> float:
    """Return how far the difference of two clean passes of one process each may be off (95%), ns.

    least_ns: what the floor makes of their steps. The rest is by how much windows of steps vary within each.
    """
    varies = reach_of_difference(*(np.asarray(window_means(steps), dtype=np.float64) for steps in (a, b)))
    return float(np.hypot(least_ns, varies or 0.0))


def widened(ends: tuple[int, int], middle: float, reach_ns: float) -> tuple[int, int]:
    """Return an interval that reaches at least so far to both sides of the estimate."""
    return min(ends[0], round(middle - reach_ns)), max(ends[1], round(middle + reach_ns))


def busy(side: Side) -> float | None:
    """Return how many cores other processes kept busy, where that is so many that times say little; else None."""
    cores = (side.facts.get("machine") or {}).get("allowed_threads")
    if side.foreign_cores is None or not cores or side.foreign_cores < BUSY * cores:
        return None
    return side.foreign_cores
