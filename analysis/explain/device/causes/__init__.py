"""Causes of a difference of device work: one small module a family, each with RULES, functions from a case to findings.

Rules are asked in this order, and each row is accounted for by the first that takes it: those with structural evidence (other
types, other algorithms, other devices) come before those that only see that something takes longer.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from kernelscope.analysis.explain.device.case import Rule

FAMILIES = (
    "sharing", "graphs", "faults", "precision", "attention", "hardware", "recomputation", "fusion", "sizes", "algorithms",
    "clocks", "copies", "work", "communication", "idle",
)  # fmt: skip


def rules() -> Iterator[Rule]:
    """Yield all rules, family by family."""
    for family in FAMILIES:
        yield from importlib.import_module(f"{__name__}.{family}").RULES
