"""How much two recordings of one program differ, if each side was recorded in a single process.

Steps of one process say little about the next process: where memory lies, how threads share cores and what else the machine
does shift all its steps together. So intervals of single recordings have a floor; restarts show that noise and need none.

Processor time is a second clock. It does not include waiting for cores that others use, so it is steadier on a busy machine,
and shows whether a longer step is more work or more waiting. If threads spin while they wait for one another, it is the wall
clock times the number of threads, and shows no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.statistics import reach_of_difference, student_t, window_means
from kernelscope.analysis.explain.model import Side, Wall
from kernelscope.analysis.recordings.run import Run

AS_IT_COMES = 0.15  # of a step, and of claims on it, if the machine's own noise was not measured
STEADY = 0.05  # with a steady heap and passive waiting
PROCESSOR = 0.1  # of the processor time of a step, if its noise was not measured
LEAST = 0.05  # whatever was measured: other programs may differ by more than those measured
# However restless a machine is, rows that stand out from all others by more are reported: tried on scripts with known changes and
# on equal ones, on a machine whose processes differ by up to 87% (docs/validation)
MOST = 0.2
SPINNING = 0.95  # of the wall time for each thread: threads that do not spin are busy less than that
DISTURBED = 0.15  # share of the cores: with so much other work, a step that is longer only by waiting is no evidence
BUSY = 0.4  # share of the cores: with so much other work, no single recording shows how long a step takes


def floor(a: Side, b: Side, restarts: int) -> float:
    """Return the share of a time by which two processes of one program differ; 0 if restarts show it."""
    if restarts > 1 or not (a.clean and b.clean):
        return 0.0
    steady = all((side.facts.get("options") or {}).get("steady") for side in (a, b))
    return STEADY if steady else _measured(a, b, "wall", AS_IT_COMES)


def _measured(a: Side, b: Side, clock: str, otherwise: float) -> float:
    """Return the larger measured noise of both sides' machines and frameworks, within bounds; `otherwise` unless both were
    measured.
    """
    shares = _known(a, b, clock)
    return min(max(LEAST, *shares), MOST) if len(shares) == 2 else otherwise


def _known(a: Side, b: Side, clock: str) -> list[float]:
    """Return the measured noise of each side's machine and framework, if any."""
    known = [((side.facts.get("noise") or {}).get(side.framework) or {}).get(clock) for side in (a, b)]
    return [float(share) for share in known if isinstance(share, int | float)]


def restless(a: Side, b: Side, restarts: int) -> float | None:
    """Return the share by which processes of one program differ, if more than intervals allow for; else None."""
    if not floor(a, b, restarts):
        return None
    most = max(_known(a, b, "wall"), default=0.0)
    return most if most > MOST else None


def between_processes(runs: Sequence[Run]) -> dict[str, float | None]:
    """Return how much two processes of one program may differ (95%), as shares of a step: "wall" and "processor".

    runs: each of one program, with several restarts of its clean pass. The largest share of all programs counts. A share is the
    half width of the prediction interval of a difference: Student's t times the square root of 2 times the standard deviation
    of the logarithms of the restarts' means; None if not recorded.
    """
    clocks: dict[str, list[float | None]] = {"wall": [], "processor": []}
    for run in runs:
        restarts = [data.measured for data in run.passes("clean")]
        used = [_used(steps) for steps in restarts]
        clocks["wall"].append(_between([float(window_means(steps).median()) for steps in restarts]))
        clocks["processor"].append(_between([float(each.mean()) for each in used if each is not None]))
    shares = {clock: [share for share in each if share is not None] for clock, each in clocks.items()}
    return {clock: max(each, default=None) for clock, each in shares.items()}


def _between(means: Sequence[float]) -> float | None:
    if len(means) < 3 or min(means) <= 0:
        return None
    return float(np.expm1(student_t(len(means)) * 2**0.5 * float(np.std(np.log(means), ddof=1))))


