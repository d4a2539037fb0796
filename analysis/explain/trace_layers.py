"""The layers of a capture of any model, as far as it shows them: order, type, output shape, FLOPs and parameters.

Our own runs state their network. In other captures, the layers are what cells are attributed to: module paths, scopes of XLA
and TensorFlow, or the user's ranges. One step in the middle of the measured steps shows what each layer does.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import CLIPPING
from kernelscope.analysis.attribution.launches import without_details
from kernelscope.analysis.explain import problems
from kernelscope.analysis.explain.model import Layer
from kernelscope.analysis.explain.problems import Problem, Shape
from kernelscope.analysis.trace import Trace

# Kinds that only move data inside a layer and do not decide its type, unless there is nothing else
_AUXILIARY = {"layout", "copy", "cast", "random", "unknown", "communication", "optimizer"}
_NUMBERED = re.compile(r"(?i)\b((?:\w*step|iter(?:ation)?|batch|epoch)s?)[ _#:=]*\d+\b")
_CALL = re.compile(r" \(\d+\)$")  # a module's further call within one call of the model
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LONGEST_RANGE = 20_000  # letters of a range's text that are looked at


def layers_of(trace: Trace, cells: pd.DataFrame) -> list[Layer]:
    """Return the layers that the cells name, in the order of their first forward work, with what the trace shows about each.

    cells: with the columns of accounting.partition.KEYS. If info["network"] states the network, its layers come first. If
    info["modules"] has the program's modules, layers take their classes and parameters from them (see of_modules). Unknown
    values are None; FLOPs and shapes are for one sample if the size of the batch is known.
    """
    stated = of_network(trace.info.get("network") or {})
    known = {layer.name for layer in stated}
    names = [name for name in labels(cells).dropna().unique() if name not in known and name != CLIPPING]
    layers = _layers_of(trace, names, len(stated)) if names else []
    return stated + of_modules(layers, trace.info.get("modules") or [])


def of_modules(layers: list[Layer], modules: Sequence[Mapping[str, Any]]) -> list[Layer]:
    """Return the layers with the type and the parameters of the modules that they are calls of.

    modules: name, type (the class) and the module's own parameters, without its children's. A module that is not a layer, as it
    is never called by itself, gives its parameters to the nearest one around it. If the class's name does not show a type, the
    kernels' type stays.
    """
    if not modules:
        return layers
    called = {_CALL.sub("", layer.name) for layer in layers}
    kinds, parameters = {}, Counter[str]()
    for module in modules:
        name = str(module["name"])
        kinds[name] = problems.type_of_operator(str(module["type"]))
        while name and name not in called:
            name = name.rpartition(".")[0]
        parameters[name] += int(module.get("parameters") or 0)
    result = []
    for layer in layers:
        name = _CALL.sub("", layer.name)
        if name in kinds:
            own = max(parameters[name], layer.parameters or 0)  # weights that a module uses without calling their owner
            layer = replace(layer, type=kinds[name] or layer.type, parameters=own)
        result.append(layer)
    return result


def of_network(network: Mapping[str, Any]) -> list[Layer]:
    """Return the layers of a network described as by workloads.networks.as_dict."""
    return [
        Layer(entry["name"], order, entry["type"], tuple(entry["output_shape"]), entry["flops"], entry["parameters"])
        for order, entry in enumerate(network.get("layers", ()))
    ]


def labels(cells: pd.DataFrame) -> pd.Series[str]:
    """Return each cell's layer; in a capture without layers, the user's range around it, without what changes from call to
    call.
    """
    if cells["layer"].notna().any():
        return cells["layer"].astype("string")
    return _range_labels(cells["range"])


def _range_labels(texts: pd.Series) -> pd.Series[str]:
    texts = texts.astype("string")
    return texts.map({text: range_label(text) for text in texts.dropna().unique()}).astype("string")


def range_label(text: str) -> str | None:
    """Return a range's name without numbers that change from call to call; None for frames of the interpreter.

    PyTorch's emit_nvtx appends `, seq = N` and the like to its operators. pyprof writes dictionaries with the call and its
    place in the code: the call, or the innermost module or line, is kept.
    """
    if text.startswith("$"):
        return None
    if text.startswith("{'"):
        return _pyprof(text)
    plain = _ADDRESS.sub("", without_details(text))
    return _NUMBERED.sub(r"\1", plain).strip() or None


def _pyprof(text: str) -> str | None:
    """Return the call or the place that a dictionary of pyprof or DLProf names; it is only parsed, never run."""
    try:
        entry = ast.literal_eval(text) if len(text) <= _LONGEST_RANGE else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        return text[:120]
    if "op" in entry:
        return f"{entry.get('mod', '')}.{entry['op']}".lstrip(".")
    if isinstance(entry.get("funcStack"), str):
        return "/".join(part for part in entry["funcStack"].split("/") if part and part != "<module>")
    places = entry.get("traceMarker")
    return str(places[-1]).rpartition("/")[2] if isinstance(places, list) and places else text[:120]


# --- layers of a trace --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StepRows:
    """Operators and kernels of one step in order of time, with columns layer (text), forward (bool) and first_ns."""

    operators: pd.DataFrame
    kernels: pd.DataFrame


@dataclass
class _Evidence:
    """What the step shows about one layer, each thing once; from the forward pass, except the kinds of its kernels.

    operators: names. read: shape of the first input of each call. after: shapes read next after the layer. calls: the
    operators' work, as often as it runs. kernels: kind, operator, problem, m, n, k, count, duration_ns, forward.
    """

    operators: list[str] = field(default_factory=list)
    read: list[Shape] = field(default_factory=list)
    after: list[Shape] = field(default_factory=list)
    calls: list[Problem] = field(default_factory=list)
    kernels: list[tuple[Any, ...]] = field(default_factory=list)


_KERNEL_KEYS = ["layer", "kind", "operator", "problem", "m", "n", "k", "forward"]


def _layers_of(trace: Trace, names: Sequence[str], first: int) -> list[Layer]:
    step = _one_step(trace)
    begins = _beginnings(step, trace)
    evidence = {name: _Evidence() for name in names}
    _add_operators(evidence, step.operators[step.operators["forward"]])
    _add_kernels(evidence, step.kernels)
    batch = trace.info.get("batch") or _batch(evidence.values())
    ranked = sorted(names, key=lambda name: begins.get(name, (3, 0)))
    return [_layer(name, first + rank, evidence[name], batch) for rank, name in enumerate(ranked)]


def _one_step(trace: Trace) -> _StepRows:
    """Return the work of the middle measured step, or of the whole capture without steps."""
    steps = trace.steps[~trace.steps["warmup"]].sort_values("start_ns")
    middle = len(steps) // 2
    window = (int(steps["start_ns"].iloc[middle]), int(steps["end_ns"].iloc[middle])) if len(steps) else None
    operators = trace.operators.assign(first_ns=trace.operators["start_ns"])
    kernels = trace.kernels.assign(first_ns=trace.kernels["launch_ns"].fillna(trace.kernels["start_ns"]))
    return _StepRows(*(_labelled(table, trace.ranges, window) for table in (operators, kernels)))


def _labelled(table: pd.DataFrame, ranges: pd.DataFrame, window: tuple[int, int] | None) -> pd.DataFrame:
    if window is not None:
        table = table[((table["first_ns"] >= window[0]) & (table["first_ns"] < window[1])).fillna(False)]
    table = table.sort_values("first_ns", kind="stable")
    layer = table["layer"].astype("string")
    if layer.isna().all() and "range_id" in table and table["range_id"].notna().any():
        texts = ranges["name"].astype("string").reindex(table["range_id"].fillna(-1).astype("int64"))
        layer = _range_labels(texts).set_axis(table.index)
    return table.assign(layer=layer, forward=_forward(table["phase"]))


def _forward(phases: pd.Series) -> pd.Series[bool]:
    return phases.isna() | (phases == "forward")


def _beginnings(step: _StepRows, trace: Trace) -> dict[str, tuple[int, int]]:
    """Return when each layer begins: (0, ns) by its forward work of the step, (1, ns) by other work, (2, ns) elsewhere.

    Work much shorter than the layer's longest does not count: variables are read and streams prepared ahead of their layers.
    """
    kernels, operators = step.kernels, step.operators.assign(duration_ns=step.operators["end_ns"] - step.operators["start_ns"])
    main = ~kernels["kind"].isin(_AUXILIARY)
    ranges = trace.ranges.assign(first_ns=trace.ranges["start_ns"], duration_ns=0)
    ranges["layer"] = ranges["layer"].astype("string") if ranges["layer"].notna().any() else _range_labels(ranges["name"])
    tables = (
        (0, kernels[kernels["forward"] & main]), (0, operators[operators["forward"]]), (0, kernels[kernels["forward"]]),
        (1, kernels), (1, operators), (2, ranges),
    )  # fmt: skip
    result: dict[str, tuple[int, int]] = {}
    for rank, table in tables:
        rows = table[["layer", "first_ns", "duration_ns"]].dropna()
        longest = rows.groupby("layer")["duration_ns"].transform("max")
        firsts = rows[rows["duration_ns"] * 2 >= longest].groupby("layer")["first_ns"].min()
        result = {**{str(name): (rank, int(start)) for name, start in firsts.items()}, **result}
    return result


def _add_operators(evidence: dict[str, _Evidence], operators: pd.DataFrame) -> None:
    """Add what the forward operators of the step show."""
    rows = operators[operators["layer"].isin(list(evidence))]
    rows = rows.assign(name=rows["name"].astype("string"), shapes=rows["shapes"].astype("string").fillna(""))
    for layer, name in _distinct(rows, ["layer", "name"]):
        evidence[layer].operators.append(name)
    for layer, text in _distinct(rows, ["layer", "shapes"]):
        evidence[layer].read += [shape for shape in problems.shapes(text)[:1] if shape]
    for layer, name, text, times in _outer_calls(rows):
        work = problems.of_operator(name, text)
        evidence[layer].calls += [work] * times if work is not None else []
    rows = rows[rows["shapes"] != ""]
    texts = rows["shapes"].tolist()
    last = rows.reset_index(drop=True).reset_index().groupby("layer")["index"].max()
    for layer, position in last.items():
        following = [shape for text in texts[position + 1 : position + 4] for shape in problems.shapes(text)[:2] if shape]
        evidence[str(layer)].after += following


def _outer_calls(rows: pd.DataFrame) -> list[tuple[str, str, str, int]]:
    """Return the calls that compute something and how often: (layer, name, shapes, times), without nested ones."""
    works = {pair for pair in _distinct(rows, ["name", "shapes"]) if problems.of_operator(*pair) is not None}
    names = {name for name, _ in works}
    rows = rows[rows["name"].isin(names)]
    counted = [pair in works for pair in zip(rows["name"], rows["shapes"], strict=True)]
    rows = rows[np.array(counted, dtype=bool)]
    rows = rows.sort_values(["thread", "start_ns"], kind="stable")
    ended = rows.groupby("thread", dropna=False, sort=False)["end_ns"].cummax()
    before = ended.groupby(rows["thread"], dropna=False, sort=False).shift()
    outer = rows[(before.isna() | (rows["start_ns"] >= before)).to_numpy(dtype=bool)]
    sizes = outer.groupby(["layer", "name", "shapes"], sort=False).size().reset_index()
    return list(sizes.itertuples(index=False, name=None))


def _add_kernels(evidence: dict[str, _Evidence], kernels: pd.DataFrame) -> None:
    """Add what the kernels of the step show, with identical ones as one."""
    rows = kernels[kernels["layer"].isin(list(evidence))]
    texts = {name: rows[name].astype("string") for name in ("kind", "operator", "problem")}
    sums = rows.assign(**texts).groupby(_KERNEL_KEYS, dropna=False, sort=False)[["count", "duration_ns"]].sum().reset_index()
    for layer, kind, operator, problem, m, n, k, forward, count, duration in sums.itertuples(index=False, name=None):
        words = (None if pd.isna(value) else str(value) for value in (kind, operator, problem))
        sizes = (None if pd.isna(value) else int(value) for value in (m, n, k))
        evidence[layer].kernels.append((*words, *sizes, int(count), int(duration), bool(forward)))


def _distinct(rows: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return list(rows[columns].drop_duplicates().itertuples(index=False, name=None))


def _batch(evidence: Iterable[_Evidence]) -> int | None:
    """Return the size of the batch: the one that most calls and primitives have, the larger one in a tie.

    If none states it, it is the first dimension that most layers share.
    """
    result: Counter[int] = Counter()
    leading: Counter[int] = Counter()
    for layer in evidence:
        works = [problems.of_problem(kernel[2]) for kernel in layer.kernels if kernel[2] is not None and kernel[8]]
        known = [work for work in works if work is not None]
        result.update(work.batch for work in [*layer.calls, *known] if work.batch)
        shapes = [work.output for work in known if work.output is not None and len(work.output) > 1]
        leading.update({shape[0] for shape in [*layer.read[:1], *shapes[:1]] if len(shape) > 1})
    if not result and leading.total() > 2:
        result = Counter({size: count for size, count in leading.items() if 2 * count > leading.total()})
    return max(result, key=lambda size: (result[size], size)) if result else None


# --- one layer ----------------------------------------------------------------------------------------------------------------


def _layer(name: str, order: int, evidence: _Evidence, batch: int | None) -> Layer:
    calls = problems.completed(evidence.calls, [*evidence.read, *evidence.after])
    works = calls if any(call.flops for call in calls) else [*calls, *_of_kernels(evidence)]
    kind = _type(evidence)
    output = _output(evidence, kind, works)
    if output is not None and batch is not None and output[:1] == (batch,):
        output = output[1:]
    flops = [work.flops for work in works if work.flops is not None]
    parameters = {(work.parameters, work.output) for work in calls or works if work.parameters is not None}
    return Layer(
        name, order, kind, output, sum(flops) // (batch or 1) if flops else None,
        sum(size for size, _ in parameters) if parameters else None,
    )  # fmt: skip


def _of_kernels(evidence: _Evidence) -> list[Problem]:
    """Return the matrix products and convolutions among the forward kernels."""
    works = [problems.of_kernel(problem, m, n, k) for _, _, problem, m, n, k, _, _, forward in evidence.kernels if forward]
    times = [kernel[6] for kernel in evidence.kernels if kernel[8]]
    return [work for result, count in zip(works, times, strict=True) if result is not None for work in [result] * count]


def _type(evidence: _Evidence) -> str | None:
    """Return the kind of kernels that take most of the layer's time, as a layer's type; else what its operators show."""
    kernels = [kernel for kernel in evidence.kernels if kernel[8]] or evidence.kernels
    operators = [*evidence.operators, *dict.fromkeys(kernel[1] for kernel in kernels if kernel[1] is not None)]
    named = [result for name in operators if (result := problems.type_of_operator(name)) is not None]
    times: Counter[str] = Counter()
    for kernel in kernels:
        times[kernel[0] or "unknown"] += kernel[7]
    main = {kind: time for kind, time in times.items() if kind not in _AUXILIARY}
    if main:
        kind = max(main, key=lambda name: (main[name], name))
        general = problems.GENERAL.get(kind, kind)
        return next((result for result in named if result in problems.SPECIFIC.get(general, ())), general)
    known = {kind: time for kind, time in times.items() if kind != "unknown"}
    return named[0] if named else max(known, key=lambda name: (known[name], name)) if known else None


def _output(evidence: _Evidence, kind: str | None, works: list[Problem]) -> Shape | None:
    """Return the shape of the layer's output, with the batch; None if unknown."""
    outputs = [work.output for work in works if work.output is not None]
    if outputs:
        return outputs[-1]
    if any(work.channels is not None for work in works):
        return None  # a convolution with unknown output
    result = [problems.of_problem(kernel[2]) for kernel in evidence.kernels if kernel[8] and kernel[2] is not None]
    written = [work for work in result if work is not None and work.output]
    described = [work.output for work in written if work.batch is not None]
    if described:
        return described[-1]
    if kind in problems.RESHAPING and evidence.read:  # the output has another shape than the input
        return next((shape for shape in evidence.after if problems.may_become(evidence.read[0], shape, kind)), None)
    return written[-1].output if written else evidence.read[0] if evidence.read else None
