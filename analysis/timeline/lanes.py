"""A recording, or one representative step of it, on a timeline: what the host and the devices did when, in lanes of rows.

It holds every event that reaches into the window, cut at the window's ends, in integer nanoseconds from its start: the durations
of a lane's events add up to those of the trace in this time. The first lane shows the owner of each instant of the window, from
`accounting.partition`, so it adds up to the wall time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.accounting import partition as parts
from kernelscope.analysis.accounting.cell_labels import COMPUTING
from kernelscope.analysis.attribution import device_steps, host_lines
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.calls import SYSTEM, cause
from kernelscope.analysis.device import occupancy
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.trace import Trace, intervals, plain
from kernelscope.analysis.trace.categories import translated

SCHEMA = "kernelscope/timeline/1"
MOST = 200_000  # events that stay separate; if there are more, the shortest are merged

Int = npt.NDArray[np.int64]

# The label of an event, as far as its table has it. `kind` is for calls what the host does in them, for ranges their category,
# for copies the kinds of memory; for host lines, `library` is the file and `problem` the line. `launch` describes a kernel's
# launch, `arguments` are those of an operator.
LABEL = ("name", "layer", "phase", "kind", "library", "problem", "launch", "arguments")
_ARGUMENTS = 300  # characters of an operator's arguments that are shown
_LAUNCH = {"grid": "grid {}", "block": "block {}", "registers": "{} registers", "shared_memory": "{} bytes of shared memory"}


Table = tuple[str, pd.DataFrame]  # the kind of its lanes, and events with start_ns, end_ns, thread and columns of LABEL


def timeline(trace: Trace, most: int = MOST, whole: bool = False) -> dict[str, Any]:
    """Return the measured step whose wall time is nearest the median of all, with everything that happened in it.

    A capture without steps is one window, from its first event to its last. whole: take one with steps as one window, too; its
    steps are then a lane `steps`. most: events that stay separate.

    Returns plain data: `step` (null without steps); `found`: in words, the steps found in a capture that marks none (else null);
    they are a lane `steps`, too; `steps`: the number of measured steps; `thread`: that of their loop (may be null); `wall_ns`;
    `median_ns`; `step_ns`: the step's start and end (null without steps; its events stay separate as long as possible); `cut`:
    the number of events cut at the window's ends; `together_ns`: events shorter than this that follow each other closely in a row
    are merged (0: none are); `labels`: columns of LABEL, a row for each distinct label; and `lanes`: {kind: one of step, steps,
    lines, ranges, operators, calls, kernels, graphs, copies and syncs, device, thread (or stream), events, sum_ns: the sum of
    their durations, rows}. A row has the columns start_ns (from the window's start), duration_ns, label (of the longest event,
    if several); events and busy_ns, the number and total duration of merged events, null if none are merged; and if launches are
    known, launched_ns: how long before its start a single event was launched, and launcher: the thread.

    Raises EvidenceError if the capture has no timeline.
    """
    step, low, high, about = _window(trace)
    shown = (low, high)
    if whole and step is not None:
        low, high = _recording(trace)
    result = finding_steps.find(trace) if step is None else None
    marked = trace.steps[trace.steps["end_ns"] > trace.steps["start_ns"]] if whole else trace.steps[:0]
    slices = _step_slices(marked if result is None else finding_steps.applied(trace, result).steps)
    events_of = [("step", _owners(trace, low, high)), *slices, *_tables(trace)]
    tables = [(kind, _within(events, low, high)) for kind, events in events_of]
    cut = sum(int(events["cut"].sum()) for _, events in tables)
    labels, numbers = _labels([events for _, events in tables])
    lanes = [lane for table, label in zip(tables, numbers, strict=True) for lane in _lanes(table, label, low)]
    exact = (shown[0] - low, shown[1] - low) if shown != (low, high) else None
    merged_ns, exact = _least_ns(lanes, high - low, most, exact)
    about |= {
        "found": result.sentence() if result else None,
        "step_ns": None if step is None else [shown[0] - low, shown[1] - low],
    }
    about |= {"schema": SCHEMA, "step": step, "wall_ns": high - low, "cut": cut, "together_ns": merged_ns}
    return {**about, "labels": labels, "lanes": [_plain(lane, merged_ns, exact) for lane in lanes]}


# --- the window -------------------------------------------------------------------------------------------------------------


def _window(trace: Trace) -> tuple[int | None, int, int, dict[str, Any]]:
    """Return the step, its start and end, and facts on all steps; the whole capture if it has no steps."""
    if trace.steps.empty:
        low, high = (int(edge[0]) for edge in parts.whole(trace))
        if high <= low:
            raise EvidenceError("the capture's timeline has no length")
        return None, low, high, {"steps": 0, "median_ns": high - low, "thread": None}
    steps = trace.steps[~trace.steps["warmup"] & (trace.steps["end_ns"] > trace.steps["start_ns"])].sort_values("start_ns")
    begun, over = device_steps.bounds(steps)
    if steps.empty:
        raise EvidenceError("the capture holds no measured step; record some, or lower --warmup")
    wall = over - begun
    ordered = np.sort(wall)
    twice = int(ordered[(len(wall) - 1) // 2] + ordered[len(wall) // 2])  # twice the median is an integer
    place = int(np.argmin(np.abs(2 * wall - twice)))
    chosen, low, high = steps.iloc[place], int(begun[place]), int(over[place])
    about = {"steps": len(steps), "median_ns": twice // 2, "thread": int(chosen["thread"])}
    return int(chosen["step"]), low, high, about


def _recording(trace: Trace) -> tuple[int, int]:
    """Return the window of everything that was recorded, with all steps in it."""
    first, last = (int(edge[0]) for edge in parts.whole(trace))
    begun, over = device_steps.bounds(trace.steps)
    return min(first, int(begun.min())), max(last, int(over.max()))


# --- what happened ----------------------------------------------------------------------------------------------------------


def _owners(trace: Trace, low: int, high: int) -> pd.DataFrame:
    result = parts.owners(trace, low, high)
    return result.assign(name=result["cause"].fillna(COMPUTING).astype("category"), thread=None)


def _step_slices(steps: pd.DataFrame) -> Iterator[Table]:
    """Yield the steps on the device, with warm-up marked in their names."""
    if len(steps):
        steps = steps.sort_values("start_ns")
        begun, over = device_steps.bounds(steps)
        names = "step " + steps["step"].astype("string") + steps["warmup"].map({True: " (warm-up)", False: ""})
        yield "steps", pd.DataFrame({"start_ns": begun, "end_ns": over, "thread": None, "name": names.to_numpy()})


def _tables(trace: Trace) -> Iterator[Table]:
    """Yield everything with times, the devices first."""
    ranges = trace.ranges[trace.ranges["category"] != "step"]
    lines = trace.host_lines
    for kind in ("kernels", "graphs", "copies", "syncs"):
        table = _named(kind, getattr(trace, kind)[getattr(trace, kind)["start_ns"].notna()])
        yield kind, table.assign(launch=_launch(table, trace)) if kind == "kernels" else table
    named = lines.assign(name=host_lines.shown(lines), library=lines["file"], problem="line " + lines["line"].astype("string"))
    yield "lines", named
    yield "ranges", ranges.assign(kind=ranges["category"])
    yield "operators", trace.operators.assign(arguments=_arguments(trace.operators))
    system = (trace.calls["api"] == "os").to_numpy(bool)
    kinds = translated(trace.calls["name"], cause).astype("string").mask(system, SYSTEM)
    yield "calls", trace.calls.assign(kind=kinds)


def _arguments(operators: pd.DataFrame) -> pd.Series:
    """Return each operator's arguments in words: types and shapes of tensors, values of others; null if unknown."""
    columns = ["types", "shapes", "arguments"]
    number, first = parts.numbered(operators[columns])
    said = []
    for row in plain.rows(operators[columns].iloc[first]):
        types, shapes, values = ([] if row[name] is None else json_text.listed(row[name]) for name in columns)
        each = [
            f"{kind}{shape}" if shape else str(value or kind or "none")
            for kind, shape, value in zip_longest(types, shapes, values, fillvalue="")
        ]
        said.append(", ".join(each)[:_ARGUMENTS] or None)
    return pd.Series(np.array(said, dtype=object)[number], index=operators.index, dtype="string")


