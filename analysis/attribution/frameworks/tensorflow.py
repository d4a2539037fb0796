"""TensorFlow: operators of the profiler's trace, with layers from their names, and oneDNN's lines placed in them.

TensorFlow's threads run no Python, so none of our ranges encloses an operator there. An operator's full name gives its layer,
because it holds the scopes in which it was made: `gradient_tape/lenet_1/conv2_1/convolution/Conv2DBackpropInput`.

Besides the graph's operators, `operators` holds what the host did to run them: events of the eager runtime and of the executor
(tf.constant, ExecutorState::Process, ExecutorDoneCallback, ...). These have no scope and no layer; their phase is "data" inside
a data range, and "other" (dispatch) elsewhere. Events of a thread that waits while operators run on other threads
(TFE_Py_ExecuteCancelable, EagerExecute, ...) are left out: they would claim part of the operators' time, and the "call" range
on the same thread covers the rest. Waits for a batch stay. The executor times only operators that it counts as expensive; cheap
ones are part of ExecutorState::Process.

Eager operators run one by one on the loop's thread: each is an event of the eager runtime, and the kernel is the event inside
it. They belong to the range that the loop is in. Host work around them within a layer's range also belongs to the layer.

Everything on the threads of tf.data prepares batches, including Python called there (tf.py_function): its phase is "data", and
it has no layer. Operators that call Python are not kernels, because the called code is not TensorFlow's.

A oneDNN line gets its layer from the operator that ran at its time and whose type can have called it ("operator name", as the
layer is in that operator's name). If two such operators ran at once, the problem's shape decides ("shape"). If it fits both or
neither, only the time does ("time").
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence, jax, tensorflow_xla
from kernelscope.analysis.attribution.frameworks.tensorflow_names import (
    DATA,
    GraphNames,
    RecordedNames,
    Resolved,
    fits_shape,
    names_of,
)
from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.onednn import verbose_tables as onednn_verbose
from kernelscope.analysis.formats.xplane import tables as xplane
from kernelscope.analysis.kernels import classify
from kernelscope.analysis.trace import conform, empty, intervals, thread_names

TRACE_FILE = "operators.xplane.pb"
STREAM_FILE = "stdout.raw"
HOST_PLANE = "/host:CPU"

_OPERATOR = r"^(?P<scope>[^:]+):(?P<type>[A-Za-z_]\w*)$"
_DATA_THREADS = "tf_data"  # prefix of the names of threads that run an input pipeline of tf.data
_GETTING = "IteratorGetNextOp::DoCompute"  # a graph waits in it for its batch, on a thread of tf.data
_EAGER_EVENTS = ("TFE_Py_ExecuteCancelable", "EagerExecute", "EagerLocalExecute")
_EAGER_OPERATOR = "EagerLocalExecute: "  # followed by an operator's type, or by a function's name
_FUNCTION = re.compile(r"^__(inference|forward|backward)_")
_UPDATING = r"^(Assign(Sub|Add)Variable|(Resource)?(Sparse)?Apply[A-Z])"  # outside all ranges: a loop's own optimizer
_EAGER_KERNEL = "KernelAndDeviceFunc::Run"

# operators for control and data flow: they compute nothing themselves, whatever runs in their time
_STEERING = re.compile(
    r"^(NoOp|_?Arg|_?Retval|_?(Host)?(Send|Recv)|Identity(N)?|StopGradient|Const|Placeholder|(Stateless|Stateful)?PartitionedCall"
    r"|(Eager)?PyFunc(Stateless)?|Optional(HasValue|GetValue|FromValue|None)|(Stateless)?(While|If|Case)|(Ref)?(Switch|Merge|Enter|Exit|NextIteration)|LoopCond|SymbolicGradient|RemoteCall)$"
)

# (primitive, propagation) of a oneDNN line -> types of operators that call it; all oneDNN operators call reorders
_CALLERS = (
    (r"^convolution backward_data", r"Conv\w*BackpropInput"),
    (r"^convolution backward_weights", r"Conv\w*BackpropFilter"),
    (r"^convolution forward", r"Conv(?!\w*Backprop)"),
    (r"^pooling backward", r"Pool\w*Grad"),
    (r"^pooling forward", r"Pool(?!\w*Grad)"),
    (r"^(inner_product|gemm|matmul)", r"MatMul|Einsum|LSTM|RNN|GRU|Conv"),
    (r"^(reorder|concat)", r"^_|Transpose|Concat"),
    (r"^(softmax|logsoftmax)", r"Softmax"),
    (r"^\w*normalization", r"Norm"),
    (r"^eltwise", r"Relu|Elu|Tanh|Sigmoid|Gelu|Swish|Mish"),
    (r"^(binary|sum)", r"Add|Mul|Sub"),
)
_RIGHT_TYPE, _ENCLOSING, _RIGHT_SHAPE = 4, 2, 1  # weights whose sum ranks the operators that run at a line's time
_CLOCK_ERROR_NS = 10_000  # a line may exceed its operator by this: times of two sources, printed in us

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def read(folder: Path, context: Context) -> Evidence:
    """Read the trace and the oneDNN lines of a kernels pass; raise EvidenceError if the trace cannot be read."""
    names = names_of(folder, context)
    events, diagnostics = _events(folder, context)
    parts: list[pd.DataFrame] = [_graph_operators(events, names), _eager_operators(events, context)]
    graph = pd.concat(parts, ignore_index=True)
    host = _host_events(events, graph, context)
    primitives = _primitives(folder, context)
    owner, method = _place(primitives, graph, context.network)
    kernels = pd.concat(
        [_primitive_kernels(primitives, graph, owner, method), _operator_kernels(graph, owner, primitives.empty)],
        ignore_index=True,
    )
    diagnostics["onednn lines outside of every operator"] = int((owner < 0).sum())
    diagnostics["onednn lines that could not be read"] = int(primitives.attrs.get("parse_failures", 0))
    diagnostics["operators of unknown layer"] = int((graph["layer"].isna() & ~graph["phase"].isin(["optimizer", "data"])).sum())
    tables = [graph, host]
    if isinstance(names, RecordedNames):
        compiled, counts = tensorflow_xla.operations(_trace_file(folder, context), context, names, _function_calls(events))
        diagnostics |= counts
        if len(compiled):
            tables.append(compiled.assign(name=compiled["type"]))
            kernels = pd.concat([kernels, jax.computing(compiled)], ignore_index=True)
    operators = pd.concat(tables, ignore_index=True).sort_values("start_ns", kind="stable")
    info = {"threads": thread_names.of_lines(events)}
    return Evidence(conform("operators", operators), conform("kernels", kernels), diagnostics, info=info)


# --- the profiler's trace -----------------------------------------------------------------------------------------------


def _trace_file(folder: Path, context: Context) -> Path:
    files: list[str] = context.report.get("operator_files") or [TRACE_FILE]
    return folder / files[0]


def _events(folder: Path, context: Context) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the host's events of nonzero duration in measured steps, on our clock, and counts of events left out."""
    events = xplane.read(_trace_file(folder, context))
    events = events[(events["plane"] == HOST_PLANE) & (events["duration_ns"] > 0)].reset_index(drop=True)
    start = context.clock.from_wall(events["start_ns"].to_numpy(np.int64))
    events["start_ns"], events["end_ns"] = start, start + events["duration_ns"].to_numpy(np.int64)
    inside = context.in_steps(events["start_ns"].to_numpy(np.int64))
    events = events[inside].reset_index(drop=True)
    events["of_data"] = events["line"].astype("string").str.startswith(_DATA_THREADS).fillna(False).to_numpy(bool)
    events["thread"] = _threads(events, context)
    return events, {"events outside of steps": int((~inside).sum())}


