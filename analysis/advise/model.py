"""One piece of advice, and the type of a rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelscope.analysis.advise.subject import Subject

LEAST_ON_DEVICE = 0.02  # of a step: a smaller saving is no advice; device work repeats well
LEAST_ON_HOST = 0.05  # likewise: processes of one program differ by as much on a quiet machine


@dataclass(frozen=True)
class Advice:
    """An avoidable cost.

    topic: the rule's fixed name, such as "input pipeline". title: the finding in one sentence. saves_ns: how much shorter a
    step can get: an upper bound, or an estimate that may be exceeded if modelled. estimate: how it was worked out. evidence:
    sentences with numbers. remedy: what to do, in the framework's own terms. link: the framework's documentation of it; if
    empty, that of the topic, see advise.documentation. rows: the subject's rows whose time it would save; savings in the same
    rows do not add up.
    last: whether it comes behind all other advice, since the program may not allow what it asks for.
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
    last: bool = False


Rule = Callable[["Subject"], list[Advice]]
