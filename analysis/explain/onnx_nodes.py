"""Nodes of two of ONNX Runtime's own profiles: whether both ran one model, and which nodes take longer on one side.

A node is known by its name, its layer (the path in its name), or its operator with the shapes of its inputs: exporters and the
optimizer change names, other batches change shapes. Parts of the graph that a provider compiled, and what ONNX Runtime put in
itself, say nothing about the model.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.explain.device.words import listed
from kernelscope.analysis.explain.model import Side
from kernelscope.analysis.formats.onnxruntime import first_run, nodes
from kernelscope.analysis.trace import Trace

KEYS = ["scope", "name", "layer", "shapes", "types"]

_DERIVED = "nodes of ONNX Runtime"
_HARDLY, _PARTLY = 0.05, 0.5  # of the time of one side's nodes, and of the other's: in nodes that the other side has, too
_MOST = 0.8  # likewise, of each side: then both ran the same work
_LEAST = 2  # nodes that say something about the model: a single one may be a rest that a provider left
# How many times as long a node must take, at least, and so must nearly all of its runs. With fewer than _ENOUGH runs of a side it
# must also take so much longer (ns) that no disturbance of a run does it: other programs hold a core up for milliseconds
_LONGER, _FEW_LONGER, _ENOUGH, _DISTURBED = 1.25, 1.5, 4, 20_000_000
_EDGE = 0.1
_COUNT = 0.1  # executions in a run
_NAMED = 2


def of(trace: Trace) -> pd.DataFrame:
    """Return the nodes of measured runs: KEYS (texts), count per run, and ns: the median over runs of their time in one.

    low_ns and high_ns: between them lie all runs but a tenth at either end; of fewer than ten runs, all.

    Empty if the trace is no profile of ONNX Runtime. Nodes that contain others (If, Loop) are left out.
    """
    if _DERIVED not in trace.derived:
        trace.derived[_DERIVED] = _nodes(trace)
    return cast(pd.DataFrame, trace.derived[_DERIVED])


def _nodes(trace: Trace) -> pd.DataFrame:
    steps = trace.steps[~trace.steps["warmup"]]
    rows = trace.operators[: None if first_run.is_profile(trace) else 0]
    rows = rows[~rows["name"].isin(nodes.CONTROL).to_numpy(bool)]
    run = device_steps.step_at(rows["start_ns"], steps) if len(steps) else pd.Series(0, index=rows.index)
    rows = rows.assign(run=run, ns=rows["end_ns"] - rows["start_ns"])[run.notna().to_numpy(bool)]
    each = rows.groupby([*KEYS, "run"], observed=True, dropna=False)["ns"].agg(["sum", "size"]).reset_index()
    found = each.groupby(KEYS, observed=True, dropna=False)
    times = {
        "low_ns": found["sum"].quantile(_EDGE, interpolation="lower"),
        "ns": found["sum"].quantile(0.5),
        "high_ns": found["sum"].quantile(1 - _EDGE, interpolation="higher"),
    }
    table = pd.DataFrame({"count": found["size"].sum() / max(len(steps), 1), **times}).reset_index()
    return table.assign(**{name: table[name].astype("string").fillna("") for name in KEYS})


Shares = tuple[float, float]  # of A and of B


def shared(a: Trace, b: Trace) -> tuple[Shares | None, Shares] | None:
    """Return which share of the time of each side's nodes is in nodes that the other side has: of nodes that say something about
    the model (None if a side has too few), and of all nodes. None if one side is no profile of ONNX Runtime, or has no nodes.
    """
    tables = [of(trace) for trace in (a, b)]
    if min(map(len, tables)) == 0:
        return None
    said, telling = [_words(table) for table in tables], [_tells(table) for table in tables]
    sides = list(zip(tables, said, said[::-1], telling, strict=True))
    named, whole = ([_share(*one[:3], one[3] if only else None) for one in sides] for only in (True, False))
    enough = min(int(mine.sum()) for mine in telling) >= _LEAST
    return ((named[0], named[1]) if enough else None), (whole[0], whole[1])


def _tells(table: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which nodes say something about the model."""
    compiled = table["name"].map(nodes.is_compiled).astype(bool)
    return (~compiled & (table["layer"] != "")).to_numpy(bool)


