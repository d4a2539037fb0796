"""What tests of recorded scripts share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError


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
        ours = [
            sys.executable,
            "-m",
            "kernelscope.cli.main",
            "profile",
            "-o",
            str(folder),
            "--steps",
            str(steps),
            "--quiet",
            *options,
            "--",
        ]
        outputs = []
        for command in ([], ours):
            done = subprocess.run(
                [*command, python, str(script), *arguments], capture_output=True, text=True, timeout=200, check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            outputs.append(done.stdout)
        assert outputs[0] == outputs[1]
        (folder / "said").write_text(done.stderr)
        return Run(folder)

    return profiled
