"""CNTK: nodes of its profiler's timeline, on our clock, with the timed calls of MKL inside them.

One call of CNTK's library runs a whole minibatch or evaluation. The profiler's events are assigned to these calls in order, and
one offset puts each event inside its call. The graph gives a node's layer by its name. Nodes that the trainer adds itself (the
sum of the losses) belong to the layer that runs before them ("graph order").

MKL's calls carry times of our own clock, so they belong to the node that runs at that moment. If calls could not be timed,
lines of MKL_VERBOSE are assigned to nodes by the order of equal products (see cntk_stream).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.json

from kernelscope.analysis.attribution.frameworks import Context, Evidence, cntk_stream
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.cntk.profiler_tables import US, read_timeline
from kernelscope.analysis.kernels import classify
from kernelscope.analysis.trace import text_columns
from kernelscope.analysis.trace.records import read_object

Int = npt.NDArray[np.int64]

TIMELINE_FILE, GRAPH_FILE, CALLS_FILE, STREAM_FILE = "operators.cntk.json", "graph.json", "calls.mkl.jsonl", "stdout.raw"
CALL = "cntk call"  # the range that our hooks open around CNTK's library
WEIGHT_UPDATE = "Weight Update"

_OFFSETS = 201  # tried between the bounds: 10 to 100 us apart, in training sessions one step
_ROUNDS = 3  # each searches between the neighbours of the last best offset

# Bookkeeping of gradients: CNTK times it like a node, but computes nothing
_NO_KERNELS = ("Input", "Parameter", "Constant", "Combine")
# Nodes that leave all computation to MKL: the rest of their time is the host's
_ALL_MKL = ("Times", "TransposeTimes", "Convolution")
# Operators that classify does not know: these gather or pass on values
_OTHER_KINDS = {"NoOp": "copy", "PackedIndex": "copy", "ReconcileDynamicAxis": "copy", "ToSequence": "copy"}


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of one pass; raise EvidenceError if its timeline or graph cannot be read."""
    graph = read_object(folder / GRAPH_FILE)
    timeline = read_timeline(_existing(folder, TIMELINE_FILE))
    diagnostics = {"cntk_unpaired_events": int(timeline.attrs["unpaired"])}
    timed = _timed_calls(folder)
    events = _on_our_clock(timeline, graph, context, timed, diagnostics)
    operators = _operators(events, graph)
    free = operators["layer"].isna() & operators["is_node"] & (operators["phase"] != "optimizer")
    diagnostics["cntk_nodes_without_layer"] = int(free.sum())
    if timed is not None:
        calls = _owned(timed, operators, diagnostics)
    elif (folder / STREAM_FILE).is_file():
        calls = cntk_stream.place(folder / STREAM_FILE, operators, context.steps, graph, diagnostics)
    else:
        calls = cntk_stream.no_calls()
    kernels = pd.concat([_mkl_kernels(calls, graph, context), _node_kernels(operators, calls, context)], ignore_index=True)
    return Evidence(operators.drop(columns=["is_node", "holds_nodes"]), kernels, diagnostics)


