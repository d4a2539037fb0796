"""Timelines of TensorFlow 1's RunMetadata: operators of one step on every device, and a GPU's streams.

A GPU's work is on a row for its stream and again on stream:all (kernels) or memcpy (copies). The stream's row counts; the other
one distinguishes copies from kernels, because a copy made by an operator has the operator's name. Rows of streams do not name
the kernel, unless TensorFlow was built for ROCm. The row of the GPU itself shows how long the host took to launch each
operator. If no device is a GPU, the operators that compute are the kernels.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.tensorflow import run_metadata
from kernelscope.analysis.trace import Trace, conform

_ROW = re.compile(r'"name"\s*:\s*"(?:[^"]*\b(?:device:)?(?:XLA_)?[CGcgTt][Pp][Uu]:\d+[^"]* (?:Compute|Tensors)|Allocators)"')
_STREAM = r"(?i)\bGPU:(?P<gpu>\d{1,6})/(?:stream:(?P<stream>\w+)|(?P<memcpy>memcpy))"
_DEVICE = r"(?i)(?:\b|_)(?P<kind>CPU|GPU|TPU):(?P<number>\d{1,6})$"
_COPY = r"(?i)^MEMCPY(?P<source>[HDAP])(?:to|2)(?P<target>[HDAP])"
_ENDS = {"H": "host", "D": "device", "A": "device", "P": "peer"}
_KEYS = ["gpu", "type", "node", "start_ns", "duration_ns"]


def matches(head: Head) -> bool:
    """Return whether this is a chrome trace whose processes have the device names of TensorFlow's timelines."""
    text = head.text.lstrip()
    return head.is_text and text.startswith("{") and '"traceEvents"' in text and _ROW.search(text) is not None


