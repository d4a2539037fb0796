"""Statistics of single executions of kernels: median, extremes and deviation, as vendors' tools give them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def of_totals(rows: pd.DataFrame, by: Sequence[str], means: bool = False) -> pd.DataFrame:
    """Return median_ns, min_ns, max_ns and std_ns of single executions, for each group of rows that stand for several.

    rows: these columns as the source gives them, count and duration_ns. means: durations are means of several executions.
    A group of several rows has the extremes of all, if all are known, and no median or deviation: these cannot be combined.
    """
    single = (rows["count"] == 1) & (not means)
    known = {name: rows[f"{name}_ns"].where(~single, rows["duration_ns"]) for name in ("median", "min", "max")}
    groups = pd.DataFrame(known).groupby([rows[name] for name in by], dropna=False, sort=False)
    alone = groups.size() == 1
    result = pd.DataFrame({"median_ns": groups["median"].first().where(alone)})
    for name in ("min", "max"):
        result[f"{name}_ns"] = groups[name].agg(name).where(groups[name].count() == groups.size())
    deviation = rows["std_ns"].groupby([rows[name] for name in by], dropna=False, sort=False).first()
    return result.assign(std_ns=deviation.where(alone)).astype("Int64")


def executions(by: Sequence[pd.Series], count: pd.Series, duration_ns: pd.Series, names: Sequence[str]) -> pd.DataFrame:
    """Return statistics of single executions, as NAME_ns, for each group; null if a row of it stands for several.

    by: the keys of a group. names: of pandas' functions. The deviation is that of a sample, with n - 1.
    """
    single = (count == 1).to_numpy(bool)
    keys = [key[single] for key in by]
    found = duration_ns[single].groupby(keys, dropna=False).agg(["size", *names])
    whole = count.groupby(list(by), dropna=False).sum()
    found = found.reindex(whole.index)
    alone = (found["size"] == whole).to_numpy(bool)
    return pd.DataFrame({f"{name}_ns": found[name].where(alone) for name in names})
