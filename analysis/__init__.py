"""Analyses: any evidence becomes a `Trace`; a `Trace` becomes documented tables. Nothing here knows how a trace was made.

`import kernelscope` has what others call: `open`, `read`, `breakdown` and more.
"""

from kernelscope.analysis.errors import EvidenceError

__all__ = ["EvidenceError"]
