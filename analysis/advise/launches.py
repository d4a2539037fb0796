"""The operators that launch: around calls of the device's API, and around the calls that launched copies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.trace import Trace, intervals


def operators(trace: Trace, calls: pd.DataFrame, pattern: str | None = None) -> pd.Series:
    """Return the name of the innermost operator around each call, null if none. pattern: consider only operators that match."""
    around = trace.operators[trace.operators["thread"].notna().to_numpy(bool)]
    names = around["name"].astype("string")
    if pattern is not None:
        chosen = names.str.contains(pattern).fillna(False).to_numpy(bool)
        around, names = around[chosen], names[chosen]
    if around.empty or calls.empty:
        return pd.Series(pd.NA, index=calls.index, dtype="string")
    thread, at, _ = intervals.spans(calls)
    row = intervals.innermost(*intervals.spans(around), thread, at)
    found = pd.Series(names.to_numpy(object)[np.maximum(row, 0)], index=calls.index, dtype="string")
    return found.where((row >= 0) & (thread >= 0))


def of_copies(trace: Trace, copies: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each copy: thread and start_ns of the call that launched it, null if unknown, and end_ns of the copy."""
    keys = ["process", "correlation"]
    calls = trace.calls[trace.calls["correlation"].notna().to_numpy(bool)].drop_duplicates(keys)
    return (
        copies[keys].merge(calls[[*keys, "thread", "start_ns"]], on=keys, how="left").assign(end_ns=copies["end_ns"].to_numpy())
    )


def named(names: pd.Series, ns: npt.NDArray[np.float64], most: int = 3) -> str:
    """List the names with the most time: aten::copy_ (4.1 ms), aten::clone (3.2 ms)."""
    sums = pd.Series(ns, index=names.index).groupby(names).sum().sort_values(ascending=False)
    return ", ".join(f"{name} ({words.duration(float(sum_ns))})" for name, sum_ns in sums.head(most).items())
