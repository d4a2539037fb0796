"""What the host does in a call of a device's API, by the function's name: CUDA runtime and driver, HIP, XLA's executor."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

LAUNCHING = "launching"
WAITING = "synchronisation"
COPYING = "copying"
ALLOCATING = "allocating"
LOADING = "loading code"
OTHER = "in a call"
SYSTEM = "in the operating system"

# Tried in order; the first match counts. The names are CUDA's; HIP's differ only in the prefix.
_RULES = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (r"synchronize|StreamWaitEvent|StreamQuery|EventQuery|Wait(All|ToRead|ForVar)", WAITING),
        (r"launch|CooperativeKernel|GraphLaunch", LAUNCHING),
        (r"mem(cpy|set|Prefetch)|^cuMemcpy|MemsetD", COPYING),
        (r"malloc|free|Mem(Alloc|Create|Map|Unmap|SetAccess|Address)|Host(Register|Unregister|Alloc)", ALLOCATING),
        (r"module|Library|LinkC|LinkA|LinkD|FuncGetAttributes|GetExportTable|RegisterFatBinary|RegisterFunction", LOADING),
    )
)  # fmt: skip

_ASYNCHRONOUS = re.compile("Async|WaitEvent")
_ON_DEVICE = ("device to device", "peer to peer")
_CLOCKS = 2_000  # ns by which the clocks of host and device may differ
_BLOCKS = 20_000  # ns: an asynchronous call that lasts at least this long waits
# A call that launches a kernel or a graph. Calls that only prepare a launch do not count.
_LAUNCH = re.compile(r"^(?:cuda|cu|hip|hipExt|hipModule|hipExtModule|mtia\w*)(?:Graph)?Launch|[Ll]aunchKernel")
_NO_LAUNCH = re.compile(r"LaunchHostFunc|ConfigureCall|OccupancyMax|SetupArgument")
_CAPTURE = re.compile(r"(?:cuda|cu|hip)Stream(?:Begin|End)Capture")
_GRAPH = re.compile(r"GraphLaunch")


@lru_cache(maxsize=65536)
def cause(name: str) -> str:
    """Return what the host does in a function of a device's API: one of the causes above except SYSTEM."""
    return next((cause for pattern, cause in _RULES if pattern.search(name)), OTHER)


@lru_cache(maxsize=65536)
def launches_kernels(name: str) -> bool:
    """Return whether the function of this name launches a kernel or a graph."""
    return bool(_LAUNCH.search(name)) and not _NO_LAUNCH.search(name)


def waits(calls: pd.DataFrame, copies: pd.DataFrame | None = None) -> npt.NDArray[np.bool_]:
    """Return which calls wait for the device. These include copies, except asynchronous ones that return at once.

    Asynchronous copies from and to pageable memory may still wait. calls: name, start_ns, end_ns, correlation and process.
    copies: a Trace's; an asynchronous call does not wait if its copy ends after it, or stays on the device.
    """
    names = calls["name"]  # a category: each distinct name is looked up once
    may = names.map(lambda name: cause(name) in (WAITING, COPYING)).astype(bool).to_numpy()
    returns = names.map(lambda name: bool(_ASYNCHRONOUS.search(name))).astype(bool).to_numpy()
    lasted = calls["end_ns"].to_numpy(np.int64) - calls["start_ns"].to_numpy(np.int64)
    result = np.asarray(may & (~returns | (lasted >= _BLOCKS)))
    unsure = np.flatnonzero(result & returns)
    if copies is not None and len(unsure) and len(copies):
        result[unsure[_returns_before(calls.iloc[unsure], copies)]] = False
    return result


def _returns_before(calls: pd.DataFrame, copies: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which calls return before the end of the copy that they launch, or launch one within the device."""
    keys = ["correlation", "process"]
    known = copies.dropna(subset=["correlation", "end_ns"]).drop_duplicates(keys)
    joined = calls[[*keys, "end_ns"]].merge(known[[*keys, "end_ns", "operation"]], on=keys, how="left", suffixes=("", "_of_copy"))
    later = joined["end_ns_of_copy"] > joined["end_ns"] + _CLOCKS
    within = joined["operation"].astype("string").isin(_ON_DEVICE)
    return np.asarray((later.fillna(False) | within) & joined["correlation"].notna(), dtype=bool)


@lru_cache(maxsize=65536)
def captures(name: str) -> bool:
    """Return whether the function of this name begins or ends the capture of a graph."""
    return bool(_CAPTURE.match(name))


def launches_graphs(name: str) -> bool:
    """Return whether the function of this name launches a graph."""
    return bool(_GRAPH.search(name))
