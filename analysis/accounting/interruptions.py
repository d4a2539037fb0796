"""Kernels that the device interrupted for another process, or for another context of the same process.

Processes that share a GPU without MPS take turns in time slices, and the duration of an interrupted kernel includes the time of
the others. So a few executions last longer than others of their kernel on the same grid, each by about the same time, a multiple
of the slice. On an NVIDIA H200 (driver 580) that was 2.5 ms in each of 44 interrupted kernels of 2,526, and no kernel of a
process that had the GPU for itself lasted longer by 0.1 ms and half of its usual time (docs/gpu).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from kernelscope.analysis.trace import Trace

_LONGER = 1.5  # times the usual duration of the kernel on its grid, at least
_LEAST_NS = 800_000  # slices last milliseconds
_FEW = 5  # interruptions, at least
_ALIKE = 0.1  # of the usual interruption, within which most of them must be
_MOST = 0.8
_KERNELS = 2  # kernels of different names that must be interrupted


@dataclass(frozen=True)
class Interruptions:
    """The interrupted kernels. rows: their index; extra_ns: how much longer each lasted; usual_ns: one interruption's time."""

    rows: pd.Index
    extra_ns: pd.Series
    usual_ns: int

    @property
    def count(self) -> int:
        """The number of interrupted kernels."""
        return len(self.rows)


def interruptions(trace: Trace) -> Interruptions | None:
    """Return the interruptions of a capture's kernels on accelerators; None if there is no sign of any.

    Interruptions are about equally long for all kernels, which distinguishes them from durations that vary by themselves.
    """
    table = trace.kernels
    mine = table[((table["device"] != "cpu") & table["start_ns"].notna()).fillna(False).to_numpy(bool)]
    if mine.empty or "grid" not in mine:
        return None
    lasted = (mine["end_ns"] - mine["start_ns"]).astype("float64")
    keys = [mine[name].astype("string").fillna("") for name in ("device", "name", "grid", "block") if name in mine]
    usual = lasted.groupby(keys).transform("median")
    extra = lasted - usual
    long = (lasted > _LONGER * usual) & (extra > _LEAST_NS)
    if int(long.sum()) < _FEW or mine.loc[long, "name"].nunique() < _KERNELS:
        return None
    extra = extra[long]
    slice_ns = float(extra.median())
    turns = np.maximum(np.rint(extra / slice_ns), 1)
    alike = (extra / turns - slice_ns).abs() <= _ALIKE * slice_ns
    if float(alike.mean()) < _MOST:
        return None
    return Interruptions(extra.index, extra.astype("int64"), round(slice_ns))
