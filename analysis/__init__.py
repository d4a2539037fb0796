"""Analyses: any evidence becomes a `Trace`, and a `Trace` becomes documented tables. Nothing here knows how a trace was made.

`import kernelscope` has the public functions: `open`, `read`, `breakdown` and more.
"""

from kernelscope.analysis.errors import EvidenceError

__all__ = ["EvidenceError"]
