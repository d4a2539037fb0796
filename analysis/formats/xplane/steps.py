"""Steps of XSpace files: those that the program marked on the host, else those that the profiler found on the devices.

The profiler writes a line of steps for every device, with the same numbers. Devices begin and end a step at different times, so
a step lasts from its first begin on any device to its last end, but at most to the begin of the next step. If the file has
launches, these steps are then moved to when the host launched their work, because work belongs to the step that launched it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.trace import Trace, intervals

LINE = "Steps"
_NEVER = np.iinfo(np.int64).max


def of_devices(events: pd.DataFrame) -> pd.DataFrame:
    """Return the steps on all devices' lines of steps: columns step, warmup, thread, start_ns, end_ns.

    If numbers repeat on a line, the steps are not those of one loop: then only the line with the most steps counts.
    """
    rows = events[(events["line"] == LINE).to_numpy(dtype=bool)]
    if rows.empty:
        return pd.DataFrame()
    rows = rows.assign(line_id=rows["lane"], end_ns=rows["start_ns"] + rows["duration_ns"], name=rows["name"].astype("object"))
    longest = rows[(rows["lane"] == rows["lane"].mode().iloc[0]).to_numpy(dtype=bool)]
    if rows["lane"].nunique() == 1 or rows.duplicated(["lane", "name"]).any():
        return _table(longest)
    merged = rows.groupby("name", sort=False).agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    merged = merged.sort_values("start_ns", kind="stable").reset_index(drop=True)
    following = np.append(merged["start_ns"].to_numpy()[1:], _NEVER)
    return _table(merged.assign(end_ns=np.minimum(merged["end_ns"], following), line_id=int(longest["lane"].iloc[0])))


def of_host(events: pd.DataFrame) -> pd.DataFrame:
    """Return the steps that the program marked on the thread with the most of them, in the form of `of_devices`."""
    marked = events["stat_step_num"].notna() & (events["duration_ns"] > 0)
    rows = events[marked.to_numpy(dtype=bool)]
    if rows.empty:
        return pd.DataFrame()
    main = rows["line_id"].mode().iloc[0]
    own = rows[(rows["line_id"] == main).to_numpy(dtype=bool)]
    return _table(own.assign(end_ns=own["start_ns"] + own["duration_ns"]))


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    ordered = rows.sort_values("start_ns", kind="stable")
    columns = {name: ordered[source].to_numpy() for name, source in (("thread", "line_id"), ("start_ns",) * 2, ("end_ns",) * 2)}
    return pd.DataFrame({"step": np.arange(len(ordered)), "warmup": False, **columns})


def chosen(on_host: pd.DataFrame, on_devices: pd.DataFrame, trace: Trace) -> pd.DataFrame:
    """Return the program's steps if launches can be placed in them or devices have none, else those of the devices."""
    work = _launched(trace)
    if len(on_host) and (on_devices.empty or len(work)):
        return on_host
    return _moved(on_devices, work) if len(on_devices) and len(work) else on_devices


def _launched(trace: Trace) -> pd.DataFrame:
    """Return start_ns of device work, and launch_ns and launch_thread of the call that launched it, if both are known."""
    keys = ["process", "correlation"]
    calls = trace.calls.loc[trace.calls["correlation"].notna().to_numpy(), [*keys, "start_ns", "thread"]]
    calls = calls.sort_values("start_ns", kind="stable").drop_duplicates(keys)
    tables = [trace.kernels, trace.graphs, trace.copies]
    work = pd.concat([table[[*keys, "start_ns"]] for table in tables if len(table)] or [trace.kernels[[*keys, "start_ns"]]])
    result = work.dropna().merge(calls.rename(columns={"start_ns": "launch_ns", "thread": "launch_thread"}), on=keys)
    return result[["start_ns", "launch_ns", "launch_thread"]].astype("int64")


def _moved(steps: pd.DataFrame, work: pd.DataFrame) -> pd.DataFrame:
    """Return the devices' steps as the host launched them: each from the first launch of its work to the next step's.

    A step without work of known launch gets the median distance from its launch of the other steps.
    """
    start = steps["start_ns"].to_numpy(np.int64)
    at = intervals.containing(work["start_ns"].to_numpy(np.int64), *intervals.edges(steps))
    inside = at >= 0
    first = np.full(len(steps), _NEVER, dtype=np.int64)
    np.minimum.at(first, at[inside], work["launch_ns"].to_numpy()[inside])
    known = first != _NEVER
    if not known.any():
        return steps
    first = np.where(known, first, start - int(np.median(start[known] - first[known])))
    first = np.minimum.accumulate(first[::-1])[::-1]  # a step begins no later than the next one
    end = np.append(first[1:], max(int(steps["end_ns"].iloc[-1]), int(first[-1])))
    return steps.assign(start_ns=first, end_ns=end, thread=int(work["launch_thread"][inside].mode().iloc[0]))


def apart(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the steps that do not begin inside an earlier one, renumbered."""
    before = steps["end_ns"].cummax().shift(fill_value=np.iinfo(np.int64).min)
    kept = steps[steps["start_ns"] >= before].reset_index(drop=True)
    return kept.assign(step=np.arange(len(kept)))
