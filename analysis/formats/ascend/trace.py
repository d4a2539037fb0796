"""Chrome traces of Ascend NPUs: trace_view.json of torch_npu's and MindSpore's profilers, msprof_*.json of msprof.

A bare list of events. Torch's own events are as in Kineto's traces; the others are identified by the process's name: "Ascend
Hardware" has the tasks of the NPU's streams, "HCCL" or "Communication" the collectives, "CANN" the calls of Huawei's runtime.
"Overlap Analysis" is derived from the others and left out.

A task names its CANN call by the connection id. Operators hand their work to a queue (Enqueue), which another thread empties
(Dequeue): the call that launched a task is its Enqueue, so it belongs to the operator that made it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import python_functions
from kernelscope.analysis.formats.ascend import launches, tasks
from kernelscope.analysis.formats.kineto import autograd, functions, repeated
from kernelscope.analysis.formats.kineto import categories as kineto_categories
from kernelscope.analysis.formats.kineto import columns as kineto_columns
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto import trace as kineto_trace
from kernelscope.analysis.formats.kineto.groups import EventGroup
from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.formats.kineto.unread import text_of
from kernelscope.analysis.trace import Trace, conform

Bool = npt.NDArray[np.bool_]

_SIGNS = re.compile(
    r'"Ascend Hardware"|"torch_to_npu"|"async_npu"|"enqueue_to_dequeue"|"name": ?"(?:Dequeue|AscendCL)@|"HostToDevice"'
    r'|"cat": ?"(?:enqueue|dequeue)"|torch_npu/profiler|"name": ?"(?:Overlap Analysis|CANN)"|"Physic Stream Id"'
)
_QUEUE = frozenset({"enqueue", "dequeue"})
_ARROWS = frozenset({"async_npu", "HostToDevice"})
_HOST = {name: kineto_categories.GROUPS[name] for name in ("operators", "annotations", "functions", "memory", "flows", "labels")}
_HOST_CATEGORIES = frozenset().union(*(_HOST[name].categories or () for name in ("operators", "annotations", "functions")))
GROUPS = {
    **_HOST,
    "calls": EventGroup(_QUEUE, arguments=("queue",)),
    "arrows": EventGroup(_ARROWS, frozenset("sf")),
    "rest": EventGroup(
        None,
        arguments=("connection", "task_type", "task_stream", "operation", "task_bytes"),
        without=_HOST_CATEGORIES | _QUEUE | {"overhead", "Trace"},
    ),
}
_HARDWARE = re.compile(r"Ascend Hardware|NPU\b(?! MEM)", re.IGNORECASE)
_COMMUNICATION = re.compile(r"HCCL|Communication", re.IGNORECASE)
_CANN = re.compile(r"CANN|AscendCL|Runtime API", re.IGNORECASE)
_OVERLAP = re.compile(r"Overlap Analysis", re.IGNORECASE)
_STEP_TRACE = re.compile(r"Step Trace", re.IGNORECASE)
_PLANE = re.compile(r"Plane|Transport", re.IGNORECASE)
_COLLECTIVE = re.compile(
    r"hcom_|hccl|lccl|ncclh|all_?(?:reduce|gather|to_?all)|reduce_?scatter|broadcast|send|recv", re.IGNORECASE
)
_STREAM = re.compile(r"Stream (\d{1,18})")
_NO_CONNECTION = 0xFFFFFFFF
_YEAR_2001_NS = 1_000_000_000_000_000_000
_HOST_BITS, _DEVICE_MASK = 10, 31  # msprof composes a process's number from host process, layer and device


def matches(head: Head) -> bool:
    """Return whether this is a bare list of events with names that only Ascend's profilers write."""
    content = head.content.removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.is_text and content.startswith(b"[") and b"{" in content[:64] and _SIGNS.search(head.text) is not None


