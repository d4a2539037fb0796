"""Communication between devices that no kernel hides."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelscope.analysis.accounting.device_account import COMMUNICATION
from kernelscope.analysis.explain.device import words
from kernelscope.analysis.explain.device.case import SIDES, DeviceCase, DeviceFinding

_PACE = 0.15  # share by which collectives may differ from run to run, as ranks wait for one another
_REMEDY = "overlap it with the backward pass (larger buckets, a stream of its own), send less data, and balance the ranks"


def exposed(case: DeviceCase) -> Iterator[DeviceFinding]:
    """Collectives take more of the step on one side: they last longer, or other work hides less of them."""
    left = case.left
    rows = left[(left["part"] == COMMUNICATION).to_numpy(bool)]
    if rows.empty:
        return
    slow, slower, fast, faster = words.slower(case, rows)
    lasted = {key: float(rows[f"{key}_duration_ns"].sum()) for key in SIDES}
    own = max(float(rows["a_ns"].sum()), float(rows["b_ns"].sum()))
    longer = lasted[slow] - lasted[fast] > 0.5 * abs(float(rows["delta_ns"].sum()))
    if longer and min(lasted.values()) > 0 and abs(float(rows["delta_ns"].sum())) < _PACE * own:
        return
    how = "its kernels last longer, transferring or waiting for other ranks" if longer else "less of it is hidden behind kernels"
    if min(lasted.values()) == 0:
        how = f"{faster} has none"
    sentences = [
        f"Exposed communication: {words.of_rows(case, rows)} {case.per}.",
        f"Its whole duration, hidden or not: {words.change(case, lasted['a'], lasted['b'])}.",
        *words.both(case, rows),
    ]
    if longer:
        sentences.append("The capture of one rank does not show whether it transfers data or waits for another rank.")
    which = words.listed((_collective(name) for name in rows.sort_values(f"{slow}_ns", ascending=False)["name"]), 2)
    yield DeviceFinding(
        "exposed communication", f"exposed communication ({which}) costs {slower} more than {faster}: {how}",
        rows["row"].tolist(), "medium" if longer else "high", sentences, _REMEDY,
    )  # fmt: skip


def _collective(name: object) -> str:
    """Return the collective in a kernel's name, such as AllReduce."""
    match = re.search(r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|send_?recv|reduce", str(name))
    return match[0] if match else words.kernel(name)


RULES = (exposed,)
