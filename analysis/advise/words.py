"""Words for advice: times, what rows execute, the lines of the program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.amounts import duration as duration
from kernelscope.analysis.accounting.amounts import size as size
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.explain.device.words import count as count
from kernelscope.analysis.explain.device.words import kernel as kernel
from kernelscope.analysis.explain.device.words import listed as listed

_PART = 0.1  # of a finding's time: what a statement takes at least to be named
_NAMED = 3  # places that a sentence names
_PLACES = {"layer": "layers", "detail": "places"}
_MOST, _SOME, _ENOUGH = 0.9, 0.6, 8  # time in few steps: so much of it in at most this part of them; of so many steps at least
_LINE = ["file", "function", "line", "text"]
_LINES = 3  # statements that a sentence names
SLOWED = 1.6  # line_profiler makes statements take longer by up to this
_AS_LONG = 0.1  # of a step: recorded ones that differ less are told as one
_LONGEST = 80  # characters of a statement that are quoted
_STEPS_IN = r"\.(?:fit|evaluate|predict|train_on_batch|backward|step)\("  # statements in which a framework steps


def time_of(rows: pd.DataFrame) -> int:
    """Return the time of rows, ns per step."""
    return int(rows["time_ns"].sum())


def ids(rows: pd.DataFrame) -> frozenset[int]:
    """Return which of the subject's rows these are."""
    return frozenset(int(row) for row in rows.index)


def share(subject: Subject, ns: float) -> str:
    """Return a time with its share of the step: 12.3 ms (41%)."""
    return f"{duration(ns)} ({ns / max(subject.step_ns, 1):.0%})"


def uneven(subject: Subject, rows: frozenset[int]) -> list[str]:
    """Return a sentence on how many of the steps hold most of the time of rows, where these are few; else none."""
    if subject.by_step is None or not rows:
        return []
    times = np.sort(subject.by_step[subject.rows.index.isin(rows)].sum(axis=0))[::-1]
    held = int(np.searchsorted(np.cumsum(times), _MOST * times.sum())) + 1
    if len(times) < _ENOUGH or held > _SOME * len(times):
        return []
    return [f"It is uneven: {held} of the {len(times)} steps hold {_MOST:.0%} of this time."]


def kernels(rows: pd.DataFrame, most: int = 3) -> str:
    """Return what rows execute, what takes longest first: 24 x softmax_warp_forward (3.1 ms)."""
    named = rows.assign(short=[kernel(name) for name in rows["name"].fillna(rows["operator"]).fillna(rows["kind"])])
    sums = named.groupby("short")[["count", "time_ns"]].sum().sort_values("time_ns", ascending=False, kind="stable")
    shown = [
        f"{count(float(one['count']))} x {name} ({duration(float(one['time_ns']))})" for name, one in sums.head(most).iterrows()
    ]
    rest = sums.iloc[most:]
    others = f"{len(rest)} other{'s' if len(rest) > 1 else ''}"
    more = f" and {others} ({duration(float(rest['time_ns'].sum()))})" if len(rest) else ""
    return ", ".join(shown) + more


def largest(rows: pd.DataFrame, column: str, most: int = _NAMED) -> str:
    """Return the values of a column with most time: stem (4.1 ms), layer1.conv1 (3.2 ms)."""
    sums = rows.groupby(rows[column].astype("string"))["time_ns"].sum().sort_values(ascending=False, kind="stable")
    return ", ".join(f"{name} ({duration(float(ns))})" for name, ns in sums.head(most).items() if ns > 0)


def where(rows: pd.DataFrame, column: str) -> list[str]:
    """Return a sentence on where the time of rows is, by "layer" or "detail": in a few places mostly, or spread; none unknown."""
    if column == "layer":  # of a sequence, layers have numbers
        layers = rows["layer"].astype("string")
        rows = rows.assign(layer=layers.where(~layers.str.fullmatch(r"[\d.]+").fillna(False), "layer " + layers))
    named = largest(rows, column)
    if not named:
        return []
    sums = rows.groupby(rows[column].astype("string"))["time_ns"].sum().nlargest(_NAMED)
    if sums.sum() > time_of(rows) / 2:
        return [f"Most of it in {named}."]
    return [f"It is spread over {rows[column].nunique()} {_PLACES[column]}; the largest parts are in {named}."]