def read(path: Any) -> Trace:
    """Read a trace; raise EvidenceError if it cannot be read or holds no NPU work."""
    scan = kineto.tables_of(kineto_columns.gather(path, GROUPS), GROUPS)
    diagnostics = kineto_trace.counted(scan)
    repeated.leave_out(scan, diagnostics)
    named = _TrackNames(scan)
    rest, arrows = scan.tables.pop("rest"), scan.tables.pop("arrows")
    which = _sorted(named, rest)
    if not which["hardware"].any() and not which["collective"].any():
        raise EvidenceError(
            f"{path}: a trace of Ascend's profiler without any NPU task; record with ProfilerActivity.NPU, or name the "
            "trace_view.json of another rank or step"
        )
    _join_calls(scan, named, rest[which["cann"]])
    tracks = kineto_trace.identify(scan)
    operators_table = scan.tables["operators"]
    for name in ("shapes", "types"):
        operators_table[name] = autograd.of_text(operators_table[name], _as_list)
    steps, ranges, operators = kineto_trace.host_side(scan, tracks, diagnostics)
    lines = functions.host_lines(scan, tracks, steps, operators)
    calls = _calls(scan, tracks)
    hardware, collectives = _described(rest[which["hardware"]], diagnostics), rest[which["collective"]]
    if collectives["connection"].notna().any():
        bare = int(collectives["connection"].isna().sum())
        diagnostics["collectives without their connection, whose tasks count beside them"] = bare
    work = [_work(rows, named, scan.tracks) for rows in (hardware, collectives)]
    calls = launches.correlate(calls, operators, _ends(arrows, tracks), work)
    made = tasks.sort(work[0], work[1], diagnostics)
    info = _info(scan, named, rest, which, [*work, operators])
    python_functions.describe(lines, info, functions.MISSING)
    return Trace(
        steps=conform("steps", steps),
        ranges=conform("ranges", ranges),
        operators=conform("operators", operators),
        kernels=conform("kernels", made.kernels),
        copies=conform("copies", made.copies),
        syncs=conform("syncs", made.syncs),
        calls=conform("calls", calls),
        host_lines=lines,
        info=info,
        diagnostics={name: int(count) for name, count in diagnostics.items() if count},
    )


# --- names of processes and threads ---------------------------------------------------------------------------------------


class _TrackNames:
    """The names of the processes and threads of a scan's tracks; removed from the scan."""

    def __init__(self, scan: Scan) -> None:
        labels = scan.tables.pop("labels")
        self.pairs = list(zip(scan.tracks["process"].astype(str), scan.tracks["thread"].astype(str), strict=True))
        self._processes: dict[str, str] = {}
        self._threads: dict[tuple[str, str], str] = {}
        texts = labels["labels"].astype("object")
        for kind, track, text in zip(labels["name"].astype("object"), labels["track"].tolist(), texts, strict=True):
            if kind == "process_name":
                self._processes[self.pairs[track][0]] = text_of(text)
            elif kind == "thread_name":
                self._threads[self.pairs[track]] = text_of(text)

    def process(self, pattern: re.Pattern[str]) -> Bool:
        """Return which tracks are in processes whose name matches."""
        return np.array(
            [pattern.match(self._processes.get(process, process)) is not None for process, _ in self.pairs], dtype=bool
        )

    def process_name(self, track: int) -> str:
        """Return the name of a track's process."""
        process = self.pairs[track][0]
        return self._processes.get(process, process)

    def thread(self, pattern: re.Pattern[str]) -> Bool:
        """Return which tracks are threads whose name matches."""
        return np.array([pattern.match(self._threads.get(pair, "")) is not None for pair in self.pairs], dtype=bool)

    def streams(self) -> pd.Series:
        """Return each track's stream number, from its thread's name or number; null if it has none."""
        streams = [_STREAM.match(self._threads.get(pair, "")) for pair in self.pairs]
        texts = [match[1] if match else pair[1] for match, pair in zip(streams, self.pairs, strict=True)]
        return kineto.whole_numbers(pd.Series(texts, dtype="object"))

    def devices(self) -> list[str]:
        """Return the device of each track, such as npu:0: from the process's number if msprof composed it, else in turn."""
        msprof = [process for process, name in self._processes.items() if _HARDWARE.match(name) or _CANN.match(name)]
        hosts = {process for process, _ in self.pairs} | {
            str(int(process) >> _HOST_BITS) for process in msprof if _number(process)
        }
        result, turn = [], dict[str, int]()
        for process, _ in self.pairs:
            number = _number(process)
            if number is not None and number >> _HOST_BITS and str(number >> _HOST_BITS) in hosts:
                result.append(f"npu:{number & _DEVICE_MASK}")
            else:
                result.append(
                    f"npu:{turn.setdefault(process, len(turn)) if _HARDWARE.match(self._processes.get(process, '')) else 0}"
                )
        return result


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _sorted(named: _TrackNames, rest: pd.DataFrame) -> dict[str, Bool]:
    """Return which rows are hardware tasks, collectives, their planes, CANN calls, derived from others, or unknown."""
    track = rest["track"].to_numpy()
    hardware, communication, cann, overlap, step_trace = (
        named.process(pattern)[track] for pattern in (_HARDWARE, _COMMUNICATION, _CANN, _OVERLAP, _STEP_TRACE)
    )
    hardware |= rest["task_type"].notna().to_numpy() & ~communication & ~cann
    plane = named.thread(_PLANE)[track] | ~autograd.where_text(rest["name"], _COLLECTIVE.search)
    result = {"hardware": hardware, "collective": communication & ~plane, "planes": communication & plane, "cann": cann}
    result["derived"] = overlap | step_trace
    result["unknown"] = ~np.logical_or.reduce(list(result.values()))
    return result


