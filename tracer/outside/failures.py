"""The status of a failed cell. Running out of memory has its own, and every framework words it differently."""

from __future__ import annotations

import re
from pathlib import Path

FAILED, OUT_OF_MEMORY, TIMEOUT, NOT_AVAILABLE = "failed", "out of memory", "timeout", "not available"
_STATUS_OF = {"missing": NOT_AVAILABLE, "unsupported": NOT_AVAILABLE, "timeout": TIMEOUT}
# in this order: words of Python and numpy, C++, CUDA and its libraries, TensorFlow and XLA, PyTorch, the C library
_NO_MEMORY = re.compile(
    r"MemoryError|unable to allocate|std::bad_alloc|bad allocation|out of memory|out_of_memory|OutOfMemory"
    r"|can(?:no|')t allocate memory|RESOURCE_EXHAUSTED|ResourceExhausted|OOM when allocating|failed to allocate"
    r"|STATUS_ALLOC_FAILED|mkl err \(-3\)|Error code 12\b|can't start new thread"
    r"|Resource temporarily unavailable",
    re.IGNORECASE,
)
_TAIL = 8000  # bytes of a log


def status(kind: str, message: str, log: Path, killed_for_memory: bool) -> str:
    """Return the status of a cell whose process failed.

    kind: of its ChildError. log: the process's output; frameworks that abort for lack of memory say so only there.
    killed_for_memory: whether the kernel killed a process for lack of memory meanwhile.
    """
    known = _STATUS_OF.get(kind)
    if known is not None:
        return known
    if _NO_MEMORY.search(message) or (kind == "killed" and killed_for_memory):
        return OUT_OF_MEMORY
    return OUT_OF_MEMORY if "ended with" in message and _NO_MEMORY.search(_tail(log)) else FAILED


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            return file.read().decode("utf8", "replace")
    except OSError:
        return ""
