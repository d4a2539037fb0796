"""Unequal configuration: other devices, and recorded differences that no other family can interpret."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.explain import again, onnx_nodes
from kernelscope.analysis.explain.causes import host_evidence as evidence
from kernelscope.analysis.explain.model import Case, Rule, Side, Suspicion
from kernelscope.analysis.formats.onnxruntime import first_run

_PLURALS = frozenset(["providers", "threads", "workers"])  # settings' names that are words in the plural
MOST_NAMED = 5  # differences that a sentence lists
_OF_KERNELS = (
    "libraries",
    "precision",
    "layouts",
    "algorithms",
    "optimizer",
)  # families that claim the kernels a setting changed


def _devices(side: Side) -> list[str]:
    """Return the names of a side's accelerators, as far as they are known."""
    devices = side.facts.get("devices") or side.trace.info.get("devices") or []
    named = [device for device in devices if isinstance(device, dict) and device.get("device") != "cpu" and device.get("name")]
    return sorted({str(device["name"]) for device in named})


def other_devices(case: Case) -> list[Suspicion]:
    """Work on another model of accelerator: the device's effect cannot be separated from the program's."""
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
                "These captures cannot show how much of the device's time is due to the device and how much to the program.",
            ],
            "capture both on the same device",
            precedence=0,
        )
    ]


def other_processors(case: Case) -> list[Suspicion]:
    """Runs on another processor: it may be the cause of everything."""
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
            f"record both on the same machine, {again.in_turns(case.a, case.b)}",
            precedence=0,
        )
    ]  # fmt: skip


def unequal(case: Case) -> list[Suspicion]:
    """Settings, variables or versions of the same framework that differ and that no family owns.

    A single recorded difference is the root of all that differs, if the work is the same as far as is known. With several, it is
    unknown which one does what, so they get only what nothing else explains.
    """
    if case.a.framework is None or case.a.framework != case.b.framework:
        return []
    differences = evidence.differing(case)
    mine = evidence.owned(differences, "configuration")
    if not mine:
        return []
    alone = len(differences) == 1 and onnx_nodes.doubt(case.a, case.b) is None
    sure = "medium" if first_run.is_profile(case.a.trace) else "high"  # such a profile records few settings
    return [_suspicion(case, mine, sure if alone else "low", alone, precedence=0 if alone else 2)]


def rest_of_a_setting(case: Case) -> list[Suspicion]:
    """The only differing setting is one whose kernels another family finds: claims what else came with it, such as host time."""
    differences = evidence.differing(case)
    families = {evidence.OWNER.get(name, "configuration") for name in differences}
    if not case.same_framework or len(families) != 1 or not families <= set(_OF_KERNELS):
        return []
    return [_suspicion(case, list(differences), "medium", True, precedence=2)]


def _suspicion(case: Case, names: list[str], confidence: str, alone: bool, precedence: int) -> Suspicion:
    named = names[:MOST_NAMED]
    more = f", and {len(names) - len(named)} more" if len(names) > len(named) else ""
    sentences = [f"Recorded differences: {evidence.stated(case, named)}{more}."]
    if alone:
        sentences.append("Nothing else that is recorded differs.")
    return Suspicion(
        "unequal configuration",
        f"{', '.join(named)}{more} {'differs' if len(names) == 1 and names[0] not in _PLURALS else 'differ'}",
        evidence.everything(case),
        confidence,
        sentences,
        f"give both sides the same {', '.join(named)}, and measure again",
        precedence,
    )


RULES: tuple[Rule, ...] = (other_devices, other_processors, unequal, rest_of_a_setting)
