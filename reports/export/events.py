"""A Trace for timeline formats: tracks with nested slices, counters, and arrows from calls to device work.

Host ranges, operators and calls of a thread share its track, as they enclose each other; kernels and copies have a track per
stream, and so have waits. Rows without times (totals) are not slices, only counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution import host_lines
from kernelscope.analysis.files.combinations import combinations
from kernelscope.analysis.trace import Trace
from kernelscope.reports.export.lanes import lanes

Int = npt.NDArray[np.int64]

HOST, LINES, DEVICE, WAITS, ANNOTATIONS = "host", "host lines", "device", "waits", "annotations"
_PLACES = {
    "steps": HOST, "ranges": HOST, "operators": HOST, "calls": HOST, "host_lines": LINES,
    "kernels": DEVICE, "graphs": DEVICE, "copies": DEVICE, "syncs": WAITS,
}  # fmt: skip
# Details of a slice. Numbers that differ from row to row, such as correlations, are arrows or only in the tables.
_DETAILS: Mapping[str, tuple[str, ...]] = {
    "steps": ("window", "warmup"),
    "ranges": ("category", "domain", "layer", "phase"),
    "operators": ("scope", "layer", "phase", "attribution", "shapes", "types", "strides"),
    "calls": ("api", "layer", "phase"),
    "host_lines": ("file", "function", "line"),
    "kernels": (
        "kind", "library", "layer", "phase", "operator", "attribution", "dtype", "layout", "algorithm", "problem", "m", "n", "k",
        "transpose", "tensor_core", "grid", "block", "registers", "shared_memory",
        "local_memory", "graph",
    ),
    "graphs": ("graph", "layer", "phase", "attribution"),
    "copies": ("operation", "bytes", "memory", "layer", "phase", "attribution"),
    "syncs": (),
}  # fmt: skip


_SHOWN = 4000  # characters of a name or an argument


@dataclass(frozen=True)
class Track:
    """A row of a timeline. device: its name, for rows of a device. thread: a thread of the host, or a stream.

    called: the thread's name, if known.
    """

    place: str
    device: str | None
    thread: int | None
    process: int | None
    lane: int = 0
    called: str | None = None

    @property
    def name(self) -> str:
        """The row's name, which all rows of a track share."""
        number = "unknown" if self.thread is None else str(self.thread)
        thread = f"{self.called} ({number})" if self.called else f"thread {number}"
        if self.place == DEVICE and self.device == "cpu":
            return f"kernels of the CPU, {thread}" if self.thread is not None else "kernels of the CPU"
        stream = f"{self.device or 'unknown device'} stream {number}"
        name = {
            HOST: thread, LINES: f"lines of {thread}", DEVICE: stream, WAITS: f"waits for {stream}",
            ANNOTATIONS: f"annotations on the device, stream {number}",
        }[self.place]  # fmt: skip
        return name if self.process is None else f"{name}, process {self.process}"


@dataclass
class Slices:
    """The rows with times of one table of the Trace, in its order.

    texts and code: their names. details and detail: their details, each combination once. flow: number of the arrow that starts
    or ends at a row, -1 for none.
    """

    table: str
    rows: pd.DataFrame
    start: Int
    end: Int
    track: Int
    texts: list[str]
    code: Int
    details: list[dict[str, Any]]
    detail: Int
    flow: Int


@dataclass(frozen=True)
class CounterTrack:
    """A quantity over time: its name with the device or core, its unit, times in ns and values."""

    name: str
    unit: str
    time: Int
    values: npt.NDArray[Any]


