"""A pass's evidence with what a collector recorded beside it: kernels, copies, waits and calls, with layer and phase.

A kernel of a device belongs, in this order, to

1. the layer that its operator's full name carries, which XLA's and TensorFlow's traces tell of each kernel;
2. the layer of the operator that was open on the launching thread when it was launched; operators of backward functions, which
   threads of their own may run, have theirs by sequence number. Where the framework's trace knows nothing of that thread, it is
   the only operator that ran on any of the threads then ("time");
3. the layer of our own range that was open on the launching thread.

Where a device worked, the framework's operators are what the host did, and no kernels; kernels of the host are then the calls
that libraries reported themselves. On a CPU a collector adds its calls only: kernels are known from libraries and operators.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis import autograd, captures, intervals, launches
from kernelscope.analysis.categories import filled, taken
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.evidence import Context, Evidence, aten, collected
from kernelscope.analysis.evidence.tensorflow_names import GraphNames
from kernelscope.analysis.stacks import Stacks
from kernelscope.analysis.trace import Trace, conform

Int = npt.NDArray[np.int64]

_LIBRARIES = ("onednn", "mkl")  # of the host: they report their calls themselves
_ARITHMETIC = ("elementwise", "unknown", "reduction", "copy")


def added(evidence: Evidence, folder: Path, context: Context) -> Evidence:
    """Return the evidence of the pass in `folder` with that of its collector; what cannot be read is unavailable, and why."""
    on_device, found = context.device != "cpu", collected.find(folder, context)
    if found is None:
        return _without_device(evidence, "no collector left a file in the kernels pass") if on_device else evidence
    try:
        trace = collected.read(*found, context)
    except EvidenceError as error:
        if on_device:
            return _without_device(evidence, str(error))
        return replace(evidence, unavailable={**evidence.unavailable, "calls": str(error)})
    noted, trace.diagnostics = _noted(found[0], trace), {}
    calls = _inside(trace.calls, context)
    trace.kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(dtype=bool)].reset_index(drop=True)
    worked = any(len(getattr(trace, name)) for name in ("kernels", "graphs", "copies"))
    if not worked:
        return replace(
            evidence, calls=calls, info={**evidence.info, **_told(trace)}, diagnostics={**evidence.diagnostics, **noted}
        )
    operators = conform("operators", evidence.operators)
    trace.ranges = context.ranges.copy(deep=False)  # its phases are not to be filled in ours
    launches.relate(trace)
    _attribute(trace, operators, context)
    noted |= _noted(found[0], trace)
    return replace(
        evidence, operators=operators, calls=calls, memory=trace.memory, graphs=_inside(trace.graphs, context),
        kernels=pd.concat([_inside(trace.kernels, context), _of_libraries(evidence.kernels)], ignore_index=True),
        copies=_inside(trace.copies, context), syncs=_inside(trace.syncs, context),
        info={**evidence.info, **_told(trace)}, diagnostics={**evidence.diagnostics, **noted},
    )  # fmt: skip


def _noted(collector: str, trace: Trace) -> dict[str, int]:
    """Return what is odd in a collector's file, under its name."""
    return {f"{collector}: {name.removeprefix(f'{collector}: ')}": count for name, count in trace.diagnostics.items()}


def _told(trace: Trace) -> dict[str, object]:
    """Return what a collector's file tells of itself and of the devices."""
    return {name: trace.info[name] for name in ("devices", "notes") if trace.info.get(name)}


def _without_device(evidence: Evidence, reason: str) -> Evidence:
    """Return the host's side of a pass on a device of which nothing is known: its operators may have launched their work."""
    unavailable = {**evidence.unavailable, "kernels": f"{reason}; the device's work is not known"}
    return replace(evidence, kernels=_of_libraries(evidence.kernels), unavailable=unavailable)


