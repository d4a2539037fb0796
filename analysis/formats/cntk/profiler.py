"""CNTK's timeline: nodes that a thread executed, and the parts of each minibatch, in microseconds since the profiler started.

Nodes are operators, and those that compute are kernels. The thread's own clock times them, so on a GPU a node's time is its
kernels' time only if the profiler waited for the GPU (start_profiler's sync_gpu, the default).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.files.head import Head
from kernelscope.analysis.formats import scopes
from kernelscope.analysis.formats.cntk import profiler_tables as cntk_profiler
from kernelscope.analysis.formats.holders import holders
from kernelscope.analysis.trace import Trace, conform

_FIRST = re.compile(r"\[\s*\{[^{}]{0,400}\}")
_WEIGHT_UPDATE = "Weight Update"
_MINIBATCH = "Minibatch Iteration"
# Bookkeeping of gradients, which CNTK times like a node though it computes nothing
NO_KERNELS = ("Input", "Parameter", "Constant", "Combine")


def matches(head: Head) -> bool:
    """Return whether this is an array of events whose first one has CNTK's only category, and is a begin or an end."""
    first = _FIRST.match(head.text.lstrip()) if head.is_text else None
    return first is not None and re.search(r'"cat"\s*:\s*"PERF".*"ph"\s*:\s*"[BE]"', first[0], re.DOTALL) is not None


def read(path: Path) -> Trace:
    """Read a timeline; raise EvidenceError if it cannot be read or is not one."""
    timeline = cntk_profiler.read_timeline(path)
    late = (timeline["end_ns"] < timeline["start_ns"]).to_numpy(dtype=bool)
    timeline["end_ns"] = timeline[["start_ns", "end_ns"]].max(axis=1)
    is_node = timeline["node"].notna().to_numpy(dtype=bool)
    parts = timeline[~is_node]
    parts = parts.assign(name=parts["name"].str.lstrip("_"))
    steps, overlapping = _steps(parts[parts["name"] == _MINIBATCH])
    diagnostics = {
        "events without a partner": int(timeline.attrs["unpaired"]),
        "ends before starts": int(late.sum()),
        "minibatches of other threads": overlapping,
    }
    nodes = timeline[is_node]
    nodes = nodes.assign(scope=nodes["node"], name=nodes["node"].str.replace(r"\d+$", "", regex=True))
    return Trace(
        steps=steps,
        ranges=conform("ranges", parts.assign(category="user", nested=True)),
        operators=conform("operators", nodes.assign(attribution="none")),
        kernels=conform("kernels", _kernels(nodes, parts[parts["name"] == _WEIGHT_UPDATE])),
        info=_info(bool(len(nodes))),
        diagnostics={name: count for name, count in diagnostics.items() if count},
    )


def _steps(minibatches: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return as steps the minibatches of the thread with the most of them, and the number of others and overlapping ones."""
    if minibatches.empty:
        return conform("steps", []), 0
    thread = minibatches["thread"].mode().iloc[0]
    own = minibatches[minibatches["thread"] == thread].sort_values("start_ns", kind="stable")
    ends = own["end_ns"].cummax().shift(fill_value=0)
    own = own[own["start_ns"] >= ends]
    steps = own[["thread", "start_ns", "end_ns"]].assign(step=np.arange(len(own)), warmup=False)
    return conform("steps", steps), len(minibatches) - len(own)


def _kernels(nodes: pd.DataFrame, updates: pd.DataFrame) -> pd.DataFrame:
    """Return the nodes that compute and contain no other, and the weight updates."""
    computing = nodes[~holders(nodes) & ~nodes["name"].isin(NO_KERNELS).to_numpy(dtype=bool)]
    computing = computing.assign(kind=scopes.kinds(computing["name"], computing["phase"]))
    chosen = pd.concat([computing, updates.assign(kind="optimizer")], ignore_index=True)
    return chosen.sort_values("start_ns", kind="stable").assign(
        duration_ns=chosen["end_ns"] - chosen["start_ns"],
        count=1,
        device="cpu",
        library="cntk",
        operator=chosen["name"],
        attribution="none",
    )


def _info(has_nodes: bool) -> dict[str, Any]:
    unavailable = {"layers": "the timeline names nodes by CNTK's numbers, not layers"}
    if not has_nodes:
        unavailable["kernels"] = (
            "the timeline holds no nodes; call cntk.debugging.set_node_timing(True) before building the graph"
        )
    return {
        "source": {"format": "cntk-profiler", "tool": "cntk.debugging.start_profiler", "version": None, "schema": None},
        "clock": "relative",
        "framework": "cntk",
        "devices": [{"device": "cpu"}],
        "unavailable": unavailable,
        "notes": [
            "CNTK's times are truncated to whole microseconds",
            "the timeline does not say where CNTK computed: nodes are shown as work of the thread that ran them",
        ],
    }