def _threads(events: pd.DataFrame, context: Context) -> Integers:
    """Return each event's thread: the loop's own id for the line that calls compiled functions, the line's number otherwise.

    Threads of tf.data also make such calls, if a pipeline runs Python.
    """
    calls = events["name"].str.startswith(_EAGER_EVENTS) & ~events["of_data"]
    callers = events.loc[calls, "line_id"].unique()
    loop_threads = context.steps["thread"].unique()
    threads = events["line_id"].to_numpy(np.int64).copy()
    if len(callers) == 1 and len(loop_threads) == 1:
        threads[threads == int(callers[0])] = int(loop_threads[0])
    return threads


def _graph_operators(events: pd.DataFrame, names: GraphNames | RecordedNames) -> pd.DataFrame:
    """Return the graph's operators with layer and phase; `leaf` marks those that hold no other operator and compute."""
    parts = events["name"].str.extract(_OPERATOR)
    chosen = parts["type"].notna()
    table = events.loc[chosen, ["thread", "start_ns", "end_ns"]].reset_index(drop=True)
    table["name"] = parts.loc[chosen, "type"].to_numpy()
    table["scope"] = parts.loc[chosen, "scope"].to_numpy()
    codes, resolved = _resolved(events, chosen.to_numpy(dtype=bool), names)
    for column in ("layer", "phase", "attribution"):
        values = pd.array([getattr(one, column) for one in resolved], dtype="string")
        table[column] = values.take(codes) if len(codes) else pd.array([], dtype="string")
    _give_to_data(table, events.loc[chosen, "of_data"].to_numpy(bool))
    parent = intervals.parents(*intervals.spans(table))
    holds_another = np.isin(np.arange(len(table)), parent)
    table["leaf"] = ~holds_another & _computes(table["name"])
    return table


