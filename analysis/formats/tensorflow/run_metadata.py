"""Chrome traces of TensorFlow 1's RunMetadata, as written by timeline.Timeline(step_stats).generate_chrome_trace_format().

`read` returns:

    events    one row per execution (X): start_ns, duration_ns (int64; whole microseconds in the file), process (the name of its
              row without " Compute", such as /device:GPU:0/stream:13 or /job:localhost/replica:0/task:0/device:CPU:0), lane
              (int64, the number of its track: TensorFlow packs executions into as few tracks as possible without overlap; these
              are not threads), type (the operator's type), node (the node's full name), kernel (the GPU kernel, which only
              ROCm builds write)
    counters  memory in use by allocator: time_ns, allocator, bytes
    others    numbers of events of other phases, by phase: dependencies (s, t), lifetimes of tensors (N, O, D)
    untimed   executions without a usable time, which are left out
    damaged   events of a phase that TensorFlow does not write, but with a duration, which only executions have
    odd       elements of the list that are not events, which are left out
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.packed import read_content

_PHASES = frozenset("XMCstfNOD")
_LAST_US = 4_000_000_000_000_000  # start and duration together fit 64 bits as ns
_Microseconds = Annotated[int, msgspec.Meta(le=_LAST_US)] | Annotated[float, msgspec.Meta(le=_LAST_US)]


class _Arguments(msgspec.Struct, gc=False):
    name: str | None = None
    op: str | None = None
    kernel: str | None = None


class _StepEvent(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: _Microseconds = -1
    dur: _Microseconds = -1
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _TimelineFile(msgspec.Struct, gc=False):
    events: list[_StepEvent] = msgspec.field(name="traceEvents")


_DECODER = msgspec.json.Decoder(_TimelineFile)
_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_COUNTED = msgspec.json.Decoder(dict[str, int | float])


@dataclass(frozen=True)
class RunMetadata:
    """The content of a file; see the module's documentation."""

    events: pd.DataFrame
    counters: pd.DataFrame
    others: dict[str, int]
    untimed: int
    damaged: int
    odd: int


def read(path: Path | str) -> RunMetadata:
    """Return the content of a file; raise EvidenceError if it cannot be read or is not such a trace."""
    try:
        events, odd = chrome_json.listed(path, read_content(path), _whole, _StepEvent)
        names = {
            row.pid: _ARGUMENTS.decode(row.args).name or "" for row in events if row.ph == "M" and row.name == "process_name"
        }
        executions = [row for row in events if row.ph == "X"]
        arguments = list(map(_ARGUMENTS.decode, _all(executions, "args")))
        counters = [row for row in events if row.ph == "C"]
        counted = list(map(_COUNTED.decode, _all(counters, "args")))
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{path}: not a timeline of TensorFlow's RunMetadata: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(f"{path}: not JSON, or cut short ({error}); write the timeline again") from error
    table = _executions(executions, arguments, names)
    usable = (table["start_ns"] >= 0) & (table["duration_ns"] >= 0)
    phases = Counter(_all(events, "ph"))
    damaged = [row for row in events if row.ph not in _PHASES and row.dur >= 0] if phases.keys() - _PHASES else []
    phases -= Counter(_all(damaged, "ph"))
    return RunMetadata(
        events=table[usable].reset_index(drop=True),
        counters=_counters(counters, counted),
        others={phase: count for phase, count in phases.items() if phase not in ("X", "M", "C")},
        untimed=int((~usable).sum()),
        damaged=len(damaged),
        odd=odd,
    )


def _whole(content: bytes) -> list[_StepEvent]:
    return _DECODER.decode(content).events


def _executions(rows: list[_StepEvent], arguments: list[_Arguments], names: dict[int | str, str]) -> pd.DataFrame:
    process = pd.Series(list(_all(rows, "pid")), dtype="object")
    tracks = pd.MultiIndex.from_arrays(
        [process.astype("string"), pd.Series(list(_all(rows, "tid")), dtype="object").astype("string")]
    )
    text = {
        name: pd.array(list(_all(arguments, field)), dtype="string")
        for name, field in (("type", "op"), ("node", "name"), ("kernel", "kernel"))
    }
    table = pd.DataFrame(
        {
            "start_ns": _nanoseconds(rows, "ts"),
            "duration_ns": _nanoseconds(rows, "dur"),
            "process": process.map(names).astype("string").str.removesuffix(" Compute"),
            "lane": pd.factorize(tracks)[0].astype(np.int64),
            **text,
        }
    )
    table["type"] = table["type"].fillna(pd.Series(list(_all(rows, "name")), dtype="string"))
    return table


def _counters(rows: list[_StepEvent], counted: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the counters that have exactly one number, as TensorFlow's do."""
    table = pd.DataFrame({"time_ns": _nanoseconds(rows, "ts"), "allocator": list(_all(rows, "name")), "bytes": counted})
    single = table["bytes"].map(len) == 1
    table = table[single & (table["time_ns"] >= 0)]
    values = table["bytes"].map(lambda pair: next(iter(pair.values())))
    fitting = values.map(lambda value: isinstance(value, int) and abs(value) < 2**62).astype(bool)
    return table.assign(bytes=values)[fitting].astype({"allocator": "string", "bytes": "int64"}).reset_index(drop=True)


def _all(rows: Iterable[Any], field: str) -> Iterable[Any]:
    return map(attrgetter(field), rows)


def _nanoseconds(rows: list[_StepEvent], field: str) -> npt.NDArray[np.int64]:
    """Return times as integer ns, negative if missing: exact for integers; fractions of a nanosecond are rounded."""
    values = np.array(list(_all(rows, field)), dtype=None if rows else np.int64)
    if values.dtype == np.int64:
        return np.asarray(np.maximum(values, -1) * 1000, dtype=np.int64)
    return np.asarray(np.rint(np.maximum(values.astype(np.float64), -1) * 1000), dtype=np.int64)
