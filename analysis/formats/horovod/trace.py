"""Horovod's timelines: the exchange of each tensor between ranks, from the first rank's request to the result.

Every tensor is a process of the file. It has the negotiation (NEGOTIATE_ALLREDUCE), with a mark for each rank that is ready,
and the operation (ALLREDUCE) with its activities inside: WAIT_FOR_DATA, QUEUE, MEMCPY_IN_FUSION_BUFFER, NCCL_ALLREDUCE. All of
these are ranges as the host saw them, on one thread per tensor. Tensors that are exchanged together in one buffer repeat the
same activities: among the kernels, a request to the communication library is one kernel for all of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_events, chrome_json
from kernelscope.analysis.files.chrome_events import Events
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats.kineto.tables import paired
from kernelscope.analysis.trace import Trace, conform, intervals

_OPERATIONS = "ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|ADASUM|JOIN|BARRIER"
_SIGN = re.compile(rf'"name"\s*:\s*"(?:NEGOTIATE_)?(?:{_OPERATIONS})"|"start_time_since_epoch_in_micros"')
_EXCHANGE = r"^(?P<library>NCCL|RCCL|HCCL|MPI|GLOO|CCL|DDL|MLSL|ADASUM)_(?!INIT|WAIT|QUEUE|MEMCPY)\w+$"
_APART_NS = 1_000_000  # the tensors of one exchange note its start one after the other, within microseconds
_LATEST_NS = 4_000_000_000_000_000_000
_NO_THREAD = -1  # for marks that belong to no tensor


def matches(head: Head) -> bool:
    """Return whether this is a list of events with Horovod's operations."""
    text = head.text.lstrip()
    return head.is_text and text.startswith("[") and '"process_name"' in text and _SIGN.search(text) is not None


