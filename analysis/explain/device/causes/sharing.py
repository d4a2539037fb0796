"""Another process uses the same device: its time slices interrupt one side's kernels."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.analysis.accounting.device_account import INTERRUPTED
from kernelscope.analysis.accounting.interruptions import interruptions
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding

_REMEDY = "give each process a device of its own (CUDA_VISIBLE_DEVICES), or start NVIDIA's MPS where they must share one"


def interrupted(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Kernels are interrupted for longer on one side than on the other."""
    rows = case.left[(case.left["part"] == INTERRUPTED).to_numpy(bool)]
    if rows.empty:
        return
    slow, slower, _, _ = words.slower(case, rows)
    found = interruptions(case.side(slow).trace)
    if found is None:
        return
    counts = {key: words.count(float(rows[f"{key}_count"].sum())) for key in SIDES}
    title = (
        f"shared device: another process uses the device of {slower} and interrupts its kernels: {words.of_rows(case, rows)} "
        f"{case.per}"
    )
    sentences = [
        f"Interrupted kernels {case.per}: {counts['a']} in {case.a.name}, {counts['b']} in {case.b.name}, for about "
        f"{words.duration(found.usual_ns)} each, as long as a time slice.",
        "Other launches of the same kernels on the same grids were not interrupted. The kernels' own time excludes it.",
    ]
    yield DeviceFinding("shared device", title, rows["row"].tolist(), "high", sentences, _REMEDY)


RULES = (interrupted,)
