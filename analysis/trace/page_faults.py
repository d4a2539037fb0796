"""Page faults of CUDA's unified memory among a Trace's totals: groups of them that GPUs waited for, and those of the CPU.

While a group is served the kernel waits: that time lies within the kernels' time, and is no work of a device beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.trace.trace import Trace

TABLE = "page faults"  # in the totals' column `table`
GROUPS, OF_CPU = "GPU page fault groups", "CPU page faults"  # in their column `name`


@dataclass(frozen=True)
class PageFaults:
    """How many groups of page faults GPUs had served, and for how long; how many page faults the CPU had. 0: none is told."""

    groups: int
    ns: int
    of_cpu: int


def summed(durations: pd.Series, of_cpu: int) -> pd.DataFrame:
    """Return rows of totals: of groups that took so long (ns, null where not known), and of so many page faults of the CPU."""
    known = durations.dropna()
    rows = []
    if len(durations):
        times = (known.sum(), known.min(), known.max()) if len(known) else (None, None, None)
        rows.append((TABLE, GROUPS, len(durations), *times))
    if of_cpu:
        rows.append((TABLE, OF_CPU, of_cpu, None, None, None))
    return pd.DataFrame(rows, columns=["table", "name", "count", "duration_ns", "min_ns", "max_ns"])


def of(trace: Trace) -> PageFaults:
    """Return the page faults of all of a recording."""
    mine = trace.totals[(trace.totals["table"] == TABLE).to_numpy(bool)]
    gpu, cpu = (mine[(mine["name"] == name).to_numpy(bool)] for name in (GROUPS, OF_CPU))
    return PageFaults(int(gpu["count"].sum()), int(gpu["duration_ns"].sum()), int(cpu["count"].sum()))


def of_device(trace: Trace, device: str) -> PageFaults | None:
    """Return the page faults of what an account of this device is of; None where totals do not tell which of them these are.

    So it is where the account is of steps, or of one of several devices.
    """
    devices = set(trace.kernels["device"].dropna().astype(str))
    return None if len(trace.steps) or (device in devices and len(devices) > 1) else of(trace)


def left_out(trace: Trace) -> pd.DataFrame:
    """Return the totals without page faults, of a part of the recording: nothing tells which of them are of it."""
    return trace.totals[(trace.totals["table"] != TABLE).fillna(True).to_numpy(bool)]
