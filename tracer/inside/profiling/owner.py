"""Which process of a script is recorded: the first that claims the folder."""

import sys

from kernelscope.tracer.inside.originals import dump
from kernelscope.tracer.inside.own import open, os

FILE = "owner"  # names that process; created exclusively


def claim(folder: str) -> bool:
    """Claim a folder for recording this process; return False if another process has claimed it. Raises OSError."""
    try:
        with open(os.path.join(folder, FILE), "x") as out:
            dump({"pid": os.getpid(), "python": sys.executable, "arguments": getattr(sys, "argv", [])[:1]}, out)
    except FileExistsError:
        return False
    return True
