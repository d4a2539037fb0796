"""Rules that look for causes: one small module for each family, with RULES, a tuple of functions from a Case to suspicions."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from kernelscope.analysis.explain.model import Rule

# Among suspicions of the same precedence and size, the earlier module's is granted first.
FAMILIES = (
    "changed_code", "graph_optimisation", "configuration", "measurement", "execution", "threads", "precision", "recurrent",
    "attention", "work", "other_work", "optimizer", "layouts", "libraries", "algorithms", "elementwise", "input_pipeline",
    "transfers", "memory", "synchronisation", "launches", "python", "slower_nodes",
)  # fmt: skip
# Families whose rules need no kernels
_WITHOUT_KERNELS = ("changed_code", "configuration", "measurement", "threads", "slower_nodes")


def rules(kernels: bool = True) -> Iterator[Rule]:
    """Yield all rules, family by family. kernels: whether the sides can be compared by the kernels that they executed."""
    for family in FAMILIES if kernels else _WITHOUT_KERNELS:
        yield from importlib.import_module(f"{__name__}.{family}").RULES
