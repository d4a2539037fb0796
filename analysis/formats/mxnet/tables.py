"""Chrome JSON as mx.profiler dumps it, plain or gzip.

mx.profiler writes the work of its engine's threads as pairs of events B and E, in whole microseconds of the wall clock, and
again as asynchronous tasks (b and e), together with C API calls. Users' own tasks, frames and events have the same form; their
process is named after their domain. `read` returns one row per pair (or complete event X), in the file's order:

    start_ns, duration_ns  int64   start on the wall clock, ns since the epoch; precise to 1000 ns
    name                   string  the operator's type, such as Convolution or _backward_Convolution, or the engine's action
                                   (WaitForVar, DeleteVariable, CopyCPU2CPU, ImperativeBulk); MXNet cuts it at 127 bytes
    category               string  operator, MXNET_C_API, ...
    thread                 int64   a number of the thread within the file (MXNet writes a hash, not the system's id)
    device                 string  cpu/0, gpu/0, ... of operators; null if the file does not say
    asynchronous           bool    a task (b, e): for operators the same execution as the row with False

A complete event without a usable duration has a negative one. The `attrs` count the rest: "unpaired" (events without a partner of
the same name), "untimed" (events without a time), "other_events" (counters and marks), "odd" (elements of the list that are not
events) and "unfinished" (1 if the dump was not closed, as dump(finished=False) leaves it).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json, stream
from kernelscope.analysis.files.packed import read_content

_LAST_US = 9_000_000_000_000_000  # later times do not fit 64 bits as ns
_Microseconds = Annotated[int, msgspec.Meta(ge=-1, le=_LAST_US)] | Annotated[float, msgspec.Meta(ge=-1, le=_LAST_US)]
_VALUE = r"^\s*\{[^{}]*:\s*(?P<value>-?\d{1,300}(?:\.\d*)?(?:[eE][-+]?\d{1,2})?)\s*\}\s*$"
_NAME_ARGUMENT = r'^\s*\{\s*"name"\s*:\s*"(?P<name>[^"\\]*)"'


class _ProfilerEvent(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    cat: str = ""
    ts: _Microseconds = -1
    dur: _Microseconds = -1
    pid: int | str = -1
    tid: int | str = -1
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _ProfilerFile(msgspec.Struct, gc=False):
    events: list[_ProfilerEvent] = msgspec.field(name="traceEvents")


_DECODER = msgspec.json.Decoder(_ProfilerFile)


@dataclass(frozen=True)
class Dump:
    """A dump's tables.

    executions: as returned by `read`. counters: time_ns, name, category, value (float64), thread. marks: time_ns, name, category,
    thread. processes: the names of devices and domains, in the order of the file.
    """

    executions: pd.DataFrame
    counters: pd.DataFrame
    marks: pd.DataFrame
    processes: list[str]


def read(path: Path | str) -> pd.DataFrame:
    """Return the executions in a dump; raise EvidenceError if it cannot be read or is not a dump of this format."""
    return parse(read_content(path), str(path))


def parse(content: bytes, source: str = "dump") -> pd.DataFrame:
    """Return the executions in a dump's JSON text; `source`: its name in errors."""
    return parse_all(content, source).executions


def parse_all(content: bytes, source: str = "dump") -> Dump:
    """Return everything in a dump's JSON text; raise EvidenceError as `read` does."""
    events, odd, unfinished = _decode(content, source)
    columns = _columns(events)
    phase = columns["phase"].to_numpy(dtype=object)
    timed = np.asarray((columns["ts"] >= 0) | (phase == "M"), dtype=bool)
    untimed = int((~timed).sum())
    columns, phase = columns[timed].reset_index(drop=True), phase[timed]
    names = _names(columns[phase == "M"])
    begin, end, unpaired = _pair(columns, phase)
    whole = np.flatnonzero(phase == "X")
    begin, end = np.concatenate([begin, whole]), np.concatenate([end, whole])
    order = np.argsort(begin, kind="stable")
    table = _executions(columns, phase, begin[order], end[order], names)
    other = int((~np.isin(phase, ["B", "E", "b", "e", "M", "X"])).sum())
    table.attrs.update(unpaired=unpaired, untimed=untimed, other_events=other, odd=odd, unfinished=int(unfinished))
    return Dump(table, _counters(columns[phase == "C"]), _marks(columns[np.isin(phase, ["i", "I", "R"])]), list(names.values()))


def _decode(content: bytes, source: str) -> tuple[list[_ProfilerEvent], int, bool]:
    """Return the events, how many elements of the list are not events, and whether the file had to be closed first."""
    try:
        return *chrome_json.listed(source, content, _whole, _ProfilerEvent), False
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{source}: not a dump of mx.profiler: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, EvidenceError) as error:
        try:
            closed = content.rstrip().removesuffix(b",") + b"]}"
            return *chrome_json.listed(source, closed, _whole, _ProfilerEvent), True
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, EvidenceError):
            pass
        if isinstance(error, EvidenceError):
            raise
        raise EvidenceError(f"{source}: not JSON, or cut short ({error}); dump it again with profiler.dump()") from error


def _whole(content: bytes) -> list[_ProfilerEvent]:
    return _DECODER.decode(content).events


def _columns(events: list[_ProfilerEvent]) -> pd.DataFrame:
    """Return the decoded events as a table; threads are numbered in the order of their first event."""
    fields = {"phase": "ph", "name": "name", "category": "cat", "process": "pid", "thread": "tid", "args": "args"}
    table = pd.DataFrame({name: pd.Series(list(_all(events, field)), dtype="object") for name, field in fields.items()})
    # hashes of threads use 64 bits without sign, which the Trace's signed columns cannot hold
    table["thread"] = pd.factorize(table["thread"])[0].astype(np.int64)
    table["process"] = pd.factorize(table["process"])[0].astype(np.int64)
    table["ts"] = np.array(list(_all(events, "ts")), dtype=None if events else np.int64)
    table["duration"] = np.array(list(_all(events, "dur")), dtype=None if events else np.int64)
    return table


