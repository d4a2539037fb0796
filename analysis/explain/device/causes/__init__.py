"""Causes of a difference in device work: a small module for each family, with RULES, functions from a case to findings.

Rules run in this order, and the first that takes a row accounts for it. Rules with structural evidence (other types, other
algorithms, other devices) come before those that only see that something takes longer.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from kernelscope.analysis.explain.device.case import Rule

FAMILIES = (
    "sharing", "graphs", "faults", "directives", "accelerators", "precision", "attention", "hardware", "recomputation", "fusion",
    "sizes", "algorithms", "clocks", "copies", "same_work", "work", "communication", "idle",
)  # fmt: skip


def rules() -> Iterator[Rule]:
    """Yield all rules, family by family."""
    for family in FAMILIES:
        yield from importlib.import_module(f"{__name__}.{family}").RULES
