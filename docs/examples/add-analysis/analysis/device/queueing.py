"""How long kernels wait in their queue: from the end of the call that launches them to their start.

Long waits are good: the host runs ahead of the device. Waits near zero say that the device waits for the host instead.
"""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace


def queueing(trace: Trace) -> pd.DataFrame:
    """Return a row per device: kernels, unlaunched (of these without a known launch), waited_ns (sum), median_ns and at_once.

    at_once counts the kernels that start before their call returns; they wait 0 ns. Raises EvidenceError where no kernel has both
    a time and a launch.
    """
    kernels = trace.kernels[trace.kernels["start_ns"].notna()]
    launched = kernels["launch_end_ns"].notna()
    if not launched.any():
        raise EvidenceError("no kernel has a launch; record the calls of the device's API with it")
    wait = (kernels["start_ns"] - kernels["launch_end_ns"]).clip(lower=0)
    rows = kernels.assign(wait=wait, unlaunched=~launched, at_once=wait.eq(0).fillna(False))
    table = rows.groupby("device", observed=True).agg(
        kernels=("wait", "size"),
        unlaunched=("unlaunched", "sum"),
        waited_ns=("wait", "sum"),
        median_ns=("wait", "median"),
        at_once=("at_once", "sum"),
    )
    return table.astype({"median_ns": "Float64"}).reset_index()
