"""MXNet: mx.profiler's operators, the network's graph and oneDNN's lines, turned into operators and kernels with layers.

The engine runs the operators of one type in the graph's order, so the k-th Convolution of a step is the graph's k-th
Convolution. With bulk execution off, type and position identify every operator ("graph order"). In branches, types overtake
each other, such as a pooling the convolutions of other branches. But convolutions share one work space, so each waits for its
turn, and activations and normalisations follow theirs. This holds only if the trace has a whole multiple of the graph's
operators of the type, which is checked. It is also checked that oneDNN's primitives have the shapes of their layers. A line's
time stamp places it in the operator that was running then: the profiler and oneDNN both read the wall clock, the profiler in
whole microseconds.

If several devices share a step, each has its own engine threads and runs the whole graph, so positions are counted per device.
If two devices ran operators at once, only a primitive's shape tells which operator it belongs to.

Python's forward and backward calls only queue operators. If they do so while no operator runs, the step waits for them: these
times are operators "queue forward" and "queue backward" of the loop's thread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence, mxnet_queue
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.mxnet import tables as mxnet_profiler
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.kernels.classify import operator_kind
from kernelscope.analysis.trace import intervals, text_columns
from kernelscope.analysis.trace.records import read_object

GRAPH_FILE = "graph.json"
STREAM_FILE = "stdout.raw"

# The engine's worker tells a waiting thread that it may go on. This computes nothing. It lasts until the system lets the worker
# run again after it woke the other thread, and that time is the woken thread's.
_SIGNALS = ("WaitForVar",)
# The engine's work besides operators: freeing memory, and queueing a graph's operators. It has no layer and is no kernel.
_ENGINE = ("DeleteVariable", "DeleteOperator")
# The gradient that backward starts from, filled with ones
_HEAD_GRADIENT = "SetValueOp"
# The sum of the devices' gradients in the Trainer's key-value store; no graph has such an operator
_EXCHANGING = ("ElementwiseSum",)
# MXNet's iterators over records decode batches on the engine
_LOADING = "DataLoader"
# MXNet's own operators that move values without changing them
_COPIES = frozenset(
    (
        "Flatten", "Reshape", "expand_dims", "squeeze",
        "_backward_copy", "_backward_reshape", "_backward_squeeze", "_rnn_param_concat",
    )
)  # fmt: skip
_CLOCK_ERROR_NS = 2000  # both sources print whole microseconds
# columns of a primitive and its operator by which the two are recognised as belonging together
_TELLING = ((("name", "kind", "problem"), ("layer", "phase")), (("name", "kind"), ("name",)))
# how primitives begin -> pattern of the names of operators that call them
_CALLERS = {
    "convolution": "convolution", "inner_product": "fullyconnected", "pooling": "pooling", "eltwise": "activation|relu",
    "softmax": "softmax", "logsoftmax": "softmax", "batch_normalization": "batchnorm", "layer_normalization": "layernorm",
}  # fmt: skip
_FAR_NS = 1e12  # longer than any operator
_PRIMITIVE_COLUMNS = ("name", "kind", "dtype", "layout", "algorithm", "problem", "m", "n", "k", "transpose")


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of the kernels pass in `folder`; raise EvidenceError if its trace cannot be read."""
    diagnostics: dict[str, int] = {}
    operators = _operators(folder, context, diagnostics)
    _attributed(folder, operators, diagnostics)
    operators = operators[~operators["name"].isin(_SIGNALS)].reset_index(drop=True)
    primitives, owner = _primitives(folder, context, operators, diagnostics)
    _check_shapes(primitives, context.network, diagnostics)
    kernels = pd.concat([primitives, _leaf_kernels(operators, owner)], ignore_index=True)
    operators = pd.concat([operators, _queueing(operators, context)], ignore_index=True)
    return Evidence(_inside(operators, context), _inside(kernels, context), diagnostics)


