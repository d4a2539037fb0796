"""Words for advice: times, lists of kernels, lines of the program."""

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

_PART = 0.1  # of a finding's time: statements with less are not named
_NAMED = 3  # places that a sentence names
_PLACES = {"layer": "layers", "detail": "places"}
_MOST, _SOME, _ENOUGH = 0.9, 0.6, 8  # uneven: this share of the time is in at most that share of the steps, of so many or more
_LINE = ["file", "function", "line", "text"]
_LINES = 3  # statements that a sentence names
SLOWED = 1.6  # line_profiler lengthens statements by up to this factor
_AS_LONG = 0.1  # of a step: a recorded step that differs less is not mentioned
_LONGEST = 80  # characters of a statement that are quoted
_STEPS_IN = r"\.(?:fit|evaluate|predict|train_on_batch|backward|step)\("  # statements in which a framework runs steps


def time_of(rows: pd.DataFrame) -> int:
    """Return the time of rows in ns per step."""
    return int(rows["time_ns"].sum())


def ids(rows: pd.DataFrame) -> frozenset[int]:
    """Return the numbers of these rows in the subject's table."""
    return frozenset(int(row) for row in rows.index)


def share(subject: Subject, ns: float) -> str:
    """Format a time with its share of the step: 12.3 ms (41%)."""
    return f"{duration(ns)} ({ns / max(subject.step_ns, 1):.0%})"


def uneven(subject: Subject, rows: frozenset[int]) -> list[str]:
    """Say in how few steps most of the time of these rows is; nothing if it is in many."""
    if subject.by_step is None or not rows:
        return []
    times = np.sort(subject.by_step[subject.rows.index.isin(rows)].sum(axis=0))[::-1]
    held = int(np.searchsorted(np.cumsum(times), _MOST * times.sum())) + 1
    if len(times) < _ENOUGH or held > _SOME * len(times):
        return []
    return [f"It is uneven: {held} of the {len(times)} steps hold {_MOST:.0%} of this time."]


def kernels(rows: pd.DataFrame, most: int = 3) -> str:
    """List the kernels in these rows, longest first: 24 x softmax_warp_forward (3.1 ms)."""
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
    """List the values of a column with the most time: stem (4.1 ms), layer1.conv1 (3.2 ms)."""
    sums = rows.groupby(rows[column].astype("string"))["time_ns"].sum().sort_values(ascending=False, kind="stable")
    return ", ".join(f"{name} ({duration(float(ns))})" for name, ns in sums.head(most).items() if ns > 0)


def where(rows: pd.DataFrame, column: str) -> list[str]:
    """Say where the time of rows is, by "layer" or "detail": mostly in a few places, or spread; nothing if mostly unknown."""
    if column == "layer":  # layers of a sequence have only numbers
        layers = rows["layer"].astype("string")
        rows = rows.assign(layer=layers.where(~layers.str.fullmatch(r"[\d.]+").fillna(False), "layer " + layers))
    named = largest(rows, column)
    if not named or 2 * time_of(rows[rows[column].notna().to_numpy(bool)]) < time_of(rows):
        return []
    sums = rows.groupby(rows[column].astype("string"))["time_ns"].sum().nlargest(_NAMED)
    if sums.sum() > time_of(rows) / 2:
        return [f"Most of it in {named}."]
    return [f"It is spread over {rows[column].nunique()} {_PLACES[column]}; the largest are {named}."]


def lines(
    subject: Subject, least_ns: float, most_ns: float, hits: float = 0.0, names: str = "", functions: str = ""
) -> list[str]:
    """Name the program's statements that take at least least_ns per step, if a lines pass timed them.

    most_ns: longer statements also run other code and are skipped. hits: how often a step must execute them. names: a pattern
    of their text. functions: a pattern of functions whose statements come first, however long they take, as the pass may
    lengthen code that loops within a statement many times over; if they exceed most_ns, their shares are given in place of
    times. The pass makes a step longer: times are scaled down alike. If there was no such pass, or a device computes and the
    host's lines are on the timeline, see `_meanwhile`: on a device, a line that launches also takes long while the device
    computes.
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
        return [_lines(kept, lambda ns: f"{ns / float(kept['time_ns'].sum()):.0%} of the time of these functions")]
    short = (sums["time_ns"] <= most_ns).to_numpy(bool)
    kept = pd.concat([kept, sums[matching & short & ~inside]])
    return [_lines(kept, duration)] if len(kept) else []


def _lines(sums: pd.DataFrame, amount: Callable[[float], str]) -> str:
    named = [
        f"{row['file']}:{row['line']} `{str(row['text'])[:_LONGEST]}` ({amount(float(row['time_ns']))})"
        for row in sums.head(_LINES).to_dict("records")
    ]
    return f"Lines that take most of it: {'; '.join(named)}."


def lines_of(subject: Subject, rows: pd.DataFrame) -> list[str]:
    """Name the program's lines that the host was in for a large share of the time of these rows.

    Empty if the timeline has no lines, or a device computes. Lines in which a framework runs steps are not named.
    """
    sums = own_lines(subject, rows)
    return [_lines(sums, duration)] if len(sums) else []


def own_lines(subject: Subject, rows: pd.DataFrame) -> pd.DataFrame:
    """Return these lines: file, function, line, text and time_ns, longest first."""
    table = subject.lines_of_rows
    if table.empty:
        return table
    mine = table[table["row"].isin(rows.index).to_numpy(bool)]
    sums = mine.groupby(_LINE, dropna=False)["time_ns"].sum().reset_index()
    own = ~sums["text"].astype("string").str.contains(_STEPS_IN).fillna(False).to_numpy(bool)
    sums = sums[own & (sums["time_ns"] >= _PART * time_of(rows)).to_numpy(bool)]
    return sums.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


def python_in(subject: Subject, lines: pd.DataFrame) -> int:
    """Return how long the program's own code runs in these lines, outside operators and layers, in ns per step."""
    table = subject.lines_of_rows
    if table.empty or lines.empty:
        return 0
    own = subject.idle((idle_causes.PROGRAM,)).index
    mine = table[table["row"].isin(own).to_numpy(bool)].merge(lines[_LINE], on=_LINE)
    return int(mine["time_ns"].sum())


