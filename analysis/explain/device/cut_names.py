"""Kernels that share a name because a table cut it: rows of both sides are paired by how often they were executed.

A table of torch.profiler prints the first 50 or so characters of a name, in which several kernels agree. Their times must not be
added up and divided by all their executions: which of them runs more often would look like a longer execution.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from kernelscope.analysis.explain.device.side import CaptureSide
from kernelscope.analysis.explain.device.words import SEVERAL
from kernelscope.analysis.trace import conform

_CUT = r"\.\.\.$"
_MANY, _NEAR = 20, 1.5  # executions that two kernels hardly have in common by chance; times as long, for fewer
_KEY = ["name", "count", "place"]


def apart(a: CaptureSide, b: CaptureSide) -> tuple[CaptureSide, CaptureSide]:
    """Return both sides with a name for each kernel of a cut name that has its counterpart, and one for all others of that name.

    Counterparts are executed equally often, and are as many on both sides; those with few executions also take about as long.
    """
    tables = [_of_cut_names(side) for side in (a, b)]
    shared = [table["name"].value_counts() for table in tables]
    both = pd.DataFrame({"a": shared[0], "b": shared[1]}).dropna()
    names = both.index[(both.max(axis=1) > 1).to_numpy(bool)]
    if not len(names):
        return a, b
    mine, other = (_ranked(table[table["name"].isin(names).to_numpy(bool)]) for table in tables)
    pairs = mine.merge(other, on=_KEY, suffixes=("_a", "_b"))
    ratio = pairs["duration_ns_a"] / pairs["duration_ns_b"].clip(lower=1)
    sure = (pairs["count"] >= _MANY) | ratio.between(1 / _NEAR, _NEAR)
    pairs = pairs[(sure & (pairs["alike_a"] == pairs["alike_b"])).to_numpy(bool)]
    number = ", no. " + (pairs["place"] + 1).astype(str)
    executed = [f"{count:,} execution{'' if count == 1 else 's'}" for count in pairs["count"]]
    made = pairs["name"] + " (" + pd.Series(executed, index=pairs.index, dtype="str") + number.where(pairs["place"] > 0, "") + ")"
    return _named(a, mine, made.set_axis(pairs["row_a"])), _named(b, other, made.set_axis(pairs["row_b"]))


def _of_cut_names(side: CaptureSide) -> pd.DataFrame:
    """Return the kernels whose names were cut: row, name, count, duration_ns."""
    kernels = side.trace.kernels
    names = kernels["name"].astype("string")
    mine = kernels[names.str.contains(_CUT).fillna(False).to_numpy(bool)]
    return mine[["count", "duration_ns"]].assign(name=names[mine.index].astype(str), row=mine.index)


def _ranked(table: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels with their place, by time, among those of one name that are executed equally often, and their number."""
    table = table.sort_values("duration_ns", ascending=False, kind="stable")
    same = table.groupby(["name", "count"])["row"]
    return table.assign(place=same.cumcount(), alike=same.transform("size"))


def _named(side: CaptureSide, table: pd.DataFrame, made: pd.Series) -> CaptureSide:
    """Return the side with these names of the kernels that have a counterpart; all others of a cut name share one.

    made: names, by the kernels' rows.
    """
    kernels = side.trace.kernels.astype({"name": "string"})
    rows = table["row"].to_numpy()
    kernels.loc[rows, "name"] = (table["name"] + SEVERAL).to_numpy()
    kernels.loc[made.index, "name"] = made.to_numpy()
    return CaptureSide(side.path, replace(side.trace, kernels=conform("kernels", kernels)))
