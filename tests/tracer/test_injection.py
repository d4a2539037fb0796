"""Scripts do not notice that they are recorded, and are called what their users call them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelscope.tracer.inside.launching.command import label, script_name
from tests.tracer.toy import profiled, unrecorded

_TELL = """
import sys, os, json
print(json.dumps([sys.argv, sys.path, __name__, os.getcwd(), sys.flags.safe_path if hasattr(sys.flags, "safe_path") else 0]))
print([name for name in ("torch", "numpy", "ctypes", "sitecustomize") if name in sys.modules])
import tracer, analysis, workloads, reports
print(tracer.MINE, analysis.MINE, workloads.MINE, reports.MINE)
import atexit, multiprocessing
atexit.register(print, "at exit")
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=print, args=("spawned",))
    process.start()
    process.join()
    sys.exit(5)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a script and packages that are called like our folders."""
    for name in ("tracer", "analysis", "workloads", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "tell.py").write_text(_TELL)
    return tmp_path


@pytest.mark.parametrize("how", [("tell.py", "a", "b c"), ("-m", "tell", "x"), ("-u", "tell.py")])
def test_a_script_sees_what_it_sees_without_us(project: Path, how: tuple[str, ...]) -> None:
    plain = unrecorded(sys.executable, *how, cwd=project)
    seen = profiled(project / "run", sys.executable, *how, cwd=project)
    assert plain.returncode == seen.returncode == 5
    assert seen.stdout == plain.stdout
    assert "spawned" in plain.stdout
    assert "at exit" in plain.stdout
    assert "it imported a framework" in seen.stderr


def test_a_console_script(project: Path) -> None:
    script = project / "tool"
    script.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:], sys.path[0])\nsys.exit(6)\n")
    script.chmod(0o755)
    plain, seen = unrecorded(str(script), "x"), profiled(project / "run", str(script), "x")
    assert (plain.stdout, 6) == (seen.stdout, seen.returncode)


def test_the_users_own_sitecustomize_runs(project: Path) -> None:
    (project / "own").mkdir()
    (project / "own" / "sitecustomize.py").write_text("import builtins\nbuiltins.CUSTOM = __file__\n")
    environment = {**os.environ, "PYTHONPATH": str(project / "own")}
    command = (sys.executable, "-c", "import sitecustomize, sys; print(CUSTOM, sitecustomize.__file__, sys.path)")
    assert profiled(project / "run", *command, env=environment).stdout == unrecorded(*command, env=environment).stdout


_COUNTS = """
import signal, sys, time
got = []
for name in ("SIGTERM", "SIGINT"):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(number))
print("up", flush=True)
end = time.monotonic() + 1.2
while time.monotonic() < end:
    time.sleep(0.05)
print(got)
sys.exit(9)
"""


@pytest.mark.parametrize("to_the_group", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_script_once_whoever_it_was_sent_to(project: Path, to_the_group: bool, number: int) -> None:
    ours = ["-m", "kernelscope.cli.main", "profile", "-o", str(project / "run"), "--"]
    line = [sys.executable, *ours, sys.executable, "-c", _COUNTS]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        for _ in range(2):
            (os.killpg if to_the_group else os.kill)(process.pid, number)
            time.sleep(0.5)
        assert process.wait(20) == 9
        assert process.stdout.read() == f"{[int(number)] * 2}\n".encode()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "was killed (SIGKILL): by somebody, or by the system when memory ran out"),
        (signal.SIGTERM, "was ended by SIGTERM"),
        (signal.SIGINT, "was interrupted (SIGINT)"),
        (signal.SIGSEGV, "crashed (SIGSEGV)"),
    ],
)
def test_how_a_script_ended_is_passed_on_and_said(project: Path, number: int, words: str) -> None:
    code = f"import os, signal; signal.signal({int(number)}, 0); os.kill(os.getpid(), {int(number)})"
    if number == signal.SIGKILL:
        code = "import os; os.kill(os.getpid(), 9)"
    done = profiled(project / "run", sys.executable, "-c", code)
    assert done.returncode == 128 + number
    assert f"the command {words} before it imported a framework" in done.stderr


def test_wrong_use_is_one_line(project: Path) -> None:
    for command, options, words in (
        (("nosuchcommand",), (), "no such command"),
        ((), (), "no command"),
        ((sys.executable, "tell.py"), ("--steps", "3:4"), "--steps: 3:4"),
    ):
        done = profiled(project / "run", *command, options=options)
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


def test_an_interpreter_that_ignores_its_environment_is_named_as_the_reason(project: Path) -> None:
    done = profiled(project / "run", sys.executable, "-I", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (4, "1\n")
    assert "-I, -E or -S" in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train.py"),
        (["/usr/bin/python3.11", "-u", "-W", "ignore", "a/b.py"], "b.py"),
        (["python", "-m", "package.module", "x"], "package.module"),
        (["torchrun", "--nproc", "2", "a/train.py", "--lr", "1"], "train.py"),
        (["/venv/bin/torchrun", "--nproc-per-node=2", "-m", "package.train", "x"], "package.train"),
        (["python", "-m", "torch.distributed.run", "--nnodes", "1", "train.py", "data.py"], "train.py"),
        (["python3", "-u", "/venv/bin/torchrun", "train.py"], "train.py"),
        (["accelerate", "launch", "--config_file", "a.yaml", "train.py"], "train.py"),
        (["accelerate", "launch", "--module", "package.train"], "package.train"),
        (["horovodrun", "-np", "2", "python", "-u", "train.py"], "train.py"),
        (["accelerate", "env"], "accelerate"),
        (["tool", "data.py"], "tool"),
        (["python", "-c", "print(1)"], "-c"),
    ],
)
def test_what_the_script_is_called(command: list[str], name: str) -> None:
    assert script_name(command) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py"], "train"),
        (["accelerate", "launch", "train.py"], "train"),
        (["python", "-m", "package.module"], "package.module"),
        (["./train.sh"], "train"),
    ],
)
def test_what_the_run_is_called(command: list[str], name: str) -> None:
    assert label(command) == name
