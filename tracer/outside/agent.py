"""Pack the portable agent: one file for any Python 3.6 or later, which needs nothing installed besides the framework."""

from __future__ import annotations

import json
import zipapp
from pathlib import Path

from kernelscope.tracer.inside import temporary
from kernelscope.tracer.outside.errors import InputError
from kernelscope.tracer.outside.recipes import FRAMEWORKS
from kernelscope.tracer.outside.staging import stage
from kernelscope.tracer.version import VERSION
from kernelscope.workloads import networks

ABOUT = "kernelscope/tracer/inside/agent/about.json"
_MAIN = """import sys
try:
    import ctypes
except ImportError as error:  # a Python that was built where there was no libffi
    said = "%s has no ctypes (%s); start the agent with another Python" % (sys.executable, error)
    sys.stderr.write("kernelscope agent: error: " + said + "\\n")
    sys.exit(3)
from kernelscope.tracer.inside.agent.main import main
sys.exit(main(sys.path[0]))
"""


def pack(path: Path, force: bool = False) -> int:
    """Write the agent to `path` and return its size in bytes; raise InputError if a file exists there, unless `force`."""
    if path.exists() and not force:
        raise InputError(f"{path}: exists; name another file or pass --force to replace it")
    about = {"kernelscope": VERSION, "frameworks": list(FRAMEWORKS), "networks": list(networks.NETWORKS)}
    with temporary.folder() as made:
        folder = stage(Path(made))
        (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf8")
        (folder / "__main__.py").write_text(_MAIN, encoding="utf8")
        try:
            zipapp.create_archive(folder, path, interpreter="/usr/bin/env python3", compressed=True)
        except OSError as error:
            raise InputError(f"{path}: not writable: {error.strerror or error}; name another file") from error
    return path.stat().st_size
