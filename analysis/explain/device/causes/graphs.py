"""CUDA graphs whose kernels were not recorded, and CUDA graphs compared with kernels launched one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.device_account import GRAPH
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import PACE, SIDES, DeviceCase, DeviceFinding
from kernelscope.analysis.explain.device.compiled import in_steps
from kernelscope.analysis.explain.device.side import DeviceSide
from kernelscope.analysis.formats.nsys import RECORD_GRAPHS

_MANY = 5  # times as many launches without graphs


def opaque(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side works in CUDA graphs that the capture shows as a whole, without their kernels."""
    left = case.left
    graphs = left[(left["part"] == GRAPH).to_numpy(bool)]
    if graphs.empty:
        return
    times = {key: float(graphs[f"{key}_ns"].sum()) for key in SIDES}
    if min(times.values()) > 0.1 * max(times.values()):
        yield DeviceFinding(
            "CUDA graphs", f"the CUDA graphs themselves take {words.of_rows(case, graphs)}", graphs["row"].tolist(), "medium",
            ["Their kernels were not recorded, so their difference cannot be split."],
            f"record them: {RECORD_GRAPHS}", structural=True)  # fmt: skip
        return
    rows = pd.concat([graphs, case.kernels()])
    mine = max(SIDES, key=lambda key: times[key])
    other = case.b if mine == "a" else case.a
    yield DeviceFinding(
        "CUDA graphs",
        f"{case.side(mine).name} computes in CUDA graphs, {other.name} launches kernels one by one: {words.of_rows(case, rows)}",
        rows["row"].tolist(),
        "medium",
        [f"Graphs, whose kernels were not recorded, take {words.duration(times[mine])} {case.per} in {case.side(mine).name}.",
         *words.both(case, case.kernels())],
        f"to compare kernel by kernel, record with {RECORD_GRAPHS}", structural=True)  # fmt: skip


def replayed(case: DeviceCase) -> Iterator[DeviceFinding]:
    """One side launches CUDA graphs, whose kernels were recorded; the other launches each kernel, and its device waits."""
    launches = {key: _launches(case.side(key)) for key in SIDES}
    idle = case.idle([*PACE, idle_causes.QUEUED])
    slow, slower, fast, faster = words.slower(case, idle)
    graphs, single = launches[fast].graphs, launches[slow].kernels
    if launches[slow].graphs > 0.5 or graphs < 0.5 or single < _MANY * max(launches[fast].kernels + graphs, 1):
        return
    title = (
        f"CUDA graphs: {faster} launches {words.count(graphs)} graph{'s' * (graphs > 1)} {case.per}, {slower} "
        f"{words.count(single)} kernels one by one; the device waits for the host: {words.of_rows(case, idle)}"
    )
    sentences = [
        f"{case.side(key).name} launches {words.count(one.graphs)} graphs and {words.count(one.kernels)} kernels {case.per}."
        for key, one in launches.items()
    ]
    remedy = "torch.cuda.graph or torch.compile(mode='reduce-overhead'), as the other side does"
    yield DeviceFinding("CUDA graphs", title, idle["row"].tolist(), "high", sentences, remedy)


@dataclass(frozen=True)
class _Launches:
    """How often per step the host launches graphs, and kernels one by one."""

    graphs: float
    kernels: float


def _launches(side: DeviceSide) -> _Launches:
    calls = side.trace.calls
    names = calls.loc[in_steps(calls, side.trace).to_numpy(bool), "name"].astype("string")
    steps = max(len(side.account.lengths), 1)
    return _Launches(*(float(names.str.contains(pattern).sum()) / steps for pattern in ("GraphLaunch", "LaunchKernel")))


RULES = (opaque, replayed)
