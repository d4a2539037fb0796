"""Analyses: any evidence becomes a `Trace`; a `Trace` becomes documented tables. Nothing here knows how a trace was made.

import kernelscope.analysis as ka
trace = ka.read("out/demo/pytorch")
ka.breakdown(trace, by="layer").table
"""

from pathlib import Path

from kernelscope.analysis.breakdowns import Breakdown, breakdown
from kernelscope.analysis.comparison import compare
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.run import Run
from kernelscope.analysis.trace import Trace

__all__ = ["Breakdown", "EvidenceError", "Run", "Trace", "breakdown", "compare", "read"]


def read(path: str | Path) -> Trace:
    """Return the Trace of a run folder; raise EvidenceError when it cannot be read as one."""
    return Run(Path(path)).trace()
