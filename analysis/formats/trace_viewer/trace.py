"""Trace viewer JSON of TensorFlow 2, JAX and XProf, as written beside an .xplane.pb and downloaded from TensorBoard.

A process stands for a plane of the XSpace and a thread for a line, so they are turned into planes and read like an XSpace. The
viewer leaves out statistics (a kernel's grid and registers, bytes of operations) and events beyond a million.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_events, chrome_json
from kernelscope.analysis.files.chrome_events import Events
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.xplane import columns as xplane_columns
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.formats.xplane import trace as xplane_trace
from kernelscope.analysis.trace import Trace

_PLANE = re.compile(r'"name"\s*:\s*"(?:[^"\s]{1,200} )?/(?:host|device):\w+(?::\d+)?[^"/]{0,200}"')
_HOST_PREFIX = re.compile(r"^\S+ (?=/(?:host|device):)")
_MOST_EVENTS = 1_000_000  # in a file of the viewer
_LATEST_NS = 4_000_000_000_000_000_000
_NAMED = 4  # phases of events in a note


def matches(head: Head) -> bool:
    """Return whether this is a chrome trace with a display unit whose processes are named like planes."""
    text = head.text
    return head.is_text and '"displayTimeUnit"' in text and '"traceEvents"' in text and _PLANE.search(text) is not None


def read(path: Path) -> Trace:
    """Read a file; raise EvidenceError if it cannot be read or holds no planes."""
    result = chrome_events.read(path, (*xplane_columns.INTEGERS, *xplane_columns.TEXTS, "long_name"))
    if not any(re.search(r"/(?:host|device):", name) for name in result.processes):
        raise EvidenceError(f"{path}: no process has a trace viewer name of a host or a device; export it again")
    others = _others(result.table)
    space = _space(result)
    trace = xplane_trace.of_space(space)
    trace.info["source"] = {"format": "trace-viewer", "tool": "XLA profiler", "version": None, "schema": None}
    _remark(trace, result, others)
    return trace


def _others(table: pd.DataFrame) -> dict[str, int]:
    """Return the numbers of events of phases that are not read: counters, flows, asynchronous ones."""
    counts = table["phase"].value_counts()
    return {str(phase): int(count) for phase, count in counts.items() if str(phase) not in "XiI" and count}


def _space(result: Events) -> xplane.Space:
    """Return the file's processes as planes."""
    table = result.table
    read = table["phase"].isin(["X", "i", "I"]).to_numpy(dtype=bool)
    start, duration = table["start_ns"], table["duration_ns"].fillna(0)
    timed = ((start >= 0) & (start + duration < _LATEST_NS) & (duration >= 0)).fillna(False).to_numpy(dtype=bool)
    damaged = int((read & ~timed).sum())
    events = _as_events(table[read & timed], result)
    planes = []
    for number, name in enumerate(result.processes):
        own = events[(events["process"] == number).to_numpy()].drop(columns="process").reset_index(drop=True)
        lines = [str(text) for text in own["line"].cat.categories] if len(own) else []
        planes.append(xplane.Plane(_HOST_PREFIX.sub("", name), {}, lines, own))
    return xplane.Space(planes, False, damaged, [])


def _as_events(table: pd.DataFrame, events: Events) -> pd.DataFrame:
    """Return events with the columns of a plane's events."""
    keys = chrome_events.numbers(key for _, key, _ in events.threads)
    names = [name or str(key) for _, key, name in events.threads]
    codes, distinct = pd.factorize(np.array(names, dtype=object))
    thread = table["thread"].to_numpy()
    short, long = table["name"].astype("string"), table["arg_long_name"].astype("string")
    columns: dict[str, Any] = {
        "process": table["process"],
        "line_number": thread,
        "line_id": keys[thread] if len(keys) else thread,
        "line": pd.Categorical.from_codes(codes[thread] if len(names) else [], pd.Index(distinct, dtype="str")),
        "start_ns": table["start_ns"].astype("int64"),
        "duration_ns": table["duration_ns"].fillna(0).astype("int64"),
        "count": np.ones(len(table), dtype=np.int64),
        "name": _categories(long.fillna(short).fillna("")),
        "display_name": _categories(short.where(long.notna())),
    }
    for name in xplane_columns.INTEGERS:
        columns[f"stat_{name}"] = _integers(table[f"arg_{name}"])
    for name in xplane_columns.TEXTS:
        columns[f"stat_{name}"] = _categories(table[f"arg_{name}"].astype("string"))
    return pd.DataFrame(columns)


def _categories(values: pd.Series) -> pd.Series:
    return values.astype("category").cat.rename_categories(lambda text: text)


def _integers(values: pd.Series) -> pd.Series:
    """Return categorical texts as Int64, null if not a whole number."""
    texts = [str(text) for text in values.cat.categories]
    whole = [re.fullmatch(r"-?\d{1,18}", text) is not None for text in texts]
    numbers = np.array([int(text) if good else 0 for text, good in zip(texts, whole, strict=True)] + [0], dtype=np.int64)
    codes = values.cat.codes.to_numpy()
    missing = ~np.array([*whole, False], dtype=bool)[codes]
    return pd.Series(pd.arrays.IntegerArray(numbers[codes], missing), index=values.index)


def _remark(trace: Trace, result: Events, others: dict[str, int]) -> None:
    """Note what the viewer's file leaves out."""
    notes, warnings = trace.info["notes"], trace.info.setdefault("warnings", [])
    notes.append("the trace viewer leaves out kernels' grids, registers and other statistics; the .xplane.pb beside it has them")
    events = len(result.table)
    if events >= _MOST_EVENTS:
        warnings.append(f"the trace viewer cuts files at a million events, and this one has {events:,}: read the .xplane.pb")
    if result.header.get("filteredByVisibility", b"").strip() == b"true":
        warnings.append("the trace viewer left out events that were too short to see: read the .xplane.pb")
    if others:
        trace.info.setdefault("not_read", {}).update({f"phase {phase}": count for phase, count in others.items()})
        shown = ", ".join(f"{phase} {count:,}" for phase, count in list(others.items())[:_NAMED])
        notes.append(f"events of these phases (counters, arrows, asynchronous work) are not read: {shown}")
    if result.repaired:
        trace.diagnostics["pieces of text that were no JSON, mended"] = result.repaired
    if result.odd:
        trace.diagnostics[chrome_json.ODD] = result.odd
    if not warnings:
        del trace.info["warnings"]
    returned = _whole(result.header.get("returnedEventsSize"))
    if returned is not None and returned > events:
        trace.diagnostics["events that the file counts and does not hold"] = returned - events


def _whole(text: bytes | None) -> int | None:
    try:
        value = msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, int) else None