@dataclass
class TraceEvents:
    """Everything with times in a Trace. untimed: number of rows without times in each table."""

    tracks: list[Track]
    slices: list[Slices]
    counters: list[CounterTrack]
    untimed: dict[str, int] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The earliest time; 0 if there is none."""
        times = [part.start for part in self.slices] + [counter.time for counter in self.counters]
        return min((int(values.min()) for values in times if len(values)), default=0)


def events(trace: Trace) -> TraceEvents:
    """Return the events of a Trace; its times are unchanged."""
    found = TraceEvents([], [], _counters(trace))
    for table in _PLACES:
        rows = getattr(trace, table)
        timed = rows[(rows["start_ns"].notna() & rows["end_ns"].notna()).to_numpy(dtype=bool)]
        if len(timed) < len(rows):
            found.untimed[table] = len(rows) - len(timed)
        if len(timed):
            found.slices.append(_slices(table, timed.reset_index(drop=True)))
    found.untimed |= {name: len(getattr(trace, name)) for name in ("totals", "lines") if len(getattr(trace, name))}
    _place(found, trace.info.get("threads", {}))
    _connect(found.slices)
    return found


def origins(traces: Sequence[Trace], found: Sequence[TraceEvents]) -> list[int]:
    """Return the time zero of each Trace: several Traces are aligned at their first measured steps.

    The earliest event of all is then at 0 or later. A single Trace begins at its first event.
    """
    if len(traces) == 1:
        return [found[0].first]
    begins = [_first_step(trace, part) for trace, part in zip(traces, found, strict=True)]
    before = max(begin - part.first for begin, part in zip(begins, found, strict=True))
    return [begin - before for begin in begins]


def _first_step(trace: Trace, found: TraceEvents) -> int:
    measured = trace.steps[~trace.steps["warmup"]]
    return int(measured["start_ns"].min()) if len(measured) else found.first


def _slices(table: str, rows: pd.DataFrame) -> Slices:
    start, end = _integers(rows["start_ns"]), _integers(rows["end_ns"])
    texts, code = _named(table, rows)
    details, detail = _details(rows, _DETAILS[table])
    none = np.full(len(rows), -1, dtype=np.int64)
    return Slices(table, rows, start, end, none, texts, code, details, detail, none.copy())


def _named(table: str, rows: pd.DataFrame) -> tuple[list[str], Int]:
    """Return the distinct names of slices, and which one each row has."""
    names: Any
    if table == "steps":
        names = "step " + rows["step"].astype("string")
    elif table == "graphs":
        names = "graph " + rows["graph"].astype("string").fillna("unknown")
    elif table == "host_lines":
        names = rows["file"].astype("string") + ":" + rows["line"].astype("string") + " " + host_lines.shown(rows)
    elif table == "copies":
        names = rows["operation"].cat.add_categories("copy").fillna("copy")
    elif table == "syncs":
        names = rows["kind"].cat.rename_categories(lambda kind: f"wait: {kind}").cat.add_categories("wait").fillna("wait")
    else:
        names = rows["name"]
    column = names.astype("category")
    texts = [*map(str, column.cat.categories), "(no name)"]
    code = _integers(column.cat.codes)
    return texts, np.where(code < 0, len(texts) - 1, code)


def _details(rows: pd.DataFrame, names: Sequence[str]) -> tuple[list[dict[str, Any]], Int]:
    """Return the distinct combinations of these columns, without nulls, and which one each row has."""
    used = [name for name in names if rows[name].notna().any()]
    if not used:
        return [{}], np.zeros(len(rows), dtype=np.int64)
    found = combinations(*(_numbers(rows[name]) for name in used))
    meanings = [_meaning(rows[name]) for name in used]
    details = [
        {name: meaning(number) for name, meaning, number in zip(used, meanings, numbers, strict=True) if number is not None}
        for numbers in found.distinct
    ]
    return details, found.codes.astype(np.int64)


def _numbers(column: pd.Series) -> tuple[Int, npt.NDArray[np.bool_] | None]:
    """Return a column as integers, and a mask of its nulls."""
    null = column.isna().to_numpy()
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _integers(column.cat.codes), null
    return _integers(column.astype("Int64").fillna(0)), null


def _integers(column: Any) -> Int:
    return np.asarray(column.to_numpy(dtype=np.int64))


def _meaning(column: pd.Series) -> Any:
    """Return a function from the integers of `_numbers` to the column's values."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(map(str, column.cat.categories)).__getitem__
    return bool if column.dtype in ("bool", "boolean") else int


