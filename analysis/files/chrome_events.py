"""Events of a chrome trace as one table, with the requested arguments: for formats whose traces fit into memory.

Kineto's traces, which are larger and have a category for everything, have their own package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_numbers
from kernelscope.analysis.files.chrome_json import Buffer, EventList

_NO_KEY = 1 << 61  # the first number for processes and threads whose keys are not numbers

Key = int | str | float | None


class _ChromeEvent(msgspec.Struct, gc=False):
    ph: str = ""
    name: Any = None
    pid: Key = None
    tid: Key = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")


class _EventNames(msgspec.Struct, gc=False):
    name: Any = None
    start_us: Any = msgspec.field(name="start_time_since_epoch_in_micros", default=None)


_EVENTS = msgspec.json.Decoder(list[_ChromeEvent])
_NAMES = msgspec.json.Decoder(_EventNames)


@dataclass
class Events:
    """The content of a trace.

    table: columns phase, name (category), process, thread (int64: positions in `processes` and `threads`), start_ns, duration_ns
    (Int64, null if there is none), and the arguments as arg_NAME (category). Metadata events are not in it. processes: a name for
    each process, empty if it has none; process_keys: their ids in the file. threads: process, key and name of each. start_us: the
    start of the clock in microseconds since the epoch, if Horovod gives it. header: JSON text of the file's other keys. repaired,
    odd, cut: as in EventList.
    """

    table: pd.DataFrame
    processes: list[str]
    process_keys: list[Key]
    threads: list[tuple[int, Key, str]]
    start_us: int | None = None
    header: dict[str, bytes] = field(default_factory=dict)
    repaired: int = 0
    odd: int = 0
    cut: bool = False


def read(path: Path | str, arguments: Sequence[str] = (), open_ended: bool = False) -> Events:
    """Return the events of a file; raise EvidenceError if it cannot be read or is not a chrome trace.

    open_ended: as in EventList.
    """
    collected = _Collected(arguments)
    events = EventList(path, collected.decode, open_ended=open_ended, event=_ChromeEvent)
    try:
        parts = list(events)
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{path}: not a chrome trace of events: {error}; export it again") from error
    result = collected.events
    result.table = _joined([part for part in parts if len(part)], arguments)
    result.header, result.repaired, result.odd, result.cut = events.header, events.repaired, events.odd, events.cut
    result.processes = [collected.process_names.get(key, "") for key in result.process_keys]
    result.threads = [(process, key, collected.thread_names.get((process, key), "")) for process, key in collected.threads]
    return result


class _Collected:
    """Decodes the pieces of a file, and numbers processes and threads across them."""

    def __init__(self, arguments: Sequence[str]) -> None:
        fields = [(f"a{place}", Any, msgspec.field(name=name, default=None)) for place, name in enumerate(arguments)]
        self._arguments = list(arguments)
        self._decoder: Any = msgspec.json.Decoder(msgspec.defstruct("Arguments", fields, gc=False)) if fields else None
        self._processes: dict[Key, int] = {}
        self.threads: dict[tuple[int, Key], int] = {}
        self.process_names: dict[Key, str] = {}
        self.thread_names: dict[tuple[int, Key], str] = {}
        self.events = Events(pd.DataFrame(), [], [], [])

    def decode(self, text: Buffer) -> pd.DataFrame:
        """Return the events of a piece."""
        rows = _EVENTS.decode(text)
        self._name([row for row in rows if row.ph == "M"])
        kept = [row for row in rows if row.ph not in ("M", "")]
        process = [self._process(key) for key in _all(kept, "pid")]
        thread = [self._thread(pair) for pair in zip(process, _all(kept, "tid"), strict=True)]
        columns: dict[str, Any] = {
            "phase": pd.Categorical(list(_all(kept, "ph"))),
            "name": _categorical(list(_all(kept, "name"))),
            "process": np.array(process, dtype=np.int64),
            "thread": np.array(thread, dtype=np.int64),
            "start_ns": _times(kept, "ts"),
            "duration_ns": _times(kept, "dur"),
        }
        if self._decoder is not None:
            arguments = [self._arguments_of(bytes(args)) for args in _all(kept, "args")]
            for place, name in enumerate(self._arguments):
                columns[f"arg_{name}"] = _categorical(list(map(attrgetter(f"a{place}"), arguments)))
        return pd.DataFrame(columns)

    def _process(self, key: Key) -> int:
        number = self._processes.get(key)
        if number is None:
            number = self._processes[key] = len(self._processes)
            self.events.process_keys.append(key)
        return number

    def _thread(self, pair: tuple[int, Key]) -> int:
        return self.threads.setdefault(pair, len(self.threads))

    def _arguments_of(self, args: bytes) -> Any:
        """Return an event's arguments; none if they are not an object."""
        try:
            return self._decoder.decode(args or b"{}")
        except msgspec.ValidationError:
            return self._decoder.decode(b"{}")

    def _name(self, rows: list[_ChromeEvent]) -> None:
        for row in rows:
            try:
                values = _NAMES.decode(bytes(row.args) or b"{}")
            except msgspec.ValidationError:
                continue
            if row.name == "process_name" and isinstance(values.start_us, int):
                self.events.start_us = values.start_us
            if row.name == "process_name" and isinstance(values.name, str):
                self.process_names[row.pid] = values.name
            elif row.name == "thread_name" and isinstance(values.name, str):
                self.thread_names[self._process(row.pid), row.tid] = values.name


def numbers(keys: Iterable[Key]) -> npt.NDArray[np.int64]:
    """Return processes' or threads' numbers as in the file; keys that are not numbers get ones that no file has."""
    result = [key if isinstance(key, int) and abs(key) < _NO_KEY else _NO_KEY + place for place, key in enumerate(keys)]
    return np.array(result, dtype=np.int64)


def _all(rows: Iterable[Any], name: str) -> Iterable[Any]:
    return map(attrgetter(name), rows)


def _categorical(values: list[Any]) -> pd.Categorical:
    """Return values as categorical text, converted by `_text`."""
    if values.count(None) == len(values):
        return pd.Categorical.from_codes(np.full(len(values), -1, dtype=np.int8), pd.Index([], dtype="str"))
    if not set(map(type, values)) <= {str, type(None)}:
        values = [_text(value) for value in values]
    return pd.Categorical(values)


def _text(value: Any) -> str | None:
    """Return a value as text; None for lists and objects."""
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else None


def _times(rows: list[_ChromeEvent], name: str) -> pd.arrays.IntegerArray:
    values, valid = json_numbers.thousandfold([bytes(value) for value in _all(rows, name)])
    return pd.arrays.IntegerArray(values, ~valid)


def _joined(parts: list[pd.DataFrame], arguments: Sequence[str]) -> pd.DataFrame:
    """Concatenate the pieces' tables."""
    texts = ["phase", "name", *(f"arg_{name}" for name in arguments)]
    if not parts:
        empty = {name: pd.Categorical([]) for name in texts}
        integers = {name: np.empty(0, dtype=np.int64) for name in ("process", "thread")}
        times = {name: pd.array([], dtype="Int64") for name in ("start_ns", "duration_ns")}
        return pd.DataFrame(empty | integers | times)
    rest = pd.concat([part.drop(columns=texts) for part in parts], ignore_index=True)
    return rest.assign(**{name: _united([part[name] for part in parts]) for name in texts})


def _united(columns: list[pd.Series]) -> pd.Categorical:
    as_text = [column.cat.set_categories(pd.Index(column.cat.categories, dtype="str")) for column in columns]
    return pd.api.types.union_categoricals(as_text)
