"""CUDA graphs whose kernels were not recorded, against kernels that were."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kernelscope.analysis.accounting.device_account import GRAPH
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding


def opaque(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side's work is inside of CUDA graphs, of which the capture shows the whole and no kernel."""
    left = case.left
    graphs = left[(left["part"] == GRAPH).to_numpy(bool)]
    if graphs.empty:
        return
    times = {key: float(graphs[f"{key}_ns"].sum()) for key in SIDES}
    if min(times.values()) > 0.1 * max(times.values()):
        yield DeviceFinding(
            "CUDA graphs", f"the CUDA graphs themselves take {words.of_rows(case, graphs)}", graphs["row"].tolist(), "medium",
            ["Their kernels were not recorded: what of them differs cannot be told."],
            "record them: nsys profile --cuda-graph-trace=node", structural=True)  # fmt: skip
        return
    rows = pd.concat([graphs, case.kernels()])
    mine = max(SIDES, key=lambda key: times[key])
    other = case.b if mine == "a" else case.a
    yield DeviceFinding(
        "CUDA graphs",
        f"{case.side(mine).name} computes in CUDA graphs, {other.name} launches kernels one by one: {words.of_rows(case, rows)}",
        rows["row"].tolist(),
        "medium",
        [f"Graphs, whose kernels were not recorded, take {words.ms(times[mine])} of a step of {case.side(mine).name}.",
         *words.both(case, case.kernels())],
        "to compare kernel by kernel, record with nsys profile --cuda-graph-trace=node", structural=True)  # fmt: skip


RULES = (opaque,)