def _all(events: list[_ProfilerEvent], field: str) -> Iterable[Any]:
    return map(operator.attrgetter(field), events)


def _executions(
    columns: pd.DataFrame,
    phase: npt.NDArray[np.object_],
    begin: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    names: dict[int, str],
) -> pd.DataFrame:
    first, last = columns.iloc[begin], columns.iloc[end]
    device = first["process"].map({process: name for process, name in names.items() if _is_device(name)})
    table = pd.DataFrame(index=pd.RangeIndex(len(begin)))
    table["start_ns"] = _nanoseconds(first["ts"])
    table["duration_ns"] = np.where(
        phase[begin] == "X", _nanoseconds(first["duration"]), _nanoseconds(last["ts"]) - table["start_ns"]
    )
    table["name"] = first["name"].astype("string").array
    table["category"] = first["category"].astype("string").array
    table["thread"] = first["thread"].to_numpy(np.int64)
    table["asynchronous"] = phase[begin] == "b"
    table["device"] = device.astype("string").where(phase[begin] != "b").array
    return table


def _is_device(name: str) -> bool:
    """Return whether a process's name is a device's: cpu/0, gpu/1, "cpu pinned/", "cpu shared/"."""
    return name.startswith(("cpu/", "gpu/", "cpu pinned/", "cpu shared/"))


def _nanoseconds(microseconds: pd.Series) -> npt.NDArray[np.int64]:
    """Return times as integer ns: exact for integers; fractions of microseconds are rounded."""
    values = microseconds.to_numpy()
    return values * 1000 if values.dtype == np.int64 else np.rint(values.astype(np.float64) * 1000).astype(np.int64)


def _names(rows: pd.DataFrame) -> dict[int, str]:
    """Return the names of processes, which are MXNet's devices; asynchronous tasks have hashes of categories instead."""
    named = rows[rows["name"] == "process_name"]
    names = stream.extract(_texts(named["args"]), _NAME_ARGUMENT)["name"]
    return {int(process): str(name) for process, name in zip(named["process"], names, strict=True) if pd.notna(name)}


def _counters(rows: pd.DataFrame) -> pd.DataFrame:
    """Return counters with their value; each of MXNet's counter events has one."""
    values = stream.extract(_texts(rows["args"]), _VALUE)["value"]
    table = rows[["name", "category", "thread"]].reset_index(drop=True)
    table["time_ns"] = _nanoseconds(rows["ts"])
    table["value"] = values.astype("float64").array
    return table[["time_ns", "name", "category", "value", "thread"]]


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    table = rows[["name", "category", "thread"]].reset_index(drop=True)
    table["time_ns"] = _nanoseconds(rows["ts"])
    return table[["time_ns", "name", "category", "thread"]]


def _texts(raw: pd.Series) -> pa.LargeStringArray:
    """Return pieces of JSON as strings."""
    if raw.empty:
        return stream.strings_of([])
    # JSON may have line ends between tokens, but no other bare control characters
    return stream.strings_of(b"\x1e".join(map(bytes, raw)).decode("utf8", errors="replace").split("\x1e"))


def _pair(columns: pd.DataFrame, phase: npt.NDArray[np.object_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return the positions of begins and of their ends, in order of begins, and how many events have no partner.

    Per process, thread, kind and name of event, begins and ends nest in order of time: at each depth they alternate.
    """
    position = np.flatnonzero(np.isin(phase, ["B", "E", "b", "e"]))
    if len(position) == 0:
        return position, position, 0
    opens = np.isin(phase[position], ["B", "b"])
    frame = columns.iloc[position][["process", "thread", "name"]].reset_index(drop=True)
    frame["kind"] = np.isin(phase[position], ["b", "e"])
    lane = frame.groupby(["process", "thread", "name", "kind"], sort=False).ngroup().to_numpy()
    turns = _turns(lane.astype(np.int64), columns["ts"].to_numpy()[position], opens)
    position, opens, lane = position[turns], opens[turns], lane[turns]
    after = pd.Series(np.where(opens, 1, -1)).groupby(lane).cumsum().to_numpy()
    depth = np.where(opens, after, after + 1)
    order = np.lexsort((np.arange(len(position)), depth, lane))
    now, following = order[:-1], order[1:]
    matched = opens[now] & ~opens[following] & (lane[now] == lane[following]) & (depth[now] == depth[following])
    begin, end = position[now[matched]], position[following[matched]]
    by_begin = np.argsort(begin)
    return begin[by_begin], end[by_begin], len(position) - 2 * len(begin)


def _turns(lane: npt.NDArray[np.int64], time: npt.NDArray[Any], opens: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the events of each lane in order of time: the file's order, if it follows time.

    If not, events at the same time are ordered: ends of open events, then events that begin and end there, then begins.
    """
    written = np.argsort(lane, kind="stable")
    if not ((np.diff(time[written]) < 0) & (np.diff(lane[written]) == 0)).any():
        return written
    frame = pd.DataFrame({"lane": lane, "time": time, "opens": opens, "change": np.where(opens, 1, -1)})
    change = frame.groupby(["lane", "time"])["change"].sum()
    running = (change.groupby("lane").cumsum() - change).clip(lower=0).rename("running")
    before = frame.join(running, on=["lane", "time"])["running"].to_numpy()
    number = frame.groupby(["lane", "time", "opens"]).cumcount().to_numpy()
    turn = np.where(opens, 2 * number, 2 * (number - before) + 1)
    return np.lexsort((turn, time, lane))