def _of_libraries(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the host's kernels that are no operators."""
    return conform("kernels", kernels[kernels["library"].isin(_LIBRARIES).to_numpy(dtype=bool)].reset_index(drop=True))


def _inside(table: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the rows that reach into a measured step."""
    steps = context.steps[~context.steps["warmup"]].sort_values("start_ns")
    timed = table[table["start_ns"].notna().to_numpy(dtype=bool)]
    edges = (frame[name].to_numpy(np.int64) for frame in (timed, steps) for name in ("start_ns", "end_ns"))
    found: pd.DataFrame = timed[intervals.reaching(*edges)].reset_index(drop=True)
    return found


# --- whose work it is ----------------------------------------------------------------------------------------------------------


def _attribute(trace: Trace, operators: pd.DataFrame, context: Context) -> None:
    """Give the kernels their layer, phase, operator and kind, and its problem; see the module's documentation."""
    for name in ("kernels", "graphs", "copies"):  # each step has a name of its own: work outside of inner ranges has no range
        table = getattr(trace, name)
        rows = table["range_id"].to_numpy(np.int64, na_value=-1)
        table["range_id"] = table["range_id"].mask(pd.Series(taken(trace.ranges["category"], rows) == "step"))
    kernels = trace.kernels
    _name_layers(kernels, context)
    row, by_time = _open_operator(kernels, operators)
    known = kernels["layer"].notna()
    for column, source in (("operator", "name"), ("layer", "layer"), ("phase", "phase")):
        kernels[column] = filled(kernels[column], pd.Series(taken(operators[source], row)))
    method = pd.Series(taken(operators["attribution"], row), dtype="string").mask(pd.Series(by_time), "time")
    method = method.mask(known, "operator name")
    for column in ("layer", "phase"):
        missing = kernels[column].isna()
        kernels[column] = filled(kernels[column], _of_ranges(kernels, context.ranges, column))
        method = method.mask(missing & kernels[column].notna(), "launch range")
    nothing = kernels["layer"].isna() & kernels["phase"].isna()
    kernels["phase"] = filled(kernels["phase"], pd.Series(pd.Categorical(["other"] * len(kernels))))
    kernels["attribution"] = method.mask(nothing, "none").fillna("none").astype("category")
    captures.describe_kernels(trace)
    _add_problems(kernels, operators, row)
    optimizer = (kernels["phase"] == "optimizer") & kernels["kind"].isin(_ARITHMETIC)
    kernels["kind"] = kernels["kind"].astype("string").mask(optimizer, "optimizer")
    trace.kernels = conform("kernels", kernels)


def _name_layers(kernels: pd.DataFrame, context: Context) -> None:
    """Turn the paths that a capture has for layers into the network's names; where none is in a path, the layer is unknown."""
    if kernels["layer"].isna().all():
        return
    names = GraphNames(context.network, training=context.mode == "train")
    keys = pd.MultiIndex.from_arrays([kernels[column].cat.codes for column in ("layer", "operator")])
    codes, distinct = pd.factorize(keys)
    layers, operators = (kernels[column].cat.categories for column in ("layer", "operator"))
    found = []
    for layer, operator in distinct:
        kind = str(operators[operator]) if operator >= 0 else ""
        found.append(names.resolve(f"{layers[layer]}/{kind}", kind) if layer >= 0 else None)
    for column, others in (("layer", None), ("phase", kernels["phase"])):
        values = np.array([getattr(one, column) if one is not None else None for one in found], dtype=object)
        resolved = pd.Series(values.take(codes), dtype="string").astype("category")
        kernels[column] = resolved if others is None else filled(others, resolved)


def _open_operator(kernels: pd.DataFrame, operators: pd.DataFrame) -> tuple[Int, npt.NDArray[np.bool_]]:
    """Return the row of each kernel's operator, -1 for none, and whether only the time tells it."""
    launched = kernels["launch_ns"].notna().to_numpy()
    thread, at = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("launch_thread", "launch_ns"))
    spans = [operators[name].to_numpy(np.int64, na_value=-1) for name in ("thread", "start_ns", "end_ns")]
    stacks, threads = Stacks(*spans), np.unique(spans[0])
    row = np.where(launched, stacks.innermost(thread, at), -1)
    unknown = launched & ~np.isin(thread, threads)
    if not unknown.any() or not len(operators):
        return row, np.zeros(len(row), dtype=np.bool_)
    told = (operators["layer"].notna() | operators["phase"].isin(["optimizer", "data"])).to_numpy(dtype=bool)
    running = [stacks.innermost(np.full(int(unknown.sum()), number), at[unknown]) for number in threads]
    candidates = np.column_stack([np.where((found >= 0) & told[np.maximum(found, 0)], found, -1) for found in running])
    only = (candidates >= 0).sum(axis=1) == 1
    row[unknown] = np.where(only, candidates.max(axis=1), -1)
    return row, unknown & (row >= 0)


def _of_ranges(kernels: pd.DataFrame, ranges: pd.DataFrame, column: str) -> pd.Series:
    """Return what the innermost range that has a layer, or a phase, says of each kernel's launch."""
    telling = ranges[(ranges[column].notna() & ranges["nested"]).to_numpy(dtype=bool)].reset_index(drop=True)
    stacks = Stacks(*(telling[name].to_numpy(np.int64) for name in ("thread", "start_ns", "end_ns")))
    thread, at = (kernels[name].to_numpy(np.int64, na_value=-1) for name in ("launch_thread", "launch_ns"))
    return pd.Series(taken(telling[column], stacks.innermost(thread, at)))


def _add_problems(kernels: pd.DataFrame, operators: pd.DataFrame, row: Int) -> None:
    """Add the shapes of the operators' tensors as the kernels' problem, and m, n and k to those that multiply matrices."""
    shapes = pd.Series(taken(operators["shapes"], row))
    problem = autograd.of_text(shapes, lambda text: aten.problem(text) if text.startswith("[") else text)
    kernels["problem"] = filled(kernels["problem"], conform("kernels", kernels.assign(problem=problem))["problem"])
    products = aten.products(pd.Series(taken(operators["name"], row)).astype("string").fillna(""), shapes.astype("object"))
    multiplies = (kernels["kind"] == "gemm").to_numpy(dtype=bool)
    for column in ("m", "n", "k"):
        kernels[column] = kernels[column].fillna(products[column].where(multiplies))
