"""Perfetto traces: slices of tracks, and GPUs' render stages.

Slices are ranges on their threads; a track without a thread counts as a thread of its own. Tools that write GPU traces through
Perfetto give the kind of a slice by its category: rocprofv3 writes kernel_dispatch, memory_copy and hip_api, exports of
kernelscope write the names of its tables. Only in traces of these two do slices become kernels, copies and calls; render stages
are always GPU work.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.files.protobuf_columns import varint
from kernelscope.analysis.formats.kineto.tables import paired
from kernelscope.analysis.formats.perfetto import messages, packets
from kernelscope.analysis.formats.perfetto.packets import Packets
from kernelscope.analysis.trace import Trace, conform, thread_names

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_OURS = "kernelscope"
_ROCPROF = {"kernel_dispatch": "kernels", "memory_copy": "copies", "hip_api": "calls", "hsa_api": "calls", "rccl_api": "calls"}
_TABLES = ("steps", "ranges", "operators", "calls", "kernels", "graphs", "copies", "syncs")  # in our own exports
_LINES = "host_lines"
_STREAM = re.compile(r"^(?P<device>.+?) stream (?P<stream>\d{1,18}|unknown|not told)(?:, process \d+)?$")  # the last: old exports
_CPU = re.compile(r"^kernels of the CPU(?:, thread (?P<stream>\d{1,18}))?(?:, process \d+)?$")
_AGENT = re.compile(r"AGENT \[(?P<agent>[^\]]{1,20})\](?:.*?(?:QUEUE|STREAM) \[(?P<queue>\d{1,18})\])?")
_THREAD = re.compile(r"^(?:.*\()?(?:thread )?(?P<thread>\d{1,18})\)?(?:, process \d+)?$")
_OPERATIONS = (
    (re.compile(r"HOST_?TO_?DEVICE", re.I), "host to device"), (re.compile(r"DEVICE_?TO_?HOST", re.I), "device to host"),
    (re.compile(r"DEVICE_?TO_?DEVICE", re.I), "device to device"), (re.compile(r"HOST_?TO_?HOST", re.I), "host to host"),
)  # fmt: skip
_LAST_NS = 4_000_000_000_000_000_000
_OWN_TRACKS = 1 << 48  # numbers of tracks without a thread begin here

# fields that identify a packet, and their wire types
_FIELDS = dict.fromkeys((3, 8, 10, 13, 41, 42, 58, 79, 87, 98), 0) | dict.fromkeys(
    (1, 2, 4, 5, 6, 7, 9, 11, 12, 33, 34, 35, 36, 37, 43, 44, 45, 46, 47, 50, 51, 53, 54, 59, 60, 61, 66, 67, 69, 89, 90,
     124, 126, 133), 2,
)  # fmt: skip
_TELLING = frozenset({8, 10, 11, 36, 50, 58, 60, 89, 133})
_LOOKED_AT = 16  # packets


def matches(head: Head) -> bool:
    """Return whether the content begins with Perfetto's packets."""
    content, position, telling = head.content, 0, False
    try:
        for number in range(_LOOKED_AT):
            if position >= len(content):
                return number > 0 and telling
            if content[position] != 0x0A:
                return False
            length, position = varint(content, position + 1)
            end = position + length
            if end > len(content):
                return telling or _partly(content, position)
            fields = _fields(content, position, end)
            if fields is None:
                return False
            telling |= bool(fields & _TELLING)
            position = end
    except IndexError:
        return telling
    return telling


def _partly(content: bytes, position: int) -> bool:
    """Return whether a packet that is cut off at the end of the content begins like Perfetto's."""
    key, _ = varint(content, position)
    return key >> 3 in _TELLING and _FIELDS.get(key >> 3) == key & 7


def _fields(content: bytes, position: int, end: int) -> frozenset[int] | None:
    """Return the numbers of a packet's fields; None if it is not a packet."""
    result = set()
    while position < end:
        key, position = varint(content, position)
        if _FIELDS.get(key >> 3, -1) != key & 7 and key >> 3 <= 200:
            return None
        value, position = varint(content, position)
        position += value if key & 7 == 2 else 0
        result.add(key >> 3)
    return frozenset(result) if position == end else None


