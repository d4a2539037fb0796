"""The command line as a new user meets it: help, wrong use, and one line with a remedy for every mistake."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from kernelscope.cli.main import main
from kernelscope.tracer.version import VERSION
from tests.commands import called

from .test_explain import capture

COMMAND = [sys.executable, "-m", "kernelscope.cli.main"]


def kernelscope(*arguments, **options):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize("command", ["breakdown", "report"])
def test_a_folder_in_which_nothing_was_recorded_yet_says_so(tmp_path, command):
    for left in ([], ["run.json.new"]):
        folder = tmp_path / f"killed{len(left)}"
        folder.mkdir()
        for name in left:
            (folder / name).touch()
        done = called(command, folder)
        assert done.returncode == 3
        assert f"{folder}: nothing was recorded in it yet" in done.stderr
        assert "--force replaces its contents" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--verison",), "unrecognized arguments: --verison; did you mean --version?"),
        (("-v",), "unrecognized arguments: -v"),
        (("breakdown", "-V"), "unrecognized arguments: -V"),
        (("breakdown", "--byy", "line"), "unrecognized arguments: --byy; did you mean --by?"),
        (("run", "--framework", "pytorch"), "required: WORKLOAD"),
        (("breakdown",), "required: PATH"),
    ],
)
def test_an_option_that_does_not_exist_is_named_and_not_what_seems_missing_because_of_it(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("asked", [("--help",), ("help",), ()])
def test_help_lists_every_command(asked):
    done = kernelscope(*asked)
    assert done.returncode == 0
    for name in ("doctor", "env", "run", "compare", "import", "breakdown", "report", "classify", "redact"):
        assert re.search(rf"^  {name}\s+\w", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["campare"], 2, "no command 'campare'; did you mean compare?"),
        (["compare", "vgg", "-f", "pytorch", "-o", "OUT"], 2, "unknown workload 'vgg'; known: lenet, mlp, cnn, lstm"),
        (
            ["compare", "lenet", "-f", "caffe", "-o", "OUT"],
            2,
            "unknown framework 'caffe'; known: pytorch, tensorflow, mxnet, cntk",
        ),
        (["compare", "lenet", "-f", "pytorch,pytorch", "-o", "OUT"], 2, "two sides are called pytorch; write LABEL=pytorch"),
        (["run", "lenet", "-f", "pytorch", "-o", "OUT", "--batch", "0"], 2, "0 is not between 1 and"),
        (["run", "lenet", "-f", "pytorch", "-o", "OUT", "--batch", "many"], 2, "'many' is not an integer"),
        (["run", "lenet", "-f", "pytorch", "-o", "OUT", "--mode", "test"], 2, "invalid choice: 'test'"),
        (["run", "lenet", "-f", "pytorch", "-o", "OUT", "--timeout", "nan"], 2, "not a positive number of seconds"),
        (["run", "lenet", "-f", "pytorch", "-o", "OUT", "--data", "/nowhere"], 2, "--data /nowhere: not a folder"),
        (["run", "lenet", "-f", "pytorch", "-o", "OUT", "--python", "/nowhere/python"], 2, "/nowhere/python"),
        (["compare", "lenet", "-f", "pytorch", "-o", "OUT", "--python", "cntk=/x"], 2, "write NAME=PATH with one of pytorch"),
        (["breakdown", "/nowhere"], 3, "/nowhere: No such file or directory"),
        (["breakdown", "/nowhere", "--by", "colour"], 2, "invalid choice: 'colour'"),
        (["report", "/nowhere", "-o", "OUT/report.html"], 3, "/nowhere"),
    ],
)
def test_wrong_use_is_answered_in_one_line(tmp_path, arguments, status, expected):
    done = called(*[argument.replace("OUT", str(tmp_path / "out")) for argument in arguments])
    assert done.returncode == status, done.stderr
    assert expected in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    "command",
    [
        "profile", "explain", "report", "run", "compare", "sweep", "import", "export", "redact", "confirm", "ranks", "agent",
        "data convert",
    ],
)  # fmt: skip
@pytest.mark.parametrize("behind", [True, False])
def test_an_empty_output_is_refused_in_one_line(tmp_path, monkeypatch, command, behind):
    monkeypatch.chdir(tmp_path)
    for empty in (["-o", ""], ["--report=" if command == "explain" else "--output="]):
        words = ["a", *empty] if behind and command != "profile" else [*empty, "a"]
        done = called(*command.split(), *words)
        assert done.returncode == 2
        assert "the name is empty; write one" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_without_the_framework(tmp_path):
    done = kernelscope("run", "lenet", "-f", "mxnet", "-o", tmp_path / "out", "--python", sys.executable)
    assert done.returncode == 4
    assert "mxnet" in done.stderr
    assert "kernelscope env create mxnet" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists(), "nothing is made before the interpreter is known to do"


def test_a_closed_pipe_is_no_error():
    process = subprocess.Popen([*COMMAND, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("stream", [1, 2])
def test_the_status_is_the_commands_own_where_nobody_reads(tmp_path, stream):
    """Whoever closes the pipe early: what fails fails, and files are written all the same."""
    base = capture(tmp_path / "base.json", 900)
    new = capture(tmp_path / "new.json", 1900)
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "gate", str(base), str(new), "--strict", "--junit", str(tmp_path / "gate.xml")]
    outputs = {1: subprocess.DEVNULL, 2: subprocess.DEVNULL, stream: writing}
    done = subprocess.run(command, stdout=outputs[1], stderr=outputs[2], timeout=120, check=False)
    os.close(writing)
    assert done.returncode == 1
    assert (tmp_path / "gate.xml").exists()


def test_the_status_is_the_commands_own_where_stdout_is_closed(tmp_path):
    base = capture(tmp_path / "base.json", 900)
    new = capture(tmp_path / "new.json", 1900)
    line = shlex.join([*COMMAND, "gate", str(base), str(new), "--strict"])
    assert subprocess.run(["bash", "-c", f"{line} >&-"], timeout=120, check=False).returncode == 1


def test_a_command_that_is_nearly_one_is_named():
    done = subprocess.run([*COMMAND, "expain", "a", "b"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "kernelscope: error: no command 'expain'; did you mean explain? (see kernelscope --help)\n"


def test_help_begins_with_what_is_used_every_day():
    lines = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True).stdout.splitlines()
    at = lines.index("every day:")
    assert [line.split()[0] for line in lines[at + 1 : at + 6]] == ["profile", "advise", "explain", "report", "breakdown"]
    assert max(map(len, lines)) <= 130


@pytest.mark.parametrize(
    ("words", "begins"),
    [(["help"], "usage: kernelscope COMMAND"), (["help", "gate"], "usage: kernelscope gate"), (["version"], VERSION)],
)
def test_help_and_version_may_be_said_as_commands(words, begins):
    done = kernelscope(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(begins)
