"""Drop what a capture holds twice, for example because recordings were concatenated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import Trace

TWICE = "written twice"  # suffix of the diagnostics that count rows dropped here
# No two kernels or copies share all of these: the second on a stream begins when the first has ended
_ALIKE = {
    "kernels": ["start_ns", "end_ns", "device", "thread", "process", "correlation", "name"],
    "copies": ["start_ns", "end_ns", "device", "thread", "process", "correlation", "operation", "bytes"],
}
_OF_HOST = ("steps", "ranges", "operators", "calls", "syncs")
_NUMBERING = ("process", "correlation")  # the process is often known only by the correlation


def drop(trace: Trace) -> None:
    """Drop rows of a Trace that fully repeat an earlier row, in place, and count them.

    If a tool writes correlation ids, a row without one repeats a row that agrees in all else. If it writes none, two short
    kernels may look alike, and both stay.
    """
    for name, columns in _ALIKE.items():
        table = getattr(trace, name)
        numbered = (table["start_ns"].notna() & table["correlation"].notna()).to_numpy(np.bool_)
        again = repeated(table, columns, numbered)
        if numbered.any() and not numbered.all():
            again |= _without_numbers(table, [one for one in columns if one not in _NUMBERING], numbered & ~again)
        if again.any():
            trace.diagnostics[f"{name} {TWICE}"] = int(again.sum())
            setattr(trace, name, table[~again].reset_index(drop=True))
    for name in _OF_HOST:
        _drop_of_host(trace, name)


def _drop_of_host(trace: Trace, name: str) -> None:
    """Drop repeated rows of host activity from a Trace. Two without correlation id and duration may be distinct, and stay."""
    table = getattr(trace, name)
    again = repeated(table, table.columns.tolist(), told_apart(table, table["end_ns"] > table["start_ns"], ("correlation",)))
    if again.any():
        trace.diagnostics[f"{name} {TWICE}"] = int(again.sum())
        setattr(trace, name, table[~again].reset_index(drop=True))


def told_apart(table: pd.DataFrame, lasts: pd.Series[bool], numbers: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which rows are surely distinct from all others: they last, or have one of these numbers if the table does."""
    result: npt.NDArray[np.bool_] = lasts.to_numpy(np.bool_)
    for number in numbers:
        if number in table:
            result = result | table[number].notna().to_numpy(np.bool_)
    return result


def repeated(table: pd.DataFrame, columns: list[str], chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which of the chosen rows equal an earlier chosen row in these columns."""
    near = _with_another(table["start_ns"].to_numpy(np.int64, na_value=-1)) & chosen
    again = np.zeros(len(table), np.bool_)
    if near.any():
        again[near] = table.loc[near, columns].duplicated()
    return again


def _without_numbers(table: pd.DataFrame, columns: list[str], numbered: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows without a correlation id repeat a numbered row, or an earlier row that is longer than zero.

    Kernels of no length may really occur several times: only as many are dropped as have a number.
    """
    near = _with_another(table["start_ns"].to_numpy(np.int64, na_value=-1))
    near &= (numbered | table["correlation"].isna().to_numpy(np.bool_)) & table[columns].notna().all(axis=1).to_numpy(np.bool_)
    again = np.zeros(len(table), np.bool_)
    if near.any():
        some, known = table.loc[near, columns], numbered[near]
        alike = pd.Series(some.groupby(columns, observed=True, sort=False).ngroup().to_numpy())
        process = table.loc[near, "process"].reset_index(drop=True)
        process = process.fillna(process.groupby(alike).transform("first"))  # an unknown process may be the other's
        group = pd.DataFrame({"alike": alike, "process": process}).groupby(["alike", "process"], dropna=False).ngroup()
        before = group.groupby([group, known]).cumcount().to_numpy()
        others = pd.Series(known).groupby(group).transform("sum").to_numpy()
        lasting = (some["end_ns"] > some["start_ns"]).to_numpy(np.bool_)
        again[near] = ~known & ((before < others) | (lasting & (before + others > 0)))
    return again


def _with_another(start: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which numbers occur more than once."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    result = np.zeros(len(start), np.bool_)
    result[order[1:]] |= same
    result[order[:-1]] |= same
    return result
