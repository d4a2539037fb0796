"""Problems (sizes) that both sides' libraries write down: of equal ones, the one that makes the difference is named."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase

_MOST = 0.8  # of the difference: a problem that makes it
REMEDY = "sizes are the same: compare threads, clocks, library versions, and other load on the processors"


@dataclass(frozen=True)
class Problem:
    """The problem that makes the difference of kernels that solve the same ones on both sides."""

    problem: str
    count: float
    a_ns: float
    b_ns: float

    def sentence(self, case: DeviceCase, whole_ns: float) -> str:
        """Return it with both times: mb200ic512oc128 makes -2.90 ms of -2.91 ms: 31.6 ms in A, 28.7 ms in B, 1 execution each."""
        times = words.change(case, self.a_ns, self.b_ns)
        number = f"{words.count(self.count)} execution{'' if self.count == 1 else 's'} each {case.per}".removesuffix(" in all")
        parts = f"{words.signed(self.b_ns - self.a_ns)} of {words.signed(whole_ns)}"
        return f"Both solve the same problems, as often; {self.problem} makes {parts}: {times}, {number}."


def largest(case: DeviceCase, rows: pd.DataFrame) -> Problem | None:
    """Return the problem that makes these rows' difference; None if problems are unknown, or differ, or several make it."""
    if not case.totals:
        return None
    tables = [_by_problem(case.side(key).trace.kernels, rows) for key in SIDES]
    if any(table is None for table in tables):
        return None
    a, b = (table for table in tables if table is not None)
    if not a["count"].equals(b["count"]) or len(a) < 2:
        return None
    apart = b["duration_ns"] - a["duration_ns"]
    whole = float(apart.sum())
    problems = apart.groupby(level=1).sum()
    first = str(problems.abs().idxmax())
    mine = [float(table["duration_ns"].xs(first, level=1).sum()) for table in (a, b)]
    if whole == 0 or (mine[1] - mine[0]) / whole < _MOST:
        return None
    return Problem(first, float(a["count"].xs(first, level=1).sum()), *mine)


def _by_problem(kernels: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Return counts and times of these rows' kernels by name and problem; None if a problem is unknown."""
    mine = kernels[kernels["name"].isin(rows["name"]).to_numpy(bool)]
    if mine.empty or mine["problem"].isna().any():
        return None
    keys = [mine["name"].astype(str), mine["problem"].astype(str)]
    return mine.groupby(keys)[["count", "duration_ns"]].sum().sort_index()