def _existing(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise EvidenceError(f"{folder / name}: missing; the pass ended before CNTK's profiler wrote it, run it again")


def _on_our_clock(
    timeline: pd.DataFrame, graph: dict[str, Any], context: Context, timed: pd.DataFrame | None, diagnostics: dict[str, int]
) -> pd.DataFrame:
    """Return the events with times of our clock; events outside every step's calls are left out and counted."""
    started = int(graph["profiler"]["before_ns"])
    ranges = text_columns(context.ranges)
    calls = ranges[(ranges["name"] == CALL) & (ranges["start_ns"] >= started)].sort_values("start_ns")
    call_start, call_end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    rough = int(graph["profiler"]["after_ns"])  # the clock begins while the profiler starts
    call = _call_of_event(timeline, call_start, rough)
    inside = (call >= 0) & (call < len(call_start))
    diagnostics["cntk_events_outside_calls"] = int((~inside).sum())
    events = timeline[inside].assign(call=call[inside]).reset_index(drop=True)
    if events.empty:
        return events
    number, lowest, highest = _bounds(events, call_start, call_end)
    if lowest.max() > highest.min():  # a training session runs on briefly after it reported a minibatch's end
        number, _, highest = _bounds(events[_holds_calls(events)], call_start, call_end)
        lowest = call_start[number] - events.groupby("call")["start_ns"].min().reindex(number).to_numpy(np.int64)
    low, high = int(lowest.max()), int(highest.min())
    chosen, residual = (low + high) // 2, abs(high - low) // 2
    if timed is not None and low < high:
        chosen, residual = _offset_by_calls(events, timed, low, high)
    # one offset puts all events inside their calls; if the clocks drift apart, each call takes the nearest offset that does
    offset = np.clip(chosen, np.minimum(lowest, highest), highest)
    diagnostics["cntk_clock_residual_ns"] = residual
    shift = pd.Series(offset, index=number).reindex(events["call"]).fillna(chosen).to_numpy(np.int64)
    events["start_ns"] += shift
    events["end_ns"] += shift
    return events


def _holds_calls(events: pd.DataFrame) -> pd.Series[bool]:
    """Return which events call MKL; none of them contains another."""
    return events["node"].notna() | events["name"].str.lstrip("_").eq(WEIGHT_UPDATE)


def _bounds(events: pd.DataFrame, call_start: Int, call_end: Int) -> tuple[Int, Int, Int]:
    """Return the numbers of the calls that hold events, and the least and greatest offset that keep all their events inside."""
    per_call = events.groupby("call").agg(first=("start_ns", "min"), last=("end_ns", "max"))
    number = per_call.index.to_numpy()
    # ends are cut off to microseconds
    return number, call_start[number] - per_call["first"].to_numpy(), call_end[number] - per_call["last"].to_numpy() - US


def _offset_by_calls(events: pd.DataFrame, timed: pd.DataFrame, low: int, high: int) -> tuple[int, int]:
    """Return the offset from low to high that puts most MKL calls inside events, and half the width of equally good ones."""
    nodes = events[_holds_calls(events) & (events["end_ns"] > events["start_ns"])].sort_values("start_ns")
    start, end = nodes["start_ns"].to_numpy(), nodes["end_ns"].to_numpy() + US
    call_start, call_end = timed["start_ns"].to_numpy(), timed["end_ns"].to_numpy()
    for _ in range(_ROUNDS):
        offsets = np.unique(np.linspace(low, high, _OFFSETS).astype(np.int64))
        inside = np.empty(len(offsets), dtype=np.int64)
        for number, offset in enumerate(offsets):
            at = np.maximum(np.searchsorted(start, call_start - offset, side="right") - 1, 0)
            inside[number] = ((start[at] <= call_start - offset) & (call_end - offset <= end[at])).sum()
        best = np.flatnonzero(inside == inside.max())
        chosen = offsets[best]
        # if calls lie far apart, the best of these offsets is only near the overall best
        low, high = int(offsets[max(best[0] - 1, 0)]), int(offsets[min(best[-1] + 1, len(offsets) - 1)])
    return int(chosen[0] + chosen[-1]) // 2, int(chosen[-1] - chosen[0]) // 2


def _call_of_event(timeline: pd.DataFrame, call_start: Int, rough: int) -> Int:
    """Return the number of the call that each event belongs to, -1 for none.

    If the minibatch events match the calls, all events within one belong to its call. Evaluations run the same nodes every
    time, so each gets an equal part of the events. If neither fits, the time since the profiler's start decides.
    """
    start = timeline["start_ns"].to_numpy()
    minibatch = timeline["name"].str.lstrip("_").eq("Minibatch Iteration").to_numpy(dtype=bool)
    if len(call_start) and minibatch.sum() == len(call_start):
        return np.asarray(np.searchsorted(start[minibatch], start, side="right") - 1)
    if len(call_start) and not minibatch.any() and len(timeline) % len(call_start) == 0:
        return np.arange(len(timeline)) // (len(timeline) // len(call_start))
    return np.asarray(np.searchsorted(call_start, start + rough, side="right") - 1)


def _operators(events: pd.DataFrame, graph: dict[str, Any]) -> pd.DataFrame:
    """Return the events as operators of the Trace."""
    nodes = pd.DataFrame.from_dict(graph["nodes"], orient="index", columns=["op", "layer", "shape"])
    for group, kind in (("parameters", "Parameter"), ("inputs", "Input")):
        known = pd.DataFrame.from_dict(graph[group], orient="index", columns=["layer", "shape"])
        nodes = pd.concat([nodes, known.assign(op=kind)])
    known = nodes.reindex(events["node"])
    name = events["node"].str.replace(r"\d+$", "", regex=True).fillna(events["name"].str.lstrip("_"))
    layer = known["layer"].astype("string").set_axis(events.index)
    is_node = events["node"].notna()
    # take the layer of the nearest known node in the call's order: forward of what feeds a node, backward of what follows it
    keys = [events["call"], events["phase"]]
    updating, holds = _in_updates(events)  # a learner written as a graph has nodes of its own
    near = layer.groupby(keys).ffill().fillna(layer.groupby(keys).bfill())
    ordered = is_node & layer.isna() & near.notna() & ~updating
    attribution = pd.Series("operator name", index=events.index, dtype="string").mask(ordered, "graph order")
    layer = layer.mask(ordered, near)
    batch = graph.get("batch")
    shape = known["shape"].map(lambda sizes: _shape_text(sizes, batch)).astype("string").set_axis(events.index)
    columns: dict[str, Any] = {
        "name": known["op"].astype("string").set_axis(events.index).fillna(name),
        "scope": (layer + "/" + events["node"]).fillna(events["node"]),
        "layer": layer,
        "phase": events["phase"].mask(updating, "optimizer").fillna("other"),
        "attribution": attribution,
        "shapes": shape,
        "is_node": is_node,
        "holds_nodes": holds,
    }
    kept = ["thread", "start_ns", "end_ns"]
    return events[kept].assign(**columns).reset_index(drop=True) if len(events) else _no_operators(columns, kept)


def _in_updates(events: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    """Return which nodes run inside a weight update, and which weight updates hold such nodes."""
    is_update = events["name"].str.lstrip("_").eq(WEIGHT_UPDATE)
    updates = events[is_update].sort_values("start_ns")
    at = np.searchsorted(updates["start_ns"].to_numpy(np.int64), events["start_ns"].to_numpy(np.int64), side="right") - 1
    ends = np.append(updates["end_ns"].to_numpy(np.int64), 0)  # the last one is for -1: none
    inside = events["node"].notna() & (at >= 0) & (events["end_ns"].to_numpy(np.int64) <= ends[at] + US)
    return inside, is_update & events.index.isin(updates.index[np.unique(at[inside.to_numpy(bool)])])


def _no_operators(columns: dict[str, Any], kept: list[str]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype="object") for name in (*kept, *columns)})


