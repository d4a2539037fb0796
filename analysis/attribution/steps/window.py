"""Cut a window of time out of a capture: the device work that starts in it, and what the host did to launch that work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.steps.request import Request
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, page_faults

CUT = "window without a whole step"


def first_work(trace: Trace) -> int | None:
    """Return when the first device work of the capture starts, from which windows are counted; None if there is none."""
    starts = [getattr(trace, name)["start_ns"].min() for name in device_steps.DEVICE_TABLES]
    known = [int(start) for start in starts if pd.notna(start)]
    return min(known, default=None)


def windowed(trace: Trace, request: Request | None) -> Trace:
    """Return the trace with only the device work in the request's window, and what the host did to launch it.

    If no marked step lies wholly in the window, the window is analysed as a whole: info has CUT.
    """
    if request is None or request.window is None:
        return trace
    zero = first_work(trace)
    if zero is None:
        raise EvidenceError("--window: the capture has no device work on a timeline")
    low, high = (zero + edge for edge in request.window)
    within = {
        name: getattr(trace, name)["start_ns"].between(low, high - 1).fillna(False).to_numpy(bool)
        for name in device_steps.DEVICE_TABLES
    }
    if not any(mask.any() for mask in within.values()):
        raise EvidenceError(
            f"--window: no device work in it; the capture's lasts from 0 to {(_last_work(trace) - zero) / 1e6:.0f} ms"
        )
    device = {name: getattr(trace, name)[mask] for name, mask in within.items()}
    return _launched(trace, device, within["kernels"], (low, high))


def _launched(trace: Trace, device: dict[str, pd.DataFrame], kernels: npt.NDArray[np.bool_], window: tuple[int, int]) -> Trace:
    """Return the trace with this device work, and the host's records from its first launch to its last.

    kernels: which of the trace's kernels are among the work.
    """
    launches = pd.concat([table["launch_ns"].dropna() for table in device.values()])
    first, last = (int(launches.min()), int(launches.max())) if len(launches) else window
    ended = max(last, *(int(table["end_ns"].max()) for table in device.values() if len(table)))
    steps = trace.steps[((trace.steps["start_ns"] >= first) & (trace.steps["end_ns"] <= max(last, window[1]))).to_numpy(bool)]
    kept = trace.ranges["start_ns"].between(first, last).to_numpy(bool)
    host = {"ranges": trace.ranges[kept]}
    for name in ("operators", "calls", "syncs"):
        table = getattr(trace, name)
        host[name] = table[table["start_ns"].between(first, last).to_numpy(bool)]
    # what the host does after the window does not belong to it
    host = {name: table.assign(end_ns=table["end_ns"].clip(upper=ended)) for name, table in host.items()}
    device = {name: _rows_of_kept(table, "range_id", kept) for name, table in device.items()}
    metrics = _rows_of_kept(trace.metrics, "kernel", kernels)
    metrics = metrics[metrics["kernel"].notna().to_numpy(bool)]
    tables: dict[str, Any] = {
        name: table.reset_index(drop=True) for name, table in {**device, **host, "metrics": metrics}.items()
    }
    info = {**trace.info, CUT: True} if len(trace.steps) and steps.empty else trace.info
    return replace(trace, steps=steps, info=info, totals=page_faults.left_out(trace), **tables)


def _last_work(trace: Trace) -> int:
    ends = (getattr(trace, name)["end_ns"].max() for name in device_steps.DEVICE_TABLES)
    return max(int(end) for end in ends if pd.notna(end))


def _rows_of_kept(table: pd.DataFrame, column: str, kept: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """Renumber a column that refers to rows of another table, of which only some are kept; null for the dropped ones."""
    places = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)  # the last one is for null
    rows = pd.Series(places[table[column].to_numpy(np.int64, na_value=-1)], index=table.index, dtype="Int64")
    return table.assign(**{column: rows.mask(rows < 0)})
