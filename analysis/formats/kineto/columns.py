"""Columns of groups of events in torch.profiler's traces: a file of any size is read piece by piece, then each column is joined.

Texts are codes here, and a mask marks the integers that an event lacks. Imports numpy and msgspec only, as kineto.events does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files.chrome_json import SIZE, Buffer, EventList
from kernelscope.analysis.files.combinations import combinations
from kernelscope.analysis.formats.kineto.events import FIELDS, Decoding, DistinctTexts, TypedEvents
from kernelscope.analysis.formats.kineto.groups import ARGUMENTS, FLOW, INTEGER, JSON, PAIR, EventGroup

Array = npt.NDArray[Any]

# Keys of text columns; a process or a thread may be a number, which is kept as its digits
TEXTS = {"phase": "ph", "category": "cat", "name": "name", "process": "pid", "thread": "tid", "flow": "id"}
_NUMBERED = {**dict.fromkeys(TEXTS), **dict.fromkeys(name for name, a in ARGUMENTS.items() if a.kind != INTEGER)}


@dataclass(frozen=True)
class Integers:
    """Integers of some events, and which events have one; the others have 0."""

    values: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]


Column = Array | Integers


@dataclass(frozen=True)
class EventColumns:
    """The content of a file.

    tables: columns by group, empty if a group has no events: start_ns and duration_ns (on the file's clock), texts as codes (-1
    for none), integers, and, if there are begins and ends, place: the order in the file. texts: the texts by code, for each
    column. counts: all events, by phase and category. untimed: a group's events without a usable time, which are left out.
    header: JSON text of the file's other keys. repaired: pieces of text that were invalid JSON and were repaired. odd: elements
    of the list that are not events and are left out.
    """

    tables: dict[str, dict[str, Column]]
    texts: dict[str, list[str]]
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    untimed: dict[str, int] = field(default_factory=dict)
    header: dict[str, bytes] = field(default_factory=dict)
    repaired: int = 0
    odd: int = 0


def gather(
    path: Path | str, groups: Mapping[str, EventGroup], size: int = SIZE, content: bytes | None = None, parts: Sequence[Path] = ()
) -> EventColumns:
    """Return the groups' columns; raise EvidenceError if the file is not a trace or cannot be read.

    size: bytes of JSON to decode at once. content: the file's bytes, if already read; `path` then only names it.
    parts: files of the same process that continue this one.
    """
    gathering = _Gathering(groups)
    files = [EventList(path, gathering.decode, size, content), *(EventList(one, gathering.decode, size) for one in parts)]
    pieces = [piece for file in files for piece in _pieces(file)]
    texts = {name: known.all for name, known in gathering.texts.items()}
    tables = {name: _joined([piece.tables.pop(name) for piece in pieces if name in piece.tables]) for name in groups}
    counts: dict[tuple[str, str], int] = {}
    for piece in pieces:
        for pair, count in piece.counts.items():
            counts[pair] = counts.get(pair, 0) + count
    untimed = {name: sum(piece.untimed.get(name, 0) for piece in pieces) for name in groups}
    repaired, odd = sum(file.repaired for file in files), sum(file.odd for file in files)
    return EventColumns(tables, texts, counts, untimed, files[0].header, repaired, odd)


def _pieces(file: EventList[_PieceColumns]) -> list[_PieceColumns]:
    try:
        return list(file)
    except msgspec.ValidationError as error:
        what = f"not a trace of torch.profiler, or one event is damaged: {error}"
        raise EvidenceError(f"{file.path}: {what}; export or copy it again") from error


@dataclass(frozen=True)
class _PieceColumns:
    """The columns of a piece by group, its numbers of events by phase and category, and of events without a usable time."""

    tables: dict[str, dict[str, Column]]
    counts: dict[tuple[str, str], int]
    untimed: dict[str, int]


class _Gathering:
    """Makes columns of pieces, with codes for texts that all pieces share."""

    def __init__(self, groups: Mapping[str, EventGroup]) -> None:
        self._groups = groups
        self._decoding = Decoding(groups)
        self._seen = 0  # events of the previous pieces, or more where a piece was read again
        self.texts = {name: DistinctTexts() for name in _NUMBERED}

    def decode(self, text: Buffer) -> _PieceColumns:
        """Return the columns of a piece of the list of events."""
        result: _PieceColumns = self._decoding.columns(text, self._part)
        return result

    def _part(self, piece: TypedEvents) -> _PieceColumns:
        phase, category = (piece.texts(TEXTS[name], self.texts[name]) for name in ("phase", "category"))
        place = self._seen + np.arange(len(phase))
        self._seen += len(phase)
        pairs = combinations((phase, None), (category, None))
        phases, categories = ([*self.texts[name].all, ""] for name in ("phase", "category"))  # the last: none
        texts = [(phases[one or 0], categories[other or 0]) for one, other in pairs.distinct]
        result = _PieceColumns({}, dict(zip(texts, np.bincount(pairs.codes).tolist(), strict=True)), {})
        for name, group in self._groups.items():
            taken = np.array([group.takes(*pair) for pair in texts], dtype=bool)
            if taken.any():
                rows = taken[pairs.codes]
                columns: dict[str, Column] = {"phase": phase[rows], "category": category[rows]}
                if any(taken[number] and one in PAIR for number, (one, _) in enumerate(texts)):
                    columns["place"] = place[rows]
                result.tables[name], result.untimed[name] = self._table(piece.of(rows), group, columns)
        return result

    def _table(self, piece: TypedEvents, group: EventGroup, columns: dict[str, Any]) -> tuple[dict[str, Column], int]:
        """Return the columns of a group's events, and how many were left out because their time is not usable.

        columns: phase and category.
        """
        start, timed = piece.times("ts")
        duration, lasting = piece.times("dur")
        complete = columns["phase"] == self.texts["phase"].number("X")
        timed &= ~complete | (lasting & (duration >= 0))
        if not group.timed:
            timed = np.ones(len(timed), dtype=bool)
        piece, columns = piece.of(timed), {name: values[timed] for name, values in columns.items()}
        columns |= {"start_ns": start[timed], "duration_ns": np.where(lasting, duration, 0)[timed]}
        for name in ("name", "process", "thread", *(("flow",) if group.phases & FLOW else ())):
            columns[name] = piece.texts(TEXTS[name], self.texts[name])
        return columns | {name: self._argument(piece, name) for name in group.arguments}, int((~timed).sum())

    def _argument(self, piece: TypedEvents, name: str) -> Any:
        """Return a column of arguments, for each event from the first of the argument's keys that it has."""
        kind = ARGUMENTS[name].kind
        result: Any = None
        for part in FIELDS[name]:
            if kind == INTEGER:
                values, valid = piece.integers(part)
                if result is not None:
                    values, valid = np.where(result.valid, result.values, values), result.valid | valid
                result, complete = Integers(values, valid), valid.all()
            else:
                codes = (piece.json if kind == JSON else piece.texts)(part, self.texts[name])
                result = codes if result is None else np.where(result < 0, codes, result)
                complete = (result >= 0).all()
            if complete:
                break
        return result


def _joined(parts: list[dict[str, Any]]) -> dict[str, Column]:
    """Return a group's columns from those of its pieces."""
    columns: dict[str, Column] = {}
    if any("place" in part for part in parts):
        for part in parts:
            part.setdefault("place", np.zeros(len(part["start_ns"]), dtype=np.int64))  # unused for complete events
    for name in list(parts[0]) if parts else []:
        column = [part.pop(name) for part in parts]
        if isinstance(column[0], Integers):
            both = ([getattr(part, what) for part in column] for what in ("values", "valid"))
            columns[name] = Integers(*(np.concatenate(parts_of) for parts_of in both))
        else:
            columns[name] = np.concatenate(column)
    return columns
