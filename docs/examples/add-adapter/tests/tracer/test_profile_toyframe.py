"""Scripts of toyframe that know nothing of us: what they print is the same, and each layer is called once a step and phase."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.recordings.run import Run

CHILDREN = Path(__file__).parent / "children"
FORWARD = {("in", "forward"), ("tanh", "forward"), ("out", "forward")}
TRAINING = FORWARD | {(layer, phase) for layer, _ in FORWARD for phase in ("backward", "optimizer")}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install toyframe in a folder of its own, as a framework is."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(CHILDREN / "toyframe", folder / "toyframe")
    return {**os.environ, "PYTHONPATH": str(folder)}


def _profiled(folder: Path, environment: dict[str, str], mode: str) -> Run:
    script = shutil.copy(CHILDREN / "train_toyframe.py", folder / "train_toyframe.py")
    ours = [sys.executable, "-m", "kernelscope.cli.main", "profile", "-o", str(folder / "run"), "--steps", "30", "--quiet", "--"]
    printed = []
    for command in ([], ours):
        line = [*command, sys.executable, str(script), "300", mode]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0] == printed[1]
    return Run(folder / "run")


@pytest.mark.parametrize(("mode", "expected"), [("train", TRAINING), ("infer", FORWARD)])
def test_each_layer_runs_once_in_each_step_and_phase(tmp_path, environment, mode, expected):
    run = _profiled(tmp_path, environment, mode)
    assert run.record["framework"] == "toyframe"
    assert run.record["options"]["mode"] == mode
    trace = ks.read(run.path)
    steps = set(trace.steps.loc[~trace.steps["warmup"], "step"])
    rows = trace.operators[trace.operators["layer"].notna()]
    times = trace.steps.set_index("step")
    for step in steps:
        inside = rows[rows["start_ns"].between(times.loc[step, "start_ns"], times.loc[step, "end_ns"])]
        assert Counter(zip(inside["layer"], inside["phase"], strict=True)) == dict.fromkeys(expected, 1)


def test_the_breakdown_by_layer_adds_up_and_knows_all_layers(tmp_path, environment):
    run = _profiled(tmp_path, environment, "train")
    result = ks.breakdown(run.path, "layer")
    assert result.table["time_ns"].sum() == result.step_ns
    assert {"in", "tanh", "out"} <= set(result.table["layer"])
    assert {layer["name"]: layer["parameters"] for layer in run.record["model"]["layers"]} == {
        "in": 16 * 32, "tanh": 0, "out": 32 * 4,
    }  # fmt: skip


def test_a_step_with_an_evaluation_is_not_measured(tmp_path, environment):
    trace = ks.read(_profiled(tmp_path, environment, "validate").path)
    calls = trace.operators[(trace.operators["layer"] == "in") & (trace.operators["phase"] == "forward")]
    assert len(trace.steps)
    for start, end in trace.steps.loc[~trace.steps["warmup"], ["start_ns", "end_ns"]].itertuples(index=False):
        assert calls["start_ns"].between(start, end).sum() == 1
