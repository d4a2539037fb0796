"""Numbers of calls of a table that does not print them: a total time divided by its average, the device's or the CPU's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import text_tables
from kernelscope.analysis.formats import printed

DEVICE, CPU = ("device_total", "device_average"), ("cpu", "cpu_average")

_TIME = r"^\s*\d*(?:\.(?P<fraction>\d+))?\s*(?P<unit>[a-z]*)\s*$"
_MOST = 2.0**53  # calls: whole numbers below are exact

_Floats = npt.NDArray[np.float64]


class CallCounts(NamedTuple):
    """counts: whole numbers, null where the times allow none. doubt: by how many calls rounded times may make a count wrong.
    titles: the columns that they come from, without the device's name; empty if the table has none that tell.
    """

    counts: pd.Series
    doubt: int
    titles: tuple[str, ...]


def of(rows: pd.DataFrame) -> CallCounts:
    """Return each row's calls; all null if the table does not tell them.

    A kernel has no time on the CPU, and most operators none on a device: so where the device's times tell nothing, the CPU's do.
    """
    kept = [columns for columns in (DEVICE, CPU) if set(columns) <= set(rows)]
    found = [_of(rows, columns) for columns in kept]
    counts = pd.Series(pd.NA, index=rows.index, dtype="Int64")
    for one in found:
        counts = counts.fillna(one.counts)
    return CallCounts(counts, max((one.doubt for one in found), default=0), tuple(columns[0] for columns in kept))


def _of(rows: pd.DataFrame, columns: tuple[str, str]) -> CallCounts:
    """Return each row's calls: its total divided by its average, to the nearest whole number within the rounding of both."""
    total, total_step = times(rows[columns[0]])
    average, average_step = times(rows[columns[1]])
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.rint(total / average)
        low = (total - total_step / 2) / (average + average_step / 2)
        high = (total + total_step / 2) / (average - average_step / 2)
        known = (average > average_step / 2) & (best >= 1) & (best < _MOST) & (low <= best) & (best <= high)
        off = np.maximum(high - best, best - low)
    counts = pd.arrays.IntegerArray(np.where(known, best, 0).astype(np.int64), ~known)
    return CallCounts(pd.Series(counts, index=rows.index), int(off[known].max(initial=0)), columns)


def times(cells: pd.Series) -> tuple[_Floats, _Floats]:
    """Return printed times in ns, and to how many ns each is printed."""
    points = printed.decimal_points(cells.astype("string"))
    parts = points.str.extract(_TIME)
    powers = (
        parts["unit"].map(text_tables.TIME_POWERS).fillna(text_tables.TIME_POWERS["us"]) - parts["fraction"].fillna("").str.len()
    )
    times = text_tables.nanoseconds(points, "us").to_numpy(dtype=np.float64, na_value=np.nan)
    return times, np.power(10.0, powers.to_numpy(dtype=np.float64))
