"""cupti.records of our own CUPTI collector: one process, on CLOCK_MONOTONIC like the ranges that were open meanwhile.

Layers and phases are in the run folder beside the file, not in it: use the commands for runs to read the whole run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.magic import CUPTI_RECORDS_MAGIC
from kernelscope.analysis.formats.cupti import records as cupti_records
from kernelscope.analysis.formats.cupti.records import CuptiCapture
from kernelscope.analysis.formats.demangling import demangled
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.categories import translated, triples

_TIMED = ("kernels", "copies", "memsets", "calls", "syncs", "graphs")


def matches(head: Head) -> bool:
    """Return whether the file begins like the collector's."""
    return head.content.startswith(CUPTI_RECORDS_MAGIC)


def read(path: Path) -> Trace:
    """Return the Trace of one file, as far as it can be read; raise EvidenceError if nothing can."""
    capture = cupti_records.load(path)
    diagnostics: Counter[str] = Counter()
    tables = capture.tables
    rows = {name: _timed(tables[name], tables["clock"], name, diagnostics) for name in _TIMED}
    recorded = capture.header.get("process")
    process = recorded if isinstance(recorded, int) and 0 < recorded < 1 << 32 else 0
    trace = Trace(
        kernels=_kernels(rows["kernels"], process),
        copies=_copies(rows["copies"], rows["memsets"], process),
        syncs=_syncs(rows["syncs"], process),
        graphs=conform("graphs", rows["graphs"].assign(**_launched(rows["graphs"], process))),
        calls=conform("calls", rows["calls"].astype({"start_ns": "int64", "end_ns": "int64"})),
        ranges=_ranges(tables["ranges"]),
        memory=_memory(tables["memory"], tables["clock"], diagnostics),
    )
    diagnostics["records dropped by CUPTI"] = int(tables["dropped"]["count"].sum())
    trace.diagnostics = {name: count for name, count in diagnostics.items() if count}
    trace.info = _info(capture)
    return trace


def _timed(rows: pd.DataFrame, clock: pd.DataFrame, name: str, diagnostics: Counter[str]) -> pd.DataFrame:
    """Return the rows whose times are known and in order, on our clock; on CUPTI's if no clock was read."""
    known = (rows["start_ns"].notna() & rows["end_ns"].notna()).to_numpy()
    fine = known & (rows["end_ns"] >= rows["start_ns"]).fillna(False).to_numpy(dtype=bool)
    diagnostics[f"{name}_without_time"] += int((~known).sum())
    diagnostics[f"{name}_ending_before_start"] += int((known & ~fine).sum())
    rows = rows[fine].reset_index(drop=True)
    duration = (rows["end_ns"] - rows["start_ns"]).astype("int64")
    if len(clock):
        start = cupti_records.to_monotonic(clock, rows["start_ns"])
        rows = rows.assign(start_ns=start, end_ns=start + duration)  # durations stay as measured, whatever the clocks do
    return rows.assign(duration_ns=duration).sort_values(["start_ns", "end_ns"], kind="stable", ignore_index=True)


def _launched(rows: pd.DataFrame, process: int) -> dict[str, Any]:
    """Return the columns that all device work shares; correlation 0 means that the device itself launched it."""
    return {
        "device": _devices(rows["device"]),
        "thread": rows["stream"],
        "process": process,
        "correlation": rows["correlation"].where(rows["correlation"] != 0).astype("Int64"),
    }


def _devices(numbers: pd.Series) -> pd.Series:
    return ("cuda:" + numbers.astype("Int64").astype("string")).astype("category")


def _kernels(rows: pd.DataFrame, process: int) -> pd.DataFrame:
    own: dict[str, Any] = {
        "count": 1,
        "name": translated(rows["name"], demangled),
        "grid": triples(rows, ["grid_x", "grid_y", "grid_z"]),
        "block": triples(rows, ["block_x", "block_y", "block_z"]),
        "shared_memory": rows["static_shared"] + rows["dynamic_shared"],
        "graph": rows["graph"],
    }
    return conform("kernels", rows.assign(**own, **_launched(rows, process)))


