"""Chrome JSON as torch.profiler (Kineto) and torch.autograd's profiler export it, plain or gzip, of any size.

`scan` reads chosen groups of events into one table each, piece by piece; `read` is the table of all complete events. Times are
exact: microseconds are taken apart into integer nanoseconds, from the number's text where a double could not hold them.
Complete events may also be written as pairs of begin and end (phases B and E).

Columns of every table: start_ns and duration_ns (int64; on the wall clock since the epoch if the file has a base time or absolute
times), name, category (categorical text) and track (row of `Scan.tracks`). Columns of `ARGUMENTS` are added as a group asks.

Sources: pytorch/kineto libkineto/src/output_json.cpp (layout), ActivityType.cpp (categories), CuptiActivity.cpp and
RoctracerLogger.cpp (arguments of device work); torch/csrc/autograd/profiler_kineto.cpp (arguments of operators).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import compress
from operator import attrgetter, or_
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.readers import json_numbers
from kernelscope.analysis.readers.chrome_json import SIZE, Buffer, EventList

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

INTEGER, TEXT, JSON = "integer", "text", "json"


@dataclass(frozen=True)
class Argument:
    """An argument of events: its names in files, the usual one first, and whether it is a number, text or JSON kept as text."""

    keys: tuple[str, ...]
    kind: str = INTEGER


ARGUMENTS: Mapping[str, Argument] = {
    "sequence": Argument(("Sequence number",)),  # of a backward operator: that of its forward operator
    "forward_thread": Argument(("Fwd thread id",)),  # profiler's number of the thread that ran it; 0 for forward operators
    "external_id": Argument(("External id", "external id")),  # ties device work to the operator that caused it
    "correlation": Argument(("correlation",)),  # ties device work to the runtime call that launched it
    "device": Argument(("device", "inDevice")),
    "stream": Argument(("stream", "sycl queue")),
    "registers": Argument(("registers per thread",)),
    "shared_memory": Argument(("shared memory",)),
    "graph": Argument(("graph id", "cuda graph id", "graphId")),
    "bytes": Argument(("bytes", "Bytes", "size")),
    "allocated_bytes": Argument(("Total Allocated",)),
    "reserved_bytes": Argument(("Total Reserved",)),
    "device_type": Argument(("Device Type",)),
    "device_id": Argument(("Device Id",)),
    "module": Argument(("Python module id",)),
    "collective": Argument(("Collective name",), TEXT),
    "dtype": Argument(("dtype",), TEXT),
    "sync_kind": Argument(("cuda_sync_kind",), TEXT),
    "direction": Argument(("direction",), TEXT),
    "shapes": Argument(("Input Dims", "Input dims"), JSON),
    "types": Argument(("Input type",), JSON),
    "strides": Argument(("Input Strides",), JSON),
    "arguments": Argument(("Concrete Inputs",), JSON),
    "address": Argument(("Addr",)),
    "grid": Argument(("grid",), JSON),
    "block": Argument(("block",), JSON),
}

# one field of the decoded arguments for each key
_FIELDS = {name: [f"{name}_{number}" for number in range(len(argument.keys))] for name, argument in ARGUMENTS.items()}
_ARGUMENT_FIELDS = frozenset(field for fields in _FIELDS.values() for field in fields)
_MISSING = -(1 << 63)  # stands for an absent integer while decoding
_NOTHING = msgspec.Raw()


@dataclass(frozen=True)
class Group:
    """Events to read into one table.

    categories: theirs, None for all. phases: X takes complete events and pairs of B and E. arguments: names in ARGUMENTS that
    become columns. required: an argument that an event must have to count.
    """

    categories: frozenset[str] | None
    phases: frozenset[str] = frozenset("XBE")
    arguments: tuple[str, ...] = ()
    required: str | None = None

    def takes(self, phase: str, category: str) -> bool:
        """Return whether events of this phase and category are in the group."""
        return phase in self.phases and (self.categories is None or category in self.categories)


@dataclass
class Scan:
    """What was read: a table for every group, and what the file says besides.

    tracks: the distinct pairs process, thread as text. header: the other keys of the file's object, as JSON text. counts: events
    by (phase, category), all of them. untimed: events in groups without a usable time, left out of the tables. repaired: pieces
    of text that were no JSON and were mended. unpaired: begins and ends without the other.
    """

    tables: dict[str, pd.DataFrame]
    tracks: pd.DataFrame
    header: dict[str, bytes]
    base_ns: int | None
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    untimed: dict[str, int] = field(default_factory=dict)
    unpaired: int = 0
    repaired: int = 0

    def fact(self, *names: str) -> Any:
        """Return the first of these keys of the file's object, decoded; None when it has none that can be."""
        for name in names:
            if name in self.header:
                try:
                    return msgspec.json.decode(self.header[name])
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    return None
        return None


