"""Chrome JSON as torch.profiler (Kineto) and torch.autograd's profiler export it, plain or gzip, of any size, as tables.

`scan` reads chosen groups of events into one table each, piece by piece. Times are exact: microseconds become integer
nanoseconds, read from the number's text where a double cannot represent them. Complete events may also be written as pairs of
begin and end (phases B and E); the end may lack the category.

Columns of every table: start_ns and duration_ns (int64; on the wall clock since the epoch if the file has a base time or absolute
times), name, category (categorical text) and track (row of `Scan.tracks`). Each group adds the columns of `groups.ARGUMENTS` that
it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.files import json_numbers
from kernelscope.analysis.files.chrome_json import SIZE
from kernelscope.analysis.formats.kineto.columns import Column, EventColumns, Integers, gather
from kernelscope.analysis.formats.kineto.groups import ARGUMENTS, FLOW, INTEGER, PAIR, EventGroup

_LATEST = 4_500_000_000_000_000_000  # ns: 142 years


@dataclass
class Scan:
    """The content of a file: a table for every group, and its other keys.

    tracks: the distinct pairs process, thread as text. header: the other keys of the file's object, as JSON text. counts: all
    events, by (phase, category). untimed: a group's events without a usable time, which are left out of the tables. repaired:
    pieces of text that were invalid JSON and were repaired. odd: elements of the list that are not events and are left out.
    unpaired: begins without an end, and ends without a begin.
    """

    tables: dict[str, pd.DataFrame]
    tracks: pd.DataFrame
    header: dict[str, bytes]
    base_ns: int | None
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    untimed: dict[str, int] = field(default_factory=dict)
    unpaired: int = 0
    repaired: int = 0
    odd: int = 0

    def fact(self, *names: str) -> Any:
        """Return the first of these keys that the file's object has, decoded; None if it has none or the value is damaged."""
        for name in names:
            if name in self.header:
                try:
                    return msgspec.json.decode(self.header[name])
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    return None
        return None


def scan(
    path: Path | str, groups: Mapping[str, EventGroup], size: int = SIZE, content: bytes | None = None, parts: Sequence[Path] = ()
) -> Scan:
    """Return the groups' tables; raise EvidenceError if a file cannot be read or is not a trace of this format.

    size: bytes of JSON to decode at once. content: the file's bytes, if already read; `path` then only names it. parts: files
    of the same process that continue this one.
    """
    return tables_of(gather(path, groups, size, content, parts=parts), groups)


def tables_of(columns: EventColumns, groups: Mapping[str, EventGroup]) -> Scan:
    """Return the groups' tables from the columns gathered for them; consumes the columns."""
    untimed = dict(columns.untimed)
    result = Scan({}, pd.DataFrame(), columns.header, None, columns.counts, untimed, repaired=columns.repaired, odd=columns.odd)
    base = result.fact("baseTimeNanoseconds")
    result.base_ns = base if isinstance(base, int) and not isinstance(base, bool) and abs(base) < _LATEST else None
    tracks = _Tracks(columns.texts["process"], columns.texts["thread"])
    for name, group in groups.items():
        frame = _frame(columns.tables.pop(name), columns.texts, group, result.base_ns or 0, tracks)
        late = frame["start_ns"].to_numpy().astype(np.float64) + frame["duration_ns"].to_numpy() >= 2.0 * _LATEST
        if late.any():
            untimed[name] += int(late.sum())
            frame = frame[~late].reset_index(drop=True)
        result.tables[name] = frame
    _give_ends(result.tables, groups)
    for name, group in groups.items():
        if group.phases & PAIR:
            result.tables[name], unpaired = paired(result.tables[name], group.open_ended)
            result.unpaired += unpaired
    result.tracks = tracks.table()
    return result


def _frame(
    columns: dict[str, Column], texts: Mapping[str, list[str]], group: EventGroup, base: int, tracks: _Tracks
) -> pd.DataFrame:
    """Return a group's table."""
    none = np.empty(0, dtype=np.int64)
    table: dict[str, Any] = {key: columns.get(key, none) for key in ("start_ns", "duration_ns")}
    table["start_ns"] = table["start_ns"] + base
    for key in ("name", "category", "phase", *(("flow",) if group.phases & FLOW else ())):
        table[key] = _categorical(columns.get(key), texts[key])
    table["track"] = tracks.numbers(columns.get("process"), columns.get("thread"))
    if "place" in columns:
        table["place"] = columns["place"]
    for key in group.arguments:
        column = columns.get(key)
        table[key] = _nullable(column) if ARGUMENTS[key].kind == INTEGER else _categorical(column, texts[key])
    return pd.DataFrame(table, copy=False)


def _categorical(codes: Any, texts: list[str]) -> pd.Categorical:
    """Return codes as categorical text whose categories are the texts that occur."""
    codes = np.empty(0, dtype=np.int32) if codes is None else codes
    seen = np.zeros(len(texts) + 1, dtype=np.bool_)  # the last: none
    seen[codes] = True
    seen[-1] = False
    used = np.flatnonzero(seen)
    place = np.full(len(seen), -1, dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    index = pd.Index(np.array([texts[number] for number in used.tolist()], dtype=object), dtype="object")
    return pd.Categorical.from_codes(place[codes], index, validate=False)


def _nullable(column: Any) -> Any:
    result = column or Integers(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool))
    return pd.arrays.IntegerArray(result.values, ~result.valid)


