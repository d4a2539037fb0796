"""First executions of oneDNN's primitives and MKL's calls that take far longer than later ones: notes, since they happen once."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Rule
from kernelscope.analysis.advise.subject import Subject

_NAMED = 3
_REMEDY = "execute everything once before the part that you measure"
_HOLDS = "the first use of a library starts its threads, generates code and touches memory"


def notes(subject: Subject) -> list[str]:
    """Say which first executions are slow, and what is left without them."""
    slow = subject.trace.info.get("first_executions") or []
    if not slow:
        return []
    extra = sum(_extra_ns(one) for one in slow)
    left = f"{words.duration(subject.step_ns)} would be {words.duration(subject.step_ns - extra)}"
    ending = f"without that, the {left}" if subject.step_ns > extra else ""
    said = [_told(one) for one in slow[:_NAMED]] + ([f"and {len(slow) - _NAMED} more"] if len(slow) > _NAMED else [])
    return ["; ".join(filter(None, [*said, f"{_HOLDS}: {_REMEDY}", ending]))]


def _extra_ns(one: dict[str, Any]) -> float:
    """Return how much longer the first execution takes than later ones; all of it, if there are none."""
    return float(one["ns"]) - float(one["later_ns"]) / max(int(one["later"]), 1)


def _told(one: dict[str, Any]) -> str:
    """Compare a first execution with later ones, or with its size."""
    what, took = " ".join(filter(None, [str(one["name"]), f"({one['problem']})" if one["problem"] else ""])), float(one["ns"])
    if not one["later"]:
        return (
            f"the first execution of the recording, {what}, takes {words.duration(took)}, far too long for its size: it may hold "
            "initialisation"
        )
    later = float(one["later_ns"]) / int(one["later"])
    return (
        f"the first execution of {what} takes {took / later:.1f} times as long as the {one['later']:,} later ones "
        f"({words.duration(took)}; those: {words.duration(later)} on average): creation or warm-up"
    )


RULES: tuple[Rule, ...] = ()
