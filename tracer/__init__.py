"""Making a run: what is loaded into the framework's process (`inside`) and what launches and watches it (`outside`).

For scripts that are profiled: `annotate`, `mark` and `step` (see `inside.annotations`).
"""

from kernelscope.tracer.inside.annotations import annotate, mark, step

__all__ = ["annotate", "mark", "step"]
