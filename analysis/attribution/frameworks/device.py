"""Add what a collector recorded to a pass's evidence: kernels, copies, waits and calls, with layer and phase.

A device's kernel belongs to the layer in its operator's full name, which XLA's and TensorFlow's traces give for each kernel.
Other kernels, copies and calls belong to where the host was at the launch (see `owners`).

If a device worked, the framework's operators are the host's activity, not kernels; kernels of the host are then only the calls
that libraries reported themselves. On a CPU a collector adds only its calls: libraries and operators already give the kernels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution import launches
from kernelscope.analysis.attribution.frameworks import Context, Evidence, collected, xla_names
from kernelscope.analysis.attribution.frameworks.owners import Owners
from kernelscope.analysis.attribution.frameworks.tensorflow_names import GraphNames, RecordedNames, names_of
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.kineto import autograd
from kernelscope.analysis.kernels import aten, names
from kernelscope.analysis.trace import Trace, conform, intervals
from kernelscope.analysis.trace.categories import filled, taken

Int = npt.NDArray[np.int64]

LAUNCHING = "(launching)"  # stands for the layer of a call that launches kernels of several layers
_LIBRARIES = ("onednn", "mkl")  # on the host; they report their calls themselves
_ARITHMETIC = ("elementwise", "unknown", "reduction", "copy")


def added(evidence: Evidence, folder: Path, context: Context) -> Evidence:
    """Return the evidence of the pass in `folder` with its collector's; `unavailable` says what cannot be read, and why."""
    on_device, result = context.device != "cpu", collected.find(folder, context)
    if result is None:
        return _without_device(evidence, "no collector left a file in the kernels pass") if on_device else evidence
    try:
        trace = collected.read(*result, context, evidence.captured)
    except EvidenceError as error:
        if on_device:
            return _without_device(evidence, str(error))
        return replace(evidence, unavailable={**evidence.unavailable, "calls": str(error)})
    trace.diagnostics = {f"{result[0]}: {name.removeprefix('nsys: ')}": count for name, count in trace.diagnostics.items()}
    trace.kernels = trace.kernels[(trace.kernels["device"] != "cpu").to_numpy(dtype=bool)].reset_index(drop=True)
    if any(len(getattr(trace, name)) for name in ("kernels", "graphs", "copies")):
        trace.ranges = context.ranges.copy(deep=False)  # filling its phases must not change ours
        launches.relate(trace)
        operators = conform("operators", evidence.operators)
        _attribute(trace, operators, names_of(folder, context))
        _name_by_layers(trace.kernels, (context.network or {}).get("layers", []))
        kernels = [_inside(trace.kernels, context), _of_libraries(evidence.kernels)]
        evidence = replace(evidence, operators=operators, kernels=pd.concat(kernels, ignore_index=True))
    elif on_device and (trace.calls["api"] != "os").any():
        missing = (trace.info.get("unavailable") or {}).get("kernels", f"{result[1].name} holds only its calls")
        evidence = _without_device(evidence, missing)
    tables: dict[str, Any] = {name: _inside(getattr(trace, name), context) for name in ("graphs", "copies", "syncs", "calls")}
    extra = {name: trace.info[name] for name in ("devices", "notes") if trace.info.get(name)}
    return replace(
        evidence, captured=None, **tables, memory=trace.memory, info={**evidence.info, **extra},
        diagnostics={**evidence.diagnostics, **trace.diagnostics},
    )  # fmt: skip


def _without_device(evidence: Evidence, reason: str) -> Evidence:
    """Return the host's side of a pass whose device work is unknown; its operators may have launched that work."""
    unavailable = {**evidence.unavailable, "kernels": f"{reason}; the device's work is unknown"}
    return replace(evidence, kernels=_of_libraries(evidence.kernels), unavailable=unavailable)


