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


def of_totals(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return median_ns, min_ns, max_ns and std_ns of single executions, a row per group of rows that stand for several.

    rows: with these columns as the source gives them, and with count and duration_ns. Of several rows the extremes are those of
    all, if all are known; a median and a deviation cannot be made of several.
    """
    single = rows["count"] == 1
    known = {name: rows[f"{name}_ns"].where(~single, rows["duration_ns"]) for name in ("median", "min", "max")}
    groups = pd.DataFrame(known).groupby([rows[name] for name in by], dropna=False, sort=False)
    alone = groups.size() == 1
    result = pd.DataFrame({"median_ns": groups["median"].first().where(alone)})
    for name in ("min", "max"):
        result[f"{name}_ns"] = groups[name].agg(name).where(groups[name].count() == groups.size())
    deviation = rows["std_ns"].groupby([rows[name] for name in by], dropna=False, sort=False).first()
    return result.assign(std_ns=deviation.where(alone)).astype("Int64")


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