def _named(kind: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return device work with its name in the column `name`."""
    if kind == "graphs":
        return table.assign(name=pd.Categorical(["graph"] * len(table)))
    if kind == "copies":
        return table.assign(name=table["operation"].cat.rename_categories(levels.copy_name), kind=table["memory"])
    return table.rename(columns={"kind": "name"}) if kind == "syncs" else table


def _launch(kernels: pd.DataFrame, trace: Trace) -> pd.Series:
    """Return in words each kernel's launch and its theoretical occupancy; null if nothing is known."""
    devices = {str(entry["device"]): entry for entry in trace.info.get("devices") or []}
    keys = ["device", *_LAUNCH]
    number, first = parts.numbered(kernels[keys])
    said = []
    for row in plain.rows(kernels[keys].iloc[first]):
        facts = [form.format(row[name]) for name, form in _LAUNCH.items() if row[name]]
        known = occupancy.of_row(row, devices.get(str(row["device"]), {}))
        facts += [] if isinstance(known, str) else [f"{known.occupancy:.0%} occupancy, limited by {known.limiter}"]
        said.append(", ".join(facts) or None)
    return pd.Series(np.array(said, dtype=object)[number], index=kernels.index, dtype="string")


def _within(events: pd.DataFrame, low: int, high: int) -> pd.DataFrame:
    """Return the events that reach into the window, cut at its ends, sorted by start, longest first; empty ones stay."""
    start, end = intervals.edges(events)
    inside = (start < high) & (end > low) | (start == end) & (start >= low) & (start < high)
    start, end, rows = start[inside], end[inside], events[inside]
    cut = (start < low) | (end > high)
    rows = rows.assign(start_ns=np.maximum(start, low), end_ns=np.minimum(end, high), cut=cut)
    ordered: pd.DataFrame = rows.iloc[np.lexsort((-rows["end_ns"].to_numpy(), rows["start_ns"].to_numpy()))]
    return ordered


def _labels(tables: list[pd.DataFrame]) -> tuple[dict[str, list[Any]], list[Int]]:
    """Return the distinct labels of all tables as columns, null if unknown, and the number of each event's label."""
    columns = {}
    for name in LABEL:
        texts = [table[name].astype("string") if name in table else pd.Series(pd.NA, table.index, "string") for table in tables]
        columns[name] = pd.concat(texts, ignore_index=True)
    codes = pd.DataFrame({name: pd.factorize(values)[0] for name, values in columns.items()})
    number = codes.groupby(list(LABEL), sort=False).ngroup().to_numpy(np.int64)
    first = np.flatnonzero(~pd.Series(number).duplicated())
    distinct = {name: values.iloc[first].astype(object) for name, values in columns.items()}
    plain = {name: values.where(values.notna(), None).tolist() for name, values in distinct.items()}
    return plain, np.split(number, np.cumsum([len(table) for table in tables])[:-1])


# --- lanes ------------------------------------------------------------------------------------------------------------------


@dataclass
class _Lane:
    """Events of one lane, sorted by start. row: in which each is drawn, outer ones above inner ones.

    launched: how long before its start each was launched (ns), -1 if unknown; launcher: by which thread. None if none is known.
    """

    kind: str
    device: str | None
    thread: int | None
    start: Int
    duration: Int
    label: Int
    row: Int
    launched: Int | None
    launcher: Int | None


def _lanes(table: Table, label: Int, low: int) -> Iterator[_Lane]:
    """Yield the lanes of a table: one for each thread, or each device and its streams or threads."""
    kind, events = table
    start, end = intervals.edges(events)
    thread = events["thread"].astype("Int64")
    at, known = thread.to_numpy(np.int64, na_value=0), thread.notna().to_numpy()
    device = events["device"].astype("string") if "device" in events else pd.Series(pd.NA, events.index, "string")
    codes, devices = pd.factorize(device, sort=True)
    launched = _launches(events, start)
    order = np.lexsort((known, at, codes))  # keeps the order of time within a place
    place = np.column_stack([codes, at, known])[order]
    for rows in np.split(order, np.flatnonzero((place[1:] != place[:-1]).any(axis=1)) + 1):
        if len(rows):
            first, begun, over = rows[0], start[rows], end[rows]
            where = None if codes[first] < 0 else str(devices[codes[first]])
            number = int(at[first]) if known[first] else None
            known_here = launched is not None and where != "cpu" and bool(launched.known[rows].any())
            launches = (launched.before[rows], launched.thread[rows]) if launched is not None and known_here else (None, None)
            yield _Lane(kind, where, number, begun - low, over - begun, label[rows], rows_of(begun, over), *launches)


class _Launches(NamedTuple):
    """How long before its start each event was launched, -1 if unknown, and the thread that launched it.

    known: whether at least the time of the launch is known.
    """

    before: Int
    thread: Int
    known: npt.NDArray[np.bool_]


def _launches(events: pd.DataFrame, begun: Int) -> _Launches | None:
    """Return the launches of events; None if none is known."""
    if "launch_ns" not in events or not events["launch_ns"].notna().any():
        return None
    at, thread = (events[name].to_numpy(np.int64, na_value=-1) for name in ("launch_ns", "launch_thread"))
    return _Launches(np.where((at >= 0) & (thread >= 0), np.maximum(begun - at, 0), -1), thread, at >= 0)


def rows_of(start: Int, end: Int) -> Int:
    """Return the row of each interval, sorted by start, longest first: the first row in which nothing overlaps it.

    So nested intervals get their depth, and others as few rows as possible (first fit, optimal for interval graphs). A row is a
    chain: each interval is the first to begin after the one before has ended. The chain's members are found by doubling the
    length of the jumps, in O(N log N) per row, without a loop over intervals.
    """
    row = np.full(len(start), -1, dtype=np.int64)
    left = np.arange(len(start))
    number = 0
    while len(left):
        after = np.maximum(np.searchsorted(start[left], end[left], side="left"), np.arange(len(left)) + 1)
        jump = np.append(after, len(left))
        member = np.zeros(len(left) + 1, dtype=bool)
        member[0] = True
        while jump[0] < len(left):
            member[jump[member]] = True
            jump = jump[jump]
        row[left[member[:-1]]] = number
        left = left[~member[:-1]]
        number += 1
    return row


_Exact = tuple[int, int] | None  # the time in which nothing is merged


def _least_ns(lanes: list[_Lane], wall: int, most: int, exact: _Exact) -> tuple[int, _Exact]:
    """Return the duration (ns) below which events are merged so that at most `most` are left, and the time without merging."""
    rows, number = [], 0
    for lane in lanes:  # lanes share no rows
        rows.append(lane.row + number)
        number += int(lane.row.max(initial=-1)) + 1
    events = _in_rows(
        np.concatenate([np.zeros(0, dtype=np.int64), *rows]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(lane.start for lane in lanes)]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(lane.duration for lane in lanes)]),
    )
    merged_ns = 0
    while len(events.row) - int(_followed(events, merged_ns, exact).sum()) > most and merged_ns < wall:
        merged_ns = max(2 * merged_ns, 64)
    if exact is not None and merged_ns >= wall:  # this time alone has too many
        return _least_ns(lanes, wall, most, None)
    return merged_ns, exact


