"""Calls of the device's API in captures that hold only totals: how often each was called, and for how long in total."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from kernelscope.analysis.trace import Trace

PINNED = r"(?i)^(?:cuda|hip)(?:HostAlloc|MallocHost|HostRegister|HostMalloc)|^cuMem(?:AllocHost|HostAlloc|HostRegister)"
STREAMS = r"(?i)^(?:cuda|cu|hip)StreamCreate"
ALLOCATIONS = r"(?i)^(?:cuda|hip)(?:Malloc|Free)|^cuMem(?:Alloc|Free)"
CREATIONS = r"(?i)^(?:cuda|cu|hip)(?:Stream|Event|Graph)(?:Create|Destroy|Instantiate)|^cublasCreate|^cudnnCreate"
LAUNCHES = r"(?i)^(?:cuda|hip)(?:Launch|ModuleLaunch|ExtModuleLaunch|ExtLaunch)|^cuLaunch"
LOADS = r"(?i)(?:module|function) loading$|^cu(?:module|library)(?:load|getfunction)|^hipmodule(?:load|getfunction)"
_WAITS = r"(?i)synchronize|memcpy|memset|streamwait|eventquery|streamquery|prefetch"
_ASKS = r"(?i)get\w*attribute|deviceget|getdevice|getversion|iscapturing"
_SUMS = "sums of calls"
_ONCE = rf"{LOADS}|^Unrecognized$"
_VARIANT = r"_v\d+$|_ptsz$|_ptds$"


def sums(trace: Trace) -> pd.DataFrame:
    """Return count and ns of the calls by name, with variant suffixes removed; empty if the capture has no totals of calls.

    later_ns: ns without the longest call. Where there are many, the longest one includes the first use of the device.
    """
    if _SUMS not in trace.derived:
        trace.derived[_SUMS] = _summed(trace.totals)
    result: pd.DataFrame = trace.derived[_SUMS]
    return result


def _summed(totals: pd.DataFrame) -> pd.DataFrame:
    calls = totals[(totals["table"] == "calls").to_numpy(bool)]
    names = calls["name"].astype("string").str.replace(_VARIANT, "", regex=True)
    table = calls[["count", "duration_ns"]].astype(float).rename(columns={"duration_ns": "ns"})
    table["later_ns"] = table["ns"] - calls["max_ns"].astype("Float64").fillna(0).to_numpy(float)
    result = table.groupby(names.to_numpy(object)).sum()
    result.index = result.index.astype("string")
    return result


def of_the_host(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls whose time is the host's own.

    Calls that wait for the device last as long as the device needs; queries of its properties include its first use.
    """
    names = calls.index
    return calls[~(names.str.contains(_WAITS) | names.str.contains(_ASKS)).astype(bool)]


def named(calls: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """Return the calls whose names match."""
    return calls[calls.index.str.contains(pattern).astype(bool)]


def at_first_use(rows: Mapping[str, int]) -> dict[str, int]:
    """Return the host's time (ns) by name for what comes once, when a device is first used; empty if nothing loads code.

    PyTorch's profiler calls it loading of modules and functions, and does not know calls that set up (Unrecognized).
    """
    once = {name: ns for name, ns in rows.items() if re.search(_ONCE, name)}
    return once if any(re.search(LOADS, name) for name in once) else {}
