"""Whose work it is: the layer and phase in which the host was when it made a call or launched device work.

These are the layer and phase of the operator then open on that thread; operators of backward functions, which may have threads
of their own, have theirs by sequence number. If the framework's trace does not cover the thread, it is the only operator that
then ran on any thread ("time"). What the operator does not give comes from the innermost of our ranges on the thread ("launch
range").
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import intervals
from kernelscope.analysis.trace.categories import filled, taken
from kernelscope.analysis.trace.stacks import Stacks

Int = npt.NDArray[np.int64]


class Owners:
    """The operators and ranges of a pass (tables of the Trace), indexed for many queries on many threads."""

    def __init__(self, operators: pd.DataFrame, ranges: pd.DataFrame):
        self._operators = operators
        self._stacks = _stacks(operators)
        self._telling = {name: _telling(ranges, name) for name in ("layer", "phase")}

    def own(self, table: pd.DataFrame, thread: pd.Series, at: pd.Series) -> Int:
        """Fill layer, phase and attribution of a table where null, by the host's threads and times; these may be null.

        Returns the operators' rows, -1 for none.
        """
        threads, times = (column.to_numpy(np.int64, na_value=-1) for column in (thread, at))
        row, by_time = self._open_operator(threads, times, at.notna().to_numpy())
        named = table["layer"].notna()
        method = pd.Series(taken(self._operators["attribution"], row), dtype="string").mask(pd.Series(by_time), "time")
        method = method.mask(named, table["attribution"].astype("string"))
        method = method.fillna(table["attribution"].astype("string").where(table["phase"].notna()))
        for column, (ranges, stacks) in self._telling.items():
            table[column] = filled(table[column], pd.Series(taken(self._operators[column], row)))
            missing = table[column].isna()
            table[column] = filled(table[column], pd.Series(taken(ranges[column], stacks.innermost(threads, times))))
            method = method.mask(missing & table[column].notna(), "launch range")
        nothing = table["layer"].isna() & table["phase"].isna()
        table["attribution"] = method.mask(nothing, "none").fillna("none").astype("category")
        return row

    def _open_operator(self, thread: Int, at: Int, timed: npt.NDArray[np.bool_]) -> tuple[Int, npt.NDArray[np.bool_]]:
        """Return the row of the operator open on each thread at each time, -1 for none, and whether only the time decides."""
        row = np.where(timed, self._stacks.innermost(thread, at), -1)
        threads = np.unique(self._operators["thread"].dropna().to_numpy(np.int64))
        unknown = timed & ~np.isin(thread, threads)
        if unknown.any() and len(threads):
            running = [self._stacks.innermost(np.full(int(unknown.sum()), number), at[unknown]) for number in threads]
            owner = np.column_stack([np.where((rows >= 0) & self._says[np.maximum(rows, 0)], rows, -1) for rows in running])
            row[unknown] = np.where((owner >= 0).sum(axis=1) == 1, owner.max(axis=1), -1)
        return row, unknown & (row >= 0)

    @cached_property
    def _says(self) -> npt.NDArray[np.bool_]:
        """Which operators belong to a layer, the optimizer or the input pipeline."""
        known = self._operators["layer"].notna() | self._operators["phase"].isin(["optimizer", "data"])
        return known.to_numpy(dtype=bool)


def _telling(ranges: pd.DataFrame, column: str) -> tuple[pd.DataFrame, Stacks]:
    """Return the ranges that have a layer, or a phase."""
    result = ranges[(ranges[column].notna() & ranges["nested"]).to_numpy(dtype=bool)].reset_index(drop=True)
    return result, _stacks(result)


def _stacks(table: pd.DataFrame) -> Stacks:
    return Stacks(*intervals.spans(table))