def _copies(copies: pd.DataFrame, sets: pd.DataFrame, process: int) -> pd.DataFrame:
    memory = copies["source"].astype("string") + " to " + copies["destination"].astype("string")
    moved = copies.assign(memory=memory, **_launched(copies, process))
    filled = sets.assign(operation="set", count=1, memory=sets["memory"].astype("string"), **_launched(sets, process))
    shared = ["start_ns", "end_ns", "duration_ns", "count", "device", "thread", "operation", "bytes", "memory", "process"]
    texts = dict.fromkeys(("device", "operation", "memory"), "string")
    both = pd.concat([table[[*shared, "correlation"]].astype(texts) for table in (moved, filled)], ignore_index=True)
    return conform("copies", both)


def _syncs(rows: pd.DataFrame, process: int) -> pd.DataFrame:
    return conform("syncs", rows.astype({"start_ns": "int64", "end_ns": "int64"}).assign(**_launched(rows, process)))


def _ranges(rows: pd.DataFrame) -> pd.DataFrame:
    times = {"start_ns": rows["start_monotonic_ns"], "end_ns": rows["end_monotonic_ns"]}
    frame = rows.assign(**times, category="user", nested=True)
    frame = frame[frame["end_ns"] >= frame["start_ns"]]
    return conform("ranges", frame.sort_values(["start_ns", "end_ns"], ascending=[True, False], kind="stable", ignore_index=True))


def _memory(rows: pd.DataFrame, clock: pd.DataFrame, diagnostics: Counter[str]) -> pd.DataFrame:
    """Return allocations and releases of device and host memory."""
    diagnostics["memory_without_time"] += int(rows["time_ns"].isna().sum())
    rows = rows[rows["time_ns"].notna() & rows["operation"].isin(["allocation", "release"])].reset_index(drop=True)
    sign = np.where(rows["operation"] == "release", -1, 1)
    host = rows["memory"].isin(["pageable", "pinned"])
    device = _devices(rows["device"]).astype("string").mask(host, "cpu")
    time = cupti_records.to_monotonic(clock, rows["time_ns"]) if len(clock) else rows["time_ns"]
    frame = pd.DataFrame({"time_ns": time.astype("int64"), "device": device, "bytes": rows["bytes"] * sign})
    return conform("memory", frame.sort_values("time_ns", kind="stable", ignore_index=True))


def _info(capture: CuptiCapture) -> dict[str, Any]:
    notes = [f"the file is incomplete: {capture.truncated}"] if capture.truncated else []
    totals = capture.tables["overheads"].assign(ns=lambda rows: rows["end_ns"] - rows["start_ns"])
    for kind, (count, total) in totals.groupby("kind", observed=True)["ns"].agg(["count", "sum"]).iterrows():
        notes.append(f"CUPTI's own overhead: {kind} {total / 1e6:,.3f} ms in {count} intervals")
    kinds = capture.header.get("kinds")
    refused = {name: str(state) for name, state in kinds.items() if state != "on"} if isinstance(kinds, dict) else {}
    notes += [f"not recorded: {name} ({reason})" for name, reason in refused.items()]
    source = {"format": "cupti", "tool": "kernelscope's CUPTI collector", "versions": capture.header.get("versions")}
    clock = "monotonic" if len(capture.tables["clock"]) else "CUPTI"
    return {"source": source, "clock": clock, "devices": _device_list(capture.tables["devices"]), "notes": notes}


def _device_list(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "device": f"cuda:{row['device']}",
            "name": None if pd.isna(row["name"]) else row["name"],
            "compute_capability": f"{row['capability_major']}.{row['capability_minor']}",
            "multiprocessors": row["multiprocessors"],
            "memory_bytes": row["memory_bytes"],
        }
        for row in rows[:1024].to_dict("records")
    ]
