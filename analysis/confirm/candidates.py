"""Which changes are worth a trial: those that answer a piece of advice or a cause, and some settings of the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelscope.analysis.confirm import interventions
from kernelscope.analysis.confirm.interventions import GENERAL, Intervention


@dataclass(frozen=True)
class Claim:
    """A claimed cost of time. costs_ns: of a step, at most. confidence: None for advice."""

    topic: str
    title: str
    costs_ns: int
    confidence: str | None = None


@dataclass(frozen=True)
class Candidate:
    """A change to try. findings: those it answers, costliest first."""

    intervention: Intervention
    findings: tuple[Claim, ...] = ()

    @property
    def claimed_ns(self) -> int | None:
        """The most that it can save; None if no finding asks for it."""
        return self.findings[0].costs_ns if self.findings else None


def of_advice(advised: Mapping[str, Any]) -> list[Claim]:
    """Return the findings of advice (analysis.advise)."""
    return [Claim(str(piece["topic"]), str(piece["title"]), int(piece["saves_ns"])) for piece in advised["advice"]]


def of_explanation(explained: Mapping[str, Any]) -> tuple[str, list[Claim]]:
    """Return the slower side of an explanation (analysis.explain), "a" or "b", and what makes it slower."""
    sign = 1 if explained["wall_delta_ns"] >= 0 else -1
    found = [
        Claim(str(one["cause"]), str(one["title"]), sign * int(one["explains_ns"]), str(one["confidence"]))
        for one in explained["findings"]
        if sign * one["explains_ns"] > 0
    ]
    return "b" if sign > 0 else "a", found


def candidates(
    framework: str,
    findings: Sequence[Claim],
    names: Sequence[str] = (),
    general: bool = True,
    settings: Mapping[str, object] | None = None,
) -> list[Candidate]:
    """Return what to try on a program.

    First comes the first remedy of each finding, largest claim first; then further remedies; last, settings that no finding
    asks for. names: of interventions, instead of those that the findings ask for. general: whether to try those settings.
    """
    found = []
    for one in interventions.of_framework(framework):
        mine = sorted(
            (finding for finding in findings if one.answers(finding.topic, finding.title)), key=lambda finding: -finding.costs_ns
        )
        asked = bool(mine) or (general and GENERAL in one.topics)
        if one.name in names or (not names and asked and not one.made(settings or {})):
            found.append(Candidate(one, tuple(mine)))
    found.sort(key=lambda candidate: -(candidate.claimed_ns or 0))
    answered: set[int] = set()
    first = []
    for candidate in found:
        topics = set(map(id, candidate.findings))
        first.append(bool(topics - answered))
        answered |= topics
    return [one for wanted in (True, False) for one, is_first in zip(found, first, strict=True) if is_first is wanted]


def promised_ns(found: Sequence[Candidate]) -> int:
    """Return the cost of all findings that changes answer which keep results as they are; bounds are no answers."""
    remedies = [one for one in found if not (one.intervention.results or one.intervention.bound)]
    return sum({id(claim): claim.costs_ns for one in remedies for claim in one.findings}.values())
