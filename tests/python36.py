"""Compile `tracer/inside` and `workloads` under a real Python 3.6 and run their tests there, with nothing but its own library.

Run by `make lint`. Without a Python 3.6 on the machine it says so and succeeds, unless CI is set: there it must be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Return 0 when everything compiles and every test passes."""
    from kernelscope.tracer.outside.interpreters import find
    from kernelscope.tracer.outside.staging import stage

    interpreter = find("3.6")
    if interpreter is None:
        print("no Python 3.6 found: tracer/inside and workloads were not tried under it", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    python = str(interpreter.path)
    with tempfile.TemporaryDirectory() as temporary:
        stage(Path(temporary))
        environment = {**os.environ, "PYTHONPATH": temporary, "KERNELSCOPE_SOURCE": str(ROOT)}
        compiled = subprocess.run([python, "-m", "compileall", "-q", temporary], env=environment, check=False)
        tests = [python, "-m", "unittest", "discover", "-q", "-s", str(ROOT / "tests" / "inside36")]
        tested = subprocess.run(tests, env=environment, check=False, cwd=temporary)
    return compiled.returncode or tested.returncode


if __name__ == "__main__":
    sys.exit(main())
