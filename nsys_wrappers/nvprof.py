"""nvprof's limits and messages: on which GPUs it works, and what went wrong in a run under it."""

from __future__ import annotations

import re

NEWEST = (7, 5)  # compute capability
_INSTEAD = "use nsys (--collector nsys), CUPTI (--collector cupti) or the framework's own profiler (--collector framework)"

# nvprof 11.8's messages, and what to do. Its own text is quoted only where it cannot contain paths or names.
_OUTCOMES = (
    (r"CUDA device error, GPU profiling skipped",
     "nvprof found no working GPU (CUDA device error) and recorded nothing; check the driver with nvidia-smi"),
    (r"compute capability 8\.0 and higher", f"nvprof does not support GPUs of compute capability 8.0 and later; {_INSTEAD}"),
    (r"ERR_NVGPUCTRPERM",
     "nvprof has no permission for the GPU's counters (ERR_NVGPUCTRPERM); allow it with NVreg_RestrictProfilingToAdminUsers=0"),
    (r"not compatible with other NVIDIA tools", "another profiler uses CUPTI, which allows one client; run nvprof alone"),
    (r"No kernels were profiled|No CUDA application was profiled",
     "nvprof saw no kernel: the program itself used no GPU (child processes are not recorded; nsys records them)"),
    (r"(\d+) records were dropped|(\d+) records have invalid timestamps",
     "nvprof lost {} records: its device buffer was full; record fewer steps"),
    (r"Application returned non-zero code (-?\d+)", "the program under nvprof ended with exit status {}"),
    (r"Application received signal (\d+)", "the program under nvprof was killed by signal {}"),
)  # fmt: skip


def refusal(compute_capability: str | None) -> str | None:
    """Return one line if nvprof does not support this GPU ("8.0" and later), else None, as for an unknown capability (None)."""
    if compute_capability is None:
        return None
    parts = compute_capability.split(".")
    if not all(part.isdecimal() for part in parts) or tuple(int(part) for part in parts) <= NEWEST:
        return None
    return f"nvprof supports GPUs up to compute capability 7.5, and this one has {compute_capability}; {_INSTEAD}"


def failures(log: str) -> list[str]:
    """Return one line for each failure in nvprof's own messages (its log file), in a fixed order."""
    matches = ((re.search(pattern, log), line) for pattern, line in _OUTCOMES)
    return [line.format(next(filter(None, match.groups()), "")) for match, line in matches if match]
