"""Host lines on a timeline: the line that the host was in at each instant of a kernels pass, and the work launched from it.

Per line and step:

- host: how long the host was in the line itself, without other watched functions that it called. Adds up to the step.
- device: how long kernels, graphs or copies launched from the line ran; shared equally where several ran at once.
- idle: how long no such work ran while the host was in the line. Device and idle add up to the step.

GPU work belongs to the line that the loop's thread was in when the launch began, even if another thread made the call
(autograd's, for a line that waits in backward). Captures of torch.profiler record functions but not lines: see
formats.kineto.functions. CPU work belongs to the line during which it runs. With frameworks that compute asynchronously on the
CPU, the line that asked for the work is unknown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.lines import extents
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.trace import Trace, conform, intervals

FILE = "host_lines.json"
ENTERED, LEFT, GOES_ON = 0, -1, -1  # as tracer.inside.profiling.line_events writes them
KEYS = ["file", "function", "line", "text"]
OUTSIDE = "(outside the watched functions)"
UNKNOWN = "(launched by no known line)"
_BEHIND = ("mxnet", "jax", "keras-jax")  # frameworks whose CPU work runs while the host is elsewhere

Int = npt.NDArray[np.int64]


def timeline(folder: Path) -> pd.DataFrame:
    """Return the table `host_lines` of analysis.trace from a pass's folder, as disjoint pieces; empty if it has none.

    Raises EvidenceError when the file is not what the kernels pass writes.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return conform("host_lines", pd.DataFrame())
    try:
        record = json_text.parsed(path.read_text(encoding="utf8"))
        places = [_places(function) for function in record["functions"]]
        tables = [_pieces(session, places) for session in record["sessions"]]
        thread = int(record["thread"] or 0)
    except (OSError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise EvidenceError(f"{path}: cannot be read as lines of a kernels pass: {error}; record the run again") from error
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    return conform("host_lines", table.assign(thread=thread))


def _places(function: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    """Return the statement that owns each line of a function: file, function, line, last_line, text. Line 0 has its def's."""
    source, first = list(map(str, function["source"])), int(function["first_line"])
    name = (str(function["file"]), str(function["function"]))
    result = {line: (*name, *place) for line, place in extents(source, first).items()}
    result[0] = result.get(first, (*name, first, None, ""))
    return result


def _pieces(session: dict[str, Any], places: list[dict[int, tuple[Any, ...]]]) -> pd.DataFrame:
    """Return the innermost lines of one session as pieces."""
    time, function, line = (np.asarray(session[name], dtype=np.int64) for name in ("time_ns", "function", "line"))
    if not len(time) == len(function) == len(line):
        raise ValueError("columns of unequal length")
    if len(function) and not 0 <= function.min() <= function.max() < len(places):
        raise ValueError("an unknown function")
    entered, left = line == ENTERED, line == LEFT
    depth = np.cumsum(entered) - (np.cumsum(left) - left)
    order = np.lexsort((np.arange(len(time)), depth))
    end = np.full(len(time), int(session["end_ns"]), dtype=np.int64)
    same = depth[order][1:] == depth[order][:-1]
    end[order[:-1][same]] = time[order[1:][same]]
    line = np.where(line < LEFT, GOES_ON - line, line)
    kept = np.flatnonzero(~left & (end > time))
    row, start, stop = intervals.leaves(np.zeros(len(kept), dtype=np.int64), time[kept], end[kept])
    number, of = np.unique(np.stack([function[kept], line[kept]]), axis=1, return_inverse=True)
    known = [
        places[which].get(at, (*places[which][0][:2], at, None, ""))
        for which, at in zip(*(part.tolist() for part in number), strict=True)
    ]
    columns = dict(zip(("file", "function", "line", "last_line", "text"), zip(*known, strict=True), strict=True)) if known else {}
    table = pd.DataFrame(columns).take(np.asarray(of).reshape(-1)[row]).reset_index(drop=True)
    return table.assign(start_ns=start, end_ns=stop).sort_values("start_ns", ignore_index=True)


def has_text(lines: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return for which pieces the statement is known."""
    return ((lines["text"] != "") & lines["text"].notna()).to_numpy(bool)


def shown(lines: pd.DataFrame) -> pd.Series:
    """Return the labels of pieces: their statements, or their functions where the statement is unknown."""
    text, function = lines["text"].astype("string"), lines["function"].astype("string")
    return text.where(has_text(lines), function)


def by_line(trace: Trace, windows: tuple[Int, Int], step_ns: int) -> pd.DataFrame:
    """Return one row for each line: KEYS, host_ns, device_ns and idle_ns per step; two more rows hold time without a line.

    windows: starts and ends of the measured steps, in order. step_ns: the mean step; host_ns adds up to it, and so do device_ns
    and idle_ns together. Rows are sorted by time, longest first.
    """
    lines, code, (begun, over) = numbered(trace)
    outside, unknown = len(lines), len(lines) + 1
    start, end, launched = _device_work(trace)
    place = intervals.containing(launched, begun, over)
    owner = np.where(place >= 0, code[np.maximum(place, 0)], np.where(launched < 0, unknown, outside))
    index, _, first, last = intervals.split_at(start, end, *windows)
    free = intervals.uncovered(first, last, *windows)
    count = len(lines) + 2
    device = np.bincount(owner[index], weights=intervals.shares(first, last), minlength=count)
    idle, host = (_in_windows(code, begun, over, gaps, count, outside) for gaps in (free, windows))
    steps = max(len(windows[0]), 1)
    both = intervals.apportion(np.concatenate([device, idle]) / steps, step_ns)
    rest = pd.DataFrame({"function": [OUTSIDE, UNKNOWN]}).reindex(columns=KEYS)
    table = pd.concat([lines, rest.astype({"function": "object"})], ignore_index=True)
    table = table.astype({"line": "Int64"}).assign(host_ns=intervals.apportion(host / steps, step_ns))
    return _in_order(table.assign(device_ns=both[:count], idle_ns=both[count:]), outside)


def numbered(trace: Trace) -> tuple[pd.DataFrame, Int, tuple[Int, Int]]:
    """Return the distinct lines (KEYS), the line of each piece of the timeline, and the pieces' starts and ends, in order."""
    pieces = trace.host_lines.sort_values("start_ns", ignore_index=True)
    keyed = pieces[KEYS].astype({"file": "object", "function": "object", "text": "object"})
    code = np.asarray(keyed.groupby(KEYS, dropna=False, sort=False).ngroup(), dtype=np.int64)
    return keyed.drop_duplicates().reset_index(drop=True), code, intervals.edges(pieces)


def computes_behind(trace: Trace) -> bool:
    """Return whether the framework computes on the CPU while the host is elsewhere, so that the asking line is unknown."""
    return str(trace.info.get("framework")) in _BEHIND


def _in_windows(code: Int, start: Int, end: Int, windows: tuple[Int, Int], count: int, outside: int) -> npt.NDArray[np.float64]:
    """Return how long the host was in each line within windows; the rest of the windows was outside of all lines."""
    index, _, first, last = intervals.split_at(start, end, *windows)
    spent = np.bincount(code[index], weights=(last - first).astype(float), minlength=count).astype(np.float64)
    spent[outside] += float((windows[1] - windows[0]).sum()) - spent.sum()
    return spent


def _device_work(trace: Trace) -> tuple[Int, Int, Int]:
    """Return start, end and launch of all device work with times; launch is -1 if unknown."""
    behind = computes_behind(trace)
    parts = []
    for table in (trace.kernels, trace.graphs, trace.copies):
        timed = table[table["start_ns"].notna() & table["end_ns"].notna()]
        launch = timed["launch_ns"]
        if not behind:
            launch = launch.mask(launch.isna() & (timed["device"].astype("string") == "cpu").fillna(False), timed["start_ns"])
        parts.append([column.to_numpy(np.int64, na_value=-1) for column in (timed["start_ns"], timed["end_ns"], launch)])
    start, end, launched = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return start[order], end[order], launched[order]


def _in_order(table: pd.DataFrame, outside: int) -> pd.DataFrame:
    """Return the lines that took time, longest first; rows without a line come last."""
    time = table["device_ns"] + table["idle_ns"]
    table = table[(time > 0) | (table["host_ns"] > 0)]
    order = pd.DataFrame(
        {"last": table.index >= outside, "time": -time.loc[table.index], "function": table["function"], "line": table["line"]}
    )
    return table.loc[order.sort_values(["last", "time", "function", "line"], kind="stable").index].reset_index(drop=True)