def lines(
    subject: Subject, least_ns: float, most_ns: float, hits: float = 0.0, names: str = "", functions: str = ""
) -> list[str]:
    """Return a sentence on the program's statements that take so long per step, where a lines pass timed them.

    most_ns: statements that take longer also run what is meant elsewhere. hits: how often a step executes them at least. names:
    what their text must match. The pass makes a step longer: times are shortened as much as the step. functions: or the
    function that they are in, which then come first, however long they take: the pass may make what loops within a statement
    many times as long. Then their shares are told. Where there was no such pass but the host's lines are on the timeline: see
    `_meanwhile`. So it is on a device: a line that launches takes long while the device computes, too.
    """
    table, steps = subject.trace.lines, subject.trace.info.get("lines_steps")
    on_timeline = not subject.on_host and not hits and len(subject.trace.host_lines) > 0
    if table.empty or not steps or on_timeline:
        return [] if hits else _meanwhile(subject, least_ns, names)
    sums = table.groupby(_LINE, dropna=False)[["time_ns", "hits"]].sum() / float(steps)
    sums["time_ns"] *= min(1.0, subject.step_ns / float(subject.trace.info.get("lines_step_ns") or subject.step_ns or 1))
    sums = sums[((sums["time_ns"] >= least_ns) & (sums["hits"] >= hits)).to_numpy(bool)]
    sums = sums.sort_values("time_ns", ascending=False).reset_index()
    inside = sums["function"].astype("string").str.contains(functions or "$^").fillna(False).to_numpy(bool)
    matching = sums["text"].astype("string").str.contains(names).fillna(False).to_numpy(bool)
    kept = sums[inside]
    if kept["time_ns"].max() > most_ns:
        return [_lines(kept, lambda ns: f"{ns / float(kept['time_ns'].sum()):.0%} of what these functions take")]
    short = (sums["time_ns"] <= most_ns).to_numpy(bool)
    kept = pd.concat([kept, sums[matching & short & ~inside]])
    return [_lines(kept, duration)] if len(kept) else []


def _lines(sums: pd.DataFrame, told: Callable[[float], str]) -> str:
    found = [
        f"{row['file']}:{row['line']} `{str(row['text'])[:_LONGEST]}` ({told(float(row['time_ns']))})"
        for row in sums.head(_LINES).to_dict("records")
    ]
    return f"Lines that take most of it: {'; '.join(found)}."


def lines_of(subject: Subject, rows: pd.DataFrame) -> list[str]:
    """Return a sentence on the program's lines that the host was in for a good part of the time of rows, which the parts add to.

    None where no lines are on the timeline of what the host computes. Lines in which a framework steps are none of its own.
    """
    sums = own_lines(subject, rows)
    return [_lines(sums, duration)] if len(sums) else []


def own_lines(subject: Subject, rows: pd.DataFrame) -> pd.DataFrame:
    """Return these lines: file, function, line, text and time_ns, the longest first."""
    table = subject.lines_of_rows
    if table.empty:
        return table
    mine = table[table["row"].isin(rows.index).to_numpy(bool)]
    sums = mine.groupby(_LINE, dropna=False)["time_ns"].sum().reset_index()
    own = ~sums["text"].astype("string").str.contains(_STEPS_IN).fillna(False).to_numpy(bool)
    sums = sums[own & (sums["time_ns"] >= _PART * time_of(rows)).to_numpy(bool)]
    return sums.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


def python_in(subject: Subject, lines: pd.DataFrame) -> int:
    """Return how long the program's own code runs in these lines outside of operators and layers, ns per step."""
    table = subject.lines_of_rows
    if table.empty or lines.empty:
        return 0
    own = subject.idle((idle_causes.PROGRAM,)).index
    mine = table[table["row"].isin(own).to_numpy(bool)].merge(lines[_LINE], on=_LINE)
    return int(mine["time_ns"].sum())


