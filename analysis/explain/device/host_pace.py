"""Why the device waits longer for the host: the host launches more, or makes the same calls and each takes longer.

The second is not a cause in the program: processors, clocks and load differ between two recordings of one program, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import PACE, SIDES, DeviceCase
from kernelscope.analysis.explain.device.compiled import in_steps
from kernelscope.analysis.explain.device.side import DeviceSide

_SAME = 0.95  # share of all calls that both sides must have in common
_MOST = 0.7  # share of a side's extra kernels
_MORE = 0.1  # share of a side's kernels that the other must launch in addition, for the host to take noticeably longer
_TWICE = 2.0  # times as long: two recordings of one program differ by less


@dataclass(frozen=True)
class SamePace:
    """The same calls on both sides. count: calls per step; ratio: B's time in them over A's."""

    count: float
    ratio: float

    def sentence(self, case: DeviceCase) -> str:
        """Return it as a sentence."""
        slow, times = (case.b.name, self.ratio) if self.ratio > 1 else (case.a.name, 1 / self.ratio)
        return (
            f"the host makes the same {words.count(self.count)} calls {case.per} on both sides, and takes {times:.2f} times as "
            f"long for them in {slow}: two recordings of one program can differ by as much, with the machine's load and clocks"
        )


def same_calls(case: DeviceCase) -> SamePace | None:
    """Return how the host's time differs if both sides make the same calls at about the same pace; else None."""
    if not case.same_device:
        return None
    a, b = (_calls(case.side(key)) for key in SIDES)
    both = a.add_suffix("_a").join(b.add_suffix("_b"), how="outer").fillna(0.0)
    least, most = both[["count_a", "count_b"]].min(axis=1), both[["count_a", "count_b"]].max(axis=1)
    if not float(most.sum()) or float(least.sum()) < _SAME * float(most.sum()):
        return None
    # the time of the calls that both sides make, each counted as often as on the side that makes it less often
    times = [float((both[f"ns_{key}"] / both[f"count_{key}"].where(least > 0) * least).sum()) for key in SIDES]
    ratio = times[1] / times[0] if times[0] else 0.0
    return SamePace(float(least.sum()), ratio) if 1 / _TWICE < ratio < _TWICE else None


def _calls(side: DeviceSide) -> pd.DataFrame:
    """Return the count and time (ns) per step of each call and operator of a side's host, by name.

    Waits for the device are left out: they last as long as the device needs.
    """
    trace, steps = side.trace, max(len(side.account.lengths), 1)
    tables = [table[in_steps(table, trace).to_numpy(bool)] for table in (trace.operators, trace.calls)]
    rows = pd.concat([table[["name", "start_ns", "end_ns"]].astype({"name": "string"}) for table in tables])
    rows = rows[~rows["name"].str.contains("Synchronize|Memcpy|_local_scalar_dense|aten::item").fillna(True).to_numpy(bool)]
    lasted = (rows["end_ns"] - rows["start_ns"]).astype(float)
    grouped = lasted.groupby(rows["name"])
    return pd.DataFrame({"count": grouped.count(), "ns": grouped.sum()}) / steps


def before_operators(case: DeviceCase) -> float:
    """Return how much longer (ns per step) B takes from a step's mark to its first operator: programs load a batch there."""
    times = [_opening(case.side(key)) for key in SIDES]
    return 0.0 if None in times else float(times[1] or 0.0) - float(times[0] or 0.0)


def _opening(side: DeviceSide) -> float | None:
    """Return the mean time (ns) from a step's mark to its thread's first operator; None if unknown."""
    steps = side.trace.steps[~side.trace.steps["warmup"]].sort_values("start_ns")
    operators = side.trace.operators
    thread = steps["thread"].mode()
    if side.detected is None or side.detected.method != "profiler" or not len(thread) or not len(operators):
        return None
    starts = np.sort(
        operators.loc[(operators["thread"] == thread.iloc[0]).fillna(False).to_numpy(bool), "start_ns"].to_numpy(np.int64)
    )
    begin = steps["start_ns"].to_numpy(np.int64)
    place = np.searchsorted(starts, begin)
    inside = place < len(starts)
    waits = starts[place[inside]] - begin[inside]
    return float(waits.mean()) if len(waits) else None


def of_launches(case: DeviceCase, kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of idle time for the host's own work that come with these extra kernels; no rows if they do not.

    They do if these kernels are most of what one side launches in addition, and its device waits longer for the host.
    """
    idle, every = case.idle(PACE), case.all_kernels()
    extra, whole = (float((rows["b_count"] - rows["a_count"]).sum()) for rows in (kernels, every))
    delta = float(idle["delta_ns"].sum())
    fewer = min(float(every[f"{key}_count"].sum()) for key in SIDES)
    goes = extra * whole > 0 and extra * delta > 0 and abs(extra) >= _MOST * abs(whole) and abs(whole) >= _MORE * fewer
    return idle if goes else idle.iloc[:0]


def waits(case: DeviceCase, idle: pd.DataFrame) -> list[str]:
    """Return a sentence on the idle time that `of_launches` returned, if any."""
    return [f"The device waits for the host, which launches them: {words.of_rows(case, idle)}."] if len(idle) else []