def _shape_text(sizes: object, batch: int | None) -> str | None:
    """Return a node's output shape as text, batch size first."""
    if not isinstance(sizes, list):
        return None
    return "x".join(str(size) for size in ([batch] if batch else []) + sizes)


def _timed_calls(folder: Path) -> pd.DataFrame | None:
    """Return MKL's calls with their times; None if the pass has none."""
    path = next((p for p in (folder / CALLS_FILE, folder / f"{CALLS_FILE}.gz") if p.is_file()), None)
    if path is None:
        return None
    try:
        with pa.input_stream(str(path), compression="detect") as source:
            content = source.read()
        table = pyarrow.json.read_json(io.BytesIO(content)).to_pandas() if content.strip() else cntk_stream.no_calls()
    except (OSError, pa.ArrowInvalid) as error:
        message = str(error).splitlines()[0]
        raise EvidenceError(f"{path}: not a complete list of MKL's calls ({message}); record the run again") from error
    return table.rename(columns={"function": "name"})


def _computing(operators: pd.DataFrame) -> pd.Series[bool]:
    """Return which operators compute: nodes except bookkeeping, and the weight update; none of them contains another."""
    update = (operators["name"] == WEIGHT_UPDATE) & ~operators["holds_nodes"]
    return (operators["is_node"] & ~operators["name"].isin(_NO_KERNELS)) | update