def _give_to_data(table: pd.DataFrame, rows: Flags) -> None:
    """Assign these rows of operators to the input pipeline, in place."""
    for column, value in (("layer", pd.NA), ("phase", "data"), ("attribution", "launch range")):
        table[column] = table[column].mask(rows, value)


def _resolved(events: pd.DataFrame, chosen: Flags, names: GraphNames | RecordedNames) -> tuple[Integers, list[Resolved]]:
    """Return what the distinct names of the chosen events resolve to, and each event's index into that list."""
    if isinstance(names, GraphNames):
        codes, distinct = pd.factorize(events.loc[chosen, "name"])
        return codes, [names.resolve(*str(name).rsplit(":", 1)) for name in distinct]
    begun, ended, function = _function_calls(events)
    at = events.loc[chosen, "start_ns"].to_numpy(np.int64)
    anyone: Integers = np.zeros(len(begun), dtype=np.int64)
    row = intervals.innermost(anyone, begun, ended, np.zeros(len(at), dtype=np.int64), at)
    number, called = pd.factorize(function)
    number = np.where(row >= 0, number[np.maximum(row, 0)], -1) if len(begun) else row
    keys = pd.MultiIndex.from_arrays([events.loc[chosen, "name"].astype("string"), number])
    codes, pairs = pd.factorize(keys)
    ran: list[tuple[str, str, str | None]] = []
    for full, place in pairs:
        scope, _, type_name = str(full).rpartition(":")
        ran.append((scope, type_name, str(called[place]) if place >= 0 else None))
    for one in ran:
        names.saw(*one)
    return codes, [names.resolve(*one) for one in ran]


def _function_calls(events: pd.DataFrame) -> tuple[Integers, Integers, pd.Series]:
    """Return when functions ran, start and end in ns, and their names: __inference_train_step_12."""
    name = events["name"].astype("string")
    called = name.str.slice(len(_EAGER_OPERATOR)).where(name.str.startswith(_EAGER_OPERATOR), "")
    runs = called.str.match(_FUNCTION).to_numpy(dtype=bool)
    begun, ended = (events.loc[runs, column].to_numpy(np.int64) for column in ("start_ns", "end_ns"))
    return begun, ended, called[runs]


