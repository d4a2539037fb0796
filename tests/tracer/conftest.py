"""What tests of recorded scripts share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked


@pytest.fixture(scope="session")
def pytorch_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Profile a PyTorch script with so many clean steps, its arguments, and other options of ours; what it prints must be the
    same without us, and what we print stands in the run folder's `said`.
    """
    try:
        python = str(environments.resolve("pytorch", None).python)
    except ChildError as error:
        pytest.skip(str(error))

    def profiled(script: Path, steps: int, *arguments: str, options: tuple[str, ...] = ()) -> Run:
        folder = tmp_path_factory.mktemp("profiled") / "run"
        command, environment = (python, str(script), *arguments), {**os.environ, "OMP_NUM_THREADS": "1"}
        plain = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=environment)
        line = ("profile", "-o", str(folder), "--steps", str(steps), "--quiet", *options, "--", *command)
        done = forked.run(*line, timeout=200, env=environment)
        assert plain.returncode == done.returncode == 0, plain.stderr + done.stderr
        assert plain.stdout == done.stdout
        (folder / "said").write_text(done.stderr)
        return Run(folder)

    return profiled