def read(path: Path) -> Trace:
    """Read a timeline; raise EvidenceError if it cannot be read or is not one."""
    timeline = run_metadata.read(path)
    events = timeline.events
    events = pd.concat([events, events["process"].str.extract(_STREAM)], axis=1)
    events["end_ns"] = events["start_ns"] + events["duration_ns"]
    events, bare = _without_bare(events)
    on_device = events["gpu"].notna().to_numpy(dtype=bool)
    work, duplicates = _once(events[on_device])
    operators = _operators(events[~on_device])
    is_copy = work["is_copy"].to_numpy(dtype=bool)
    has_gpu = bool(on_device.any()) or bool(operators["device"].str.startswith("cuda").any())
    kernels = _kernels(work[~is_copy]) if has_gpu else _cpu_kernels(operators)
    diagnostics = {
        "duplicates on stream:all and memcpy": duplicates,
        "device rows on no stream": int(work["thread"].isna().sum()),
        "executions without a time": timeline.untimed,
        "executions of which ph is damaged": timeline.damaged,
        chrome_json.ODD: timeline.odd,
        "executions on a GPU without their arguments, left out": bare,
        "dependencies not read": sum(timeline.others.get(phase, 0) for phase in "stf"),
        "lives of tensors not read": sum(timeline.others.get(phase, 0) for phase in "NOD"),
        "other events not read": sum(count for phase, count in timeline.others.items() if phase not in tuple("stfNOD")),
    }
    return Trace(
        operators=conform("operators", operators),
        kernels=conform("kernels", kernels),
        copies=conform("copies", _copies(work[is_copy])),
        memory=conform("memory", _memory(timeline.counters)),
        info=_info(operators, kernels, bool(len(work)), has_gpu),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _without_bare(events: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Drop a GPU's events without a node if others name one, as they may repeat these; return the rest and the number dropped."""
    kept = (events["node"].notna() | events["gpu"].isna()).to_numpy(dtype=bool)
    named = (events["node"].notna() & events["gpu"].notna()).any()
    return (events[kept].reset_index(drop=True), int((~kept).sum())) if named else (events, 0)


def _once(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return every execution on a GPU once, from its stream's row if it has one, and the number of repeats left out."""
    is_stream = (rows["stream"].notna() & (rows["stream"] != "all")).to_numpy(dtype=bool)
    is_memcpy = rows["memcpy"].notna().to_numpy(dtype=bool)
    # an execution on several rows is kept on the first of them: streams, then memcpy, then stream:all
    rank = np.select([is_stream, is_memcpy], [0, 1], default=2)
    # equal executions are distinguished by their number
    numbered = rows.assign(number=rows.groupby([*_KEYS, rank], dropna=False).cumcount())
    pairs = pd.MultiIndex.from_frame(numbered[[*_KEYS, "number"]])
    order = np.argsort(rank, kind="stable")
    repeated = np.empty(len(rows), dtype=bool)
    repeated[order] = pairs[order].duplicated() & (rank[order] > 0)
    named = rows["type"].str.match(r"(?i)^MEM(CPY|SET)").fillna(False).to_numpy(dtype=bool)
    numbered["is_copy"] = named | np.asarray(pairs.isin(pairs[is_memcpy]))
    kept = numbered[~repeated]
    stream = kept["stream"].where(kept["stream"].str.fullmatch(r"[0-9]{1,18}").fillna(False).astype("bool"))
    kept = kept.assign(thread=pd.to_numeric(stream).astype("Int64"), device="cuda:" + kept["gpu"])
    return kept.reset_index(drop=True), int(repeated.sum())


def _operators(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the executions outside of streams, for any device, as operators."""
    device = rows["process"].str.extract(_DEVICE)
    kind = device["kind"].str.lower().map({"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"})
    named = (kind + ":" + device["number"]).where(kind != "cpu", "cpu").astype("string")
    described = scopes.columns(rows["node"], rows["type"])
    return rows[["start_ns", "end_ns", "duration_ns"]].assign(
        thread=rows["lane"], name=rows["type"], scope=rows["node"], device=named, **described
    )


def _kernels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a GPU's work as kernels, named by their operator if the kernel's name is unknown."""
    known = rows["type"].where(rows["type"] != "unknown")
    described = scopes.columns(rows["node"], rows["type"])
    return rows[["start_ns", "end_ns", "duration_ns", "device", "thread"]].assign(
        count=1,
        name=rows["kernel"].fillna(known).fillna(rows["node"]),
        operator=known,
        kind=scopes.kinds(known, described["phase"]),
        **described,
    )


def _cpu_kernels(operators: pd.DataFrame) -> pd.DataFrame:
    """Return the operators that compute, as CPU kernels."""
    computing = operators[~operators["name"].str.match(scopes.STEERING).fillna(True).to_numpy(dtype=bool)]
    kind = scopes.kinds(computing["name"], computing["phase"])
    return computing.assign(count=1, operator=computing["name"], device="cpu", kind=kind)


def _copies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a GPU's copies; the direction is "other" if an operator's name replaces it."""
    ends = rows["type"].str.extract(_COPY)
    source, target = (ends[name].str.upper().map(_ENDS) for name in ("source", "target"))
    operation = (source + " to " + target).astype("string").fillna("other")
    operation = operation.mask(operation.str.contains("peer"), "peer to peer").mask(rows["type"].str.match(r"(?i)^MEMSET"), "set")
    return rows[["start_ns", "end_ns", "duration_ns", "device", "thread"]].assign(count=1, operation=operation)


def _memory(counters: pd.DataFrame) -> pd.DataFrame:
    """Return allocators' counters of bytes in use as changes; each counts the step's tensors from 0."""
    table = counters.sort_values("time_ns", kind="stable")
    before = table["bytes"].groupby(table["allocator"]).shift(fill_value=0)
    gpu = table["allocator"].str.extract(r"(?i)GPU_(?P<number>\d{1,6})_")["number"]
    host = table["allocator"].str.contains(r"(?i)cpu|host").fillna(False).to_numpy(dtype=bool)
    device = ("cuda:" + gpu).mask(host, "cpu").astype("string")
    return table[["time_ns"]].assign(device=device, bytes=table["bytes"] - before, allocated_bytes=table["bytes"])


def _info(operators: pd.DataFrame, kernels: pd.DataFrame, has_streams: bool, has_gpu: bool) -> dict[str, Any]:
    devices = list(dict.fromkeys([*operators["device"].dropna().tolist(), *kernels["device"].dropna().tolist()]))
    unavailable = {
        "launches": "the timeline holds no CUDA API calls",
        "threads": "the operators' threads are tracks of the timeline into which TensorFlow packed them",
    }
    if has_gpu and not has_streams:
        unavailable["kernels"] = "no stream was traced: record with trace_level=FULL_TRACE and CUPTI on the library path"
    notes = ["times are whole microseconds"]
    if has_streams and not kernels.empty:
        notes.append("kernels on a stream have the name of their operator")
    return {
        "source": {"format": "tensorflow-timeline", "tool": "RunMetadata timeline", "version": None, "schema": None},
        "clock": "wall",
        "framework": "tensorflow",
        "devices": [{"device": str(device)} for device in devices],
        "unavailable": unavailable,
        "notes": notes,
    }
