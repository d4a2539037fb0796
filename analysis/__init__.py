"""Analyses: any evidence becomes a `Trace`; a `Trace` becomes documented tables. Nothing here knows how a trace was made.

import kernelscope.analysis as ka
trace = ka.read("out/demo/pytorch")
ka.breakdown(trace, by="layer").table
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.errors import EvidenceError

if TYPE_CHECKING:
    from kernelscope.analysis.accounting.breakdowns import Breakdown, breakdown
    from kernelscope.analysis.comparisons.comparison import compare
    from kernelscope.analysis.recordings.reading import read, reading
    from kernelscope.analysis.recordings.run import Run
    from kernelscope.analysis.trace import Trace

__all__ = ["Breakdown", "EvidenceError", "Run", "Trace", "breakdown", "compare", "read", "reading"]

# Imported when asked for: this module is imported before any other of the package, for errors alone as well.
_HOMES = {
    "Breakdown": "accounting.breakdowns",
    "breakdown": "accounting.breakdowns",
    "compare": "comparisons.comparison",
    "read": "recordings.reading",
    "reading": "recordings.reading",
    "Run": "recordings.run",
    "Trace": "trace",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"kernelscope.analysis.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