def idle_lines(subject: Subject, ns: float) -> list[str]:
    """Return a sentence on the program's lines that the host was in for long, while nothing computed.

    Lines in which a framework steps are none of its own, and those that take longer do something else as well. Where no host
    lines are on the timeline it is those that a lines pass timed: see `lines`.
    """
    least_ns = _PART * ns
    table, recorded_ns = _host_lines(subject, "idle_ns", least_ns)
    if table.empty:
        return lines(subject, least_ns, ns)
    steps_in = table["text"].astype("string").str.contains(_STEPS_IN).fillna(False)
    most_ns = np.inf if subject.program else ns * max(recorded_ns / max(subject.step_ns, 1), 1.0)
    table = table[(~steps_in & (table["took"] <= most_ns)).to_numpy(bool)]
    return _host_is_in(subject, "While nothing computes the host is mostly in", table, recorded_ns)


def _host_is_in(subject: Subject, begin: str, table: pd.DataFrame, recorded_ns: int) -> list[str]:
    """Return a sentence on the first of these lines; their times are of a recorded step, which is named where it differs."""
    apart = abs(recorded_ns - subject.step_ns) > _AS_LONG * subject.step_ns
    of_recorded = f", in the recorded step of {duration(recorded_ns)}" if apart else ""
    found = [f"{place(row)} ({duration(float(row['took']))})" for row in table.head(_LINES).to_dict("records")]
    return [f"{begin} {'; '.join(found)}{of_recorded}."] if found else []


def longest_place(subject: Subject, least_ns: float) -> str:
    """Return where the host was longest while the device idled, by the timeline, if at least so long; empty where not known."""
    table, _ = _host_lines(subject, "idle_ns", least_ns)
    return "" if table.empty else f"{place(table.iloc[0].to_dict())} ({duration(float(table['took'].iloc[0]))})"


def _meanwhile(subject: Subject, least_ns: float, names: str) -> list[str]:
    """Return a sentence on the lines, or functions, that the host was in for so long while the device had no work.

    Where the host computes: for so long at all. names: what file, function or statement must match.
    """
    table, recorded_ns = _host_lines(subject, "host_ns" if subject.on_host else "idle_ns", least_ns)
    if names and len(table):
        keys = table[["file", "function", "text"]].astype("string").fillna("")
        told = keys["text"].where(keys["text"] != "", keys["file"] + " " + keys["function"])
        table = table[told.str.contains(names).to_numpy(bool)]
    when = "Meanwhile" if subject.on_host else "While the device idles, for whatever reason,"
    return _host_is_in(subject, f"{when} the host is in", table, recorded_ns)


def _host_lines(subject: Subject, column: str, least_ns: float) -> tuple[pd.DataFrame, int]:
    """Return the lines on the timeline with so much time in a column, longest first, with that as `took`; and of what step."""
    result = subject.by_line
    if isinstance(result, str):
        return pd.DataFrame(), 0
    took = result.table[column]
    table = result.table.assign(took=took)[(result.table["file"].notna() & (took > 0) & (took >= least_ns)).to_numpy(bool)]
    return table.sort_values("took", ascending=False, kind="stable"), int(result.step_ns or 0)


def place(row: Mapping[Hashable, Any]) -> str:
    """Return a row of host lines: train.py:31 `loss.item()`; of a function that no statement is known of train.py:31 step."""
    known = isinstance(row["text"], str) and row["text"]
    return f"{row['file']}:{row['line']} " + (f"`{row['text'][:_LONGEST]}`" if known else str(row["function"]))


def compiling(subject: Subject, remedy: str, rows: pd.DataFrame) -> str:
    """Return a remedy that says torch.compile(model), with what is to be compiled in place of the model: what holds most of rows.

    Layers within a model have its attributes' names; a module that is called by itself, as a loss is, that of its class.
    """
    layers = rows["layer"].astype("string").fillna("")
    sums = rows.groupby(layers)["time_ns"].sum()
    if "torch.compile(model)" not in remedy or sums.empty or 2 * sums.max() <= sums.sum():
        return remedy
    name = str(sums.idxmax())
    if not name and subject.rows["layer"].notna().any():  # it is in none of the layers that are known
        return remedy.replace("torch.compile(model)", "torch.compile of a function that does this")
    alone = name.isidentifier() and name[0].isupper()
    return remedy.replace("torch.compile(model)", f"torch.compile of {name}") if alone else remedy


def text(subject: Subject, texts: dict[str, str]) -> str:
    """Return what is said for the subject's framework; that of "" for others. See Subject.kinds."""
    return next(texts[key] for key in subject.kinds if key in texts)
