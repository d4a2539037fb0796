"""Times that cannot be true: a start of zero where others are not, or so far from all others that a clock must have jumped."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import Trace

_TABLES = ("steps", "ranges", "operators", "kernels", "graphs", "copies", "syncs", "calls")
_HOUR_NS = 3_600_000_000_000
_FAR = 1000  # times the width of the middle of the capture
_LOOKED_AT = 100_000  # starts of each table, evenly taken, say where the capture's middle is


def set_aside_impossible(trace: Trace) -> None:
    """Take rows with impossible times off the timeline, in place, and count them.

    Kernels and copies stay as totals without a start, because their durations may be true, unless only their end is impossible;
    other rows are nothing without their times.
    """
    starts, ends = ([_times(getattr(trace, name)[edge]) for name in _TABLES] for edge in ("start_ns", "end_ns"))
    sample = np.concatenate([values[:: max(1, len(values) // _LOOKED_AT)] for values in starts])
    if not len(sample):
        return
    low, middle, high = np.quantile(sample, [0.02, 0.5, 0.98], method="nearest").tolist()
    reach = max(_HOUR_NS, _FAR * (high - low))
    for name, values, ended in zip(_TABLES, starts, ends, strict=True):
        last = max(int(values.max(initial=middle)), int(ended.max(initial=middle)))
        if len(values) and (int(values.min()) < middle - reach or last > middle + reach or int(values.min()) <= 0 < low):
            _set_aside(trace, name, middle, reach, (low, high))


def _times(values: pd.Series) -> npt.NDArray[np.int64]:
    """Return the times that a column has."""
    return values.dropna().to_numpy(np.int64) if values.dtype == "Int64" else values.to_numpy()


def _set_aside(trace: Trace, name: str, middle: int, reach: int, usual: tuple[int, int]) -> None:
    table = getattr(trace, name)
    start, end = (table[edge].to_numpy(np.int64, na_value=middle) for edge in ("start_ns", "end_ns"))
    # a difference of int64 can overflow: compare with the limits instead
    far = (start < middle - reach) | (start > middle + reach) | (end > middle + reach)
    # zero is where a recording begins whose other times follow soon; CUPTI gives it for a time that it does not know
    low, high = usual
    zero = (start <= 0) & (low > 0) & ((end <= 0) | (low > high - low))
    for rows, reason in ((zero, "with a time of zero"), (far & ~zero, "far outside of the capture's time (a clock jumped)")):
        if rows.any():
            trace.diagnostics[f"{name} {reason}"] = int(rows.sum())
    wrong = zero | far
    gone = wrong
    if name in ("kernels", "copies"):
        table.loc[wrong, ["start_ns", "end_ns"]] = pd.NA
        gone = (end > middle + reach) & (start <= middle + reach) & (start >= middle - reach)  # so long lasts nothing
    if gone.any():
        setattr(trace, name, table[~gone].reset_index(drop=True))
