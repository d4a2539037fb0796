"""Frames folded into trees, as in flame graphs: how work is nested, and how long all of it took together.

There are four views of the measured steps, or of the whole capture if it has no steps:

- cells: the partition of the mean step (see accounting.partition) by phase, layer or range, operator, and kernel or host cause;
- lines: for a profiled program, the steps' wall time by the function and line that the loop's thread was in, and the work there;
- host: a tree per thread of nested steps, ranges, operators, calls and CPU kernels;
- device: work on GPUs below the host's frames that were open at its launch.

Method: intervals of a thread nest, so that each has one path of frames; equal paths are one node (flame graphs: Gregg, The Flame
Graph, CACM 59(6), 2016). All numbers are integer ns, and a node's children and its own time add up to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.breakdowns import kind_labels
from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.attribution import host_lines
from kernelscope.analysis.attribution.launches import without_details
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, intervals
from kernelscope.analysis.trace.stacks import Stacks

SCHEMA = "kernelscope/flame/1"
MOST = 3000  # nodes of a tree; the smallest ones are merged
THREADS = 8  # host threads that get a tree, the busiest ones
FRAMES = ("whole", "step", "phase", "layer", "range", "function", "line", "operator", "call", "kernel", "cause", "rest")
UNKNOWN_LAUNCH = "(launch not recorded)"

Int = npt.NDArray[np.int64]


def flame(trace: Trace, most: int = MOST) -> dict[str, Any]:
    """Return the trees of a trace's measured steps as plain data.

    steps: their number, 0 for a whole capture. names: texts. frames: FRAMES. trees, in order of display, each: key, title, what
    (a sentence on its whole), per (the number of steps to divide by for a mean step), and its nodes in depth-first order as
    columns: name (of names), frame (of frames), depth (0 is the whole), total_ns, count (intervals or cells; null for merged
    nodes). Trees of more than `most` nodes have their smallest ones merged in frames "rest". left_out: what has no tree, with the
    reason. Raises EvidenceError if there is nothing on a timeline.
    """
    names = _FrameNames()
    cells, steps = _cells(trace, names)
    result, left_out = [cells], []
    result += _lines(trace, names)
    host = _host_frames(trace, names)
    threads, idle = _threads(trace, host, steps)
    result += threads[:THREADS]
    if len(threads) > THREADS:
        left_out.append(f"threads that did less: {len(threads) - THREADS}")
    if idle:
        left_out.append(f"threads that only called the operating system: {idle}")
    if not threads:
        left_out.append("host threads: the capture holds no ranges, operators or calls")
    device = _device(trace, host, names, steps)
    result += [device] if device else []
    trees = [_as_dict(tree, most, names) for tree in result]
    texts = names.only_used(trees)
    return {"schema": SCHEMA, "steps": steps, "names": texts, "frames": list(FRAMES), "trees": trees, "left_out": left_out}


class _FrameNames:
    """Texts of frames, numbered; a code stands for a text and the kind of its frame."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def code(self, frame: str, text: str) -> int:
        """Return the code of one frame."""
        text = without_details(text) if frame == "range" else text
        return self._numbers.setdefault(text, len(self._numbers)) * len(FRAMES) + FRAMES.index(frame)

    def codes(self, frame: str, values: pd.Series) -> Int:
        """Return the codes of a column of texts, -1 for null."""
        places, texts = pd.factorize(values, use_na_sentinel=True)
        codes = np.array([*(self.code(frame, str(text)) for text in texts), -1], dtype=np.int64)
        return np.asarray(codes[places])

    def only_used(self, trees: Sequence[dict[str, Any]]) -> list[str]:
        """Return the texts that the trees use, and set the trees' names to the places in that list."""
        texts = list(self._numbers)
        used = sorted({number for tree in trees for number in tree["name"]})
        place = {number: at for at, number in enumerate(used)}
        for tree in trees:
            tree["name"] = [place[number] for number in tree["name"]]
        return [texts[number] for number in used]


class _Nodes:
    """The nodes of a tree under construction: each one's parent (-1 for the top ones) and code."""

    def __init__(self) -> None:
        self.parent = self.code = np.empty(0, dtype=np.int64)

    def under(self, parent: Int, code: Int) -> Int:
        """Return the node of each frame below its parent, made if new; the parent itself if the code is -1."""
        node = parent.copy()
        rows = np.flatnonzero(code >= 0)
        codes = int(code.max(initial=0)) + 1
        _, first, number = np.unique((parent[rows] + 1) * codes + code[rows], return_index=True, return_inverse=True)
        node[rows] = len(self.parent) + number
        self.parent = np.concatenate([self.parent, parent[rows][first]])
        self.code = np.concatenate([self.code, code[rows][first]])
        return node


