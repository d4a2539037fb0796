"""Unequal configuration: other devices, and recorded differences that no other family knows what to make of."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion

MOST_NAMED = 5  # differences that a sentence lists


def _devices(side: Side) -> list[str]:
    """Return the names of a side's accelerators, as far as they are known."""
    devices = side.facts.get("devices") or side.trace.info.get("devices") or []
    named = [device for device in devices if isinstance(device, dict) and device.get("device") != "cpu" and device.get("name")]
    return sorted({str(device["name"]) for device in named})


def other_devices(case: Case) -> list[Suspicion]:
    """Work on another model of accelerator: what the device does cannot be told apart from what the program does."""
    a, b = _devices(case.a), _devices(case.b)
    if not a or not b or a == b:
        return []
    rows = case.rows[~case.rows["cell"].astype("string").str.startswith("(host: ").fillna(False).to_numpy(bool)]
    return [
        Suspicion(
            "different devices",
            f"the captures are of different devices: {', '.join(a)} and {', '.join(b)}",
            evidence.claims(rows),
            "high",
            [
                f"{case.a.name} ran on {', '.join(a)}, {case.b.name} on {', '.join(b)}.",
                "What of the device's time is due to the device and what to the program cannot be told from these captures.",
            ],
            "capture both on the same device",
            precedence=0,
        )
    ]


def other_processors(case: Case) -> list[Suspicion]:
    """Runs on another processor: everything may be due to it."""
    machines: list[dict[str, Any]] = [side.facts.get("machine") or {} for side in (case.a, case.b)]
    names = [machine.get("processor") for machine in machines]
    if None in names or names[0] == names[1]:
        return []
    rows = case.rows if not _devices(case.a) else evidence.host(case)
    return [
        Suspicion(
            "different devices",
            f"the runs are of different processors: {names[0]} and {names[1]}",
            evidence.everything(case) if len(rows) == len(case.rows) else evidence.claims(rows),
            "high",
            [f"{case.a.name} ran on {names[0]} ({machines[0].get('threads')} threads), "
             f"{case.b.name} on {names[1]} ({machines[1].get('threads')} threads)."],
            "run both on the same machine, taking turns: `kernelscope compare`",
            precedence=0,
        )
    ]  # fmt: skip


def unequal(case: Case) -> list[Suspicion]:
    """Settings, variables or versions of the same framework that differ.

    A single recorded difference is the root of all that differs; of several, it cannot be told which does what, and they
    only get what nothing else explains.
    """
    if case.a.framework is None or case.a.framework != case.b.framework:
        return []
    differences = evidence.differing(case)
    mine = evidence.owned(differences, "configuration")
    if not mine:
        return []
    alone = len(differences) == len(mine) == 1
    named = mine[:MOST_NAMED]
    more = f", and {len(mine) - len(named)} more" if len(mine) > len(named) else ""
    sentences = [f"Recorded differences: {evidence.stated(case, named)}{more}."]
    if alone:
        sentences.append("Nothing else that is recorded differs.")
    return [
        Suspicion(
            "unequal configuration",
            f"{', '.join(named)}{more} {'differs' if len(mine) == 1 else 'differ'}",
            evidence.everything(case),
            "high" if alone else "low",
            sentences,
            f"give both sides the same {', '.join(named)}, and measure again",
            precedence=0 if alone else 2,
        )
    ]


RULES: tuple[Rule, ...] = (other_devices, other_processors, unequal)
