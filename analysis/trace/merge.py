"""Merge several captures of one run into one Trace: a timeline, with samples, lines or totals from other files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kernelscope.analysis.trace import TABLES, Trace, conform, intervals, together
from kernelscope.analysis.trace.categories import joined
from kernelscope.analysis.trace.counted import onto_timeline

_LISTS = ("devices", "notes", "warnings")


def merged(traces: Sequence[Trace], names: Sequence[str]) -> Trace:
    """Return one Trace with the rows of all; names: the captures, for messages.

    Threads of different captures stay apart. If several ranks have steps at the same time, the first capture's steps count.
    Raises EvidenceError for captures that do not belong together (see `together`).
    """
    warnings = together.check(list(zip(traces, names, strict=True)))
    warnings += _steps_at_a_time(traces, names)
    traces = onto_timeline(traces, [trace for trace in traces if trace.has_timeline()])
    _separate_threads(traces)
    ranges = np.cumsum([0, *(len(trace.ranges) for trace in traces)])
    for trace, offset in zip(traces, ranges, strict=False):
        for table in (trace.kernels, trace.graphs, trace.copies):
            table["range_id"] = table["range_id"] + int(offset)
    kernels = np.cumsum([0, *(len(trace.kernels) for trace in traces)])
    for trace, offset in zip(traces, kernels, strict=False):
        if len(trace.kernels):
            trace.metrics["kernel"] = trace.metrics["kernel"] + int(offset)
    tables = {name: conform(name, _joined([getattr(trace, name) for trace in traces])) for name in TABLES}
    return Trace(**tables, info=_info(traces, warnings), diagnostics=_diagnostics(traces))


def _steps_at_a_time(traces: Sequence[Trace], names: Sequence[str]) -> list[str]:
    """Keep only the first capture's steps where steps of others run at the same time, in place; return that as warnings.

    Two steps that share an instant would count it twice. Device work of the other captures' steps moves to the step that
    contains the middle of theirs.
    """
    stepped = [number for number, trace in enumerate(traces) if len(trace.steps)]
    if len(stepped) < 2:
        return []
    first = traces[stepped[0]].steps.sort_values("start_ns")
    joined = []
    for number in stepped[1:]:
        trace = traces[number]
        start, end = intervals.edges(trace.steps)
        place = intervals.containing(start + (end - start) // 2, *intervals.edges(first))
        if (place < 0).all():
            continue
        within = first["step"].to_numpy()[place]
        of = {step: pd.NA if at < 0 else own for step, at, own in zip(trace.steps["step"], place, within, strict=True)}
        for table in (trace.kernels, trace.graphs, trace.copies):
            table["step"] = table["step"].map(of).astype("Int64")
        trace.steps = trace.steps.iloc[:0]
        joined.append(names[number])
    if not joined:
        return []
    more = f" and {len(joined) - 1} more" if len(joined) > 1 else ""
    what = f"steps are those of {names[stepped[0]]}, and the work of {joined[0]}{more} during them is part of them"
    return [f"{what}; `kernelscope ranks` keeps ranks apart"]


def _separate_threads(traces: Sequence[Trace]) -> None:
    """Give every thread of every capture its own number, as two hosts may have used the same one."""
    offset = 0
    for trace in traces:
        of_host = (trace.steps, trace.ranges, trace.operators, trace.calls, trace.memory, trace.host_lines)
        seen = [table["thread"].dropna() for table in of_host]
        numbers = pd.unique(pd.concat([*seen, trace.kernels["launch_thread"].dropna()]).astype("int64"))
        new = dict(zip(numbers.tolist(), range(offset, offset + len(numbers)), strict=True))
        for table in of_host:
            table["thread"] = table["thread"].map(new).astype(table["thread"].dtype)
        for table in (trace.kernels, trace.graphs, trace.copies):
            table["launch_thread"] = table["launch_thread"].map(new).astype("Int64")
        offset += len(numbers)


def _joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of all tables; differing categories are joined without turning rows into text."""
    filled = [table for table in tables if len(table)] or [tables[0]]
    if len(filled) == 1:
        return filled[0]
    columns = {}
    for name in filled[0]:
        parts = [table[name] for table in filled]
        if isinstance(parts[0].dtype, pd.CategoricalDtype):
            columns[name] = pd.Series(joined(parts))
        else:
            columns[name] = pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns)


def _info(traces: Sequence[Trace], warnings: Sequence[str]) -> dict[str, object]:
    """Return the merged info: the first timeline's facts, concatenated lists, and additional warnings."""
    first = next((trace for trace in traces if trace.has_timeline()), traces[0])
    info = dict(first.info)
    for trace in traces:
        for key, value in trace.info.items():
            info.setdefault(key, value)
    for key in _LISTS:
        values = [value for trace in traces for value in trace.info.get(key, [])] + list(warnings if key == "warnings" else ())
        info[key] = [value for number, value in enumerate(values) if value not in values[:number]]
    info["unavailable"] = {
        key: reason for trace in traces for key, reason in trace.info.get("unavailable", {}).items()
        if not any(key in TABLES and len(getattr(other, key)) for other in traces)
    }  # fmt: skip
    return info


def _diagnostics(traces: Sequence[Trace]) -> dict[str, int]:
    result: dict[str, int] = {}
    for trace in traces:
        for name, count in trace.diagnostics.items():
            result[name] = result.get(name, 0) + count
    return result