def read(path: Path) -> Trace:
    """Read a timeline; raise EvidenceError if it cannot be read or holds no operations."""
    result = chrome_events.read(path, open_ended=True)
    start_ns = int((result.start_us or 0) * 1000)
    begin_ns = start_ns if 0 <= start_ns < _LATEST_NS else 0
    keys = chrome_events.numbers(result.process_keys)
    table = result.table.assign(process=keys[result.table["process"].to_numpy()], name=result.table["name"].astype("string"))
    timed = (table["start_ns"] >= 0) & (table["start_ns"] + begin_ns < _LATEST_NS)
    untimed = int((~timed.fillna(False)).sum())
    table = table[timed.fillna(False).to_numpy(dtype=bool)]
    table = table.assign(start_ns=table["start_ns"].astype("int64") + begin_ns).reset_index(drop=True)
    spans, unpaired = _spans(table)
    if spans.empty:
        raise EvidenceError(f"{path}: the timeline holds no operations; record longer, with HOROVOD_TIMELINE set on rank 0")
    marks = table[table["phase"].isin(["X", "i", "I"]).to_numpy(dtype=bool)]
    others = int((~table["phase"].isin(["B", "E", "X", "i", "I"])).sum())
    diagnostics = {
        "a beginning of the clock that is out of range": int(begin_ns != start_ns),
        "events without a usable time": untimed,
        "begins and ends without the other": unpaired,
        "the file ends inside of an event": int(result.cut),
        "pieces of text that were no JSON, mended": result.repaired,
        chrome_json.ODD: result.odd,
        "events of other phases, not read": others,
    }
    return Trace(
        ranges=conform("ranges", pd.concat([_ranges(spans), _marks(marks)], ignore_index=True)),
        kernels=conform("kernels", _exchanges(spans)),
        info=_info(result, spans),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _spans(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return operations and activities with start_ns and end_ns, in the file's order, and the number of unpaired events."""
    rows = table[table["phase"].isin(["B", "E"]).to_numpy(dtype=bool)]
    frame = pd.DataFrame(
        {
            "phase": rows["phase"].astype("str").astype("category"),
            "name": rows["name"].fillna(""),
            "start_ns": rows["start_ns"].to_numpy(),
            "duration_ns": np.zeros(len(rows), dtype=np.int64),
            "track": rows["process"].to_numpy(),
        }
    ).reset_index(drop=True)
    if frame.empty:
        return frame, 0
    spans, unpaired = paired(frame)
    spans = spans[(spans["phase"] == "B").to_numpy(dtype=bool)].reset_index(drop=True)
    return spans.assign(end_ns=spans["start_ns"] + spans["duration_ns"]), unpaired


def _ranges(spans: pd.DataFrame) -> pd.DataFrame:
    return spans[["start_ns", "end_ns", "name"]].assign(thread=spans["track"], category="user", nested=True, domain="horovod")


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the marks of ranks that are ready and of beginning cycles of Horovod's loop."""
    ready = (rows["phase"] == "X").to_numpy(dtype=bool)
    name = rows["name"].fillna("")
    return pd.DataFrame(
        {
            "start_ns": rows["start_ns"],
            "end_ns": rows["start_ns"],
            "name": ("rank " + name + " ready").where(ready, name),
            "thread": np.where(ready, rows["process"], _NO_THREAD),
            "category": "mark",
            "nested": False,
            "domain": "horovod",
        }
    )


def _exchanges(spans: pd.DataFrame) -> pd.DataFrame:
    """Return the requests to the communication library; activities that several tensors began together are one request."""
    library = spans["name"].str.extract(_EXCHANGE)["library"]
    own = library.notna().to_numpy(dtype=bool)
    outer = _operations(spans)
    names, tracks = spans["name"].to_numpy(dtype=object), spans["track"].to_numpy()
    start = spans["start_ns"].to_numpy()
    first = np.ones(len(spans), dtype=bool)
    first[1:] = (names[1:] != names[:-1]) | (np.abs(start[1:] - start[:-1]) > _APART_NS) | (tracks[1:] == tracks[:-1])
    rows = spans.assign(group=np.cumsum(first), library=library.str.lower(), operator=outer)[own]
    groups = rows.groupby("group", sort=True)
    result = groups.agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), name=("name", "first"), library=("library", "first"),
        operator=("operator", "first"), tensors=("track", "size"),
    ).reset_index(drop=True)  # fmt: skip
    return result.assign(
        duration_ns=result["end_ns"] - result["start_ns"],
        count=1,
        kind="communication",
        problem=result["tensors"].astype("string") + np.where(result["tensors"] == 1, " tensor", " tensors"),
        attribution="none",
    )


def _operations(spans: pd.DataFrame) -> pd.Series:
    """Return the operation that each span is in, such as ALLREDUCE."""
    parent = intervals.parents(*[spans[name].to_numpy(np.int64) for name in ("track", "start_ns", "end_ns")])
    outer = pd.Series(spans["name"].to_numpy(dtype=object)[np.maximum(parent, 0)], index=spans.index, dtype="string")
    return outer.where(parent >= 0)


def _info(events: Events, spans: pd.DataFrame) -> dict[str, Any]:
    keys = chrome_events.numbers(events.process_keys)
    used = set(spans["track"].unique().tolist())
    notes = [
        "threads stand for tensors; times are the host's, in whole microseconds, and only one rank writes them",
        "an exchange of several tensors in one buffer is one kernel, but a range of each tensor",
    ]
    if not spans["name"].str.match(_EXCHANGE).any():
        notes.append("the timeline holds no activity of a communication library")
    return {
        "source": {"format": "horovod", "tool": "Horovod", "version": None, "schema": None},
        "clock": "wall" if events.start_us else "relative",
        "devices": [],
        "threads": {str(key): name for key, name in zip(keys.tolist(), events.processes, strict=True) if name and key in used},
        "unavailable": {"launches": "Horovod does not record what ran on a device; its activities are the host's"},
        "notes": notes,
    }