def read(path: Path) -> Trace:
    """Read a trace; raise EvidenceError if it cannot be read or holds neither slices nor render stages."""
    result = packets.read(path)
    diagnostics = result.diagnostics
    tracks = _tracks(result)
    if len(tracks) and tracks["ours"].any():
        # an export counts from its first event, and a zero time means no time in captures: shift everything by 1 ns
        result.events["start_ns"] += 1
    slices = _slices(result, tracks, diagnostics)
    if slices.empty and result.stages.empty:
        shown = ", ".join(f"{name} {count:,}" for name, count in result.unread.items()) or "nothing known"
        raise EvidenceError(f"{path}: the trace holds no slices and no GPU work ({shown}); record with track_event enabled")
    trace = Trace(diagnostics=diagnostics)
    parts = {table: slices[(slices["table"] == table).to_numpy()] for table in set(slices["table"])}
    _count(diagnostics, "lines of the host in an export, not read", len(parts.get(_LINES, ())))
    trace.ranges = conform("ranges", _ranges(parts))
    trace.operators = conform("operators", _of("operators", parts).assign(attribution="none"))
    trace.kernels = conform("kernels", pd.concat([_work(parts, "kernels", tracks), _of_stages(result)], ignore_index=True))
    trace.copies = conform("copies", _with_operation(_work(parts, "copies", tracks)))
    trace.graphs = conform("graphs", _work(parts, "graphs", tracks))
    trace.calls = conform("calls", _calls(parts))
    trace.syncs = conform("syncs", _of("syncs", parts).assign(kind=_of("syncs", parts)["name"]).drop(columns="thread"))
    trace.steps = conform("steps", _steps(parts, diagnostics))
    trace.info = _info(result, tracks, trace)
    trace.diagnostics = {name: int(count) for name, count in diagnostics.items() if count}
    return trace


def _tracks(packets: Packets) -> pd.DataFrame:
    """Return the tracks that have events, by uuid or sequence: columns thread, process, name, of_thread, ours."""
    events = packets.events[["track", "sequence"]].assign(key=_keys(packets.events)).drop_duplicates("key")
    rows = [
        _track(packets, int(track), int(sequence)) for track, sequence in zip(events["track"], events["sequence"], strict=True)
    ]
    names = ["process", "tid", "name", "ours", "rocprof"]
    table = pd.DataFrame(rows, columns=names, index=events["key"].to_numpy())
    tid = table["tid"].astype("Int64")
    own = tid.isna() | tid.duplicated() | (tid >= _OWN_TRACKS)
    numbers = _OWN_TRACKS + np.arange(len(table))
    table["thread"] = np.where(own, numbers, tid.fillna(0).to_numpy(np.int64))
    return table


def _keys(events: pd.DataFrame) -> Any:
    """Return the keys of events' tracks: the uuid, or the sequence if there is none; as text, because both are numbers."""
    sequence = "sequence " + events["sequence"].astype("string")
    return events["track"].astype("string").mask(events["track"] == 0, sequence).to_numpy(dtype=object)


def _track(result: Packets, uuid: int, sequence: int) -> tuple[Any, ...]:
    """Return process, thread number, name, and whether kernelscope or rocprofv3 wrote the track."""
    line: list[Any] = []
    at = uuid
    while at in result.tracks and len(line) < 32:
        line.append(result.tracks[at])
        at = packets.signed(line[-1].parent)
    thread = next((one.thread for one in line if one.HasField("thread")), result.threads.get(sequence) if uuid == 0 else None)
    process = next((one.process for one in line if one.HasField("process")), None)
    names = [messages.text(line[0].name or line[0].static_name or line[0].atrace_name)] if line else []
    if thread is not None:
        names.append(messages.text(thread.name))
    name = next((text for text in names if text), "")
    ours = any(_OURS in messages.text(one.description) for one in line)
    tid: int | None = thread.tid if thread is not None and (not line or line[0].HasField("thread")) else None
    if ours and (match := _THREAD.match(name)):
        tid = int(match["thread"])
    pid = thread.pid if thread is not None else process.pid if process is not None else None
    return pid or None, tid, name, ours, _AGENT.search(name) is not None