def scan(path: Path | str, groups: Mapping[str, Group], size: int = SIZE, content: bytes | None = None) -> Scan:
    """Return the groups' tables; raises EvidenceError when the file cannot be read or is no trace of this format.

    size: bytes of JSON that are decoded at once. content: the file's bytes, if they are read; `path` then only names it.
    """
    reading = _Reading(groups)
    events = EventList(path, reading.decode, size, content)
    try:
        reading.pieces.extend(events)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{path}: not a trace of torch.profiler: {error}") from error
    return reading.finish(events)


# --- decoding ------------------------------------------------------------------------------------------------------------
#
# Pieces are decoded with the types that profilers write: first with a type for each usual category that has what the groups ask
# of it, which skips the rest unlooked at; if a piece has events of other categories or none, with one type for all. A piece that
# has other types of values, or times that a double cannot hold, is decoded again with every value as its text.


def _arguments(name: str, types: Mapping[str, tuple[Any, Any]], columns: Iterable[str] = tuple(ARGUMENTS)) -> Any:
    fields = []
    for column in columns:
        argument = ARGUMENTS[column]
        kind, default = types[argument.kind]
        fields += [
            (f, kind, msgspec.field(name=key, default=default)) for f, key in zip(_FIELDS[column], argument.keys, strict=True)
        ]
    return msgspec.defstruct(name, fields, gc=False, frozen=True)


_TYPES = {INTEGER: (int | str, _MISSING), TEXT: (str | None, None), JSON: (msgspec.Raw, _NOTHING)}
_Typed = _arguments("_Typed", _TYPES)
_Untyped = _arguments("_Untyped", dict.fromkeys((INTEGER, TEXT, JSON), (msgspec.Raw, _NOTHING)))
_NO_TYPED, _NO_UNTYPED = _Typed(), _Untyped()
_NAN = float("nan")


class _TypedEvent(msgspec.Struct, gc=False):
    ph: str = ""
    ts: float = _NAN
    dur: float = _NAN
    name: str = ""
    cat: str = ""
    pid: int | str = ""
    tid: int | str = ""
    id: int | str = ""
    args: _Typed = _NO_TYPED  # type: ignore[valid-type]


class _UntypedEvent(msgspec.Struct, gc=False):
    ph: msgspec.Raw = _NOTHING
    ts: msgspec.Raw = _NOTHING
    dur: msgspec.Raw = _NOTHING
    name: msgspec.Raw = _NOTHING
    cat: msgspec.Raw = _NOTHING
    pid: msgspec.Raw = _NOTHING
    tid: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    args: _Untyped | list[Any] | str | float | int | bool | None = _NO_UNTYPED  # type: ignore[valid-type]


# Phases of the format: texts that are there once are compared faster than new ones for each event
_Phase = Literal[
    "X", "B", "E", "b", "e", "n", "S", "T", "p", "F", "s", "t", "f", "i", "I", "C", "M", "N", "O", "D", "P", "R", "V", "v", "c"
]  # fmt: skip
_UNWANTED = (  # common in traces and large
    "python_function", "ac2g", "async_cpu_to_gpu", "async", "cpu_instant_event", "fwdbwd", "cuda_runtime", "cuda_driver",
    "cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "user_annotation", "gpu_user_annotation", "overhead", "Trace",
    "Operator", "Runtime", "Kernel", "Memcpy", "Memset",
)  # fmt: skip


