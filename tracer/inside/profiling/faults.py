"""Failures of the recording are logged and stay inside it; the script goes on."""

import traceback
from typing import Any

from kernelscope.tracer.inside.own import open, os

LOG_FILE = "faults.log"


class quiet(object):
    """Suppresses every exception of the block: for clean-up on the way out."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return kind is not None and issubclass(kind, Exception)


def write(folder: str, error: Exception) -> None:
    """Append an exception and its traceback to the folder's log."""
    with quiet(), open(os.path.join(folder, LOG_FILE), "a") as out:
        out.write("%s: %s\n" % (type(error).__name__, error))
        for frame, line in traceback.walk_tb(error.__traceback__):  # traceback's formatting would use the program's os
            out.write("%s:%d, in %s\n" % (frame.f_code.co_filename, line, frame.f_code.co_name))