def _owned(calls: pd.DataFrame, operators: pd.DataFrame, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Add the operator that ran each call (`owner` is its row, -1 for none), and its layer, phase and attribution.

    A product that a loop computes at its end, such as a recurrent weight's gradient, runs between nodes. It belongs to the
    layer of the nodes before and after it if both have the same ("graph order").
    """
    leaves = operators[_computing(operators)].sort_values("start_ns")
    middle = (calls["start_ns"].to_numpy() + calls["end_ns"].to_numpy()) // 2
    before = np.searchsorted(leaves["start_ns"].to_numpy(), middle, side="right") - 1
    running = before >= 0
    running[running] = middle[running] < leaves["end_ns"].to_numpy()[before[running]] + US
    owner = np.full(len(calls), -1, dtype=np.int64)
    owner[running] = leaves.index.to_numpy()[before[running]]
    own = operators.reindex(owner)[["layer", "phase", "name", "attribution"]].astype("string").reset_index(drop=True)
    rows = leaves[["layer", "phase"]].astype("string").reset_index(drop=True)
    earlier, later = rows.reindex(before).reset_index(drop=True), rows.reindex(before + 1).reset_index(drop=True)
    between = ((earlier == later).all(axis=1) & ~running).fillna(False).to_numpy(dtype=bool)
    diagnostics["mkl_calls_between_nodes"] = int(between.sum())
    diagnostics["mkl_calls_outside_nodes"] = int((~running & ~between).sum())
    return calls.assign(
        owner=owner,
        layer=own["layer"].mask(between, earlier["layer"]).to_numpy(),
        phase=own["phase"].mask(between, earlier["phase"]).to_numpy(),
        operator=own["name"].to_numpy(),
        attribution=own["attribution"].mask(between, "graph order").fillna("none").to_numpy(),
    )


def _mkl_kernels(calls: pd.DataFrame, graph: dict[str, Any], context: Context) -> pd.DataFrame:
    """Return MKL's calls as kernels; in the weight update, the problem also names the parameter of that size.

    A primitive whose creation was not recorded, such as a normalization, has its node's kind.
    """
    optimizer = calls["phase"] == "optimizer"
    unknown = (calls["kind"] == classify.UNKNOWN) & calls["operator"].notna()
    nodes = calls[["operator", "phase"]].astype("string").rename(columns={"operator": "name"})
    calls = calls.assign(kind=calls["kind"].mask(unknown, _kinds(nodes, context)) if unknown.any() else calls["kind"])
    return calls.assign(
        library="mkl",
        device="cpu",
        count=1,
        duration_ns=calls["end_ns"] - calls["start_ns"],
        kind=calls["kind"].mask(optimizer, "optimizer"),
        problem=calls["problem"].mask(optimizer, _with_parameter(calls["problem"], graph)),
    ).drop(columns=["owner"])


def _with_parameter(problem: pd.Series, graph: dict[str, Any]) -> pd.Series:
    """Return the problems "n840" with the only parameter that has that many elements: "n840 fc3.W"."""
    rows = [(f"n{int(np.prod(p['shape']))}", f"{p['layer']}.{p['name']}") for p in graph["parameters"].values()]
    sizes = pd.DataFrame(rows, columns=["problem", "parameter"]).drop_duplicates("problem", keep=False)
    names = problem.map(sizes.set_index("problem")["parameter"]).astype("string")
    return (problem.astype("string") + " " + names).fillna(problem)


def _node_kernels(operators: pd.DataFrame, calls: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the work that nodes compute themselves as kernels.

    For a node without calls that is all of its time, otherwise its longest time between calls. A weight update without axpy
    calls computes a parameter between every two calls.
    """
    candidates = operators[_computing(operators)]
    owned = calls[calls["owner"] >= 0]
    made_of_axpy = owned.loc[owned["name"].str.contains("axpy"), "owner"]
    update = candidates["name"] == WEIGHT_UPDATE
    all_mkl = candidates["name"].isin(_ALL_MKL) & candidates.index.isin(owned["owner"])
    candidates = candidates[~all_mkl & ~(update & candidates.index.isin(made_of_axpy))]
    free = _free_times(candidates, owned)
    longest = free.groupby("owner")["duration_ns"].transform("max") == free["duration_ns"]
    first = ~free["owner"].where(longest).duplicated() & longest
    chosen = free[(first | free["owner"].isin(candidates.index[candidates["name"] == WEIGHT_UPDATE])) & (free["duration_ns"] > 0)]
    nodes = candidates.loc[chosen["owner"]].reset_index(drop=True)
    kind = _kinds(nodes, context)
    both = (nodes["name"] == "Convolution") & (nodes["phase"] == "backward")
    algorithm = pd.Series(pd.NA, index=nodes.index, dtype="string").mask(both, "data and weight gradient together")
    return nodes[["thread", "name", "layer", "phase", "attribution"]].assign(
        start_ns=chosen["start_ns"].to_numpy(),
        end_ns=chosen["end_ns"].to_numpy(),
        duration_ns=chosen["duration_ns"].to_numpy(),
        count=1,
        device="cpu",
        library="cntk",
        kind=kind,
        operator=nodes["name"],
        dtype="f32",
        problem=nodes["shapes"],
        algorithm=algorithm,
    )


def _kinds(nodes: pd.DataFrame, context: Context) -> pd.Series:
    """Return the kind of work that each node does."""
    kind = classify.kinds(nodes["name"], nodes["phase"])
    kind = kind.mask(kind == classify.UNKNOWN, nodes["name"].map(_OTHER_KINDS).astype("string")).fillna(classify.UNKNOWN)
    dropout = nodes["name"] == "Dropout"  # draws a mask forward in training, multiplies by it backward, else passes values on
    kind = kind.mask(dropout & (nodes["phase"] == "backward"), "elementwise")
    if context.mode == "infer":
        kind = kind.mask(dropout, "copy")
    return kind.mask(nodes["name"] == WEIGHT_UPDATE, "optimizer")


def _free_times(nodes: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """Return owner, start_ns, end_ns and duration_ns of each node's time in which none of its calls runs."""
    mine = calls[calls["owner"].isin(nodes.index)]
    owner = np.concatenate([nodes.index.to_numpy(), mine["owner"].to_numpy()]).astype(np.int64)
    # free times begin with the node or at the end of a call; they last until the next call's start or the node's end
    begin = np.concatenate([nodes["start_ns"].to_numpy(), mine["end_ns"].to_numpy()]).astype(np.int64)
    until = np.concatenate([nodes["end_ns"].to_numpy(), mine["start_ns"].to_numpy()]).astype(np.int64)
    begin, until = begin[np.lexsort((begin, owner))], until[np.lexsort((until, owner))]
    end = np.maximum(until, begin)
    return pd.DataFrame({"owner": np.sort(owner), "start_ns": begin, "end_ns": end, "duration_ns": end - begin})