class _Tracks:
    """Distinct pairs of process and thread, numbered."""

    def __init__(self, processes: list[str], threads: list[str]) -> None:
        self._processes, self._threads = [*processes, ""], [*threads, ""]
        self._pairs: dict[int, int] = {}

    def numbers(self, process: Any, thread: Any) -> npt.NDArray[np.int32]:
        """Return the number of each pair."""
        if process is None:
            return np.empty(0, dtype=np.int32)
        width = len(self._threads)
        keys = (process.astype(np.int64) % len(self._processes)) * width + thread % width
        inverse, pairs = pd.factorize(keys, sort=True)  # by hashes, because few of many differ
        result = [self._pairs.setdefault(pair, len(self._pairs)) for pair in pairs.tolist()]
        return np.array(result, dtype=np.int32)[inverse]

    def table(self) -> pd.DataFrame:
        """Return the pairs as columns process and thread (text), a row each."""
        width = len(self._threads)
        pairs = [(self._processes[pair // width], self._threads[pair % width]) for pair in self._pairs]
        return pd.DataFrame(pairs, columns=["process", "thread"], dtype="object")


def _give_ends(tables: dict[str, pd.DataFrame], groups: Mapping[str, EventGroup]) -> None:
    """Move ends without a category, which the format allows, to the group of the event that they close.

    That is, of all events open on their track, whatever their category, the one that began last.
    """
    home = next((name for name, group in groups.items() if group.takes("E", "")), None)
    if home is None or "E" not in tables[home]["phase"].cat.categories:
        return
    parts = [frame[frame["phase"].isin(["B", "E"]).to_numpy(bool)] for frame in tables.values() if "place" in frame]
    owner = np.repeat(np.array([name for name, frame in tables.items() if "place" in frame]), list(map(len, parts)))
    row = np.concatenate([part.index.to_numpy() for part in parts])
    both = pd.concat([part[["start_ns", "track", "place"]] for part in parts])
    begins = np.concatenate([(part["phase"] == "B").to_numpy(bool) for part in parts])
    first, second = _partners(both, begins)
    given = (owner[second] == home) & (owner[first] != home)
    left = np.ones(len(tables[home]), dtype=np.bool_)
    for name in np.unique(owner[first[given]]).tolist():
        moved = row[second[given & (owner[first] == name)]]
        left[moved] = False
        tables[name] = _with_ends(tables[name], tables[home].loc[moved])
    tables[home] = tables[home][left].reset_index(drop=True)


def _with_ends(frame: pd.DataFrame, ends: pd.DataFrame) -> pd.DataFrame:
    """Return a group's table with ends of another group appended; of these only time, track, place and phase are known."""
    frame = frame.assign(phase=frame["phase"].cat.set_categories(frame["phase"].cat.categories.union(["E"])))
    ends = ends[["start_ns", "duration_ns", "track", "place", "phase"]].reindex(columns=frame.columns)
    return pd.concat([frame, ends.astype(frame.dtypes)], ignore_index=True)


def paired(frame: pd.DataFrame, open_ended: bool = True) -> tuple[pd.DataFrame, int]:
    """Return a table with begins and ends (phases B, E) paired into complete events, and how many of them have no partner.

    On a track they nest like a stack. Those at the same time are in the order of `place`, which is dropped, or, without it, of
    the rows. A begin without an end lasts until the table's end, or is left out if open_ended is false; an end without a begin
    is left out.
    """
    kinds = frame["phase"].cat.categories
    if frame.empty or not len(kinds.intersection(["B", "E"])):
        return frame.drop(columns="place", errors="ignore"), 0
    phase = frame["phase"].astype("object").to_numpy()
    begins, either = phase == "B", (phase == "B") | (phase == "E")
    start = frame["start_ns"].to_numpy()
    rows = np.flatnonzero(either)
    first, second = (rows[places] for places in _partners(frame.iloc[rows], begins[rows]))
    last = int((start + frame["duration_ns"].to_numpy()).max())
    end = np.where(begins, last, start + frame["duration_ns"].to_numpy())
    end[first] = start[second]
    kept = phase != "E"
    if not open_ended:
        kept &= ~begins
        kept[first] = True
    made = frame.assign(duration_ns=end - start).drop(columns="place", errors="ignore")
    return made[kept].reset_index(drop=True), int(either.sum()) - 2 * len(first)


def _partners(frame: pd.DataFrame, begins: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the positions of begins that have an end, and of their ends, among rows that are all begins or ends."""
    start, track = frame["start_ns"].to_numpy(), frame["track"].to_numpy()
    place = frame["place"].to_numpy() if "place" in frame else np.arange(len(frame))
    order = np.lexsort((place, start, track))
    opened = np.cumsum(np.where(begins[order], 1, -1))
    level = np.where(begins[order], opened, opened + 1)  # of a pair: how many were open after its begin
    by_level = np.lexsort((np.arange(len(order)), level, track[order]))
    order, level = order[by_level], level[by_level]
    same = (track[order][1:] == track[order][:-1]) & (level[1:] == level[:-1]) & begins[order][:-1] & ~begins[order][1:]
    return order[:-1][same], order[1:][same]


def whole_numbers(texts: pd.Series) -> pd.Series:
    """Return texts as nullable integers, null for texts that are not integers."""
    values, valid = json_numbers.integers([str(text).encode("utf8", "replace") for text in texts])
    return pd.Series(pd.arrays.IntegerArray(values, ~valid), index=texts.index)
