"""Place MKL_VERBOSE lines of a CNTK run in its nodes: the fallback where calls of MKL cannot be timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from kernelscope.analysis.files import stream
from kernelscope.analysis.formats.mkl import verbose_tables as mkl_verbose

COLUMNS = (
    "thread", "start_ns", "end_ns", "name", "kind", "dtype", "problem", "layout", "algorithm", "transpose", "m", "n", "k",
    "owner", "layer", "phase", "operator", "attribution",
)  # fmt: skip


def no_calls() -> pd.DataFrame:
    """Return an empty table of calls."""
    return pd.DataFrame({column: pd.Series(dtype="object") for column in COLUMNS})


def place(
    path: Path, operators: pd.DataFrame, steps: pd.DataFrame, graph: dict[str, Any], diagnostics: dict[str, int]
) -> pd.DataFrame:
    """Return the matrix products of a captured stream, each in the node that ran it.

    Within a step, the n-th product of certain dimensions belongs to the n-th execution of the nodes whose parameters have these
    dimensions: output and input size in forward, both sides of a gradient in backward. It starts with its node, or after the
    node's earlier products. Other lines are left out and counted in the diagnostics.
    """
    result = stream.split(path)
    lines = mkl_verbose.parse(result.mkl)
    lines = lines.assign(step=_step_of(lines["line_number"], result.markers, steps))
    products = lines[(lines["kind"] == "gemm") & lines["step"].notna()].copy()
    expected = _expected(operators, steps, graph)
    keys = ["step", "transpose", "m", "k_or_n"]
    products["k_or_n"] = products["k"].mask(products["transpose"] == "NT", products["n"])
    products["number"] = products.groupby(keys).cumcount()
    expected["number"] = expected.groupby(keys).cumcount()
    joined = products.merge(expected, on=[*keys, "number"], how="inner")
    diagnostics["mkl_lines_not_placed"] = int(lines["step"].notna().sum()) - len(joined)
    earlier = joined.groupby("owner")["duration_ns"].cumsum() - joined["duration_ns"]
    joined["start_ns"] = (joined["node_start"] + earlier).clip(upper=joined["node_end"])
    joined["end_ns"] = (joined["start_ns"] + joined["duration_ns"]).clip(upper=joined["node_end"])
    joined["name"] = joined["function"].str.lower()
    alone = expected.groupby(["transpose", "m", "k_or_n"])["layer"].nunique().rename("layers")
    joined = joined.join(alone, on=["transpose", "m", "k_or_n"])
    joined["attribution"] = pd.Series("stream order", index=joined.index, dtype="string").mask(joined["layers"] == 1, "shape")
    return joined.assign(layout=None, algorithm=None)[list(COLUMNS)]


def _step_of(line_number: pd.Series, markers: pd.DataFrame, steps: pd.DataFrame) -> pd.Series:
    """Return the step between whose markers each line stands; null outside of measured steps."""
    marks = markers[markers["name"].str.match(r"step \d+$")]
    number = marks["name"].str.slice(len("step ")).astype("int64").where(marks["edge"] == "B")
    at = marks["line_number"].searchsorted(line_number) - 1
    step = pd.Series(number.to_numpy()[at], index=line_number.index).where(at >= 0)
    return step.where(step.isin(steps.loc[~steps["warmup"], "step"])).astype("Int64")


def _expected(operators: pd.DataFrame, steps: pd.DataFrame, graph: dict[str, Any]) -> pd.DataFrame:
    """Return the products of each execution of a Times node, in order: step, transpose, m, k_or_n, owner, layer."""
    rows = []
    for uid, node in graph["nodes"].items():
        weights = [graph["parameters"][name]["shape"] for name in node["inputs"] if name in graph["parameters"]]
        if node["op"] != "Times" or not weights or len(weights[0]) < 2:
            continue
        result, inputs = weights[0][-1], 1
        for size in weights[0][:-1]:
            inputs *= size
        rows.append((uid, "forward", 0, "NN", result, inputs))
        rows.append((uid, "backward", 0, "NT", result, inputs))
        if not any(name in graph["inputs"] for name in node["inputs"]):  # no one needs the gradient of the inputs
            rows.append((uid, "backward", 1, "TN", inputs, result))
    products = pd.DataFrame(rows, columns=["uid", "phase", "order", "transpose", "m", "k_or_n"])
    ordered = steps.sort_values("start_ns")
    at = ordered["start_ns"].searchsorted(operators["start_ns"], side="right") - 1
    nodes = operators.assign(step=ordered["step"].to_numpy()[at], owner=operators.index, node_start=operators["start_ns"])
    nodes = nodes.assign(node_end=operators["end_ns"], uid=operators["scope"].str.split("/").str[-1])
    nodes = nodes.assign(operator=operators["name"])
    columns = ["step", "owner", "thread", "node_start", "node_end", "operator", "layer", "phase", "uid"]
    matches = nodes[columns].merge(products, on=["uid", "phase"]).sort_values(["node_start", "order"])
    return matches.astype({"step": "Int64", "m": "Int64", "k_or_n": "Int64", "transpose": "string"})