def _decoder_of(groups: Mapping[str, Group]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of events of usual categories and those that groups name."""
    named = [category for group in groups.values() for category in group.categories or () if category]
    types = [_event_type(category, groups.values()) for category in dict.fromkeys([*_UNWANTED, *named])]
    return msgspec.json.Decoder(list[reduce(or_, types)])  # type: ignore[misc]


def _event_type(category: str, groups: Iterable[Group]) -> Any:
    """Return the type of a category's events: with the arguments that groups ask for, without anything if none takes it."""
    wanting = [group for group in groups if group.categories is None or category in group.categories]
    constants: dict[str, Any] = {"cat": category} if wanting else {"cat": category, "ts": _NAN, "dur": _NAN}
    fields: list[Any] = [("ph", _Phase, "")]
    if wanting:
        columns = dict.fromkeys(name for group in wanting for name in (*group.arguments, group.required) if name)
        arguments = _arguments("_Wanted", _TYPES, columns)
        fields += [("name", str, ""), ("pid", int | str, ""), ("tid", int | str, ""), ("ts", float, _NAN), ("dur", float, _NAN)]
        fields += [("args", arguments, arguments()), ("id", int | str, "")]  # as profilers order them, which is fastest
    return msgspec.defstruct("_Event", fields, tag_field="cat", tag=category, namespace=constants, gc=False)


_TYPED = msgspec.json.Decoder(list[_TypedEvent])
_UNTYPED = msgspec.json.Decoder(list[_UntypedEvent])


class _Numbers(dict[Any, int]):
    """Numbers of the values met so far; that of a new one is asked for."""

    def __init__(self, number: Callable[[Any], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, value: Any) -> int:
        number = self[value] = self._number(value)
        return number


class _Texts:
    """Distinct texts by number, from 0 on; -1 stands for none."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._met: dict[Callable[[Any], str | None], _Numbers] = {}

    def codes(self, values: Iterable[Any], text: Callable[[Any], str | None]) -> npt.NDArray[np.int32]:
        """Return the number of each value's text; `text` is asked once for each distinct value."""
        met = self._met.get(text) or self._met.setdefault(text, _Numbers(lambda value: self.number(text(value))))
        return np.fromiter(map(met.__getitem__, values), dtype=np.int32)

    def number(self, text: str | None) -> int:
        """Return the number of a text, a new one if it has none."""
        return -1 if text is None else self._numbers.setdefault(text, len(self._numbers))

    @property
    def all(self) -> list[str]:
        return list(self._numbers)

    def categorical(self, codes: npt.NDArray[np.int32] | None) -> pd.Categorical:
        """Return numbers as text, with the texts that occur."""
        codes = np.empty(0, dtype=np.int32) if codes is None else codes
        used = np.unique(codes[codes >= 0])
        place = np.full(len(self._numbers) + 1, -1, dtype=np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        texts = self.all
        return pd.Categorical.from_codes(place[codes], pd.Index([texts[number] for number in used.tolist()], dtype="object"))


def _plain(value: Any) -> str | None:
    return None if value is None else str(value) or None


def _of_raw(value: bytes) -> str | None:
    """Return JSON text as text: strings without quotes, null as none."""
    found = msgspec.json.decode(value) if value.startswith(b'"') else value.decode("utf8", "replace")
    return None if found in ("", "null") else str(found)


def _as_json(value: bytes) -> str | None:
    return value.decode("utf8", "replace") or None


class _Inexact(Exception):
    """Doubles do not hold the times as they are written."""


class _TypedPiece:
    """Events decoded with types: their columns."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def of(self, rows: Bool) -> Self:
        """Return the piece of the rows of a mask."""
        return self if rows.all() else type(self)(list(compress(self.events, rows.tolist())))

    def times(self, name: str) -> tuple[Int, Bool]:
        """Return times in ns, and which are valid."""
        values, valid, exact = _to_ns(np.fromiter(self._values(name), dtype=np.float64, count=len(self.events)))
        if not exact:
            raise _Inexact
        return values, valid

    def texts(self, name: str, known: _Texts) -> npt.NDArray[np.int32]:
        return known.codes(self._values(name), _plain)

    def json(self, name: str, known: _Texts) -> npt.NDArray[np.int32]:
        return known.codes(map(bytes, self._values(name)), _as_json)

    def integers(self, name: str) -> tuple[Int, Bool]:
        values = np.fromiter(self._values(name), dtype=np.int64, count=len(self.events))
        valid = values != _MISSING
        return np.where(valid, values, 0), valid

    def _values(self, name: str) -> Iterable[Any]:
        """Return an attribute of the events, or one of ARGUMENTS' fields."""
        return map(attrgetter(name), self._args if name in _ARGUMENT_FIELDS else self.events)

    @cached_property
    def _args(self) -> list[Any]:
        return list(map(attrgetter("args"), self.events))


class _UntypedPiece(_TypedPiece):
    """Events decoded as text: the same columns."""

    def times(self, name: str) -> tuple[Int, Bool]:
        return json_numbers.thousandfold(self._bytes(name))

    def texts(self, name: str, known: _Texts) -> npt.NDArray[np.int32]:
        return known.codes(self._bytes(name), _of_raw)

    def integers(self, name: str) -> tuple[Int, Bool]:
        return json_numbers.integers(self._bytes(name))

    def _bytes(self, name: str) -> list[bytes]:
        return list(map(bytes, self._values(name)))

    @cached_property
    def _args(self) -> list[Any]:
        found = map(attrgetter("args"), self.events)
        return [args if type(args) is _Untyped else _NO_UNTYPED for args in found]  # what is no object has none


def _to_ns(values: npt.NDArray[np.float64]) -> tuple[Int, Bool, bool]:
    """Return microseconds as integer nanoseconds, which are numbers, and whether all are exact.

    A double holds whole numbers up to 2**53 and three decimals up to 2**43 (101 days): if the nearest thousandth gives the same
    double again, it is what the text said. Kineto counts from the last quarter's beginning, which keeps to that.
    """
    valid = np.isfinite(values)
    filled = np.where(valid, values, 0.0)
    whole = np.floor(filled)
    thousandths = np.rint((filled - whole) * 1000)
    usable = np.abs(filled) < 2.0**43
    found = np.where(usable, whole, 0).astype(np.int64) * 1000 + thousandths.astype(np.int64)
    exact = np.where(usable, found / 1000.0 == filled, (filled == whole) & (np.abs(filled) < json_numbers.LIMIT))
    found = np.where(usable, found, np.where(exact, filled, 0).astype(np.int64) * 1000)
    return found, valid, bool(exact.all())


# --- tables --------------------------------------------------------------------------------------------------------------


@dataclass
class _Columns:
    """What was made of a piece: columns by group, numbers of events by (phase, category), events without a usable time."""

    tables: dict[str, dict[str, Any]]
    counts: dict[tuple[str, str], int]
    untimed: dict[str, int]


class _Reading:
    """Tables under way."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self.groups = groups
        self.texts = {name: _Texts() for name in (*_EVENT_TEXTS, *(n for n, a in ARGUMENTS.items() if a.kind != INTEGER))}
        self.as_text = False
        self.by_category, self.patience = _decoder_of(groups), 4  # pieces that it may fail for
        self.pieces: list[_Columns] = []

    def decode(self, text: Buffer) -> _Columns:
        """Return the columns of a piece of the list of events."""
        for decoder in () if self.as_text else (self.by_category, _TYPED) if self.patience else (_TYPED,):
            try:
                return self._columns(_TypedPiece(decoder.decode(text)))
            except msgspec.ValidationError:
                self.patience -= decoder is self.by_category
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise
            except _Inexact:
                self.as_text = True  # the clock of a file is the same everywhere
                break
            except (ValueError, OverflowError):  # text where numbers are expected, numbers beyond 64 bits
                break
        return self._columns(_UntypedPiece(_UNTYPED.decode(text)))

    def _columns(self, piece: _TypedPiece) -> _Columns:
        phase, category = (piece.texts(name, self.texts[name]) for name in ("ph", "cat"))
        pairs, distinct = pd.factorize(phase.astype(np.int64) << 32 | category.astype(np.int64) + 1)
        phases, categories = ([*self.texts[name].all, ""] for name in ("ph", "cat"))
        texts = [(phases[pair >> 32], categories[(pair & 0xFFFFFFFF) - 1]) for pair in distinct.tolist()]
        found = _Columns({}, dict(zip(texts, np.bincount(pairs).tolist(), strict=True)), {})
        for name, group in self.groups.items():
            taken = np.array([group.takes(*text) for text in texts], dtype=bool)
            if taken.any():
                rows = taken[pairs]
                columns = {"phase": phase[rows], "category": category[rows]}
                found.tables[name], found.untimed[name] = self._table(piece.of(rows), group, columns)
        return found

    def _table(self, piece: _TypedPiece, group: Group, columns: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the columns of a group's events and of how many the time is not usable, which are left out.

        columns: phase and category. Integers are (values, valid), texts their numbers.
        """
        if group.required:
            required = self._argument(piece, group.required)[1]
            piece, columns = piece.of(required), {name: values[required] for name, values in columns.items()}
        start, timed = piece.times("ts")
        duration, lasting = piece.times("dur")
        complete = columns["phase"] == self.texts["ph"].number("X")
        timed &= ~complete | (lasting & (duration >= 0))
        piece, columns = piece.of(timed), {name: values[timed] for name, values in columns.items()}
        columns |= {"start_ns": start[timed], "duration_ns": np.where(lasting, duration, 0)[timed]}
        for key, name in (("name", "name"), ("pid", "process"), ("tid", "thread")):
            columns[name] = piece.texts(key, self.texts[key])
        if group.phases & _FLOW:
            columns["flow"] = piece.texts("id", self.texts["id"])
        return columns | {name: self._argument(piece, name) for name in group.arguments}, int((~timed).sum())

    def _argument(self, piece: _TypedPiece, name: str) -> Any:
        """Return a column of arguments, from the first of its keys that an event has."""
        kind = ARGUMENTS[name].kind
        found: Any = None
        for part in _FIELDS[name]:
            if kind == INTEGER:
                values, valid = piece.integers(part)
                found = (values, valid) if found is None else (np.where(found[1], found[0], values), found[1] | valid)
                complete = found[1].all()
            else:
                codes = (piece.json if kind == JSON else piece.texts)(part, self.texts[name])
                found = codes if found is None else np.where(found < 0, codes, found)
                complete = (found >= 0).all()
            if complete:
                break
        return found

    def finish(self, events: EventList[_Columns]) -> Scan:
        """Return what was read."""
        counts: dict[tuple[str, str], int] = {}
        for piece in self.pieces:
            for pair, count in piece.counts.items():
                counts[pair] = counts.get(pair, 0) + count
        untimed = {name: sum(piece.untimed.get(name, 0) for piece in self.pieces) for name in self.groups}
        scan = Scan({}, pd.DataFrame(), events.header, None, counts, untimed, repaired=events.repaired)
        base = scan.fact("baseTimeNanoseconds")
        scan.base_ns = base if isinstance(base, int) and not isinstance(base, bool) and abs(base) < _LATEST else None
        tracks = _Tracks(self.texts["pid"], self.texts["tid"])
        for name, group in self.groups.items():
            parts = [piece.tables.pop(name) for piece in self.pieces if name in piece.tables]
            scan.tables[name] = self._joined(name, group, parts, scan, tracks)
        scan.tracks = tracks.table()
        return scan

    def _joined(self, name: str, group: Group, parts: list[dict[str, Any]], scan: Scan, tracks: _Tracks) -> pd.DataFrame:
        """Return a group's table from its pieces."""
        columns: dict[str, Any] = {
            key: _concatenate([part.pop(key) for part in parts]) for key in (list(parts[0]) if parts else [])
        }
        table: dict[str, Any] = {key: columns.get(key, np.empty(0, dtype=np.int64)) for key in ("start_ns", "duration_ns")}
        table["start_ns"] = table["start_ns"] + (scan.base_ns or 0)
        for key, text in (("name", "name"), ("category", "cat"), ("phase", "ph"), ("flow", "id")):
            if key != "flow" or group.phases & _FLOW:
                table[key] = self.texts[text].categorical(columns.get(key))
        table["track"] = tracks.numbers(columns.get("process"), columns.get("thread"))
        for key in group.arguments:
            kind = ARGUMENTS[key].kind
            table[key] = _nullable(columns.get(key)) if kind == INTEGER else self.texts[key].categorical(columns.get(key))
        frame = pd.DataFrame(table, copy=False)
        late = frame["start_ns"].to_numpy().astype(np.float64) + frame["duration_ns"].to_numpy() >= 2.0 * _LATEST
        if late.any():
            scan.untimed[name] += int(late.sum())
            frame = frame[~late].reset_index(drop=True)
        if group.phases & _PAIR:
            frame, unpaired = _paired(frame)
            scan.unpaired += unpaired
        return frame


_EVENT_TEXTS = ("ph", "cat", "name", "pid", "tid", "id")
_FLOW, _PAIR = frozenset("sf"), frozenset("BE")
_LATEST = 4_500_000_000_000_000_000  # ns: 142 years


def _paired(frame: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return a table with begins and ends (phases B, E) made complete events, and how many have no partner.

    On a track they nest like a stack. A begin without an end lasts until the table's end; an end without a begin is left out.
    """
    phase = frame["phase"].astype("object").to_numpy()
    begins, either = phase == "B", (phase == "B") | (phase == "E")
    if not either.any():
        return frame, 0
    start, track = frame["start_ns"].to_numpy(), frame["track"].to_numpy()
    order = np.flatnonzero(either)
    order = order[np.lexsort((start[order], track[order]))]
    opened = np.cumsum(np.where(begins[order], 1, -1))
    level = np.where(begins[order], opened, opened + 1)  # of a pair: how many were open after its begin
    by_level = np.lexsort((np.arange(len(order)), level, track[order]))
    order, level = order[by_level], level[by_level]
    same = (track[order][1:] == track[order][:-1]) & (level[1:] == level[:-1]) & begins[order][:-1] & ~begins[order][1:]
    first, second = order[:-1][same], order[1:][same]
    last = int((start + frame["duration_ns"].to_numpy()).max())
    end = np.where(begins, last, start + frame["duration_ns"].to_numpy())
    end[first] = start[second]
    unpaired = int(either.sum()) - 2 * len(first)
    return frame.assign(duration_ns=end - start)[phase != "E"].reset_index(drop=True), unpaired


def _concatenate(parts: list[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(map(np.concatenate, zip(*parts, strict=True)))
    return np.concatenate(parts)


def _nullable(column: tuple[Int, Bool] | None) -> Any:
    values, valid = column if column is not None else (np.empty(0, dtype=np.int64), np.empty(0, dtype=bool))
    return pd.arrays.IntegerArray(values, ~valid)


class _Tracks:
    """Distinct pairs of process and thread by number."""

    def __init__(self, processes: _Texts, threads: _Texts) -> None:
        self._processes, self._threads = [*processes.all, ""], [*threads.all, ""]
        self._pairs: dict[int, int] = {}

    def numbers(self, process: Any, thread: Any) -> npt.NDArray[np.int32]:
        """Return the number of each pair."""
        if process is None:
            return np.empty(0, dtype=np.int32)
        width = len(self._threads)
        pairs, inverse = np.unique(
            (process.astype(np.int64) % len(self._processes)) * width + thread % width, return_inverse=True
        )
        found = [self._pairs.setdefault(pair, len(self._pairs)) for pair in pairs.tolist()]
        return np.array(found, dtype=np.int32)[inverse]

    def table(self) -> pd.DataFrame:
        """Return the pairs as columns process and thread (text), a row each."""
        width = len(self._threads)
        pairs = [(self._processes[pair // width], self._threads[pair % width]) for pair in self._pairs]
        return pd.DataFrame(pairs, columns=["process", "thread"], dtype="object")


# --- all complete events -------------------------------------------------------------------------------------------------

_INTEGERS = ("sequence", "forward_thread", "external_id", "correlation", "device", "stream")
_TEXTS = ("shapes", "types", "strides", "arguments")


def read(path: Path | str) -> pd.DataFrame:
    """Return the complete events of a trace, in the file's order; raises EvidenceError as `scan` does.

    Columns besides those of every table: process and thread (Int64; null where the file has text there), track as the text
    process/thread, and the arguments sequence, forward_thread, external_id, correlation, device, stream, shapes, types, strides,
    arguments. Its `attrs` hold base_ns (int or None), distributed and device_properties (parsed JSON or None), schema_version,
    and dropped (complete events without a usable time: counted, left out).
    """
    return _complete(path, None)


def parse(content: bytes, source: str = "trace") -> pd.DataFrame:
    """Return the complete events of a trace's JSON text as `read` does; `source` names it in errors."""
    return _complete(source, content)


def _complete(path: Path | str, content: bytes | None) -> pd.DataFrame:
    everything = scan(path, {"complete": Group(None, frozenset("X"), (*_INTEGERS, *_TEXTS))}, content=content)
    table = everything.tables["complete"].drop(columns="phase")
    tracks = everything.tracks
    for name in ("process", "thread"):
        table[name] = whole_numbers(tracks[name]).take(table["track"].to_numpy()).array
    joined = (tracks["process"] + "/" + tracks["thread"]).to_numpy(dtype=object)
    table["track"] = pd.Categorical(joined[table["track"].to_numpy()], categories=pd.unique(joined))
    table.attrs.update(
        base_ns=everything.base_ns,
        schema_version=everything.fact("schemaVersion"),
        device_properties=everything.fact("deviceProperties"),
        distributed=everything.fact("distributedInfo"),
        dropped=everything.untimed["complete"],
    )
    return table


def whole_numbers(texts: pd.Series) -> pd.Series:
    """Return texts as nullable integers, null for what is none."""
    values, valid = json_numbers.integers([str(text).encode("utf8", "replace") for text in texts])
    return pd.Series(pd.arrays.IntegerArray(values, ~valid), index=texts.index)
