"""Which process of a script is recorded: the first that claims the folder."""

import sys

from kernelscope.tracer.inside.originals import dump
from kernelscope.tracer.inside.own import open, os

FILE = "owner"  # which process that is; made exclusively


def claim(folder: str) -> bool:
    """Make this process the one that is recorded into a folder; return whether it is, and no other was before. Raises OSError."""
    try:
        with open(os.path.join(folder, FILE), "x") as out:
            dump({"pid": os.getpid(), "python": sys.executable, "arguments": getattr(sys, "argv", [])[:1]}, out)
    except FileExistsError:
        return False
    return True
