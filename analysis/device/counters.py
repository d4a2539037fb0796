"""Hardware counters of kernels: how full and how busy the device was, from the table `metrics` of a Trace.

Nsight Compute names a metric by its page: "Achieved Occupancy" on the page "details" is sm__warps_active...pct_of_peak_sustained_
active on the page "raw". Kernels of one name are merged: shares are means over their time, bytes are sums.

The share of the first-level cache is of the cycles in which multiprocessors are active, that of other units of all cycles. It
may be high, and says little, if a grid leaves most multiprocessors idle: see `over_elapsed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.trace import Trace

COLUMNS = (
    "device", "kernel", "count", "duration_ns", "achieved_occupancy", "theoretical_occupancy", "sm_throughput",
    "memory_throughput", "dram_throughput", "l2_throughput", "l1_throughput", "tensor_pipe", "waves", "threads_per_warp",
    "dram_bytes",
)  # fmt: skip


class _MeanColumn(NamedTuple):
    """A column of means, and the patterns of its metrics: the first one that matches a metric of the kernel counts.

    unit: of the metrics; those in percent become shares.
    """

    column: str
    patterns: tuple[str, ...]
    unit: str | None = "%"


_MEANS = (
    _MeanColumn("achieved_occupancy", (r"Achieved Occupancy", r"sm__warps_active\.avg\.pct_of_peak_sustained_active")),
    _MeanColumn("theoretical_occupancy", (r"Theoretical Occupancy", r"sm__maximum_warps_per_active_cycle_pct")),
    _MeanColumn(
        "sm_throughput",
        (
            r"Compute \(SM\) Throughput|Compute \(SM\) \[%\]|SM \[%\]|SOL SM",
            r"sm__throughput\.avg\.pct_of_peak_sustained_elapsed",
        ),
    ),
    _MeanColumn(
        "memory_throughput",
        (
            r"Memory Throughput|Memory \[%\]|SOL Memory",
            r"gpu__compute_memory_throughput\.avg\.pct_of_peak_sustained_elapsed",
            r"gpu__compute_memory_access_throughput\.avg\.pct_of_peak_sustained_elapsed",
        ),
    ),
    _MeanColumn(
        "dram_throughput",
        (r"DRAM Throughput|SOL FB|SOL DRAM", r"(?:gpu__dram|dram_)_throughput\.avg\.pct_of_peak_sustained_elapsed"),
    ),
    _MeanColumn(
        "l2_throughput", (r"L2 Cache Throughput|SOL L2(?: Cache)?", r"lts__(?:t_)?throughput\.avg\.pct_of_peak_sustained_elapsed")
    ),
    _MeanColumn(
        "l1_throughput",
        (
            r"L1/TEX Cache Throughput|SOL (?:L1/)?TEX(?: Cache)?",
            r"l1tex__throughput\.avg\.pct_of_peak_sustained_(?:active|elapsed)",
        ),
    ),
    _MeanColumn(
        "tensor_pipe",
        (
            r"sm__pipe_tensor\w*cycles_active\.avg\.pct_of_peak_sustained_(?:active|elapsed)",
            r"sm__inst_executed_pipe_tensor\w*\.avg\.pct_of_peak_sustained_(?:active|elapsed)",
        ),
    ),
    _MeanColumn("waves", (r"Waves Per SM|launch__waves_per_multiprocessor",), None),
    _MeanColumn(
        "threads_per_warp", (r"Avg\. Active Threads Per Warp", r"smsp__thread_inst_executed_per_inst_executed\.ratio"), None
    ),
)
# What the columns of units are called in sentences
UNITS = {
    "sm_throughput": "arithmetic", "dram_throughput": "device memory", "l2_throughput": "L2 cache", "l1_throughput": "L1 cache",
}  # fmt: skip
_SAME = 0.01  # of a share: shares that differ by less are those of one pipe
_ROUNDED = 0.005  # smaller shares would read 0%
_DRAM, _READ, _WRITTEN = r"dram__bytes\.sum", r"dram__bytes_read\.sum", r"dram__bytes_write\.sum"
_DRAM_RATE = r"Memory Throughput|dram__bytes\.sum\.per_second"
_CLOCK = (r"SM Frequency", r"smsp?__cycles_elapsed\.avg\.per_second")
_L1_HITS = (r"L1/TEX Hit Rate", r"l1tex__t_sector_hit_rate\.pct")
_ACTIVE = (r"SM Active Cycles", r"sm__cycles_active\.avg")
_ELAPSED = (r"Elapsed Cycles", r"gpc__cycles_elapsed\.max", r"sm__cycles_elapsed\.(?:max|avg)")
_L1_OF_ELAPSED = (r"l1tex__throughput\.avg\.pct_of_peak_sustained_elapsed",)
OFTEN = 0.9  # of the cycles: multiprocessors that are active more rarely are told


def table(trace: Trace) -> pd.DataFrame:
    """Return one row per device and kernel with metrics (COLUMNS), longest first; null is not measured."""
    if trace.metrics.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    counted = np.unique(trace.metrics["kernel"].to_numpy(np.int64))
    kernels = trace.kernels.iloc[counted]
    result = kernels[["device", "count", "duration_ns"]].assign(kernel=kernels["name"]).set_axis(counted)
    for column, patterns, unit in _MEANS:
        result[column] = _first(trace.metrics, patterns, unit) / (100 if unit == "%" else 1)
    result["dram_bytes"] = _dram_bytes(trace.metrics, result)
    rows = [_merged(device, kernel, rows) for (device, kernel), rows in result.groupby(["device", "kernel"], observed=True)]
    made = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"dram_bytes": "Int64"})
    return made.sort_values("duration_ns", ascending=False, kind="stable").reset_index(drop=True)


def clock_hz(trace: Trace, kernel: str) -> float | None:
    """Return the multiprocessors' clock while a kernel ran, the mean over its time; None if unknown."""
    return _over_time(trace, kernel, _first(trace.metrics, _CLOCK, "Hz"))


