"""PyTorch: kernels that torch.compile generates for CPUs, which the profiler does not record one by one.

The profiler records the call of a compiled graph and the library operators inside it. The graph's own time between these is
generated kernels, except for Python's calls, which take less than LEAST_NS each.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.attribution.frameworks import Context
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto.tables import Scan
from kernelscope.analysis.trace import intervals

GRAPH = "## Call CompiledFxGraph"  # prefix of Inductor's calls of a compiled graph in the profiler's annotations
NAME = "generated code of torch.compile"
LEAST_NS = 20_000  # shorter pieces are Python's calls between library operators


def kernels(scan: Scan, operators: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the generated code in compiled graphs as kernels, piece by piece, with layer and phase of the graph's caller.

    operators: the table of `frameworks.pytorch`.
    """
    events = scan.tables["annotations"]
    events = events[events["name"].astype("string").str.startswith(GRAPH).fillna(False).to_numpy(bool)]
    threads = kineto.whole_numbers(scan.tracks["thread"]).take(events["track"].to_numpy())
    start = context.clock.from_wall(events["start_ns"].to_numpy(np.int64))
    graphs = pd.DataFrame(
        {"thread": threads.array, "start_ns": start, "end_ns": start + events["duration_ns"].to_numpy(np.int64)}
    )
    graphs = graphs[context.in_steps(start) & graphs["thread"].notna().to_numpy(bool)].reset_index(drop=True)
    spans = [np.concatenate(both) for both in zip(intervals.spans(graphs), intervals.spans(operators), strict=True)]
    row, begin, end = intervals.leaves(*spans)
    chosen = (row < len(graphs)) & (end - begin >= LEAST_NS)
    row, begin, end = row[chosen], begin[chosen], end[chosen]
    thread = spans[0][row]
    table = pd.DataFrame({"name": NAME, "thread": thread, "start_ns": begin, "end_ns": end})
    caller = intervals.innermost(*intervals.spans(operators), thread, begin)
    for column in ("layer", "phase", "attribution"):
        table[column] = operators[column].reindex(np.where(caller >= 0, caller, -1)).to_numpy()
    table = table.assign(operator="CompiledFxGraph", library="inductor", kind="fused")
    return table.assign(duration_ns=table["end_ns"] - table["start_ns"], count=1, device="cpu")
