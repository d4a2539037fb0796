"""What kind of process this is, among all those of a script."""

import sys
from typing import Any


def started_by_multiprocessing() -> Any:
    """Return the multiprocessing.Process that runs in this process; None in a process that something else started."""
    module = sys.modules.get("multiprocessing.process")
    process = None if module is None else module.current_process()
    return process if getattr(process, "_parent_pid", None) is not None else None  # None only in the main process