def l1_hit_rate(trace: Trace, kernel: str) -> float | None:
    """Return the share of a kernel's accesses that find their data in the first-level cache; None if unknown.

    Accesses to shared memory, which is in the same unit, do not count.
    """
    rate = _over_time(trace, kernel, _first(trace.metrics, _L1_HITS, "%"))
    return None if rate is None else rate / 100


def over_elapsed(trace: Trace, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `table` with all shares of units over all cycles, and two more values, None if unknown.

    Where multiprocessors are active in nearly all cycles, the first-level cache's share stays as the page shows it.

    active: the share of the cycles in which multiprocessors are active, the mean of all. l1_active: the first-level cache's share
    of its peak in these cycles.
    """
    kernel, l1 = str(row["kernel"]), row["l1_throughput"]
    active = _over_time(trace, kernel, _first(trace.metrics, _ACTIVE, "cycle") / _first(trace.metrics, _ELAPSED, "cycle"))
    active = None if active is None else min(active, 1.0)
    whole = _over_time(trace, kernel, _first(trace.metrics, _L1_OF_ELAPSED, "%"))
    known = {"active": active, "l1_active": None}
    if whole is not None:
        known["l1_throughput"] = whole / 100
        known["l1_active"] = min(whole / 100 / active, 1.0) if active else None
    elif active is not None and not pd.isna(l1):
        known |= {"l1_throughput": l1 if active >= OFTEN else l1 * active, "l1_active": l1}
    return {**row, **known}


def _over_time(trace: Trace, kernel: str, values: pd.Series) -> float | None:
    """Return the mean over time of values by row of kernels, for a kernel's rows that have one; None if none has."""
    places = np.flatnonzero((trace.kernels["name"] == kernel).fillna(False).to_numpy(bool))
    mine = values.reindex(places).replace([np.inf, -np.inf], np.nan).dropna()
    weights = trace.kernels["duration_ns"].iloc[mine.index].to_numpy(np.float64)
    return _mean(mine.to_numpy(np.float64), weights) if len(mine) else None


def arithmetic_is_known(row: Mapping[str, Any]) -> bool:
    """Return whether the busiest pipe of the multiprocessors, in a row of `table`, is not that of loads and stores.

    Its share is that of the first-level cache, or of all of memory, if it is.
    """
    pipe = row["sm_throughput"]
    others = [row[name] for name in ("l1_throughput", "memory_throughput") if not pd.isna(row[name])]
    return not pd.isna(pipe) and all(abs(pipe - other) >= _SAME * max(pipe, other) for other in others)


def shares(row: Mapping[str, Any]) -> str:
    """Say how busy each unit is, of a row of `over_elapsed`: arithmetic 2%, device memory 18%; null columns are left out."""
    names = UNITS if arithmetic_is_known(row) else {**UNITS, "sm_throughput": "loads and stores"}
    known = [f"{unit} {percent(row[column])}" for column, unit in names.items() if not pd.isna(row[column])]
    if rarely_active(row) and row.get("l1_active"):
        known[-1] += f" ({percent(row['l1_active'])} while multiprocessors are active)"
    return ", ".join([*known, *([f"tensor cores {percent(row['tensor_pipe'])}"] if not pd.isna(row["tensor_pipe"]) else [])])


def rarely_active(row: Mapping[str, Any]) -> bool:
    """Return whether multiprocessors are idle for a good part of the cycles, of a row of `over_elapsed`; False if unknown."""
    active = row.get("active")
    return active is not None and bool(active < OFTEN)


def percent(share: float) -> str:
    """Return a share in whole percent."""
    return f"{share:.0%}" if share >= _ROUNDED or not share else "under 1%"


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
    for column, _, _ in _MEANS:
        made[column] = _mean(rows[column].to_numpy(np.float64), weight)
    made["dram_bytes"] = None if rows["dram_bytes"].isna().any() else round(float(rows["dram_bytes"].sum()))
    return made


def _mean(values: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]) -> float | None:
    """Return the mean over time; None if a value is unknown, so that no part stands for the whole."""
    if np.isnan(values).any():
        return None
    return float((values * weight).sum() / weight.sum()) if weight.sum() > 0 else float(values.mean())
