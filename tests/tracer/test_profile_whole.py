"""Programs without steps are recorded as a whole: each pass in a run of its own, all of the program as the one step."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelscope.analysis import advise
from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments
from tests.tracer.toy import profiled, steps_of

PROGRAM = Path(__file__).parent / "children" / "without_steps.py"
PASSES = ("clean", "kernels", "lines")

pytestmark = pytest.mark.slow


def _recorded(folder, *arguments, framework="pytorch", options=()):
    python = str(environments.resolve(framework, None).python)
    return profiled(folder, python, str(PROGRAM), framework, *arguments, options=options, timeout=300)


@pytest.mark.parametrize(
    ("framework", "product"),
    [
        ("pytorch", "SGEMM"),
        pytest.param("jax", None, marks=pytest.mark.long),
        pytest.param("tensorflow", "MatMul", marks=pytest.mark.long),
        pytest.param("mxnet", "dot", marks=pytest.mark.long),
    ],
)
def test_a_program_without_steps_has_an_answer(tmp_path, framework, product):
    """Alone shows that it is run again for that, and that what it computes is counted: 30 products."""
    folder = tmp_path / "run"
    done = _recorded(folder, "30", framework=framework)
    assert (done.returncode, done.stdout) == (0, "done\n" * 4)
    assert "no steps were detected: it is run 3 more times and recorded as a whole" in done.stderr
    assert re.search(rf"The program takes [\d.]+ m?s from its import of {framework} on: ", done.stderr)
    assert "the program was recorded as a whole: all of it counts, start-up included" in done.stderr
    assert "A step" not in done.stderr
    run = Run(folder)
    assert (run.record["complete"], run.record["options"]["mode"], run.whole) == (True, "whole", True)
    assert [len(steps_of(folder, name)) for name in PASSES] == [1, 1, 1]
    assert not (folder / "layers").exists()
    (step,) = steps_of(folder, "kernels")
    found = breakdown(run.trace(), "kernel")
    assert found.table["time_ns"].sum() == found.step_ns == step["end_ns"] - step["start_ns"]
    if product:
        assert found.table.loc[found.table["kernel"] == product, "count"].sum() == 30
    if framework == "pytorch":  # reductions copy together what their threads found, which is a part of them
        kernels = run.trace().kernels
        assert (kernels["name"] == "aten::sum").sum() == 30
        own = kernels[kernels["library"] == "aten"].sort_values("start_ns")
        assert (own["start_ns"].to_numpy()[1:] >= own["end_ns"].to_numpy()[:-1]).all(), "no kernel runs inside of another"
    lines = run.trace().lines
    loop = lines[lines["text"].str.contains("for _ in range(repeats)", regex=False)]
    assert loop["hits"].max() == 31, "its functions are watched, although nothing repeats"


def test_a_single_call_of_a_model_has_an_answer(tmp_path):
    done = _recorded(tmp_path / "run", "0", "model")
    assert "it made one step: it is run 3 more times and recorded as a whole" in done.stderr
    trace = Run(tmp_path / "run").trace()
    # MKL measures the clock before its first line, for some 0.4 s, in which this product seemed to be dispatched
    ((begun, ended),) = trace.operators.loc[trace.operators["name"] == "aten::addmm", ["start_ns", "end_ns"]].to_numpy()
    assert ended - begun < 100e6
    names = trace.kernels["name"]
    assert names.str.contains("gemm|inner_product", case=False).sum() == 1


def test_it_is_not_run_again_unasked(tmp_path):
    done = _recorded(tmp_path / "once", "3", options=("--once",))
    assert (done.returncode, done.stdout) == (4, "done\n")
    assert "no steps were seen: pytorch: nothing stepped" in done.stderr
    done = _recorded(tmp_path / "fails", "3", "fails")
    assert (done.returncode, done.stdout) == (3, "done\n")


def test_a_pass_that_takes_too_long_is_not_recorded_and_the_program_goes_on(tmp_path):
    """A part of a program is not told as if it were all of it."""
    done = _recorded(tmp_path / "run", "250", options=("--mode", "whole", "--seconds", "1"))
    assert (done.returncode, done.stdout) == (0, "done\n" * 3)
    reason = "it took longer than --seconds 1; more seconds let it be recorded"
    assert f"kernels: not recorded, {reason}" in done.stderr
    assert re.search(rf"The program takes [\d,.]+ ms; where its time goes is unknown: no kernels pass: {reason}", done.stderr)
    passes = json.loads((tmp_path / "run/run.json").read_text())["passes"]
    assert [passes[name]["status"] for name in PASSES] == ["complete", "failed", "failed"]


def test_a_program_of_very_many_lines_is_told_by_its_lines(tmp_path):
    """As many operators may run, whose trace would take minutes. The line that loops is named, not the one that calls it."""
    done = _recorded(tmp_path / "run", "3", "lines", options=("--mode", "whole"))
    assert (done.returncode, done.stdout) == (0, "done\n" * 3)
    assert "kernels: not recorded, more than 200000 lines ran" in done.stderr
    said = " ".join(done.stderr.split())
    assert re.search(r"The program takes [\d.]+ m?s: in the program's lines \d+%; by line: without_steps.py:\d+ ", said)
    assert re.search(r"without_steps.py:\d+ total \+= number \d+%", said)
    trace = Run(tmp_path / "run").trace()
    loop = trace.lines[trace.lines["text"].str.contains("total += number", regex=False)]
    assert loop["hits"].sum() == 250_000, "none is lost, however many there are"
    result = advise.advise(tmp_path / "run")
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"] == Run(tmp_path / "run").clean_step_ns


def test_what_was_interrupted_is_not_the_whole(tmp_path):
    python = str(environments.resolve("pytorch", None).python)
    line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--mode", "whole", "-o", str(tmp_path / "run"), "--"]
    program = subprocess.Popen(
        [*line, python, str(PROGRAM), "pytorch", "1000000"], stderr=subprocess.PIPE, start_new_session=True
    )
    while not (tmp_path / "run/clean/1/child.json").exists():
        time.sleep(0.1)
    time.sleep(1)
    os.killpg(program.pid, signal.SIGINT)
    said = program.communicate(timeout=60)[1].decode()
    assert program.returncode not in (0, None)
    assert "The program takes" not in said
    assert not (tmp_path / "run/clean").exists()


def test_each_pass_has_a_run_of_it_and_that_cannot_be_forbidden(tmp_path):
    done = _recorded(tmp_path / "run", "3", options=("--mode", "whole", "--once"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--mode whole runs the command once for each pass; leave --once out" in done.stderr
    done = _recorded(tmp_path / "run", "3", options=("--mode", "whole", "--steps", "3:9"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "--mode whole records the program as one step; leave --steps out" in done.stderr
