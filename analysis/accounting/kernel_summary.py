"""How long kernels take, by name: as vendors' tools sum them up, over the whole recording or its measured steps."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.trace import Trace

COLUMNS = ("count", "duration_ns", "mean_ns", "median_ns", "min_ns", "max_ns", "std_ns", "share")


def summary(trace: Trace, by: Sequence[str] = ("name",), within_steps: bool = False) -> pd.DataFrame:
    """Return a row per value of these columns of trace.kernels, with COLUMNS, what takes longest in all first.

    duration_ns: in all. median_ns, min_ns, max_ns and std_ns (of a sample, with n - 1) are of single executions; null where the
    source gives totals only, std_ns also of a single execution. share: of the durations of all kernels. within_steps: only of
    what measured steps launched.
    """
    kernels = trace.kernels
    if within_steps:
        kernels = kernels[device_steps.measured(trace, kernels)]
    rows = kernels[list(by)].astype("string").assign(count=kernels["count"], duration_ns=kernels["duration_ns"])
    sums = rows.groupby(list(by), dropna=False)[["count", "duration_ns"]].sum()
    found = executions([rows[name] for name in by], rows["count"], rows["duration_ns"], ("median", "min", "max", "std"))
    total = max(int(sums["duration_ns"].sum()), 1)
    table = sums.assign(mean_ns=sums["duration_ns"] / sums["count"], share=sums["duration_ns"] / total)
    table = table.join(found)
    table = table.sort_values("duration_ns", ascending=False, kind="stable").reset_index()
    return table[[*by, *COLUMNS]]


def executions(by: Sequence[pd.Series], count: pd.Series, duration_ns: pd.Series, names: Sequence[str]) -> pd.DataFrame:
    """Return statistics of single executions, as NAME_ns, a row per group; null where any row of it stands for several.

    by: what makes a group. names: of pandas' functions. A deviation is that of a sample, with n - 1.
    """
    single = (count == 1).to_numpy(bool)
    keys = [key[single] for key in by]
    found = duration_ns[single].groupby(keys, dropna=False).agg(["size", *names])
    whole = count.groupby(list(by), dropna=False).sum()
    found = found.reindex(whole.index)
    alone = (found["size"] == whole).to_numpy(bool)
    return pd.DataFrame({f"{name}_ns": found[name].where(alone) for name in names})
