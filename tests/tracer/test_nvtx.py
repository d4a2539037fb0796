"""NVTX through ctypes: a small C library takes the place of NVIDIA's and counts what arrives, name by name."""

import shutil
import subprocess
import sys

import pytest

SOURCE = """
#include <stdio.h>
static int depth = 0;
int nvtxRangePushA(const char *name) { fprintf(stderr, "push %d %s\\n", depth, name); return depth++; }
int nvtxRangePop(void) { fprintf(stderr, "pop %d\\n", depth - 1); return --depth; }
"""

PROGRAM = """
import tempfile
from kernelscope.tracer.inside import nvtx
from kernelscope.tracer.inside.ranges import Recorder
listener = nvtx.load()
recorder = Recorder(tempfile.mkdtemp(), layers=True, nvtx=listener)
for _ in recorder.steps(iter("a"), 1):
    recorder.push("layer", "conv1 \\u00e9", layer="conv1")
    recorder.pop()
print(listener.emitted)
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler on this machine")
def test_ranges_arrive_in_the_c_interface(tmp_path):
    (tmp_path / "stand_in.c").write_text(SOURCE)
    library = tmp_path / "libnvtx_stand_in.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "stand_in.c")], check=True)
    environment = {"KERNELSCOPE_NVTX_LIBRARY": str(library), "PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines == ["push 0 step 0", "push 1 data", "pop 1", "push 1 conv1 é", "pop 1", "pop 0"]
    assert int(done.stdout) == sum(line.startswith("push") for line in lines)


def test_a_library_that_cannot_be_loaded_is_not_an_error(tmp_path):
    environment = {"KERNELSCOPE_NVTX_LIBRARY": str(tmp_path / "absent.so"), "PATH": "/usr/bin:/bin"}
    program = "from kernelscope.tracer.inside import nvtx; listener = nvtx.load(); print(listener is None or listener.emitted)"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("True", "0")  # 0: the machine has a real NVTX library, which is taken instead