def reach(least_ns: float, a: pd.DataFrame, b: pd.DataFrame) -> float:
    """Return how far off the difference of two clean passes of one process each may be (95%), in ns.

    least_ns: from the floor of their steps. The rest comes from how windows of steps vary within each pass.
    """
    varies = reach_of_difference(*(np.asarray(window_means(steps), dtype=np.float64) for steps in (a, b)))
    return float(np.hypot(least_ns, varies or 0.0))


def widened(ends: tuple[int, int], middle: float, reach_ns: float) -> tuple[int, int]:
    """Return an interval that extends at least this far on both sides of the estimate."""
    return min(ends[0], round(middle - reach_ns)), max(ends[1], round(middle + reach_ns))


def processor(a: Side, b: Side) -> Wall | None:
    """Return the processor time of a clean step on both sides over all threads, and the interval of the difference.

    With restarts, it is Student's t over their means; for single recordings, a floor and the variation of windows. None if not
    recorded.
    """
    sides = [[_used(steps) for steps in side.clean] for side in (a, b)]
    if not all(sides) or any(used is None for restarts in sides for used in restarts):
        return None
    restarts = [np.array([float(used.mean()) for used in mine if used is not None]) for mine in sides]
    first, second = (round(float(means.mean())) for means in restarts)
    delta = second - first
    if min(map(len, restarts)) > 1:
        reach_ns = reach_of_difference(*restarts)
    else:
        windows = [np.concatenate([used.to_numpy(np.float64) for used in mine if used is not None]) for mine in sides]
        share = _measured(a, b, "processor", PROCESSOR)
        if _spins(a) and _spins(b):
            share = max(share, floor(a, b, 1))
        reach_ns = float(np.hypot(share * max(first, second), reach_of_difference(*windows) or 0.0))
    return Wall(first, second, None if reach_ns is None else widened((delta, delta), delta, reach_ns))


def _spins(side: Side) -> bool:
    """Return whether several threads are busy during whole steps: they spin while they wait."""
    threads = busy_cores(side) or 0.0
    return threads >= 2 * SPINNING and threads >= SPINNING * round(threads)


def clean_mean(side: Side, *columns: str) -> float | None:
    """Return the mean per step of the sum of `columns` over the clean steps of all restarts; None if unknown."""
    steps = [steps[list(columns)].sum(axis=1, min_count=len(columns)) for steps in side.clean]
    values = pd.concat(steps).dropna() if steps else pd.Series(dtype=float)
    return float(values.mean()) if len(values) else None


def busy_cores(side: Side) -> float | None:
    """Return how many cores the process kept busy on average in its clean steps: processor time over wall time; None if
    unknown.
    """
    used = clean_mean(side, "user_ns", "system_ns")
    wall = [steps["end_ns"] - steps["start_ns"] for steps in side.clean]
    if used is None or not wall:
        return None
    mean = float(pd.concat(wall).mean())
    return used / mean if mean > 0 else None


def _used(steps: pd.DataFrame) -> pd.Series[float] | None:
    """Return the processor time of a step by window in ns; None unless all were recorded."""
    used = steps["user_ns"] + steps["system_ns"]
    return None if used.isna().any() or used.empty else used.astype(float).groupby(steps["window"]).mean()


def disturbed(a: Side, b: Side) -> float | None:
    """Return how many cores others kept busy on the more disturbed side, if enough to make steps wait; else None."""
    result = []
    for side in (a, b):
        allowed = (side.facts.get("machine") or {}).get("allowed_threads")
        if side.foreign_cores is not None and allowed and side.foreign_cores >= DISTURBED * allowed:
            result.append(side.foreign_cores)
    return max(result, default=None)


def busy(side: Side) -> float | None:
    """Return how many cores other processes kept busy, if so many that times mean little; else None."""
    cores = (side.facts.get("machine") or {}).get("allowed_threads")
    if side.foreign_cores is None or not cores or side.foreign_cores < BUSY * cores:
        return None
    return side.foreign_cores
