"""Chrome JSON as torch.profiler (Kineto) exports it, plain or gzip.

`read` returns the events of phase "X" (complete events), in the file's order, with these columns:

    start_ns, duration_ns  int64   start on the wall clock, ns since the epoch (the clock of the file if it has no base time)
    name                   string  such as aten::addmm; categorical in memory
    category               string  cpu_op, user_annotation, kernel, cuda_runtime, gpu_memcpy, ...
    process, thread        Int64   as written; null where the file has text there ("Spans", "Traces")
    track                  string  process and thread as the file writes them
    sequence               Int64   autograd's sequence number: that of a backward operator is its forward operator's
    forward_thread         Int64   profiler's number of the thread that ran the forward operator; 0 for forward operators
    external_id            Int64   ties device activities to the operator that caused them
    correlation            Int64   ties device activities to the runtime call that launched them
    device, stream         Int64   of device activities
    shapes                 string  the operator's input shapes as JSON text; null when not recorded
    types                  string  the operator's input types as JSON text; null when not recorded
    strides                string  the operator's input strides as JSON text; null when not recorded

Its `attrs` hold the file's other facts: "base_ns" (int or None), "distributed" and "device_properties" (parsed JSON or None),
"schema_version", and "dropped" (complete events without a usable time: counted, left out).
"""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers.records import read_content


class _Arguments(msgspec.Struct, gc=False, frozen=True):
    """The arguments of an event that are used; the rest is skipped while decoding."""

    sequence: Any = msgspec.field(name="Sequence number", default=None)
    forward_thread: Any = msgspec.field(name="Fwd thread id", default=None)
    external_id: Any = msgspec.field(name="External id", default=None)
    external_id_old: Any = msgspec.field(name="external id", default=None)
    correlation: Any = None
    device: Any = None
    stream: Any = None
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=msgspec.Raw())


_NO_ARGUMENTS = _Arguments()


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    ts: Any = None
    dur: Any = None
    name: Any = ""
    cat: str = ""
    pid: Any = None
    tid: Any = None
    args: _Arguments = _NO_ARGUMENTS


class _File(msgspec.Struct, gc=False):
    events: list[_Event] = msgspec.field(name="traceEvents")
    base_ns: int | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    schema_version: Any = msgspec.field(name="schemaVersion", default=None)
    device_properties: Any = msgspec.field(name="deviceProperties", default=None)
    distributed: Any = msgspec.field(name="distributedInfo", default=None)


_DECODER = msgspec.json.Decoder(_File)
_LIST_DECODER = msgspec.json.Decoder(list[_Event])  # the oldest exports are the bare list of events


def read(path: Path | str) -> pd.DataFrame:
    """Return the complete events of a trace; raises EvidenceError when it cannot be read or is no trace of this format."""
    return parse(read_content(path), str(path))


def parse(content: bytes, source: str = "trace") -> pd.DataFrame:
    """Return the complete events of a trace's JSON text; `source` names it in errors."""
    try:
        bare = content[:64].lstrip().startswith(b"[")
        file = _File(_LIST_DECODER.decode(content)) if bare else _DECODER.decode(content)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{source}: not a trace of torch.profiler: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{source}: not JSON, or cut short ({error}); export the trace again") from error
    columns = _columns(file.events)
    complete = columns.pop("phase") == "X"
    start, duration = _number(columns.pop("ts")), _number(columns.pop("dur"))
    timed = complete & np.isfinite(start) & np.isfinite(duration) & (duration >= 0)
    table = pd.DataFrame(index=pd.RangeIndex(int(timed.sum())))
    table["start_ns"] = np.rint(start[timed] * 1e3).astype(np.int64) + (file.base_ns or 0)
    table["duration_ns"] = np.rint(duration[timed] * 1e3).astype(np.int64)
    for name in ("name", "category", "track", "shapes", "types", "strides"):
        table[name] = _text(columns[name][timed])
    for name in _INTEGERS:
        table[name] = _integer(columns[name][timed])
    table.attrs.update(
        base_ns=file.base_ns,
        schema_version=file.schema_version,
        device_properties=file.device_properties,
        distributed=file.distributed,
        dropped=int(complete.sum() - timed.sum()),
    )
    return table


_INTEGERS = ("process", "thread", "sequence", "forward_thread", "external_id", "correlation", "device", "stream")


def _columns(events: list[_Event]) -> dict[str, npt.NDArray[np.object_]]:
    """Return the decoded events as arrays of objects, one a column."""
    arguments = list(map(operator.attrgetter("args"), events))
    found = {
        name: _objects(map(operator.attrgetter(field), events), len(events))
        for name, field in (
            ("phase", "ph"), ("ts", "ts"), ("dur", "dur"), ("name", "name"), ("category", "cat"),
            ("process", "pid"), ("thread", "tid"),
        )
    }  # fmt: skip
    for field in _Arguments.__struct_fields__:
        found[field] = _objects(map(operator.attrgetter(field), arguments), len(events))
    for name in ("shapes", "types", "strides"):
        found[name] = _objects(map(bytes, found[name]), len(events))
    old = found.pop("external_id_old")
    found["external_id"] = np.where(found["external_id"] == np.array(None), old, found["external_id"])
    process, thread = pd.Series(found["process"]).astype(str), pd.Series(found["thread"]).astype(str)
    found["track"] = (process + "/" + thread).to_numpy(dtype=object)
    return found


def _objects(values: Any, count: int) -> npt.NDArray[np.object_]:
    return np.fromiter(values, dtype=object, count=count)


def _number(values: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    """Return values as floats, NaN for what is no number."""
    return np.asarray(pd.to_numeric(pd.Series(values), errors="coerce"), dtype=np.float64)


def _integer(values: npt.NDArray[np.object_]) -> pd.Series:
    """Return values as nullable integers, null for what is none (device traces have text where others have numbers)."""
    numbers = _number(values)
    # identifiers beyond a double's integers would silently change: they are taken as unknown
    usable = np.isfinite(numbers) & (np.abs(numbers) < math.ldexp(1, 53))
    whole = pd.Series(np.where(usable, numbers, 0).astype(np.int64), dtype="Int64")
    return whole.where(usable & (np.floor(np.where(usable, numbers, 0)) == np.where(usable, numbers, 0)))


def _text(values: npt.NDArray[np.object_]) -> pd.Series:
    """Return text or JSON as a categorical of strings, empty ones null: few distinct values repeat many times."""
    codes, distinct = pd.factorize(values, use_na_sentinel=True)
    names = [value.decode("utf8", "replace") if isinstance(value, bytes) else str(value) for value in distinct]
    merged, categories = pd.factorize(np.array(names, dtype=object))
    merged = np.append(merged, -1)[codes]  # code -1 stays -1
    empty = np.flatnonzero(categories == "")
    if len(empty):
        merged = np.where(merged == empty[0], -1, merged)
    return pd.Series(pd.Categorical.from_codes(merged, pd.Index(categories, dtype="object"))).cat.remove_unused_categories()
