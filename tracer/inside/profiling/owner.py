"""Which process of a script is recorded: the first that claims the folder."""

import json
import os
import sys

FILE = "owner"  # which process that is; made exclusively


def claim(folder: str) -> bool:
    """Make this process the one that is recorded into a folder; return whether it is, and no other was before."""
    try:
        owner = os.open(os.path.join(folder, FILE), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return False
    with os.fdopen(owner, "w") as out:
        json.dump({"pid": os.getpid(), "python": sys.executable, "arguments": getattr(sys, "argv", [])[:1]}, out)
    return True