@dataclass
class _Tree:
    """A complete tree: own_ns and count by node; the rest as in `flame`."""

    key: str
    title: str
    what: str
    per: int
    nodes: _Nodes
    own_ns: Int
    count: Int


def _added(nodes: _Nodes, node: Int, values: Int) -> Int:
    """Return the integer sum of the values of each node."""
    sums = np.zeros(len(nodes.parent), dtype=np.int64)
    np.add.at(sums, node, values)
    return sums


# --- the partition's cells ------------------------------------------------------------------------------------------------


def _cells(trace: Trace, names: _FrameNames) -> tuple[_Tree, int]:
    """Return the tree of the mean step's cells, and the number of steps."""
    result = partition(trace)
    cells = result.cells
    if not result.step_ns:
        raise EvidenceError("the capture holds no time: nothing on its timeline has a duration")
    owner = ("layer", cells["layer"]) if cells["layer"].notna().any() else ("range", cells["range"])
    host = cells["cause"].notna()
    levels = [("phase", cells["phase"]), owner, ("operator", cells["operator"]), ("kernel", cells["kernel"])]
    levels.append(("cause", kind_labels(cells).where(host)))
    nodes, node = _Nodes(), np.full(len(cells), -1, dtype=np.int64)
    for frame, values in levels:
        node = nodes.under(node, names.codes(frame, values))
    steps = len(result.steps)
    what = "the mean step" if steps else "the whole capture"
    own, count = (cells[name].to_numpy(np.int64) for name in ("time_ns", "count"))
    tree = _Tree(
        "cells", "phase, layer, operator, kernel" if owner[0] == "layer" else "range, operator, kernel",
        what, 1, nodes, _added(nodes, node, own), _added(nodes, node, count),
    )  # fmt: skip
    return tree, steps


# --- the host's threads -----------------------------------------------------------------------------------------------------


@dataclass
class _Frames:
    """Host intervals of all threads: steps first, so that of two equal intervals the outer one comes first."""

    thread: Int
    start: Int
    end: Int
    code: Int

    def __getitem__(self, rows: npt.NDArray[Any]) -> _Frames:
        return _Frames(self.thread[rows], self.start[rows], self.end[rows], self.code[rows])


_Part = tuple[pd.DataFrame, Int]  # rows with thread, start_ns and end_ns, and the code of each


def _host_frames(trace: Trace, names: _FrameNames) -> _Frames:
    """Return everything that nests on a thread of the host."""
    ranges = trace.ranges[(trace.ranges["nested"] & ~trace.ranges["category"].isin(["step", "mark"])).to_numpy()]
    kinds = {"phase": "phase", "data": "phase", "sync": "phase", "layer": "layer"}
    parts = [
        (rows, names.codes(kinds.get(str(category), "range"), rows["name"]))
        for category, rows in ranges.groupby("category", observed=True, sort=False)
    ]
    return _merged([_steps(trace, names), *parts, *_work(trace, names)])


def _steps(trace: Trace, names: _FrameNames) -> _Part:
    steps = _measured(trace)
    return steps, np.full(len(steps), names.code("step", "step"), dtype=np.int64)


def _work(trace: Trace, names: _FrameNames) -> list[_Part]:
    """Return operators, calls and kernels of CPU threads."""
    operators = trace.operators[trace.operators["thread"].notna()]
    kernels = _on_threads(trace, operators)
    tables = {"operator": operators, "call": trace.calls, "kernel": kernels}
    return [(rows, names.codes(frame, rows["name"])) for frame, rows in tables.items()]


def _merged(parts: Sequence[_Part]) -> _Frames:
    thread, start, end = (
        np.concatenate([rows[name].to_numpy(np.int64) for rows, _ in parts]) for name in ("thread", "start_ns", "end_ns")
    )
    return _Frames(thread, start, end, np.concatenate([codes for _, codes in parts]))


def _lines(trace: Trace, names: _FrameNames) -> list[_Tree]:
    """Return the tree of the loop's thread by the lines or functions that it was in; none if they were not recorded."""
    lines, steps = trace.host_lines, _measured(trace)
    if lines.empty or (steps.empty and len(trace.steps)):
        return []
    with_text = lines[host_lines.has_text(lines)]
    function = lines["function"].astype("string") + " (" + lines["file"].astype("string") + ")"
    text = with_text["line"].astype("string") + ": " + with_text["text"].astype("string")
    parts = [(lines, names.codes("function", function)), (with_text, names.codes("line", text))]
    host = _merged([_steps(trace, names), *parts, *_work(trace, names)])
    host = _within(host, steps) if len(steps) else host
    mine = host[np.isin(host.thread, (steps if len(steps) else lines)["thread"].to_numpy(np.int64))]
    unit, (_, whole) = "line" if len(with_text) else "function", _titles(loop=bool(len(steps)), number=1)
    what, added = f"{whole}, by the {unit} that the host was in", _added_up(mine)
    return [_Tree("lines", f"host: {unit}s of the program", what, max(len(steps), 1), *added)]