# --- the host -------------------------------------------------------------------------------------------------------------


def _join_calls(scan: Scan, named: _TrackNames, cann: pd.DataFrame) -> None:
    """Add CANN's calls to those of the task queue, on the thread with the same number in the host's process.

    msprof puts the calls into a separate process.
    """
    pairs = {pair: number for number, pair in enumerate(named.pairs)}
    hosts = {process for process, _ in named.pairs}
    with_operators = {named.pairs[track][0] for track in scan.tables["operators"]["track"].unique().tolist()}
    moved = np.arange(len(named.pairs))
    for track in cann["track"].unique().tolist():
        process, thread = named.pairs[track]
        number = _number(process)
        host = str(number >> _HOST_BITS) if number is not None else ""
        host = host if host in hosts else next(iter(with_operators)) if len(with_operators) == 1 else process
        moved[track] = pairs.setdefault((host, thread), track)
    queue = scan.tables["calls"]
    columns = ["start_ns", "duration_ns", "name", "category", "track", "queue", "connection"]
    both = [queue.assign(connection=pd.Series(pd.NA, index=queue.index, dtype="Int64"))]
    if len(cann):
        none = pd.Series(pd.NA, index=cann.index, dtype="Int64")
        both.append(cann.assign(category="cann", track=moved[cann["track"].to_numpy()], queue=none))
    joined = pd.concat([table[columns].astype({"name": "object", "category": "object"}) for table in both], ignore_index=True)
    scan.tables["calls"] = joined.astype({"name": "category", "category": "category"})


