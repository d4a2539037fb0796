"""Copies between host and device: their time, their bytes, and whether the host's memory is pageable."""

from __future__ import annotations

from kernelscope.analysis.accounting.amounts import size
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

CAUSE = "copies between host and device"
BETWEEN = ("host to device", "device to host", "unified memory", "peer to peer")

_REMEDIES = {
    "pytorch": "DataLoader(pin_memory=True) with .to(device, non_blocking=True); keep reused data on the device",
    "tensorflow": "tf.data.experimental.prefetch_to_device; keep reused data on the device",
    "mxnet": "gluon.data.DataLoader(pin_memory=True); keep reused data on the device",
}


def _copied(side: Side) -> dict[str, float]:
    """Return what is copied between host and device per step: copies, bytes (unknown as NaN) and bytes of pageable memory."""
    copies = side.trace.copies
    mine = copies[copies["operation"].isin(BETWEEN).to_numpy(bool)]
    steps = side.trace.steps[~side.trace.steps["warmup"]]
    if len(steps) and mine["start_ns"].notna().all():
        inside = (mine["start_ns"] >= steps["start_ns"].min()) & (mine["start_ns"] < steps["end_ns"].max())
        mine = mine[inside.to_numpy(bool)]
    pageable = mine["memory"].astype("string").str.contains("pageable", case=False).fillna(False).to_numpy(bool)
    count = max(len(steps), 1)
    sums = {"copies": mine["count"].sum(), "bytes": mine["bytes"].sum(), "pageable": mine["bytes"][pageable].sum()}
    return {name: float(value) / count for name, value in sums.items()}


def copies(case: Case) -> list[Suspicion]:
    """Copies between host and device, and the host's calls that make them, take longer on one side."""
    rows = evidence.device(case, *(f"copy {operation}" for operation in BETWEEN))
    calls = evidence.host(case, api.COPYING)
    rows = case.rows[case.rows["row"].isin([*rows["row"], *calls["row"]]).to_numpy(bool)]
    amount = evidence.noticed_ns(case, rows)
    if abs(amount) < evidence.worth_ns(case):
        return []
    slow = case.b if amount > 0 else case.a
    a, b = _copied(case.a), _copied(case.b)
    sentences = [
        f"Copies per step: {evidence.pair(case, (a['copies'], b['copies']))}; "
        f"they move {size(a['bytes'])} for {case.a.name}, {size(b['bytes'])} for {case.b.name}.",
        f"The step waits for them: {evidence.both_times(case, rows['a_ns'].sum(), rows['b_ns'].sum())}.",
    ]
    mine = a if slow is case.a else b
    if mine["pageable"] > 0:
        sentences.append(f"In {slow.name}, {size(mine['pageable'])} a step come from or go to pageable memory.")
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} spends more time copying between host and device",
            evidence.claims(rows),
            "high",
            sentences,
            _REMEDIES.get(str(slow.framework), "pinned memory, asynchronous copies, and data that stays on the device"),
        )
    ]


RULES: tuple[Rule, ...] = (copies,)
