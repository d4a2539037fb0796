"""Advice to record again names options that the command which recorded has, and no others."""

import argparse
import re

import pytest

from kernelscope.analysis.explain import again
from kernelscope.analysis.trace import PROFILE
from kernelscope.cli import compare, named, profile, run
from kernelscope.reports import content
from kernelscope.tracer.inside.disclosure import HIDDEN
from kernelscope.tracer.outside.errors import UsageError


def options(command):
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return {name for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("steady", [False, True])
@pytest.mark.parametrize("restarts", [1, 3])
@pytest.mark.parametrize(("kind", "commands"), [(again.RUN, (run, compare)), (PROFILE, (profile,)), (again.CAPTURE, (profile,))])
def test_advice_fits_the_command(kind, commands, restarts, steady):
    text = again.advice({kind}, restarts, steady)
    named = set(re.findall(r"(?<!\S)\(?(--?[a-z-]+)", text))
    assert all(named <= options(command) for command in commands)
    assert ("--steady" in named) is (kind == again.RUN and not steady)


def test_what_recorded():
    assert again.recorded_by({"recorder": "profile", "options": {"steady": False}}) == PROFILE
    assert again.recorded_by({"recorder": None, "options": {"steady": False}}) == again.RUN
    assert again.recorded_by({"framework": "pytorch"}) == again.CAPTURE


def test_recorded_commands_are_named():
    same = again.program({"profiled": ["python", "-m", "pkg.train", "--name", "a b"]})
    assert same == "-- python -m pkg.train --name 'a b'"
    assert again.program({"profiled": ["~/envs/my env/bin/python", "train.py"]}) == "-- ~/'envs/my env/bin/python' train.py"
    assert again.program({"profiled": ["python", "train.py", f"--token={HIDDEN}"]}) == again.program({}) == "SCRIPT"
    text = again.advice({PROFILE}, 1, False, [same, same])
    assert f"`kernelscope profile --repeats 3 -o A {same}` and the same with -o B" in text
    text = again.advice({PROFILE}, 2, False, [same, "-- python other.py"])
    assert f"`kernelscope profile --repeats 4 -o A {same}` and `kernelscope profile --repeats 4 -o B -- python other.py`" in text


def test_a_capture_on_either_side_decides():
    assert again.advice({PROFILE, again.CAPTURE}, 1, False) == again.OF_CAPTURES


def test_two_runs_of_a_name_are_called_by_their_folders(tmp_path, run_folder):
    paths = [run_folder(tmp_path / name / "1", recorder="profile", label="train") for name in ("before", "after")]
    assert [run.name for run in named.runs(paths)[0]] == ["before", "after"]
    with pytest.raises(UsageError, match="two runs are called train; name each folder once"):
        named.runs([paths[0], paths[0]])


@pytest.mark.parametrize(
    ("recorder", "said"), [("profile", "`kernelscope profile --repeats 3 -o A SCRIPT`"), (None, "--repeats 3 or more")]
)
def test_a_comparison_of_single_recordings_says_what_to_do(recorder, said):
    rows = [{"framework": name, "repeats": 1, "step_median_ns": 1} for name in "ab"]
    [hint] = content._hints({"summary": rows, "conditions": "as it comes", "recorder": recorder})
    assert said in hint
