"""ONNX Runtime's own profile: one event for each node of the optimized graph that ran, in whole microseconds.

Nodes have the names of layers. A node that the optimizer fused has the name of its last layer, such as tanh1_nchwc for a
convolution with its activation. The convolution does the computing, so the row belongs to conv1, found from tanh1 by the
network's graph. Layout conversions that the optimizer added have no layer's name: one out of the blocked layout belongs to the
node before it, one into it to the node after it. Source: ONNX Runtime's documentation, "Performance: profiling tools".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context, Evidence
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import json_text
from kernelscope.analysis.formats.onnxruntime import nodes
from kernelscope.analysis.trace import conform, empty
from kernelscope.analysis.trace.records import read_object

TRACE_FILE = "operators.onnxruntime.json"
START_FILE = "operators.start.json"
_ENDING = "_kernel_time"
_COMPUTING = (("conv", "convolution"), ("gemm", "dense"), ("matmul", "dense"))  # part of an operator -> type of its layer


def read(folder: Path, context: Context) -> Evidence:
    """Return operators and kernels of a kernels pass; raise EvidenceError if the profile cannot be read."""
    files = context.report.get("operator_files", [TRACE_FILE])
    if not files:
        return Evidence(empty("operators"), empty("kernels"))
    table = _nodes(folder / files[0])
    begun = read_object(folder / START_FILE).get("wall_ns")
    if not isinstance(begun, int):
        raise EvidenceError(f"{folder / START_FILE}: wall_ns is not a number; record the pass again")
    table["start_ns"] = context.clock.from_wall(begun + 1000 * table["ts"].to_numpy(np.int64))
    table["duration_ns"] = 1000 * table["dur"].to_numpy(np.int64)
    table["end_ns"] = table["start_ns"] + table["duration_ns"]
    # rounding down loses at most a microsecond
    table = table[context.in_steps(table["start_ns"].to_numpy(np.int64))].reset_index(drop=True)
    _name_layers(table, context.network)
    table = table.assign(operator=table["type"], phase="forward", count=1, device="cpu")
    diagnostics = {"nodes of unknown layer": int(table["layer"].isna().sum())}
    return Evidence(conform("operators", table.assign(name=table["type"])), conform("kernels", table), diagnostics)


def _nodes(path: Path) -> pd.DataFrame:
    """Return the profile's events of nodes, sorted by begin, with their descriptions."""
    try:
        events = json_text.parsed(path.read_bytes())
        rows = [_row(event) for event in events if event.get("cat") == "Node" and str(event["name"]).endswith(_ENDING)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"{path}: not a profile of ONNX Runtime ({error}); record the pass again") from error
    columns = ["ts", "dur", "thread", "name", "type", *nodes.Described._fields]
    table = pd.DataFrame(rows, columns=columns).astype({"ts": "int64", "dur": "int64", "thread": "int64"})
    return table.sort_values("ts", kind="stable").reset_index(drop=True)


def _row(event: dict[str, Any]) -> dict[str, Any]:
    arguments, name = event["args"], str(event["name"])[: -len(_ENDING)]
    operator = str(arguments["op_name"])
    inputs, outputs = (nodes.tensors(arguments.get(key, [])) for key in ("input_type_shape", "output_type_shape"))
    what = nodes.described(name, operator, inputs, outputs)._asdict()
    return {"ts": int(event["ts"]), "dur": int(event["dur"]), "thread": int(event["tid"]), "name": name, "type": operator, **what}


def _name_layers(table: pd.DataFrame, network: dict[str, Any]) -> None:
    """Set layer and attribution of each node, by its name or else by the node beside it."""
    layers = {str(layer["name"]): layer for layer in network["layers"]}
    named = {pair: _layer(*pair, layers) for pair in set(zip(table["name"], table["type"], strict=True))}
    result = pd.Series(
        [named[pair] for pair in zip(table["name"], table["type"], strict=True)], dtype="string", index=table.index
    )
    into = (table["type"] == "ReorderInput").to_numpy(dtype=bool)
    beside = result.ffill().mask(into, result.bfill())
    table["layer"] = result.fillna(beside)
    by_order = result.isna() & table["layer"].notna()
    table["attribution"] = np.where(result.notna(), "operator name", np.where(by_order, "stream order", "none"))


def _layer(name: str, operator: str, layers: dict[str, Any]) -> str | None:
    """Return the longest layer name in a node's name; for a fused product or convolution, the layer that computes it."""
    holding = [layer for layer in layers if re.search(rf"(?<![A-Za-z0-9]){re.escape(layer)}(?![A-Za-z0-9])", name)]
    if not holding:
        return None
    last = max(holding, key=len)
    wanted = next((kind for sign, kind in _COMPUTING if sign in operator.lower()), None)
    layer: str | None = last
    while wanted is not None and layer in layers:
        if layers[layer]["type"] == wanted:
            return layer
        layer = next(iter(layers[layer]["inputs"]), None)
    return last
