"""Chrome JSON as mx.profiler dumps it, plain or gzip.

mx.profiler writes what its engine's threads ran as pairs of events B and E, in whole microseconds of the wall clock, and the
same once more as asynchronous tasks (b and e), where C API calls appear too. `read` returns one row a pair, in the file's order:

    start_ns, duration_ns  int64   start on the wall clock, ns since the epoch; true to 1000 ns
    name                   string  the operator's type, such as Convolution or _backward_Convolution, or what the engine did
                                   (WaitForVar, DeleteVariable, CopyCPU2CPU, ImperativeBulk); MXNet cuts it at 127 bytes
    category               string  operator, MXNET_C_API, ...
    thread                 int64   a number of the thread (the same within the file; MXNet writes a hash, no system's id)
    device                 string  cpu/0, gpu/0, ... of operators; null where the file does not tell
    asynchronous           bool    a task (b, e): for operators the same execution as the row with False

Its `attrs` count what could not be used: "unpaired" (events without a partner of the same name) and "other_events" (counters
and marks).
"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.records import read_content


class _Event(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    cat: str = ""
    ts: int = -1
    pid: int = -1
    tid: int = -1
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _File(msgspec.Struct, gc=False):
    events: list[_Event] = msgspec.field(name="traceEvents")


_DECODER = msgspec.json.Decoder(_File)


def read(path: Path | str) -> pd.DataFrame:
    """Return the executions in a dump; raises EvidenceError when it cannot be read or is no dump of this format."""
    return parse(read_content(path), str(path))


def parse(content: bytes, source: str = "dump") -> pd.DataFrame:
    """Return the executions in a dump's JSON text; `source` names it in errors."""
    try:
        events = _DECODER.decode(content).events
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{source}: not a dump of mx.profiler: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{source}: not JSON, or cut short ({error}); dump it again with profiler.dump()") from error
    columns = _columns(events)
    phase = columns["phase"].to_numpy(dtype=object)
    devices = _devices(columns[phase == "M"])
    begin, end, unpaired = _pair(columns, phase)
    first, last = columns.iloc[begin], columns.iloc[end]
    table = pd.DataFrame(index=pd.RangeIndex(len(begin)))
    table["start_ns"] = first["ts"].to_numpy(np.int64) * 1000
    table["duration_ns"] = (last["ts"].to_numpy(np.int64) - first["ts"].to_numpy(np.int64)) * 1000
    table["name"] = first["name"].astype("string").array
    table["category"] = first["category"].astype("string").array
    table["thread"] = first["thread"].to_numpy(np.int64)
    table["asynchronous"] = phase[begin] == "b"
    table["device"] = first["process"].map(devices).astype("string").where(phase[begin] == "B").array
    table.attrs.update(unpaired=unpaired, other_events=int((~np.isin(phase, ["B", "E", "b", "e", "M"])).sum()))
    return table


def _columns(events: list[_Event]) -> pd.DataFrame:
    """Return the decoded events as a table; threads are numbered in the order of their first event."""
    fields = {"phase": "ph", "name": "name", "category": "cat", "ts": "ts", "process": "pid", "thread": "tid", "args": "args"}
    table = pd.DataFrame({name: list(map(operator.attrgetter(field), events)) for name, field in fields.items()})
    # hashes of threads fill 64 bits without sign, beyond what the Trace's columns hold
    table["thread"] = pd.factorize(table["thread"])[0].astype(np.int64)
    return table


def _devices(rows: pd.DataFrame) -> dict[Any, str]:
    """Return the names of processes, which are MXNet's devices; asynchronous tasks use hashes of categories instead."""
    names = [msgspec.json.decode(raw).get("name") for raw in rows["args"]]
    return {process: name for process, name in zip(rows["process"], names, strict=True) if name}


def _pair(columns: pd.DataFrame, phase: npt.NDArray[np.object_]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return the positions of begins and of their ends, in the order of begins, and how many events have no partner.

    Per process, thread and kind of event, begins and ends nest in the file's order: at one depth they alternate.
    """
    position = np.flatnonzero(np.isin(phase, ["B", "E", "b", "e"]))
    if len(position) == 0:
        return position, position, 0
    opens = np.isin(phase[position], ["B", "b"])
    frame = columns.iloc[position][["process", "thread", "name"]].reset_index(drop=True)
    frame["kind"] = np.isin(phase[position], ["b", "e"])
    frame["opens"] = opens
    lane = frame.groupby(["process", "thread", "kind"], sort=False).ngroup().to_numpy()
    change = pd.Series(np.where(opens, 1, -1))
    after = change.groupby(lane).cumsum().to_numpy()
    depth = np.where(opens, after, after + 1)
    order = np.lexsort((position, depth, lane))
    now, following = order[:-1], order[1:]
    name = pd.factorize(frame["name"])[0]
    matched = (
        opens[now] & ~opens[following] & (lane[now] == lane[following]) & (depth[now] == depth[following])
        & (name[now] == name[following])
    )  # fmt: skip
    begin, end = now[matched], following[matched]
    by_begin = np.argsort(begin)
    return position[begin[by_begin]], position[end[by_begin]], len(position) - 2 * len(begin)
