"""Running scripts in a framework's own environment."""

import json
import os
import subprocess

import pytest

from kernelscope.tracer.outside import environments, staging


@pytest.fixture(scope="session")
def staged(tmp_path_factory):
    return staging.stage(tmp_path_factory.mktemp("staged"))


@pytest.fixture(scope="session")
def run_in(staged):
    """Return a function that runs a script in a framework's environment and returns what it prints as JSON on its last line.

    Without the environment the test is skipped; in CI, where it must be there, it fails.
    """

    def run(framework, script, *arguments):
        environment = environments.find(framework)
        if environment is None:
            reason = f"no environment for {framework}; run `kernelscope env create {framework}`"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        # CNTK divides by zero where MKL may use fewer threads than OpenMP, as Dask's workers have it
        ours = {"PYTHONPATH": str(staged), "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONFAULTHANDLER": "1"}
        variables = {**os.environ, **ours, **environment.variables}
        command = [str(environment.python), "-c", script, *map(str, arguments)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run