def _eager_operators(events: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return operators that ran eagerly, with layer and phase of the range around them, as _graph_operators does."""
    name = events["name"].astype("string")
    called = name.str.startswith(_EAGER_OPERATOR) & ~name.str.slice(len(_EAGER_OPERATOR)).str.match(_FUNCTION)
    outer = events[called.to_numpy(dtype=bool)]
    inner = events[(name == _EAGER_KERNEL).to_numpy(dtype=bool)]
    row = intervals.innermost(*intervals.spans(outer), *intervals.spans(inner)[:2])
    inner, row = inner[row >= 0], row[row >= 0]
    table = inner[["thread", "start_ns", "end_ns"]].reset_index(drop=True)
    table["name"] = outer["name"].astype("string").str.slice(len(_EAGER_OPERATOR)).to_numpy()[row]
    table["leaf"] = _computes(table["name"])
    table = table.assign(**_around(table, context.ranges))
    updates = table["phase"].isna() & table["name"].str.match(_UPDATING)
    phase = table["phase"].mask(updates & (context.mode == "train"), "optimizer")
    phase = phase.mask(table["layer"].isna() & table["name"].str.match(DATA), "data")
    table = table.assign(phase=phase.fillna("other"))
    _give_to_data(table, inner["of_data"].to_numpy(bool))
    return table


def _computes(types: pd.Series) -> Flags:
    """Return which operators compute something themselves, rather than only control the flow or fetch a batch."""
    return np.asarray(~(types.str.match(_STEERING) | types.str.match(DATA)).to_numpy(dtype=bool))


def _around(table: pd.DataFrame, ranges: pd.DataFrame) -> dict[str, pd.Series]:
    """Return layer, phase and method of the innermost range that has either, for each row of a table with times."""
    owners = ranges[(ranges["layer"].notna() | ranges["phase"].isin(["forward", "backward", "optimizer", "data"])).to_numpy(bool)]
    row = intervals.innermost(*intervals.spans(owners), *intervals.spans(table)[:2])
    result = {
        name: owners[name].astype("string").take(np.maximum(row, 0)).reset_index(drop=True)
        if len(owners)
        else pd.Series(pd.array([None] * len(table), dtype="string"))
        for name in ("layer", "phase")
    }
    result = {name: values.where(row >= 0) for name, values in result.items()}
    method = pd.Series(np.where(row >= 0, "launch range", "none"), dtype="string")
    return {**result, "attribution": method}


def _host_events(events: pd.DataFrame, graph: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return what else the host did: see the module's docstring."""
    table = events[~events["name"].str.match(_OPERATOR)]
    table = table[["thread", "start_ns", "end_ns", "name", "of_data"]].reset_index(drop=True)
    data = context.ranges[context.ranges["category"] == "data"]
    loading = intervals.innermost(*intervals.spans(data), *intervals.spans(table)[:2]) >= 0
    within = intervals.innermost(*intervals.spans(graph), *intervals.spans(table)[:2]) >= 0
    kept = ~within & (loading | (table["name"] == _GETTING).to_numpy(bool) | ~_waits(table, graph))
    of_data = (loading | table.pop("of_data").to_numpy(bool))[kept]
    table = table[kept].reset_index(drop=True)
    around = _around(table, context.ranges)
    table["layer"] = around["layer"]
    table["phase"] = around["phase"].fillna("other").mask(of_data, "data")
    table["attribution"] = around["attribution"].mask(of_data, "launch range")
    return table


def _waits(table: pd.DataFrame, graph: pd.DataFrame) -> Flags:
    """Return in which events the thread waited: operators ran on other threads, and none within it or of a graph on its own."""
    thread, start, end = intervals.spans(table)
    own = np.isin(thread, graph.loc[graph["scope"].notna(), "thread"].unique())
    theirs, begins, ends = intervals.spans(graph)
    for value in np.setdiff1d(np.unique(thread), thread[own]):
        mine, starts = thread == value, np.sort(begins[theirs == value])
        own[mine] = np.searchsorted(starts, end[mine]) > np.searchsorted(starts, start[mine])
    ran = np.searchsorted(np.sort(begins), end, side="left") > np.searchsorted(np.sort(ends), start, side="right")
    return np.asarray(~own & ran)


# --- oneDNN's lines -----------------------------------------------------------------------------------------------------


def _primitives(folder: Path, context: Context) -> pd.DataFrame:
    """Return the timed oneDNN lines in measured steps, with start_ns and end_ns on our clock."""
    path = folder / STREAM_FILE
    lines = onednn_verbose.parse(stream.split(path if path.is_file() else []).onednn)
    failures = int(lines.attrs.get("parse_failures", 0))
    lines = lines[lines["wall_ns"].notna()].reset_index(drop=True)
    lines["start_ns"] = context.clock.from_wall(lines["wall_ns"].to_numpy(np.int64))
    lines["end_ns"] = lines["start_ns"] + lines["duration_ns"]
    lines = lines[context.in_steps(lines["start_ns"].to_numpy(np.int64))].reset_index(drop=True)
    lines.attrs["parse_failures"] = failures
    return lines


def _place(lines: pd.DataFrame, graph: pd.DataFrame, network: dict[str, Any] | None) -> tuple[Integers, npt.NDArray[Any]]:
    """Return each line's operator, as its row in `graph` (-1: none), and the method that found it."""
    threads = graph["thread"].unique()
    if lines.empty or graph.empty:
        return np.full(len(lines), -1, dtype=np.int64), np.full(len(lines), "none", dtype=object)
    start, end = intervals.edges(lines)
    thread, begun, ended = intervals.spans(graph)
    running = np.column_stack(
        [intervals.innermost(thread, begun, ended, np.full(len(lines), value), (start + end) // 2) for value in threads]
    )
    there = running >= 0
    right_type = _right_type(lines, graph)(running) & there
    right_shape = _right_shape(lines, graph, network)(running) & there
    early = (begun[running] - start[:, None]) > _CLOCK_ERROR_NS
    late = (end[:, None] - ended[running]) > _CLOCK_ERROR_NS
    score = _RIGHT_TYPE * right_type + _ENCLOSING * (~early & ~late) + _RIGHT_SHAPE * right_shape
    score = np.where(there, score, -1)
    rows = np.arange(len(lines))
    best = score.argmax(axis=1)
    winner = running[rows, best]
    # equally ranked operators do not matter if all belong to the same layer and phase
    place = pd.factorize(graph["layer"].fillna("") + "/" + graph["phase"].fillna(""))[0]
    agreed = ((score < score[rows, best][:, None]) | (place[running] == place[winner][:, None])).all(axis=1)
    sure = agreed & right_type[rows, best] & (right_type.sum(axis=1) == 1)
    by_shape = agreed & right_type[rows, best] & right_shape[rows, best]
    method = np.select([~there.any(axis=1), sure, by_shape], ["none", "operator name", "shape"], default="time")
    return winner, method.astype(object)


class _Matches:
    """Whether line i fits operator j, looked up by their codes in a small matrix of distinct descriptions."""

    def __init__(self, line_codes: Integers, operator_codes: Integers, fits: Flags):
        self._line_codes, self._operator_codes, self._fits = line_codes, operator_codes, fits

    def __call__(self, running: Integers) -> Flags:
        """Return whether lines fit a matrix of operators (a row per line, -1 for none)."""
        return np.asarray(self._fits[self._line_codes[:, None], self._operator_codes[np.maximum(running, 0)]])


def _right_type(lines: pd.DataFrame, graph: pd.DataFrame) -> _Matches:
    line_codes, line_names = pd.factorize(lines["primitive"] + " " + lines["propagation"].fillna(""))
    operator_codes, types = pd.factorize(graph["name"])
    fits = np.zeros((len(line_names), len(types)), dtype=bool)
    for i, line in enumerate(line_names):
        patterns = [callers for pattern, callers in _CALLERS if re.match(pattern, str(line))]
        fits[i] = [any(re.search(pattern, str(name)) for pattern in patterns) for name in types]
    return _Matches(line_codes, operator_codes, fits)


def _right_shape(lines: pd.DataFrame, graph: pd.DataFrame, network: dict[str, Any] | None) -> _Matches:
    line_codes, problems = pd.factorize(lines["primitive"] + " " + lines["problem"].fillna(""))
    layers = {str(layer["name"]): layer for layer in network["layers"]} if network else {}
    operator_codes, present = pd.factorize(graph["layer"].fillna(""))
    fits = np.zeros((len(problems), len(present)), dtype=bool)
    for i, text in enumerate(problems):
        primitive, problem = str(text).split(" ", 1)
        fits[i] = [str(name) in layers and fits_shape(primitive, problem, layers[str(name)]) for name in present]
    return _Matches(line_codes, operator_codes, fits)


# --- kernels ------------------------------------------------------------------------------------------------------------


def _primitive_kernels(lines: pd.DataFrame, graph: pd.DataFrame, owner: Integers, method: npt.NDArray[Any]) -> pd.DataFrame:
    """Return oneDNN's lines as kernels, completed from their operators."""
    if lines.empty:
        return empty("kernels")
    table = lines[["start_ns", "end_ns", "duration_ns"]].copy()
    for column in ("name", "kind", "dtype", "layout", "algorithm", "problem", "m", "n", "k", "transpose"):
        table[column] = lines[column]
    known = pd.Series(owner >= 0)
    operators = graph.take(np.maximum(owner, 0)).reset_index(drop=True) if len(graph) else graph.reindex(range(len(lines)))
    for column, source in (("thread", "thread"), ("layer", "layer"), ("phase", "phase"), ("operator", "name")):
        table[column] = operators[source].where(known)
    # an operator that graph rewriting put under another layer's name is known by its position in the graph, not by its name
    by_name = pd.Series(method).where(operators["attribution"] != "graph order", "graph order")
    table["attribution"] = pd.Series(method).where(pd.Series(method) != "operator name", by_name)
    table["attribution"] = table["attribution"].where(table["layer"].notna() | (table["phase"] == "optimizer"), "none")
    return table.assign(count=1, device="cpu", library="onednn")


def _operator_kernels(graph: pd.DataFrame, owner: Integers, silent: bool) -> pd.DataFrame:
    """Return the leaves without a primitive as kernels: Eigen's or, if oneDNN printed nothing, also those of oneDNN."""
    holds_primitive = np.isin(np.arange(len(graph)), owner)
    table = graph[graph["leaf"].to_numpy(dtype=bool) & ~holds_primitive].reset_index(drop=True)
    table["kind"] = classify.kinds(table["name"], table["phase"])
    table["operator"] = table["name"]
    table["duration_ns"] = table["end_ns"] - table["start_ns"]
    by_onednn = silent & table["name"].str.startswith("_Mkl").to_numpy(dtype=bool)
    return table.assign(count=1, device="cpu", library=np.where(by_onednn, "onednn", "eigen"))
