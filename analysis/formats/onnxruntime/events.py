"""The events of ONNX Runtime's profile as one table, read in pieces.

Each event has a category (Session, Node, Kernel, Api), a name, process and thread, begin and duration in whole microseconds since
the profiler started, and arguments. Source: ONNX Runtime's documentation, "Performance: profiling tools".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_events, json_numbers
from kernelscope.analysis.files.chrome_json import Buffer, EventList
from kernelscope.analysis.files.packed import blocks, read_content

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_TEXTS = ("op_name", "provider", "parent_name", "stream", "kind")
_GRID, _BLOCK = (tuple(f"{name}_{axis}" for axis in "xyz") for name in ("grid", "block"))
_RAW = ("input_type_shape", "output_type_shape", "thread_scheduling_stats")
_NUMBERS = ("pid", "tid")
_SOUGHT = 16  # blocks of a file without nodes that are searched for cut lines
_EVENT_FIRST = re.compile(rb'\s*\{\s*"(?:cat|name|pid|tid|dur|ts|ph|args)"')

_Arguments = msgspec.defstruct(
    "_Arguments",
    [
        *((name, Any, None) for name in (*_TEXTS, *_GRID, *_BLOCK, "size")),
        *((name, msgspec.Raw, msgspec.Raw(b"")) for name in _RAW),
    ],
    gc=False,
)


class _ProfileEvent(msgspec.Struct, gc=False):
    cat: str = ""
    name: str = ""
    ph: str = "X"
    pid: int | str | None = None
    tid: int | str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"{}")


_EVENTS = msgspec.json.Decoder(list[_ProfileEvent])
_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_NONE = _ARGUMENTS.decode(b"{}")
CATEGORIES = (
    "category",
    "name",
    "operator",
    "provider",
    "parent",
    "stream",
    "copy",
    "grid",
    "block",
    "inputs",
    "outputs",
)


@dataclass
class Profile:
    """The content of a profile.

    table: one row per event, in the file's order: the columns of CATEGORIES (categories, null where not given; copy: a copy's
    direction), whole (bool: not of another phase than X), process and thread (int64; -1 for a device), start_ns and duration_ns
    (Int64, null if unusable), bytes (Int64), pool (int64: threads of the pool for the node's work, 0 if not given). repaired,
    odd, cut, unclosed: as in EventList.
    """

    table: pd.DataFrame
    repaired: int
    odd: int
    cut: bool
    unclosed: bool


def read(path: Path) -> Profile:
    """Return a profile's events; raise EvidenceError if it cannot be read or is none."""
    pieces = EventList(path, _decoded, content=_quoted(path), open_ended=True, event=_ProfileEvent)
    try:
        parts = [part for part in pieces if len(part)]
    except msgspec.ValidationError as error:
        raise EvidenceError(f"{path}: not a profile of ONNX Runtime ({error}); copy or record it again") from error
    if not parts:
        raise EvidenceError(f"{path}: the profile holds no events; record again, and end it with session.end_profiling()")
    table = pd.concat([part.drop(columns=list(CATEGORIES)) for part in parts], ignore_index=True)
    for name in _NUMBERS:
        codes, keys = pd.factorize(table[name])
        table[name] = chrome_events.numbers(keys.tolist())[codes] if len(keys) else -1
    table = table.rename(columns={"pid": "process", "tid": "thread"})
    united = {name: pd.api.types.union_categoricals([part[name] for part in parts]) for name in CATEGORIES}
    return Profile(table.assign(**united), pieces.repaired, pieces.odd, pieces.cut, pieces.unclosed)


def _quoted(path: Path) -> bytes | None:
    """Return the content of a file that begins with an event, as profiles are quoted, behind a bracket; None for others."""
    with path.open("rb") as file:
        if not _EVENT_FIRST.match(next(blocks(file, path), b"")):
            return None
    return b"[" + read_content(path)


def cut_lines(path: Path) -> list[int]:
    """Return the numbers of lines that begin an event and do not end it, of which a quoted profile may consist."""
    with path.open("rb") as file:
        lines = b"".join(islice(blocks(file, path), _SOUGHT)).splitlines()
    begins = [bool(_EVENT_FIRST.match(line)) for line in lines]
    followed = [*begins[1:], True]  # an event may also be written over several lines
    return [
        number
        for number, (line, first, next_first) in enumerate(zip(lines, begins, followed, strict=True), 1)
        if first and next_first and not _is_json(line.rstrip(b",] \r"))
    ]


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _decoded(text: Buffer) -> pd.DataFrame:
    """Return the events of a piece of the list."""
    rows = _EVENTS.decode(text)
    arguments = [_arguments(row.args) for row in rows]
    texts = {"operator": "op_name", "provider": "provider", "parent": "parent_name", "stream": "stream", "copy": "kind"}
    columns: dict[str, Any] = {
        "category": _categorical(_all(rows, "cat")),
        "name": _categorical(_all(rows, "name")),
        "whole": np.array([row.ph == "X" for row in rows], dtype=bool),
        "pid": pd.Series(_keys(rows, "pid"), dtype="object"),
        "tid": pd.Series(_keys(rows, "tid"), dtype="object"),
        "start_ns": _times(rows, "ts"),
        "duration_ns": _times(rows, "dur"),
        "bytes": pd.arrays.IntegerArray(*_integers(_all(arguments, "size"))),
        "pool": np.array(list(map(_pool, _all(arguments, _RAW[2]))), dtype=np.int64),
        "grid": _categorical(_joined(arguments, _GRID)),
        "block": _categorical(_joined(arguments, _BLOCK)),
        "inputs": _categorical(_raw(arguments, _RAW[0])),
        "outputs": _categorical(_raw(arguments, _RAW[1])),
    }
    return pd.DataFrame(columns | {name: _categorical(_all(arguments, source)) for name, source in texts.items()})


def _arguments(text: msgspec.Raw) -> Any:
    try:
        return _ARGUMENTS.decode(text)
    except msgspec.ValidationError:  # no object
        return _NONE


def _all(rows: Iterable[Any], name: str) -> list[Any]:
    return list(map(attrgetter(name), rows))


def _keys(rows: Iterable[Any], name: str) -> list[int | str]:
    return [-1 if key is None else key for key in _all(rows, name)]


def _categorical(values: Iterable[Any]) -> pd.Categorical:
    """Return values as categories of text; anything that is neither text nor a number is null."""
    texts = [value if isinstance(value, str) else str(value) if isinstance(value, int | float) else None for value in values]
    return pd.Categorical(texts, categories=pd.Index(sorted({text for text in texts if text is not None}), dtype="str"))


def _raw(arguments: Sequence[Any], name: str) -> list[str | None]:
    """Return arguments as JSON text, None where not given."""
    return [bytes(value).decode("utf8", "replace") or None for value in _all(arguments, name)]


def _joined(arguments: Sequence[Any], names: Sequence[str]) -> list[str | None]:
    """Return the sizes of launches as x,y,z; None where one is missing or below 1, as for copies."""
    axes = [_integers(_all(arguments, name)) for name in names]
    usable = np.logical_and.reduce([~missing & (numbers > 0) for numbers, missing in axes])
    sizes = np.stack([numbers for numbers, _ in axes], axis=1)
    return [",".join(map(str, row)) if use else None for row, use in zip(sizes.tolist(), usable, strict=True)]


def _integers(values: Sequence[Any]) -> tuple[Int, Bool]:
    """Return numbers, written as numbers or as texts, and which are missing."""
    numbers, valid = json_numbers.integers([str(value).encode() if value is not None else b"" for value in values])
    return numbers, ~valid


def _times(rows: Sequence[_ProfileEvent], name: str) -> pd.arrays.IntegerArray:
    values, valid = json_numbers.thousandfold([bytes(value) for value in _all(rows, name)])
    return pd.arrays.IntegerArray(values, ~valid)


def _pool(statistics: msgspec.Raw) -> int:
    """Return how many threads the pool has that a node's work is divided among; 0 if the profile does not say.

    The profiler lists the calling thread and each thread of the pool; its text is empty if there is no pool.
    """
    text = bytes(statistics)
    return text.count(b'"num_run"') + 1 if text else 0