def _words(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each node is known by, null where unknown."""
    operator = table["name"] + " " + table["shapes"]
    known = {"scope": table["scope"] != "", "layer": table["layer"] != "", "operator": table["shapes"].str.contains(r"\d")}
    words = pd.DataFrame({"scope": table["scope"], "layer": table["layer"], "operator": operator})
    return pd.DataFrame({name: words[name].where(there) for name, there in known.items()})


def _share(table: pd.DataFrame, mine: pd.DataFrame, other: pd.DataFrame, chosen: npt.NDArray[np.bool_] | None) -> float:
    """Return the share of a side's nodes' time in those that the other side has, or of the chosen ones' time."""
    both = np.logical_or.reduce([mine[name].isin(other[name].dropna()).to_numpy(bool) for name in mine])
    ns = table["ns"].to_numpy(float)
    chosen = np.ones(len(ns), dtype=bool) if chosen is None else chosen
    return float(ns[both & chosen].sum() / max(ns[chosen].sum(), 1.0))


def unlike(a: Side, b: Side) -> list[str]:
    """Say that two profiles have next to no node in common, as different models have; empty if they may be of one model."""
    found = shared(a.trace, b.trace)
    named = None if found is None else found[0]
    if named is None or min(named) >= _HARDLY or max(named) >= _PARTLY:
        return []
    models = "these are different models, or different parts of one"
    if any(named):
        return [f"{_in_common(a, b, named)}: {models}"]
    return [f"no node of {a.name} has the name, or the operator and the shapes, of a node of {b.name}: {models}"]


def doubt(a: Side, b: Side) -> str | None:
    """Say that it is not known whether two profiles are of one model; None if most of their time is in the same nodes.

    None, too, for other recordings.
    """
    found = shared(a.trace, b.trace)
    if found is None or min(found[1]) >= _MOST:
        return None
    compiled = " (nodes that a provider compiled do not show what they compute)" if found[0] is None else ""
    return f"{_in_common(a, b, found[1])}: whether both ran one model is not known{compiled}"


def both_compute(a: Side, b: Side) -> bool:
    """Return whether two profiles can be compared by kernels: nodes of a GPU's provider are none, as they only queue work.

    True for other recordings.
    """
    profiles = all(first_run.is_profile(side.trace) for side in (a, b))
    return not profiles or a.trace.kernels.empty == b.trace.kernels.empty


def _in_common(a: Side, b: Side, shares: Shares) -> str:
    """Return how much of the time of each side's nodes is in nodes that the other side has, too."""
    of_a, of_b = map(_percent, shares)
    return (
        f"nodes that both sides have, by name or by operator and shapes, take {of_a} of the time of the nodes of {a.name} and "
        f"{of_b} of those of {b.name}"
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 or not share else "under 1%"


def longer(slow: Trace, fast: Trace) -> pd.DataFrame:
    """Return the nodes that take longer in `slow` than in `fast`, by more than runs of one session differ; longest first.

    Columns: KEYS, slow_ns and fast_ns (medians over runs), and delta_ns. Such nodes have the same name, operator, shapes and
    types on both sides, and run equally often.
    """
    tables = [of(slow), of(fast)]
    both = tables[0].merge(tables[1], on=KEYS, suffixes=("_slow", "_fast"))
    factor, least_ns = (_FEW_LONGER, _DISTURBED) if runs_are_few(slow, fast) else (_LONGER, 0)
    kept = (both["count_slow"] - both["count_fast"]).abs() < _COUNT
    kept &= (both["ns_slow"] > factor * both["ns_fast"]) & (both["low_ns_slow"] > both["high_ns_fast"] + least_ns)
    found = both[kept.to_numpy(bool)]
    table = found[KEYS].assign(slow_ns=found["ns_slow"], fast_ns=found["ns_fast"], delta_ns=found["ns_slow"] - found["ns_fast"])
    return table.sort_values("delta_ns", ascending=False, kind="stable", ignore_index=True)


def runs_are_few(a: Trace, b: Trace) -> bool:
    """Return whether a profile has so few runs that any of them may be disturbed."""
    return min(int((~trace.steps["warmup"]).sum()) for trace in (a, b)) < _ENOUGH


def names(table: pd.DataFrame, most: int = _NAMED) -> str:
    """List nodes with their operators: Times212/MatMulAddFusion (Gemm)."""
    scope, operator = table["scope"].tolist(), table["name"].tolist()
    pairs = zip(scope, operator, strict=True)
    return listed([f"{node} ({kind})" if node and node != kind else kind for node, kind in pairs], most)
