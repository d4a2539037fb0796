"""Page faults of CUDA's unified memory in a Trace's totals: groups that GPUs waited for, and those of the CPU.

The kernel waits while a group is served, so that time is part of the kernel's time, not separate device work.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.trace.trace import Trace

TABLE = "page faults"  # in the totals' column `table`
UNIFIED = "unified memory"  # the operation of copies that move its pages
GROUPS, OF_CPU = "GPU page fault groups", "CPU page faults"  # in their column `name`
REMOTE = "mappings of memory that stays on the host"  # likewise: the device reads it over the bus


@dataclass(frozen=True)
class PageFaults:
    """Groups of page faults served for GPUs and their duration, page faults of the CPU, and remote mappings. 0: none recorded."""

    groups: int
    ns: int
    of_cpu: int
    remote: int = 0


def summed(durations: pd.Series, of_cpu: int) -> pd.DataFrame:
    """Return rows of totals for groups with these durations (ns, null if unknown) and this many page faults of the CPU."""
    known = durations.dropna()
    rows = []
    if len(durations):
        times = (known.sum(), known.min(), known.max()) if len(known) else (None, None, None)
        rows.append((TABLE, GROUPS, len(durations), *times))
    if of_cpu:
        rows.append((TABLE, OF_CPU, of_cpu, None, None, None))
    return pd.DataFrame(rows, columns=["table", "name", "count", "duration_ns", "min_ns", "max_ns"])


def of(trace: Trace) -> PageFaults:
    """Return the page faults of a whole recording."""
    mine = trace.totals[(trace.totals["table"] == TABLE).to_numpy(bool)]
    gpu, cpu, remote = (mine[(mine["name"] == name).to_numpy(bool)] for name in (GROUPS, OF_CPU, REMOTE))
    return PageFaults(int(gpu["count"].sum()), int(gpu["duration_ns"].sum()), int(cpu["count"].sum()), int(remote["count"].sum()))


def of_device(trace: Trace, device: str) -> PageFaults | None:
    """Return the page faults that belong to an account of this device; None if totals cannot tell which ones do.

    That is so if the account is of steps, or of one of several devices.
    """
    devices = set(trace.kernels["device"].dropna().astype(str))
    return None if len(trace.steps) or (device in devices and len(devices) > 1) else of(trace)


def left_out(trace: Trace) -> pd.DataFrame:
    """Return the totals without page faults, for a part of the recording: it is unknown which of them belong to it."""
    return trace.totals[(trace.totals["table"] != TABLE).fillna(True).to_numpy(bool)]
