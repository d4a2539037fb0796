"""Calls of the device's API by name: how often the host made them, and how long it spent in them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from kernelscope.analysis.trace import Trace, plain

OF_CALL = ("call", "duration_ns", "share", "count", "mean_ns", "median_ns", "min_ns", "max_ns")


def of_calls(trace: Trace) -> list[dict[str, Any]]:
    """Return a row for each function (OF_CALL), most time first; without the median for a capture of totals.

    Durations are summed as in the API summary of `nsys stats`: threads wait side by side, and a call of the runtime may contain
    one of the driver, so their sum may exceed the wall time. share: of that sum. Calls of the operating system are left out.
    """
    table = _timed(trace.calls) if len(trace.calls) else _totals(trace.totals)
    if table.empty:
        return []
    whole = int(table["duration_ns"].sum()) or 1
    table = table.sort_values("duration_ns", ascending=False, kind="stable").assign(share=table["duration_ns"] / whole)
    return plain.rows(table.reset_index(names="call")[list(OF_CALL)])


def _timed(calls: pd.DataFrame) -> pd.DataFrame:
    device = calls[(calls["api"] != "os").to_numpy(bool)]
    lasted = (device["end_ns"] - device["start_ns"]).groupby(device["name"].astype("string"), sort=False)
    return pd.DataFrame(
        {"duration_ns": lasted.sum(), "count": lasted.size(), "mean_ns": lasted.mean(), "median_ns": lasted.median(),
         "min_ns": lasted.min(), "max_ns": lasted.max()}
    )  # fmt: skip


def _totals(totals: pd.DataFrame) -> pd.DataFrame:
    mine = totals[(totals["table"] == "calls").to_numpy(bool)]
    groups = mine.groupby(mine["name"].astype("string"), sort=False)
    table = pd.DataFrame(
        {"duration_ns": groups["duration_ns"].sum(), "count": groups["count"].sum(min_count=1), "min_ns": groups["min_ns"].min(),
         "max_ns": groups["max_ns"].max()}
    )  # fmt: skip
    return table.assign(mean_ns=table["duration_ns"] / table["count"].astype("Float64"), median_ns=None)
