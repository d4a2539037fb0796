"""A GPU to talk to where there is none: a small C library that the real pynvml loads in the driver library's place."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def stand_in_folder(tmp_path_factory):
    """The folder that holds the stand-ins for libnvidia-ml.so.1 and libcuda.so.1."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    for source, library in (("stand_in.c", "libnvidia-ml.so.1"), ("cuda_stand_in.c", "libcuda.so.1")):
        path = str(Path(__file__).parent / source)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / library), path], check=True)
    return folder


@pytest.fixture
def ask(stand_in_folder, tmp_path):
    """Run a program in a process whose NVML plays a script; return what it put into `answer`."""

    def run(script: str, program: str, **variables: str):
        path = tmp_path / "script.txt"
        path.write_text(f"origin {time.monotonic_ns()}\n{script}", encoding="utf8")
        environment = {**os.environ, "LD_LIBRARY_PATH": str(stand_in_folder), "NVML_STAND_IN": str(path), **variables}
        whole = f"import json, sys\nORIGIN = {time.monotonic_ns()}\n{program}\njson.dump(answer, sys.stdout)\n"
        done = subprocess.run([sys.executable, "-c", whole], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