def _place(found: TraceEvents, names: Mapping[str, str]) -> None:
    """Assign a track to every slice; a track whose slices cross is split. names: names of threads, by number."""
    if not found.slices:
        return
    where = pd.concat([_keys(part) for part in found.slices], ignore_index=True)
    several = where["process"].nunique() > 1
    keys = ["place", "device", "thread", *(["process"] if several else [])]
    track = _integers(where.groupby(keys, dropna=False, sort=False).ngroup())
    start, end = (np.concatenate([getattr(part, name) for part in found.slices]) for name in ("start", "end"))
    where["lane"] = lanes(track, start, end)
    keys.append("lane")
    track = _integers(where.groupby(keys, dropna=False, sort=False).ngroup())
    for row in where.loc[~pd.Series(track).duplicated(), keys].to_dict("records"):
        known: dict[str, Any] = {str(name): None if pd.isna(value) else value for name, value in row.items()}
        found.tracks.append(Track(**{"process": None, **known}, called=names.get(str(known["thread"]))))
    at = 0
    for part in found.slices:
        part.track = track[at : at + len(part.start)]
        at += len(part.start)


def _keys(part: Slices) -> pd.DataFrame:
    """Return place, device, thread and process of a table's rows; thread numbers of the host are unique across processes."""
    keys = pd.DataFrame({"place": _PLACES[part.table], "device": pd.NA, "thread": part.rows["thread"].astype("Int64")})
    keys = keys.assign(process=pd.array([pd.NA] * len(keys), dtype="Int64"))
    if _PLACES[part.table] in (DEVICE, WAITS):
        keys = keys.assign(device=part.rows["device"], process=part.rows["process"])
    if part.table == "ranges":  # the profiler's projections of the host's ranges on a stream
        keys["place"] = keys["place"].mask(part.rows["domain"] == "gpu", ANNOTATIONS)
    return keys.astype({"device": "string"})


def _connect(parts: list[Slices]) -> None:
    """Number the pairs of call and device work; rows without a partner have no number."""
    ends = [part for part in parts if "correlation" in part.rows]
    if len(ends) < 2 or all(part.table != "calls" for part in ends):
        return
    pairs = pd.concat([part.rows[["process", "correlation"]].astype("Int64") for part in ends], ignore_index=True)
    known = pairs.notna().all(axis=1).to_numpy()
    number = _integers(pairs.groupby(["process", "correlation"], dropna=False, sort=False).ngroup())
    calling = np.concatenate([np.full(len(part.rows), part.table == "calls") for part in ends])
    both = np.intersect1d(number[known & calling], number[known & ~calling])
    place = np.searchsorted(both, number)
    tied = known & (place < len(both))
    tied[tied] = both[place[tied]] == number[tied]
    flow = np.where(tied, place, -1)
    at = 0
    for part in ends:
        part.flow = flow[at : at + len(part.rows)]
        at += len(part.rows)


def _counters(trace: Trace) -> list[CounterTrack]:
    """Return counters of memory in use and held by allocators per device, and of every sampled metric per core or device."""
    found = []
    key: Any
    for key, rows in trace.memory.groupby("device", observed=True, dropna=False, sort=False):
        where = "" if pd.isna(key) else f" on {key}"
        for column, what in (("allocated_bytes", "memory in use"), ("reserved_bytes", "memory held by the allocator")):
            known = rows[rows[column].notna()]
            if len(known):
                found.append(CounterTrack(what + where, "bytes", _integers(known["time_ns"]), _integers(known[column])))
    for key, rows in trace.samples.groupby(["metric", "device", "core"], observed=True, dropna=False, sort=False):
        metric, device, core = key
        where = f" on {device}" if not pd.isna(device) else "" if pd.isna(core) else f" of core {int(core)}"
        known = rows[np.isfinite(rows["value"].to_numpy())]
        if len(known):
            found.append(
                CounterTrack(f"{metric}{where}", "", _integers(known["time_ns"]), known["value"].to_numpy(dtype=np.float64))
            )
    return found


def plain(text: str) -> str:
    """Return text, cut if it is very long; viewers show one line of it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"
