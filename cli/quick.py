"""What makes a command that reads captures start and end sooner: for captures of some megabytes that is most of its time."""

from __future__ import annotations

import atexit
import os
import sys


def start() -> None:
    """Keep numpy, which is not imported yet, from starting threads for linear algebra, which nobody here needs.

    They take time to start, and a process that has them cannot fork a helper (see analysis.helper).
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Leaving:
    """Ends the process without freeing every object of every library first, after all else that is to be done at its end.

    To be made before libraries are imported: what they want to do at the end is done before. Nothing happens until `status` is
    set, so that what ends by an exception ends as ever.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python says what it says of output that cannot be written
        os._exit(self.status)