def _operators(folder: Path, context: Context, diagnostics: dict[str, int]) -> pd.DataFrame:
    """Return what the engine's threads ran, sorted by start, on our clock."""
    names = [name for name in context.report.get("operator_files", []) if "operators" in name]
    if not names:
        raise EvidenceError(f"{folder}: the pass recorded no operator trace; record the run again")
    dump = mxnet_profiler.read(folder / names[0])
    rows = dump[~dump["asynchronous"] & (dump["category"] == "operator")]
    start = context.clock.from_wall(rows["start_ns"].to_numpy(np.int64))
    table = pd.DataFrame({"thread": rows["thread"].to_numpy(), "start_ns": start, "name": rows["name"].array})
    table["place"] = rows["device"].fillna("").to_numpy()
    table["end_ns"] = start + rows["duration_ns"].to_numpy(np.int64)
    diagnostics["profiler events without a partner"] = int(dump.attrs["unpaired"])
    diagnostics["engine signals left out"] = int(table["name"].isin(_SIGNALS).sum())
    return table.sort_values(["start_ns", "end_ns"], kind="stable").reset_index(drop=True)


def _attributed(folder: Path, operators: pd.DataFrame, diagnostics: dict[str, int]) -> None:
    """Add scope, layer, phase and attribution to the operators, which are sorted by start."""
    path = folder / GRAPH_FILE
    result = read_object(path)
    if not isinstance(result.get("graphs"), list):
        raise EvidenceError(f"{path}: has no graphs; record the run again")
    if "steps" in result:
        _attribute_queued(operators, mxnet_queue.parse(result, path), diagnostics)
    else:
        _attribute(operators, _nodes(result["graphs"]), diagnostics)
    del operators["place"]


def _attribute_queued(operators: pd.DataFrame, queued: mxnet_queue.Queued, diagnostics: dict[str, int]) -> None:
    """Attribute operators by what the script queued."""
    node, either, early = mxnet_queue.match(queued, operators["name"], operators["start_ns"].to_numpy(np.int64))
    known = pd.Series(node >= 0, index=operators.index)
    for column, source in (("scope", "name"), ("layer", "layer"), ("phase", "phase")):
        values = queued.nodes[source].astype("string").reindex(node).set_axis(operators.index)
        operators[column] = values.where(known)
    operators["layer"] = operators["layer"].mask(pd.notna(either), pd.Series(either, index=operators.index, dtype="string"))
    operators["attribution"] = np.where(known & operators["layer"].notna(), "graph order", "none")
    _attribute_by_name(operators, queued.nodes, known)
    diagnostics["operators of one of several layers"] = int(pd.notna(either).sum())
    diagnostics["operators that did not wait for what they use"] = early
    lost = ~known & operators["name"].isin(queued.nodes["op"]) & operators["layer"].isna()
    diagnostics["operators out of the graph's order"] = int(lost.sum())


