"""Synchronisation: the host waits for the device, and then the device waits for the host to catch up."""

from __future__ import annotations

import re

from kernelscope.analysis.accounting import levels
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

CAUSE = "synchronisation"

# A side must wait this many times more per step: every loop waits once at its end (to read the loss)
MORE_WAITS = 1.0
# Launches that differ by less are the same work, so gaps between them come from the waits
SAME_LAUNCHES = 0.10
_WAITING = re.compile(r"synchronize", re.IGNORECASE)
_READING = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero")

_REMEDIES = {
    "pytorch": "keep values on the device: no .item(), .cpu() or print of tensors within the step; read the loss every n steps",
    "tensorflow": "keep values in tensors: no .numpy() or float() within the step; read the loss every n steps",
    "mxnet": "no asnumpy(), asscalar() or wait_to_read() within the step; read the loss every n steps",
    "cntk": "read losses every n steps: trainer.previous_minibatch_loss_average waits",
}


def _waits(side: Side) -> float | None:
    """Return how often a step waits for the device: calls that synchronise, or our ranges around reading a value; None if
    unknown.
    """
    trace = side.trace
    if len(trace.calls):
        names = [name for name in trace.calls["name"].cat.categories if _WAITING.search(name)]
        return evidence.per_step(side.trace, trace.calls[trace.calls["name"].isin(names).to_numpy(bool)])
    if len(trace.syncs):
        return evidence.per_step(side.trace, trace.syncs)
    if len(trace.ranges):
        return evidence.per_step(side.trace, trace.ranges[(trace.ranges["category"] == "sync").to_numpy(bool)])
    return None


def _launches(side: Side) -> float | None:
    """Return how many kernels a step launches; on a CPU, how many operators it runs."""
    trace = side.trace
    if len(trace.calls):
        names = [name for name in trace.calls["name"].cat.categories if api.launches_kernels(name)]
        return evidence.per_step(side.trace, trace.calls[trace.calls["name"].isin(names).to_numpy(bool)])
    return evidence.per_step(side.trace, trace.operators[trace.operators["scope"].notna() | trace.operators["layer"].notna()])


def waits(case: Case) -> list[Suspicion]:
    """One side waits more often: this claims the waits and, if as much is launched, the gaps after them."""
    counts = (_waits(case.a), _waits(case.b))
    rows = evidence.host(case, levels.WAITING)
    if counts[0] is None or counts[1] is None or abs(counts[1] - counts[0]) < MORE_WAITS:
        return []
    slow, sign = (case.b, 1) if counts[1] > counts[0] else (case.a, -1)
    launches = (_launches(case.a), _launches(case.b))
    if launches[0] and launches[1] and abs(launches[1] - launches[0]) <= SAME_LAUNCHES * max(launches[0], launches[1]):
        behind = evidence.host(
            case, api.LAUNCHING, api.OTHER, levels.DISPATCH, levels.IN_OPERATOR, levels.IN_LAYER, levels.IN_PHASE,
            levels.IN_RANGE, levels.OUTSIDE, levels.SCRIPT, levels.UNSEEN,
        )  # fmt: skip
        copies = evidence.device(case, "copy device to host")
        rows = case.rows[case.rows["row"].isin([*rows["row"], *behind["row"], *copies["row"]]).to_numpy(bool)]
    amount = evidence.noticed_ns(case, rows)
    if amount * sign < evidence.worth_ns(case):
        return []
    sentences = [
        f"Waits per step: {evidence.pair(case, counts)}.",
        f"The device idles during and after them: {evidence.both_times(case, rows['a_ns'].sum(), rows['b_ns'].sum())}.",
    ]
    reading = _reading(case)
    return [
        Suspicion(
            CAUSE,
            f"{slow.name} waits for the device within its steps",
            evidence.claims(rows),
            "high" if reading else "medium",
            [*sentences, *reading],
            _REMEDIES.get(str(slow.framework), "wait for the device once, at the end of the step"),
        )
    ]


def _reading(case: Case) -> list[str]:
    """Give both sides' operators that bring a value to the host, if their number differs."""
    counts = []
    for side in (case.a, case.b):
        operators = side.trace.operators
        counts.append(evidence.per_step(side.trace, operators[operators["name"].isin(_READING).to_numpy(bool)]))
    if abs(counts[1] - counts[0]) < MORE_WAITS:
        return []
    return [f"Operators that read values (aten::item and the like) per step: {evidence.pair(case, (counts[0], counts[1]))}."]


RULES: tuple[Rule, ...] = (waits,)