def _calls(scan: Scan, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of CANN and of the task queue."""
    table = kineto_trace.placed(scan.tables["calls"], tracks, "name", "category", "queue", "connection")
    connection = table["connection"].where(table["connection"] != _NO_CONNECTION)
    return table.assign(
        api=autograd.of_text(table["category"], lambda text: "cann" if text == "cann" else "task queue"), connection=connection
    )


def _as_list(text: str) -> str | None:
    """Return shapes or types, which torch_npu joins into one text with ";\\r\\n", as a JSON list like Kineto's."""
    try:
        result = json_text.parsed(text)
    except ValueError:
        return None
    if not isinstance(result, str):
        return text
    parts = [part.strip() for part in result.split(";")]
    if all(re.fullmatch(r"(?:\d+(?:,\s*\d+)*,?)?", part) for part in parts):
        return json.dumps([[int(number) for number in part.split(",") if number] for part in parts])
    return json.dumps(parts)


# --- the device -----------------------------------------------------------------------------------------------------------


def _described(rows: pd.DataFrame, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return the tasks with arguments, if any have them: the others may be tasks of collectives, which would count twice."""
    described = rows[["connection", "task_type", "task_stream"]].notna().any(axis=1)
    if not described.any():
        return rows
    diagnostics["tasks without their arguments, left out"] = int((~described).sum())
    return rows[described]


def _work(rows: pd.DataFrame, named: _TrackNames, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return tasks or collectives with device and stream. A collective has its own track and no stream."""
    track = rows["track"].to_numpy()
    stream = rows["task_stream"].reset_index(drop=True)
    if len(tracks) and rows["task_type"].notna().any():
        stream = stream.fillna(named.streams().take(track).reset_index(drop=True))
    start = rows["start_ns"].to_numpy()
    devices = np.array([*named.devices(), None], dtype=object)
    return pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": start + rows["duration_ns"].to_numpy(),
            "device": pd.Categorical(devices[track]),
            "thread": stream.where(stream >= 0),
            "name": rows["name"].array,
            "task_type": rows["task_type"].astype("object").fillna("").to_numpy(),
            "connection": rows["connection"].where(rows["connection"] != _NO_CONNECTION).array,
            "operation": rows["operation"].array,
            "bytes": rows["task_bytes"].array,
            "track": track,
        }
    )


def _ends(arrows: pd.DataFrame, tracks: pd.DataFrame) -> pd.DataFrame:
    """Return both ends of each arrow from host to device: category, the host's thread and time, the device's track and time."""
    result = kineto_trace.placed(arrows, tracks, "flow", "phase", "category", "track").astype(
        {"flow": "object", "category": "object"}
    )
    starts, ends = (result[(result["phase"].astype("object") == phase).to_numpy()] for phase in "sf")
    starts = starts.drop_duplicates(["category", "flow"])[["category", "flow", "thread", "start_ns"]]
    return ends[["category", "flow", "track", "start_ns"]].merge(starts, on=["category", "flow"], suffixes=("", "_host"))


# --- the file's own description -------------------------------------------------------------------------------------------


def _info(
    scan: Scan, named: _TrackNames, rest: pd.DataFrame, which: dict[str, Bool], timed: list[pd.DataFrame]
) -> dict[str, Any]:
    """Return what is known about the capture, and which of its events are not read."""
    starts = [int(table["start_ns"].min()) for table in timed if len(table)]
    devices = sorted({device for table in timed[:2] for device in table["device"].unique().tolist()})
    of_torch = bool(len(timed[2]))
    info: dict[str, Any] = {
        "source": {"format": "ascend-trace", "tool": "torch_npu.profiler" if of_torch else "msprof", "version": None},
        "clock": "wall" if min(starts) > _YEAR_2001_NS else "relative",
        "devices": [{"device": device} for device in devices],
        "unavailable": {},
        "notes": [
            "collectives (HCCL) are kernels, including their waiting; their tasks and the overlap analysis are not counted again"
        ],
    }
    if of_torch:
        info["framework"] = "pytorch"
    unknown = pd.Series(rest.loc[which["unknown"], "track"]).map(named.process_name).value_counts()
    counts = {
        "counters": sum(count for (phase, _), count in scan.counts.items() if phase == "C"),
        "python_function": len(scan.tables["functions"]),
        "planes of collectives": int(which["planes"].sum()),
        "derived (overlap, step trace)": int(which["derived"].sum()),
        **{str(name)[:60]: int(count) for name, count in unknown.items()},
    }
    info["not_read"] = {name: count for name, count in counts.items() if count}
    if len(unknown):
        shown = ", ".join(f"{str(name)[:60]} {count:,}" for name, count in unknown.head(4).items())
        info["warnings"] = [f"events that may be work are not read ({int(unknown.sum()):,}), in processes: {shown}"]
    return info