def _nodes(graphs: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the nodes of all graphs in execution order: op, name, layer, phase and rank among the nodes of its type."""
    rows: list[dict[str, Any]] = [node for graph in graphs for node in graph["nodes"]]
    nodes = pd.DataFrame(rows, columns=["op", "name", "layer", "phase"])
    nodes["rank"] = nodes.groupby("op").cumcount()
    return nodes


def _attribute(operators: pd.DataFrame, nodes: pd.DataFrame, diagnostics: dict[str, int]) -> None:
    """Add scope, layer, phase and attribution to the operators, which are sorted by start."""
    in_graph = nodes["op"].value_counts()
    in_trace = operators["name"].value_counts()
    common = in_trace.index.intersection(in_graph.index)
    repeats = (in_trace[common] / in_graph[common]).round(6)
    calls = float(repeats.mode().iloc[0]) if len(common) else 0.0
    whole = set(common[repeats == calls])
    size = operators["name"].map(in_graph).fillna(1).astype("int64")
    operators["rank"] = operators.groupby(["place", "name"]).cumcount() % size
    result = operators[["name", "rank"]].merge(
        nodes.rename(columns={"name": "scope", "op": "name"}), on=["name", "rank"], how="left"
    )
    ordered = operators["name"].isin(whole)
    for column in ("scope", "layer", "phase"):
        operators[column] = result[column].astype("string").where(ordered)
    operators["attribution"] = np.where(ordered & operators["layer"].notna(), "graph order", "none")
    _attribute_by_name(operators, nodes, ordered)
    del operators["rank"]
    lost = ~ordered & operators["name"].isin(nodes["op"]) & operators["layer"].isna()
    diagnostics["operators out of the graph's order"] = int(lost.sum())


def _attribute_by_name(operators: pd.DataFrame, nodes: pd.DataFrame, ordered: pd.Series[bool]) -> None:
    """Attribute operators by type where position does not decide: those of one layer only, the optimizer's, the iterators'."""
    by_type = nodes.groupby("op").agg(layers=("layer", "nunique"), layer=("layer", "first"), phase=("phase", "first"))
    single = by_type[by_type["layers"] == 1]
    rest = ~ordered & operators["name"].isin(single.index)
    head = (operators["name"] == _HEAD_GRADIENT) & bool(nodes["phase"].eq("backward").any())
    update = operators["name"].str.endswith("_update")
    loading = operators["name"] == _LOADING
    exchange = operators["name"].isin(_EXCHANGING)
    operators["layer"] = operators["layer"].mask(rest, operators["name"].map(single["layer"])).mask(head, "loss")
    phase = operators["phase"].mask(rest, operators["name"].map(single["phase"])).mask(head, "backward")
    operators["phase"] = phase.mask(update | exchange, "optimizer").mask(loading, "data").fillna("other")
    named = rest | head | update | loading | exchange
    operators["attribution"] = operators["attribution"].mask(named, "operator name").astype("string")


def _primitives(
    folder: Path, context: Context, operators: pd.DataFrame, diagnostics: dict[str, int]
) -> tuple[pd.DataFrame, npt.NDArray[np.int64]]:
    """Return oneDNN's executions as kernels, and for each the operator that it ran in (-1: none)."""
    lines = onednn_verbose.parse(stream.split(folder / STREAM_FILE).onednn)
    diagnostics["unreadable oneDNN lines"] = int(lines.attrs["parse_failures"])
    lines = lines[lines["wall_ns"].notna()].reset_index(drop=True)
    kernels = lines[list(_PRIMITIVE_COLUMNS)].copy()
    kernels["start_ns"] = context.clock.from_wall(lines["wall_ns"].to_numpy(np.int64))
    kernels["duration_ns"] = lines["duration_ns"]
    kernels["end_ns"] = kernels["start_ns"] + kernels["duration_ns"]
    running = _running(operators, ((kernels["start_ns"] + kernels["end_ns"]) // 2).to_numpy(np.int64))
    owner = np.where((running >= 0).sum(axis=0) == 1, running.max(axis=0, initial=-1), -1)
    _inherit(kernels, operators, owner)
    settled = _settled(kernels, operators, running, owner)
    _inherit(kernels, operators, settled)
    kernels["attribution"] = kernels["attribution"].mask((settled >= 0) & (owner < 0) & kernels["layer"].notna(), "shape")
    owner = settled
    kernels["library"], kernels["count"], kernels["device"] = "onednn", 1, "cpu"
    _place_by_shape(kernels, owner)
    traced = (kernels["start_ns"] >= operators["start_ns"].min()) & (kernels["start_ns"] <= operators["end_ns"].max())
    diagnostics["oneDNN lines outside of operators"] = int(((owner < 0) & traced).sum())
    diagnostics["oneDNN lines with several operators running"] = int(((running >= 0).any(axis=0) & (owner < 0)).sum())
    return kernels, owner


def _running(operators: pd.DataFrame, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the operator that each thread computes at each time (-1: none), as [thread, time]."""
    computing = np.flatnonzero(~operators["name"].isin(_ENGINE).to_numpy(bool))
    thread = operators["thread"].to_numpy(np.int64)[computing]
    start = operators["start_ns"].to_numpy(np.int64)[computing]
    end = operators["end_ns"].to_numpy(np.int64)[computing] + 1000  # stamps are cut to whole microseconds
    running = np.full((len(np.unique(thread)), len(at)), -1, dtype=np.int64)
    for row, value in enumerate(np.unique(thread)):
        result = intervals.innermost(thread, start, end, np.full(len(at), value), at)
        running[row] = np.where(result >= 0, computing[np.maximum(result, 0)] if len(computing) else -1, -1)
    return running


def _settled(
    kernels: pd.DataFrame, operators: pd.DataFrame, running: npt.NDArray[np.int64], owner: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the owners, extended to primitives that ran while several threads computed, as far as they are known.

    Candidates are operators that enclose the primitive. Preferred are those of a layer and phase known to run primitives of
    this problem, or of a type that calls this primitive; then, as for two devices running the same at once, the one that began
    or ended closest to it.
    """
    placed = np.flatnonzero(owner >= 0)
    known = [_words(kernels.iloc[placed], operators.iloc[owner[placed]], own, others) for own, others in _TELLING]
    start, end = intervals.edges(operators)
    begun, done = intervals.edges(kernels)
    settled, best = owner.copy(), np.full(len(owner), -np.inf)
    for candidate in running:
        mine = np.flatnonzero((owner < 0) & (candidate >= 0))
        at = candidate[mine]
        holds = (start[at] - _CLOCK_ERROR_NS <= begun[mine]) & (done[mine] <= end[at] + _CLOCK_ERROR_NS)
        off = np.minimum(np.abs(start[at] - begun[mine]), np.abs(end[at] - done[mine]))
        score = -off.astype(np.float64)
        for seen, (own, others) in zip(known, _TELLING, strict=True):
            score += _FAR_NS * _words(kernels.iloc[mine], operators.iloc[at], own, others).isin(seen)
        score += _FAR_NS * _calls(kernels["name"].iloc[mine], operators["name"].iloc[at])
        better = holds & (score > best[mine])
        settled[mine[better]], best[mine[better]] = at[better], score[better]
    return settled


def _calls(primitives: pd.Series, operators: pd.Series) -> npt.NDArray[np.bool_]:
    """Return which operators are of a type that calls the primitive at the same position."""
    pairs = pd.MultiIndex.from_arrays([primitives.astype("string").to_numpy(str), operators.astype("string").to_numpy(str)])
    codes, distinct = pd.factorize(pairs)
    callers = [_CALLERS.get(re.split(r"[ _]v\d|[ ]", str(name))[0]) for name, _ in distinct]
    fits = [bool(of and re.search(of, str(caller).lower())) for of, (_, caller) in zip(callers, distinct, strict=True)]
    return np.array(fits, dtype=bool)[codes]


def _words(kernels: pd.DataFrame, operators: pd.DataFrame, own: Sequence[str], others: Sequence[str]) -> pd.MultiIndex:
    """Return the texts of these columns of primitives and of their operators, which are in the same order."""
    columns = [kernels[name] for name in own] + [operators[name] for name in others]
    return pd.MultiIndex.from_arrays([column.astype("string").fillna("").to_numpy(str) for column in columns])


def _inherit(kernels: pd.DataFrame, operators: pd.DataFrame, owner: npt.NDArray[np.int64]) -> None:
    """Give each kernel the thread, layer, phase, attribution and name of the operator that it ran in."""
    known = pd.Series(owner >= 0, index=kernels.index)
    columns = {"thread": "thread", "layer": "layer", "phase": "phase", "attribution": "attribution", "operator": "name"}
    for column, source in columns.items():
        values = operators[source].iloc[np.maximum(owner, 0)].reset_index(drop=True) if len(operators) else pd.NA
        kernels[column] = pd.Series(values, index=kernels.index).where(known)
    kernels["attribution"] = kernels["attribution"].fillna("none")


def _place_by_shape(kernels: pd.DataFrame, owner: npt.NDArray[np.int64]) -> None:
    """Attribute primitives outside of operators if their problem otherwise always belongs to one layer and phase."""
    placed = kernels[(owner >= 0) & kernels["layer"].notna()]
    keys = ["name", "kind", "problem"]
    unique = placed.groupby(keys).agg(
        layer=("layer", "first"), layers=("layer", "nunique"), phase=("phase", "first"), phases=("phase", "nunique")
    )
    unique = unique[(unique["layers"] == 1) & (unique["phases"] == 1)]
    result = kernels[keys].merge(unique, left_on=keys, right_index=True, how="left")
    free = (owner < 0) & result["layer"].notna().to_numpy()
    kernels["layer"] = kernels["layer"].mask(free, result["layer"].to_numpy())
    kernels["phase"] = kernels["phase"].mask(free, result["phase"].to_numpy())
    kernels["attribution"] = kernels["attribution"].mask(free, "shape")


def _check_shapes(kernels: pd.DataFrame, network: dict[str, Any] | None, diagnostics: dict[str, int]) -> None:
    """Count primitives whose problem does not match the layer that they were assigned to."""
    wrong = 0
    for layer in network["layers"] if network else ():
        primitive, expected = _expected(layer)
        mine = kernels[(kernels["layer"] == layer["name"]) & kernels["name"].str.startswith(primitive)]
        wrong += int((~mine["problem"].str.contains(expected)).sum())
    diagnostics["primitives of another shape than their layer's"] = wrong


def _expected(layer: dict[str, Any]) -> tuple[str, str]:
    """Return the name of a layer's main primitive and a pattern of its problem; an unused name for layers without one."""
    kind, inputs, outputs = layer["type"], layer["input_shape"], layer["output_shape"]
    if kind == "convolution":
        return "convolution", rf"ic{inputs[0]}oc{outputs[0]}_ih{inputs[1]}oh{outputs[1]}kh"
    if kind == "dense":
        return "inner_product", rf"ic{inputs[-1]}oc{outputs[-1]}$"
    if kind.startswith("pooling"):
        return "pooling", rf"ic{inputs[0]}_ih{inputs[1]}oh"
    if kind == "batch_norm":
        return "batch_normalization", rf"ic{inputs[0]}ih{inputs[1]}iw"
    if kind in ("relu", "sigmoid", "tanh"):
        return "eltwise", rf"^\d+x{'x'.join(map(str, outputs))}$"
    return "(none)", ""


def _leaf_kernels(operators: pd.DataFrame, owner: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Return operators that compute themselves, without a primitive inside, as kernels."""
    holds = np.zeros(len(operators), dtype=bool)
    holds[owner[owner >= 0]] = True
    leaves = operators[~holds & ~operators["name"].isin(_ENGINE).to_numpy(bool)]
    kernels = leaves[["start_ns", "end_ns", "thread", "name", "layer", "phase", "attribution"]].reset_index(drop=True)
    given = {**dict.fromkeys(_COPIES, "copy"), **dict.fromkeys(_EXCHANGING, "communication")}
    kinds = {name: given.get(name) or operator_kind(name) for name in kernels["name"].unique()}
    library = "mshadow" if len(owner) else "mxnet"  # without any lines, oneDNN may compute inside
    return kernels.assign(
        duration_ns=kernels["end_ns"] - kernels["start_ns"], count=1, device="cpu", library=library,
        kind=kernels["name"].map(kinds), operator=kernels["name"],
    )  # fmt: skip


def _queueing(operators: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the times when forward and backward calls queued operators while none ran, as operators without a layer."""
    ranges = text_columns(context.ranges)
    calls = ranges[(ranges["category"] == "phase") & ranges["phase"].isin(["forward", "backward"])].reset_index(drop=True)
    ordered = operators.sort_values("start_ns")
    busy_until = ordered["end_ns"].cummax().to_numpy(np.int64)
    idle_from = np.concatenate([[0], busy_until])
    idle_to = np.append(ordered["start_ns"].to_numpy(np.int64), np.iinfo(np.int64).max)
    idle = idle_to > idle_from
    call, _, start, end = intervals.split_at(*intervals.edges(calls), idle_from[idle], idle_to[idle])
    pieces = calls.iloc[call][["thread", "phase", "name"]].reset_index(drop=True)
    return pieces.assign(start_ns=start, end_ns=end, name="queue " + pieces["phase"], attribution="launch range")


def _inside(table: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the rows that overlap a step."""
    steps = context.steps.sort_values("start_ns")
    if steps.empty or table.empty:
        return table.iloc[:0]
    starts, ends = intervals.edges(steps)
    before = np.searchsorted(starts, table["end_ns"].to_numpy(np.int64), side="left") - 1
    overlaps = (before >= 0) & (ends[np.maximum(before, 0)] > table["start_ns"].to_numpy(np.int64))
    return table[overlaps].reset_index(drop=True)