def _measured(trace: Trace) -> pd.DataFrame:
    return trace.steps[~trace.steps["warmup"]].sort_values("start_ns")


def _on_threads(trace: Trace, operators: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels of CPU threads, without those that are the operator itself, which is already a frame."""
    kernels = trace.kernels
    kernels = kernels[(kernels["device"] == "cpu") & kernels["thread"].notna() & kernels["start_ns"].notna()]
    keys = ["thread", "start_ns", "end_ns"]
    same = pd.MultiIndex.from_frame(kernels[keys].astype("int64")).isin(pd.MultiIndex.from_frame(operators[keys].astype("int64")))
    return kernels[~same]


def _threads(trace: Trace, host: _Frames, steps: int) -> tuple[list[_Tree], int]:
    """Return a tree per thread, the loop's first, then the busiest first, and the number of threads without one.

    Threads that only call the operating system mostly wait there and have no tree.
    """
    measured = _measured(trace)
    loops = set(measured["thread"].to_list())
    host = _within(host, measured) if steps else host
    known = np.unique(host.thread)
    working = np.intersect1d(known, _working(trace))
    result = []
    for thread in working.tolist():
        nodes, own, counts = _added_up(host[host.thread == thread])
        result.append((thread not in loops, -int(own.sum()), thread, (nodes, own, counts)))
    result = sorted((entry for entry in result if entry[1]), key=lambda entry: entry[:3])
    trees = []
    for number, (other, _, _, (nodes, own, counts)) in enumerate(result, 1):
        title, what = _titles(loop=not other, number=number)
        trees.append(_Tree(f"host-{number}", title, what, max(steps, 1), nodes, own, counts))
    return trees, len(known) - len(working)


def _within(frames: _Frames, steps: pd.DataFrame) -> _Frames:
    """Return the pieces of the intervals inside steps."""
    index, _, start, end = intervals.split_at(frames.start, frames.end, *(steps[name].to_numpy(np.int64) for name in _TIMES))
    return _Frames(frames.thread[index], start, end, frames.code[index])


def _added_up(frames: _Frames) -> tuple[_Nodes, Int, Int]:
    """Return the tree of these intervals, with the own ns and the count of each node."""
    nodes, node, cut = _folded(frames)
    row, start, end = intervals.leaves(frames.thread, frames.start, cut)
    return nodes, _added(nodes, node[row], end - start), _added(nodes, node, np.ones(len(node), dtype=np.int64))


def _working(trace: Trace) -> Int:
    """Return the threads with more than calls of the operating system."""
    calls = trace.calls[(trace.calls["api"] != "os").to_numpy()]
    tables = (trace.steps, trace.ranges, trace.operators, calls, trace.kernels[(trace.kernels["device"] == "cpu").to_numpy()])
    return np.concatenate([table["thread"].dropna().to_numpy(np.int64) for table in tables])


_TIMES = ("start_ns", "end_ns")


def _titles(loop: bool, number: int) -> tuple[str, str]:
    """Return the title of a thread's tree, and what its whole is."""
    if loop:
        return "host: the loop's thread", "the steps' wall time"
    return f"host: thread {number}", "the time in which something was recorded on the thread"


def _folded(frames: _Frames) -> tuple[_Nodes, Int, Int]:
    """Return the tree of these intervals, the node of each, and each one's end, cut if necessary.

    An interval that outlasts the one in which it began (clocks of two sources, ranges that hooks open and close) ends with it.
    """
    above = intervals.parents(frames.thread, frames.start, frames.end)
    depth = intervals.depths(above)
    nodes, node, end = _Nodes(), np.full(len(above), -1, dtype=np.int64), frames.end.copy()
    for level in range(int(depth.max(initial=-1)) + 1):
        rows = np.flatnonzero(depth == level)
        if level:
            end[rows] = np.minimum(end[rows], end[above[rows]])
        node[rows] = nodes.under(node[above[rows]] if level else above[rows], frames.code[rows])
    return nodes, node, end


# --- devices ----------------------------------------------------------------------------------------------------------------


def _device(trace: Trace, host: _Frames, names: _FrameNames, steps: int) -> _Tree | None:
    """Return the tree of kernels that ran on GPUs in the measured steps; None without any."""
    kernels = trace.kernels
    kernels = kernels[(kernels["device"] != "cpu").fillna(True).to_numpy(bool) & kernels["start_ns"].notna().to_numpy()]
    if kernels.empty:
        return None
    row, start, end = np.arange(len(kernels)), *(kernels[name].to_numpy(np.int64) for name in _TIMES)
    if steps:
        measured = _measured(trace)
        row, _, start, end = intervals.split_at(start, end, *(measured[name].to_numpy(np.int64) for name in _TIMES))
    kernels = kernels.iloc[row]
    nodes, node, cut = _folded(host)
    launched = kernels["launch_ns"].notna() & kernels["launch_thread"].notna()
    thread, at = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("launch_thread", "launch_ns"))
    around = Stacks(host.thread, host.start, cut).innermost(thread, at)
    above = np.where(launched.to_numpy() & (around >= 0), node[around] if len(node) else -1, -1)
    unknown = np.full(len(kernels), names.code("range", UNKNOWN_LAUNCH), dtype=np.int64)
    above = nodes.under(above, np.where(launched, -1, unknown))
    leaf = nodes.under(above, names.codes("kernel", kernels["name"]))
    own, count = _added(nodes, leaf, end - start), _added(nodes, leaf, np.ones(len(leaf), dtype=np.int64))
    what = "the durations of all kernels on devices, added up: kernels that ran at once each count"
    return _Tree("device", "device: kernels by where they were launched", what, max(steps, 1), nodes, own, count)