def idle_lines(subject: Subject, ns: float) -> list[str]:
    """Name the program's lines that the host was in longest while nothing computed.

    Lines in which a framework runs steps are not named, nor lines that take longer than ns: they also do other work. If no host
    lines are on the timeline, the lines come from a lines pass: see `lines`.
    """
    least_ns = _PART * ns
    table, recorded_ns = _host_lines(subject, "idle_ns", least_ns)
    if table.empty:
        return lines(subject, least_ns, ns)
    steps_in = table["text"].astype("string").str.contains(_STEPS_IN).fillna(False)
    most_ns = np.inf if subject.program else ns * max(recorded_ns / max(subject.step_ns, 1), 1.0)
    table = table[(~steps_in & (table["took"] <= most_ns)).to_numpy(bool)]
    return _host_is_in(subject, "While nothing computes, the host is mostly in", table, recorded_ns)


def _host_is_in(subject: Subject, begin: str, table: pd.DataFrame, recorded_ns: int) -> list[str]:
    """Name the first of these lines; times are of a recorded step, which is mentioned if it differs from the clean one."""
    apart = abs(recorded_ns - subject.step_ns) > _AS_LONG * subject.step_ns
    of_recorded = f", in the recorded step of {duration(recorded_ns)}" if apart else ""
    named = [f"{place(row)} ({duration(float(row['took']))})" for row in table.head(_LINES).to_dict("records")]
    return [f"{begin} {'; '.join(named)}{of_recorded}."] if named else []


def longest_place(subject: Subject, least_ns: float) -> str:
    """Return where the host was longest while the device idled, if at least least_ns; empty if unknown."""
    table, _ = _host_lines(subject, "idle_ns", least_ns)
    return "" if table.empty else f"{place(table.iloc[0].to_dict())} ({duration(float(table['took'].iloc[0]))})"


def _meanwhile(subject: Subject, least_ns: float, names: str) -> list[str]:
    """Name the lines, or functions, that the host was in for at least least_ns while the device had no work.

    If the host computes, all of its time counts. names: a pattern of file, function or statement.
    """
    table, recorded_ns = _host_lines(subject, "host_ns" if subject.on_host else "idle_ns", least_ns)
    if names and len(table):
        keys = table[["file", "function", "text"]].astype("string").fillna("")
        texts = keys["text"].where(keys["text"] != "", keys["file"] + " " + keys["function"])
        table = table[texts.str.contains(names).to_numpy(bool)]
    when = "Meanwhile" if subject.on_host else "While the device is idle, for any reason,"
    return _host_is_in(subject, f"{when} the host is in", table, recorded_ns)


def _host_lines(subject: Subject, column: str, least_ns: float) -> tuple[pd.DataFrame, int]:
    """Return the timeline's lines with at least so much time in a column, as `took`, longest first; and the step in ns."""
    result = subject.by_line
    if isinstance(result, str):
        return pd.DataFrame(), 0
    took = result.table[column]
    table = result.table.assign(took=took)[(result.table["file"].notna() & (took > 0) & (took >= least_ns)).to_numpy(bool)]
    return table.sort_values("took", ascending=False, kind="stable"), int(result.step_ns or 0)


def place(row: Mapping[Hashable, Any]) -> str:
    """Format a row of host lines: train.py:31 `loss.item()`; train.py:31 step for a function whose statement is unknown."""
    known = isinstance(row["text"], str) and row["text"]
    return f"{row['file']}:{row['line']} " + (f"`{row['text'][:_LONGEST]}`" if known else str(row["function"]))


def compiling(subject: Subject, remedy: str, rows: pd.DataFrame) -> str:
    """In a remedy that says torch.compile(model), name the layer that takes most of rows, if one does.

    A layer within a model is named by its attribute; a module that is called by itself, such as a loss, by its class.
    """
    layers = rows["layer"].astype("string").fillna("")
    sums = rows.groupby(layers)["time_ns"].sum()
    if "torch.compile(model)" not in remedy or sums.empty or 2 * sums.max() <= sums.sum():
        return remedy
    name = str(sums.idxmax())
    if not name and subject.rows["layer"].notna().any():  # layers are known, and it is in none of them
        return remedy.replace("torch.compile(model)", "torch.compile of a function that does this")
    alone = name.isidentifier() and name[0].isupper()
    return remedy.replace("torch.compile(model)", f"torch.compile of {name}") if alone else remedy


def text(subject: Subject, texts: dict[str, str]) -> str:
    """Return the text for the subject's framework; that of "" for others. See Subject.kinds."""
    return next(texts[key] for key in subject.kinds if key in texts)