def _slices(packets: Packets, tracks: pd.DataFrame, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return slices and instants with start_ns, end_ns, name, track (its row), thread, process, table and mark."""
    events = packets.events
    _count(diagnostics, "values of counters, not read", int((events["type"] == _COUNTER).sum()))
    other = ~events["type"].isin([_BEGIN, _END, _INSTANT, _COUNTER])
    _count(diagnostics, "events of the old kind, not read", int((other & events["legacy"]).sum()))
    _count(diagnostics, "events of other types, not read", int((other & ~events["legacy"]).sum()))
    timed = (events["start_ns"] >= 0) & (events["start_ns"] < _LAST_NS)
    _count(diagnostics, "events without a usable time", int((~timed & ~other).sum()))
    rows = events[(timed & events["type"].isin([_BEGIN, _END, _INSTANT])).to_numpy(dtype=bool)]
    kinds = np.select([rows["type"] == _BEGIN, rows["type"] == _END], ["B", "E"], default="i")
    frame = pd.DataFrame(
        {
            "phase": pd.Categorical(kinds, categories=["B", "E", "i"]),
            "name": rows["name"].fillna("").to_numpy(dtype=object),
            "category": rows["category"].to_numpy(dtype=object),
            "start_ns": rows["start_ns"].to_numpy(),
            "duration_ns": np.zeros(len(rows), dtype=np.int64),
            "track": tracks.index.get_indexer(_keys(rows)),
        }
    )
    slices, unpaired = paired(frame) if len(frame) else (frame, 0)
    _count(diagnostics, "begins and ends without the other", unpaired)
    slices = slices[(slices["phase"] != "E").to_numpy(dtype=bool)].reset_index(drop=True)
    track = slices["track"].to_numpy()
    return slices.assign(
        end_ns=slices["start_ns"] + slices["duration_ns"],
        thread=tracks["thread"].to_numpy()[track],
        process=tracks["process"].astype("Int64").array.take(track),
        mark=(slices["phase"] == "i").to_numpy(dtype=bool),
        table=_table_of(slices, tracks),
    )


def _table_of(slices: pd.DataFrame, tracks: pd.DataFrame) -> Any:
    """Return the Trace's table for each slice; in traces of kernelscope and rocprofv3 its category gives it."""
    ours = tracks["ours"].to_numpy(dtype=bool)[slices["track"].to_numpy()]
    category = slices["category"].astype("string")
    own = category.where(category.isin(_TABLES) & ours)
    of_rocprof = category.map(_ROCPROF).astype("string") if tracks["rocprof"].any() else own
    lines = category.eq(_LINES).fillna(False) & ours
    return own.fillna(of_rocprof.where(~ours)).mask(lines, _LINES).fillna("ranges").to_numpy(dtype=object)


def _count(diagnostics: dict[str, int], what: str, number: int) -> None:
    diagnostics[what] = diagnostics.get(what, 0) + number


def _of(table: str, parts: dict[str, pd.DataFrame]) -> pd.DataFrame:
    columns = ["start_ns", "end_ns", "duration_ns", "name", "thread", "process", "track", "mark"]
    return parts[table][columns] if table in parts else pd.DataFrame(columns=columns)


def _ranges(parts: dict[str, pd.DataFrame]) -> pd.DataFrame:
    rows = _of("ranges", parts)
    mark = rows["mark"].to_numpy(dtype=bool)
    category = parts["ranges"]["category"] if "ranges" in parts else None
    domain = category if category is not None and "ranges" not in set(category.dropna()) else None
    return rows.assign(category=np.where(mark, "mark", "user"), nested=~mark, domain=domain)


def _calls(parts: dict[str, pd.DataFrame]) -> pd.DataFrame:
    rows = _of("calls", parts)
    driver = rows["name"].astype("string").str.match(r"(?:cu|hsa)[A-Z_]").fillna(False).to_numpy(dtype=bool)
    process = rows["process"].astype("Int64").fillna(0)
    return rows.assign(process=process, api=np.where(driver, "driver", "runtime"))


def _steps(parts: dict[str, pd.DataFrame], diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return steps of our own exports; steps of several sides overlap, do not form one loop, and are left out."""
    rows = _of("steps", parts).sort_values("start_ns", kind="stable")
    if (rows["start_ns"].iloc[1:].to_numpy() < rows["end_ns"].iloc[:-1].to_numpy()).any():
        _count(diagnostics, "steps of several sides, left out", len(rows))
        rows = rows.iloc[:0]
    return rows.assign(step=np.arange(len(rows)), warmup=False)


def _work(parts: dict[str, pd.DataFrame], table: str, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return device work from slices; the track's name gives device and stream."""
    rows = _of(table, parts)
    places = [_place(str(name)) for name in tracks["name"]]
    track = rows["track"].to_numpy(dtype=np.int64)
    device = np.array([place[0] for place in places] or [None], dtype=object)
    stream = np.array([place[1] for place in places] or [None], dtype=object)
    return rows.assign(
        device=device[track] if len(track) else None,
        thread=pd.array(stream[track], dtype="Int64") if len(track) else None,
        count=1,
    )


def _place(name: str) -> tuple[str | None, int | None]:
    """Return the device and stream in a track's name."""
    if match := _CPU.match(name):
        return "cpu", int(match["stream"]) if match["stream"] else None
    if match := _STREAM.match(name):
        device = match["device"]
        return (None if device == "unknown device" else device), int(match["stream"]) if match["stream"].isdigit() else None
    if match := _AGENT.search(name):
        return f"rocm agent {match['agent']}", int(match["queue"]) if match["queue"] else None
    return None, None


def _with_operation(rows: pd.DataFrame) -> pd.DataFrame:
    names = rows["name"].astype("string")
    operation = pd.Series("other", index=rows.index, dtype="string")
    for pattern, meaning in _OPERATIONS:
        operation = operation.mask(names.str.contains(pattern).fillna(False), meaning)
    plain = names.str.strip().str.lower().str.removeprefix("copy ")
    known = plain.isin([meaning for _, meaning in _OPERATIONS] + ["peer to peer", "unified memory", "set"])
    return rows.assign(operation=operation.mask(known, plain))


def _of_stages(packets: Packets) -> pd.DataFrame:
    """Return the GPUs' render stages as kernels."""
    rows = packets.stages
    return pd.DataFrame(
        {
            "start_ns": rows["start_ns"],
            "end_ns": rows["start_ns"] + rows["duration"],
            "duration_ns": rows["duration"],
            "count": 1,
            "device": "gpu:" + rows["gpu"].astype("string"),
            "thread": rows["queue"],
            "name": rows["name"],
        }
    )


def _info(packets: Packets, tracks: pd.DataFrame, trace: Trace) -> dict[str, Any]:
    ours = bool(tracks["ours"].any()) if len(tracks) else False
    notes = ["arguments of slices, flows between them and counters are not read"]
    named = [(thread, name) for thread, name in zip(tracks["thread"].tolist(), tracks["name"].tolist(), strict=True) if name]
    if packets.unread:
        notes.append(f"packets that are not read: {', '.join(f'{name} {count:,}' for name, count in packets.unread.items())}")
    if ours:
        notes.append("an export of kernelscope: it lacks columns that slices cannot show (launches, details)")
    devices = [str(name) for name in trace.kernels["device"].dropna().unique()]
    info: dict[str, Any] = {
        "source": {"format": "perfetto", "tool": "Perfetto", "version": None, "schema": None},
        "clock": "relative",
        "devices": [{"device": name, "name": None} for name in devices],
        "threads": thread_names.named(named),
        "unavailable": {} if len(trace.kernels) else {"kernels": "no slice is marked as device work"},
        "notes": notes,
    }
    if packets.unread:
        info["not_read"] = dict(packets.unread)
    return info
