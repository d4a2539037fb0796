"""Hardware counters of kernels: how full and how busy the device was, from the table `metrics` of a Trace.

Nsight Compute names a metric by its page: "Achieved Occupancy" on the page "details" is sm__warps_active...pct_of_peak_sustained_
active on the page "raw". Kernels of one name are merged: shares are means over their time, bytes are sums.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import Trace

COLUMNS = (
    "device", "kernel", "count", "duration_ns", "achieved_occupancy", "sm_throughput", "memory_throughput", "tensor_pipe",
    "dram_bytes",
)  # fmt: skip


class _ShareColumn(NamedTuple):
    """A column of shares, and the patterns of its metrics: the first one that matches a metric of the kernel counts."""

    column: str
    patterns: tuple[str, ...]


_SHARES = (
    _ShareColumn("achieved_occupancy", (r"Achieved Occupancy", r"sm__warps_active\.avg\.pct_of_peak_sustained_active")),
    _ShareColumn(
        "sm_throughput",
        (
            r"Compute \(SM\) Throughput|Compute \(SM\) \[%\]|SM \[%\]|SOL SM",
            r"sm__throughput\.avg\.pct_of_peak_sustained_elapsed",
        ),
    ),
    _ShareColumn(
        "memory_throughput",
        (
            r"Memory Throughput|Memory \[%\]|SOL Memory",
            r"gpu__compute_memory_throughput\.avg\.pct_of_peak_sustained_elapsed",
            r"gpu__compute_memory_access_throughput\.avg\.pct_of_peak_sustained_elapsed",
        ),
    ),
    _ShareColumn(
        "tensor_pipe",
        (
            r"sm__pipe_tensor\w*cycles_active\.avg\.pct_of_peak_sustained_(?:active|elapsed)",
            r"sm__inst_executed_pipe_tensor\w*\.avg\.pct_of_peak_sustained_(?:active|elapsed)",
        ),
    ),
)
_DRAM, _READ, _WRITTEN = r"dram__bytes\.sum", r"dram__bytes_read\.sum", r"dram__bytes_write\.sum"
_DRAM_RATE = r"Memory Throughput|dram__bytes\.sum\.per_second"


def table(trace: Trace) -> pd.DataFrame:
    """Return one row per device and kernel with metrics (COLUMNS), longest first; null is not measured."""
    if trace.metrics.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    counted = np.unique(trace.metrics["kernel"].to_numpy(np.int64))
    kernels = trace.kernels.iloc[counted]
    result = kernels[["device", "count", "duration_ns"]].assign(kernel=kernels["name"]).set_axis(counted)
    for column, patterns in _SHARES:
        result[column] = _first(trace.metrics, patterns, "%") / 100
    result["dram_bytes"] = _dram_bytes(trace.metrics, result)
    rows = [_merged(device, kernel, rows) for (device, kernel), rows in result.groupby(["device", "kernel"], observed=True)]
    made = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"dram_bytes": "Int64"})
    return made.sort_values("duration_ns", ascending=False, kind="stable").reset_index(drop=True)


def _first(metrics: pd.DataFrame, patterns: tuple[str, ...], unit: str | None) -> pd.Series:
    """Return each kernel's value for the first pattern that matches; the largest if several metrics fit (pipes of one kind)."""
    right = metrics if unit is None else metrics[(metrics["unit"] == unit).to_numpy(dtype=bool)]
    result = pd.Series(dtype="float64")
    for pattern in patterns:
        names = [name for name in right["metric"].cat.categories if re.fullmatch(pattern, str(name))]
        values = right[right["metric"].isin(names).to_numpy(dtype=bool)].groupby("kernel")["value"].max()
        result = values if result.empty else result.combine_first(values)
    return result


def _dram_bytes(metrics: pd.DataFrame, kernels: pd.DataFrame) -> pd.Series:
    """Return the bytes between memory and cache for each row of kernels, over all its executions.

    The page "details" has only a rate, which is by definition the bytes over the kernel's duration.
    """
    once = _first(metrics, (_DRAM,), "byte")
    both = _first(metrics, (_READ,), "byte") + _first(metrics, (_WRITTEN,), "byte")
    rate = _first(metrics, (_DRAM_RATE,), "byte/s").reindex(kernels.index)
    total = once.reindex(kernels.index).combine_first(both.reindex(kernels.index)) * kernels["count"]
    return total.combine_first(rate * kernels["duration_ns"] / 1e9)


def _merged(device: Any, kernel: Any, rows: pd.DataFrame) -> dict[str, Any]:
    """Return kernels of one name as a row: sums, and means over time of the values that all of them have."""
    weight = rows["duration_ns"].to_numpy(np.float64)
    made: dict[str, Any] = {"device": device, "kernel": kernel, "count": int(rows["count"].sum())}
    made["duration_ns"] = int(rows["duration_ns"].sum())
    for column, _ in _SHARES:
        made[column] = _mean(rows[column].to_numpy(np.float64), weight)
    made["dram_bytes"] = None if rows["dram_bytes"].isna().any() else round(float(rows["dram_bytes"].sum()))
    return made


def _mean(values: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]) -> float | None:
    """Return the mean over time; None if a value is unknown, so that no part stands for the whole."""
    if np.isnan(values).any():
        return None
    return float((values * weight).sum() / weight.sum()) if weight.sum() > 0 else float(values.mean())
