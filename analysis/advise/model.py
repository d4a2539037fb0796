"""One piece of advice, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelscope.analysis.advise.subject import Subject


@dataclass(frozen=True)
class Advice:
    """What costs time and can be avoided.

    topic: the rule's fixed name, such as "input pipeline". title: what is so, in one sentence. saves_ns: how much shorter a step
    can get: at most, or about so much where it is modelled, so that it may be more. estimate: how that was worked out. evidence:
    sentences with numbers. remedy: what to do, in the framework's own words. link: where the framework documents it; empty where
    nothing fits. rows: of the subject's rows, whose time it would save: two pieces of advice with the same rows do not add up.
    """

    topic: str
    title: str
    saves_ns: float
    estimate: str
    evidence: list[str]
    remedy: str
    link: str = ""
    rows: frozenset[int] = field(default_factory=frozenset)
    modelled: bool = False


Rule = Callable[["Subject"], list[Advice]]