# --- the result -------------------------------------------------------------------------------------------------------------


def _as_dict(tree: _Tree, most: int, names: _FrameNames) -> dict[str, Any]:
    """Return a tree as plain data: depth first, largest child first, with the smallest nodes merged."""
    parent, totals = tree.nodes.parent, tree.own_ns.copy()
    for node in range(len(parent) - 1, -1, -1):  # a node comes after its parent
        if parent[node] >= 0:
            totals[parent[node]] += totals[node]
    kept = totals > 0
    if kept.sum() > most:
        kept &= totals >= np.sort(totals)[-most]
    rows = _depth_first(parent, totals, kept, tree.nodes.code, tree.count, names)
    whole = (names.code("whole", "all"), 0, int(tree.own_ns.sum()), None)
    columns = list(zip(*[whole, *rows], strict=True))
    codes = np.asarray(columns[0])
    return {
        "key": tree.key, "title": tree.title, "what": tree.what, "per": tree.per, "name": (codes // len(FRAMES)).tolist(),
        "frame": (codes % len(FRAMES)).tolist(), "depth": list(columns[1]), "total_ns": list(columns[2]),
        "count": list(columns[3]),
    }  # fmt: skip


_Row = tuple[int, int, int, int | None]  # code, depth, total_ns, count


def _depth_first(
    parent: Int, totals: Int, kept: npt.NDArray[np.bool_], code: Int, count: Int, names: _FrameNames
) -> Iterable[_Row]:
    """Return the rows of all kept nodes; after the children of each, one row for those that were not kept."""
    children: dict[int, list[int]] = {}
    rest: dict[int, list[int]] = {}
    for node in np.flatnonzero(totals > 0)[np.argsort(-totals[totals > 0], kind="stable")].tolist():
        (children if kept[node] else rest).setdefault(int(parent[node]), []).append(node)
    rows: list[_Row] = []
    todo: list[tuple[int, int]] = [(-1, 0)]
    while todo:
        node, depth = todo.pop()
        if node == -1 or kept[node]:
            if node >= 0:
                rows.append((int(code[node]), depth, int(totals[node]), int(count[node])))
            todo += _below(node, depth + 1, children, rest)
        else:
            rows.append(_small(rest[int(parent[node])], depth, totals, names))
    return rows


def _below(node: int, depth: int, children: dict[int, list[int]], rest: dict[int, list[int]]) -> list[tuple[int, int]]:
    """Return the nodes below a node, last first; one of the merged ones stands for all."""
    result = [(child, depth) for child in children.get(node, [])]
    result += [(child, depth) for child in rest.get(node, [])[:1]]
    return result[::-1]


def _small(small: Sequence[int], depth: int, totals: Int, names: _FrameNames) -> _Row:
    what = "1 smaller frame" if len(small) == 1 else f"{len(small)} smaller frames"
    return names.code("rest", f"({what})"), depth, int(sum(int(totals[node]) for node in small)), None