class _Events(NamedTuple):
    """Events sorted by row and start, and their places before sorting."""

    row: Int
    start: Int
    duration: Int
    order: Int


def _in_rows(row: Int, start: Int, duration: Int) -> _Events:
    order = np.lexsort((start, row))
    return _Events(row[order], start[order], duration[order], order)


def _followed(events: _Events, merged_ns: int, exact: _Exact) -> npt.NDArray[np.bool_]:
    """Return for each event but the last whether it is merged with the next.

    Events shorter than `merged_ns` are merged if they follow each other and start in the same interval of this length, outside
    the time that stays exact.
    """
    row, start = events.row, events.start
    if not merged_ns:
        return np.zeros(max(len(row) - 1, 0), dtype=bool)
    short = events.duration < merged_ns
    if exact is not None:
        short &= (start < exact[0]) | (start >= exact[1])
    same: npt.NDArray[np.bool_] = (row[1:] == row[:-1]) & (start[1:] // merged_ns == start[:-1] // merged_ns)
    return same & short[1:] & short[:-1]


def _groups(lane: _Lane, merged_ns: int, exact: _Exact) -> Int:
    """Return the number of each event's group: its own, or that of merged events (see `_followed`)."""
    events = _in_rows(lane.row, lane.start, lane.duration)
    row, order, same = events.row, events.order, _followed(events, merged_ns, exact)
    group = np.empty(len(row), dtype=np.int64)
    group[order] = np.cumsum(np.append(np.ones(min(len(row), 1), dtype=np.int64), ~same)) - 1
    return group


def _plain(lane: _Lane, merged_ns: int, exact: _Exact) -> dict[str, Any]:
    """Return a lane as plain data."""
    group = _groups(lane, merged_ns, exact)
    order = np.lexsort((-lane.duration, group))  # the longest of each group comes first
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    begun = np.minimum.reduceat(lane.start[order], first)
    columns = {
        "start_ns": begun,
        "duration_ns": np.maximum.reduceat((lane.start + lane.duration)[order], first) - begun,
        "label": lane.label[order][first],
        "events": np.diff(first, append=len(order)),
        "busy_ns": np.add.reduceat(lane.duration[order], first),
    }
    if lane.launched is not None and lane.launcher is not None:
        alone = columns["events"] == 1
        columns["launched_ns"] = np.where(alone, lane.launched[order][first], -1)
        columns["launcher"] = lane.launcher[order][first]
    edges = np.flatnonzero(np.diff(lane.row[order][first])) + 1
    split = {name: [part.tolist() for part in np.split(values, edges)] for name, values in columns.items()}
    if not merged_ns:
        split |= {"events": [None] * (len(edges) + 1), "busy_ns": [None] * (len(edges) + 1)}
    rows = [dict(zip(split, values, strict=True)) for values in zip(*split.values(), strict=True)]
    place = {"kind": lane.kind, "device": lane.device, "thread": lane.thread}
    return {**place, "events": len(order), "sum_ns": int(lane.duration.sum()), "rows": rows}
