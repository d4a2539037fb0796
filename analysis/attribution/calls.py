"""What the host does inside a call of a device's API, from the function's name: CUDA runtime and driver, HIP, XLA's executor."""

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

# Tried in order; the first that fits counts. Names as CUDA writes them; HIP's differ in the prefix only.
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
_BLOCKS = 20_000  # ns, that such a call takes at least where it waits
# A call that starts kernels on the device, or a graph of them. What only prepares a launch is none.
_LAUNCH = re.compile(r"^(?:cuda|cu|hip|hipExt|hipModule|hipExtModule|mtia\w*)(?:Graph)?Launch|[Ll]aunchKernel")
_NO_LAUNCH = re.compile(r"LaunchHostFunc|ConfigureCall|OccupancyMax|SetupArgument")
_GRAPH = re.compile(r"GraphLaunch")


@lru_cache(maxsize=65536)
def cause(name: str) -> str:
    """Return what the host does in a function of a device's API: one of the causes above, but SYSTEM."""
    return next((cause for pattern, cause in _RULES if pattern.search(name)), OTHER)


@lru_cache(maxsize=65536)
def launches_kernels(name: str) -> bool:
    """Return whether the function of this name starts a kernel or a graph."""
    return bool(_LAUNCH.search(name)) and not _NO_LAUNCH.search(name)


def waits(calls: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which calls wait for the device: copies among them, but none that are asynchronous and return at once.

    Asynchronous copies from and to pageable memory wait all the same. calls: name, start_ns, end_ns.
    """
    names = calls["name"]  # a category: each distinct name is asked once
    may = names.map(lambda name: cause(name) in (WAITING, COPYING)).astype(bool).to_numpy()
    returns = names.map(lambda name: bool(_ASYNCHRONOUS.search(name))).astype(bool).to_numpy()
    lasted = calls["end_ns"].to_numpy(np.int64) - calls["start_ns"].to_numpy(np.int64)
    return np.asarray(may & (~returns | (lasted >= _BLOCKS)))


def launches_graphs(name: str) -> bool:
    """Return whether the function of this name starts a whole graph."""
    return bool(_GRAPH.search(name))
