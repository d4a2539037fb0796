"""What nvprof says of itself: on which GPUs it works, and what went wrong in a run under it."""

from __future__ import annotations

import re

NEWEST = (7, 5)  # compute capability
_INSTEAD = "use nsys (--collector nsys), CUPTI (--collector cupti) or the framework's own profiler (--collector framework)"

# What nvprof 11.8 prints, and what to do. Its text goes into our line only where it can hold no path and no name.
_OUTCOMES = (
    (r"CUDA device error, GPU profiling skipped",
     "nvprof found no GPU that works (CUDA device error) and recorded nothing; see what nvidia-smi says of the driver"),
    (r"compute capability 8\.0 and higher", f"nvprof records no GPU of compute capability 8.0 and later; {_INSTEAD}"),
    (r"ERR_NVGPUCTRPERM",
     "nvprof has no permission for the GPU's counters (ERR_NVGPUCTRPERM); allow it with NVreg_RestrictProfilingToAdminUsers=0"),
    (r"not compatible with other NVIDIA tools", "another profiler holds CUPTI, which has one client; run nvprof alone"),
    (r"No kernels were profiled|No CUDA application was profiled",
     "nvprof saw no kernel: the program used no GPU itself (what its child processes do is not recorded; nsys records it)"),
    (r"(\d+) records were dropped|(\d+) records have invalid timestamps",
     "nvprof lost {} records: its device buffer was full; record fewer steps"),
    (r"Application returned non-zero code (-?\d+)", "the program under nvprof ended with exit status {}"),
    (r"Application received signal (\d+)", "the program under nvprof was ended by signal {}"),
)  # fmt: skip


def refusal(compute_capability: str | None) -> str | None:
    """Return one line if nvprof does not record this GPU ("8.0" and later), else None; None is an unknown capability."""
    if compute_capability is None:
        return None
    parts = compute_capability.split(".")
    if not all(part.isdecimal() for part in parts) or tuple(int(part) for part in parts) <= NEWEST:
        return None
    return f"nvprof records GPUs up to compute capability 7.5, and this one has {compute_capability}; {_INSTEAD}"


def failures(log: str) -> list[str]:
    """Return one line for each thing that went wrong according to nvprof's own messages (its log file), in a fixed order."""
    matches = ((re.search(pattern, log), line) for pattern, line in _OUTCOMES)
    return [line.format(next(filter(None, match.groups()), "")) for match, line in matches if match]