def _of_libraries(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the host's kernels that libraries reported."""
    return conform("kernels", kernels[kernels["library"].isin(_LIBRARIES).to_numpy(dtype=bool)].reset_index(drop=True))


def _inside(table: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the rows that overlap a measured step, or were launched in one and run while we write between steps."""
    steps = context.steps[~context.steps["warmup"]].sort_values("start_ns")
    timed = table[table["start_ns"].notna().to_numpy(dtype=bool)]
    edges = [frame[name].to_numpy(np.int64) for frame in (timed, steps) for name in ("start_ns", "end_ns")]
    chosen = intervals.reaching(*edges)
    if "launch_ns" in timed:
        chosen |= intervals.containing(timed["launch_ns"].to_numpy(np.int64, na_value=-1), *edges[2:]) >= 0
    result: pd.DataFrame = timed[chosen].reset_index(drop=True)
    return result


# --- whose work it is ----------------------------------------------------------------------------------------------------------


def _attribute(trace: Trace, operators: pd.DataFrame, names: GraphNames | RecordedNames) -> None:
    """Set the owners of calls and device work, and describe the kernels; see the module's docstring."""
    owners = Owners(operators, trace.ranges)
    owners.own(trace.calls, trace.calls["thread"], trace.calls["start_ns"])
    for name in ("graphs", "copies", "kernels"):
        table = getattr(trace, name)
        # the range of a step is not a location: work launched outside the ranges within it gets no range
        around = pd.Series(taken(trace.ranges["category"], table["range_id"].to_numpy(np.int64, na_value=-1)))
        table["range_id"] = table["range_id"].mask(around == "step")
        if name == "kernels":
            _name_layers(table, names)
        row = owners.own(table, table["launch_thread"], table["launch_ns"])
    _describe(trace, operators, row)
    _own_launches(trace)


def _own_launches(trace: Trace) -> None:
    """Give calls without a layer that of the kernels they launched, in place; LAUNCHING if these are in several layers.

    This includes graphs as which XLA launches its programs. A call stays without a layer if one of its kernels has none.
    """
    kernels, calls = trace.kernels, trace.calls
    keys = ["process", "correlation"]
    launched = kernels.loc[kernels["correlation"].notna(), [*keys, "layer", "phase"]]
    launched = launched.astype({"layer": "string", "phase": "string"})
    launched["layer"] = launched["layer"].mask(launched["phase"] == "optimizer", "")  # known, and in no layer
    groups = launched.groupby(keys)
    places = groups[["layer", "phase"]].first()[groups["layer"].count() == groups.size()]
    several, both = (groups[name].nunique().loc[places.index] > 1 for name in ("layer", "phase"))
    places["layer"] = places["layer"].mask(several, LAUNCHING).replace("", pd.NA)
    places["phase"] = places["phase"].mask(several | both, "other")
    found = calls[keys].merge(places, how="left", left_on=keys, right_index=True)
    mine = (calls["layer"].isna() & ~calls["phase"].isin(["optimizer", "data"]) & found["phase"].notna()).to_numpy(bool)
    if mine.any():
        for name in ("layer", "phase"):
            calls[name] = calls[name].astype("string").mask(mine, found[name]).astype("category")


def _name_layers(kernels: pd.DataFrame, names: GraphNames | RecordedNames) -> None:
    """Replace the layer paths of a capture by the network's names; a path without a known name gives an unknown layer."""
    named = kernels["layer"].notna() | kernels["phase"].notna()
    kernels["attribution"] = pd.Series("operator name", index=kernels.index).where(named).astype("string").astype("category")
    if kernels["layer"].isna().all():
        return
    keys = pd.MultiIndex.from_arrays([kernels[column].cat.codes for column in ("layer", "operator")])
    codes, distinct = pd.factorize(keys)
    layers, operators = (kernels[column].cat.categories for column in ("layer", "operator"))
    result = []
    for layer, operator in distinct:
        kind = str(operators[operator]) if operator >= 0 else ""
        result.append(names.resolve(f"{layers[layer]}/{kind}", kind) if layer >= 0 else None)
    for column, known in (("layer", None), ("phase", kernels["phase"])):
        values = np.array([getattr(one, column) if one is not None else None for one in result], dtype=object)
        resolved = pd.Series(values.take(codes), dtype="string").astype("category")
        kernels[column] = resolved if known is None else filled(known, resolved)


def _name_by_layers(kernels: pd.DataFrame, layers: list[dict[str, Any]]) -> None:
    """Give XLA's kernels the kind of their layer, in place: a normalisation stays one, whatever reductions compute it."""
    of_layer = {str(layer["name"]): kind for layer in layers if (kind := xla_names.OF_LAYER.get(str(layer["type"])))}
    kinds = kernels["layer"].astype("string").map(of_layer)
    mine = (kernels["library"] == "xla") & kernels["kind"].isin(xla_names.ARITHMETIC) & kinds.notna()
    if mine.any():
        kernels["kind"] = kernels["kind"].astype("string").mask(mine, kinds).astype("category")


def _describe(trace: Trace, operators: pd.DataFrame, row: Int) -> None:
    """Fill the kernels' descriptions from their names and operators. row: each kernel's operator."""
    kernels = trace.kernels
    kernels["operator"] = filled(kernels["operator"], pd.Series(taken(operators["name"], row)))
    kernels["phase"] = filled(kernels["phase"], pd.Series(pd.Categorical(["other"] * len(kernels))))
    names.fill(trace.kernels)
    kernels = trace.kernels
    _add_problems(kernels, operators, row)
    optimizer = (kernels["phase"] == "optimizer") & kernels["kind"].isin(_ARITHMETIC)
    kernels["kind"] = kernels["kind"].astype("string").mask(optimizer, "optimizer")
    trace.kernels = conform("kernels", kernels)


def _add_problems(kernels: pd.DataFrame, operators: pd.DataFrame, row: Int) -> None:
    """Add the shapes of operators' tensors as the kernels' problem, and m, n and k to matrix products."""
    shapes = pd.Series(taken(operators["shapes"], row))
    problem = autograd.of_text(shapes, lambda text: aten.problem(text) if text.startswith("[") else text)
    kernels["problem"] = filled(kernels["problem"], conform("kernels", kernels.assign(problem=problem))["problem"])
    products = aten.products(pd.Series(taken(operators["name"], row)).astype("string").fillna(""), shapes.astype("object"))
    multiplies = (kernels["kind"] == "gemm").to_numpy(dtype=bool)
    for column in ("m", "n", "k"):
        kernels[column] = kernels[column].fillna(products[column].where(multiplies))
