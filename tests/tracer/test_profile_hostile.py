"""Scripts that do what none should: what was recorded outlives it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernelscope.tracer.outside import environments, orphans
from tests.tracer.toy import SHORT, TOY, measured, profiled

BAD = TOY.with_name("bad_input.py")
_ALL = "".join(f"step {number}, done\n" for number in range(60))
_FORBIDS = """
import torch
from unittest import mock
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
with mock.patch("builtins.open", side_effect=AssertionError("no files while training")):
    for _ in range(120):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).sum().backward()
        optimizer.step()
print("trained")
"""
ONCE = (*SHORT, "--warmup", "0", "--once")
_COMPLETE = "steps: clean 5, layers 2, kernels 2, lines 2"


def _bad(folder: Path, what: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return profiled(folder, sys.executable, str(BAD), what, options=(*SHORT, "--warmup", "0"), **more)


def test_a_script_that_never_steps(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "0", options=("--quiet", "--once"))
    assert (done.returncode, done.stdout) == (4, "")
    assert "no steps were seen: pytorch: nothing stepped" in done.stderr
    assert "`from kernelscope.tracer import step`, and `with step():` around it" in done.stderr


def test_a_script_that_crashes_after_the_passes_and_before_their_end(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "crashes")
    assert (done.returncode, done.stdout) == (1, _ALL)
    assert done.stderr.index("RuntimeError: the script's own fault") < done.stderr.index(_COMPLETE)
    early = _bad(tmp_path / "early", "crashes_in_between")
    assert early.returncode == 1
    assert early.stdout.count("step 0, done") == 1, "what fails is not run again unasked"
    assert "the command failed with exit status 1 after" in early.stderr
    assert "--passes rerun" in early.stderr
    assert measured(tmp_path / "early", "clean")


def test_a_script_that_fails_before_anything_was_measured_has_its_steps_told(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "4", "three")
    assert done.returncode == 3
    assert re.search(r"failed with exit status 3 after 4 steps of \d[\d.]* ms \(their median\); mend it first", done.stderr)
    again = profiled(tmp_path / "run", sys.executable, str(TOY), "4", "three")
    assert "not empty" not in again.stderr, "a recording of nothing is not in the way"


def test_a_script_that_goes_on_after_its_last_step_is_not_said_to_have_ended_with_it(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(BAD), "goes_on_without_steps", options=ONCE)
    assert re.search(r"no step was seen any more after 8 steps, 1\.[2-9] s before the script ended; --passes rerun", done.stderr)
    done = profiled(tmp_path / "replaced", sys.executable, str(BAD), "replaces_what_steps", options=ONCE)
    assert "no step was seen any more after 8 steps, as the script has replaced Toy.step; mark each" in done.stderr


def test_a_script_that_replaces_its_stdout(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "replaces_stdout")
    assert (done.returncode, done.stdout) == (0, _ALL + "60 lines were kept\n")
    assert _COMPLETE in done.stderr


def test_a_script_that_forks(tmp_path: Path) -> None:
    """What children print comes where it would, and only the parent is recorded."""
    done = _bad(tmp_path / "run", "forks")
    expected = "".join(
        (f"child of {number}\nstep {number}, done\n" if number % 5 == 0 else "") + f"step {number}, done\n"
        for number in range(60)
    )
    assert (done.returncode, done.stdout) == (0, expected)
    assert _COMPLETE in done.stderr


SPAWNED = TOY.with_name("spawned.py")


def test_a_worker_is_not_recorded_though_it_steps_first(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(SPAWNED), "both", options=SHORT)
    assert _COMPLETE in done.stderr
    owner = json.loads((tmp_path / "run" / "owner").read_text())
    assert f"main {owner['pid']}\n" in done.stdout


def test_workers_that_step_alone_are_said(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(SPAWNED), "alone", options=SHORT)
    assert done.returncode == 4
    assert "pytorch stepped in workers that multiprocessing started" in done.stderr


def test_a_worker_that_marks_its_steps_is_recorded(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(SPAWNED), "marked", options=SHORT)
    assert _COMPLETE in done.stderr
    owner = json.loads((tmp_path / "run" / "owner").read_text())
    assert f"main {owner['pid']}\n" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("how", ["loads", *(pytest.param(how, marks=pytest.mark.long) for how in ("ranks", "group"))])
def test_the_process_that_trains_is_recorded(tmp_path: Path, how: str) -> None:
    """Not a rank that steps before the first one does, nor a worker that loads data and calls a model."""
    python = str(environments.resolve("pytorch", None).python)
    arguments = (how, f"file://{tmp_path / 'group'}") if how == "group" else (how,)
    script = str(TOY.with_name("spawn_torch.py"))
    done = profiled(tmp_path / "run", python, script, *arguments, options=SHORT, timeout=300)
    assert _COMPLETE in done.stderr, done.stderr
    assert "run once more" not in done.stderr, "that workers make the script's optimizer and step it never says nothing of it"
    owner = json.loads((tmp_path / "run" / "owner").read_text())
    assert f"trains {owner['pid']}\n" in done.stdout
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["mode"] == "train"


@pytest.mark.parametrize("what", ["closes_descriptors", "closes_descriptors_first"])
def test_a_script_that_closes_its_descriptors(tmp_path: Path, what: str) -> None:
    done = _bad(tmp_path / "run", what)
    assert (done.returncode, done.stdout) == (0, "")
    assert _COMPLETE in done.stderr
    if what == "closes_descriptors_first":
        assert "lines of libraries: the program closed its stdout" in done.stderr
    else:
        assert "lines of libraries: the program closed its stdout or sent it elsewhere" in done.stderr


@pytest.mark.parametrize("what", ["forbids_open", "mocks_open", "replaces_functions", "empties_the_path"])
def test_what_a_script_replaces_is_not_what_the_recorder_calls(tmp_path: Path, what: str) -> None:
    done = _bad(tmp_path / "run", what)
    assert (done.returncode, done.stdout.removeprefix("before\n")) == (0, _ALL), done.stderr
    assert done.stderr.splitlines() == [line for line in done.stderr.splitlines() if _COMPLETE in line]
    assert measured(tmp_path / "run", "clean")


def test_a_failure_of_the_recorder_never_comes_out_into_the_script(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "fails_in_the_recorder")
    assert (done.returncode, done.stdout) == (4, _ALL), done.stderr
    assert "Traceback" not in done.stderr
    assert "nothing was recorded" in done.stderr


def test_a_program_that_becomes_another_one_is_not_said_to_have_imported_nothing(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "becomes_another")
    assert (done.returncode, done.stdout) == (4, "another\n")
    assert "pytorch was imported, no step was seen, and its process wrote nothing at its end" in done.stderr


def test_what_a_script_has_opened_under_numbers_of_ours_stays_open(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "closes_all_descriptors")
    assert done.stdout.endswith("step 4, done\nall are there\n"), done.stderr


def test_a_file_of_the_script_that_has_a_number_of_ours_is_left_alone(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "closes_descriptors_among_kernels")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "unchanged"), done.stderr


def test_no_profiler_runs_among_several_threads_that_train(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "steps_in_several_threads")
    assert done.returncode == 0
    assert "kernels: not recorded: several threads make steps" in done.stderr
    done = _bad(tmp_path / "turns", "steps_in_a_pool")
    assert done.returncode == 0
    assert "kernels: not recorded: several threads make steps" in done.stderr
    assert "steps: clean 5, layers 2" in done.stderr


def test_a_profiler_ends_in_the_thread_that_it_watches(tmp_path: Path) -> None:
    """It crashes where it is ended from another one."""
    done = profiled(tmp_path / "run", sys.executable, str(BAD), "steps_in_a_thread_that_ends", options=ONCE)
    assert done.returncode == 0
    record = json.loads((tmp_path / "run/kernels/1/child.json").read_text())
    assert record["reason"] == "the thread that made the steps has ended"


def test_what_a_handler_of_the_program_raises_comes_out(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(BAD), "limits_its_time", options=ONCE)
    assert done.stdout == "50 limits were kept\n", done.stderr
    assert "a fault of kernelscope" not in done.stderr


def test_a_pass_that_a_handler_ended_begins_again(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(BAD), "is_interrupted_amid_ends", options=ONCE)
    assert (done.returncode, done.stdout) == (0, "4 interruptions\n"), done.stderr
    assert _COMPLETE in done.stderr
    assert (tmp_path / "run/clean/2").is_dir()


def test_a_pass_that_handlers_always_end_says_so(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(BAD), "is_always_interrupted", options=ONCE)
    assert done.stdout == "16 interruptions\n", done.stderr
    reason = "not recorded: a signal's handler raised an exception while a step ended"
    said = [f"kernelscope: {name}: {reason}" for name in ("layers", "kernels", "lines")]  # clean steps are only noted
    assert done.stderr.splitlines()[:-1] == said, "and not that the program had too few steps"


def test_a_pass_that_gives_way_to_the_programs_own_profiler_says_so(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(BAD), "starts_its_own_profiler", options=ONCE)
    said = "kernelscope: kernels: not recorded: the script started toy.profiler itself, and only one can run"
    assert done.stderr.splitlines()[0] == said
    assert "steps: clean 5, layers 2, lines 2" in done.stderr


@pytest.mark.slow
def test_pytorch_is_recorded_while_files_are_forbidden(tmp_path: Path) -> None:
    python = str(environments.resolve("pytorch", None).python)
    (tmp_path / "forbids.py").write_text(_FORBIDS)
    done = profiled(tmp_path / "run", python, str(tmp_path / "forbids.py"), options=("--once", "--quiet"), timeout=300)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert [line for line in done.stderr.splitlines() if "kernelscope: " in line] == [done.stderr.strip()]
    assert "kernels 10" in done.stderr


@pytest.mark.parametrize("what", ["uses_up_descriptors", "uses_up_descriptors_again_and_again"])
def test_a_script_that_uses_up_its_descriptors_is_recorded_with_those_in_reserve(tmp_path: Path, what: str) -> None:
    done = _bad(tmp_path / "run", what)
    assert (done.returncode, done.stdout) == (0, _ALL), done.stderr
    assert _COMPLETE in done.stderr


@pytest.mark.slow
def test_a_script_that_writes_much(tmp_path: Path) -> None:
    """480 MB come out as they went in, and the folder has none of them."""
    with (tmp_path / "out").open("wb") as out:
        line = [
            sys.executable,
            "-m",
            "kernelscope.cli.main",
            "profile",
            "-o",
            str(tmp_path / "run"),
            *SHORT,
            "--warmup",
            "0",
            "--",
        ]
        done = subprocess.run(
            [*line, sys.executable, str(BAD), "writes_much"], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert _COMPLETE in done.stderr
    assert (tmp_path / "out").stat().st_size == 60 * 8 << 20
    assert sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file()) < 1 << 20


def test_nothing_printed_is_lost_when_a_script_dies(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "writes_much_and_dies")
    assert (done.returncode, len(done.stdout)) == (137, 20 << 20)
    assert "the command was killed (SIGKILL): by somebody, or by the system" in done.stderr


def test_a_script_that_changes_its_directory(tmp_path: Path) -> None:
    done = _bad(Path("run"), "changes_directory", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, _ALL)
    assert _COMPLETE in done.stderr
    lines = json.loads((tmp_path / "run/lines/1/lines.json").read_text())
    assert all(function["source"] for function in lines["functions"])


@pytest.mark.parametrize("number", [3, 12])
def test_a_script_that_deletes_its_folder(tmp_path: Path, number: int) -> None:
    """In whatever pass: with the run folder elsewhere nothing is lost; inside of it all is, and the message says so."""
    for inside in (False, True):
        work = tmp_path / str(inside)
        work.mkdir()
        command = (sys.executable, str(BAD), str(number), "deletes_its_folder")
        done = profiled(work / "run" if inside else tmp_path / "run", *command, options=(*SHORT, "--warmup", "0"), cwd=work)
        assert done.stdout == "".join(f"step {number}, done\n" for number in range(120))
        if inside:
            assert done.returncode == 4
            assert "it was removed or renamed while the script ran" in done.stderr
        else:
            assert done.returncode == 0
            assert _COMPLETE in done.stderr
        assert "Traceback" not in done.stderr


def test_a_folder_that_is_gone_before_a_framework_is_imported(tmp_path: Path) -> None:
    script = tmp_path / "cleans.py"
    script.write_text("import shutil\nshutil.rmtree('run')\nimport torch\nprint('trained')\nraise SystemExit(7)\n")
    (tmp_path / "torch.py").write_text("")
    done = profiled(tmp_path / "run", sys.executable, str(script), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (7, "trained\n")
    assert "it was removed or renamed while the script ran" in done.stderr


def test_a_program_that_is_profiled_within_another_one_is_recorded_once(tmp_path: Path) -> None:
    inner = (sys.executable, "-m", "kernelscope.cli.main", "profile", "--quiet", "-o", "inner", *SHORT, "--")
    done = profiled(tmp_path / "outer", *inner, sys.executable, str(TOY), "60", options=("--quiet",), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, _ALL)
    assert _COMPLETE in done.stderr
    assert "outer" not in (tmp_path / "inner" / "run.json").read_text()


_IGNORES = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def test_a_program_ends_with_a_profile_that_is_killed(tmp_path: Path) -> None:
    """By SIGTERM: it can still write its checkpoint."""
    script = tmp_path / "saves.py"
    script.write_text(
        "import signal, sys, time\n"
        "def save(*_):\n    open('saved', 'w').close()\n    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, save)\nopen('begun', 'w').close()\ntime.sleep(60)\n"
    )
    line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--quiet", "-o", "run", "--", sys.executable, str(script)]
    with subprocess.Popen(line, cwd=tmp_path) as process:
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        process.kill()
    end = time.monotonic() + 10
    while orphans.recording_into(tmp_path / "run") and time.monotonic() < end:
        time.sleep(0.05)
    assert orphans.recording_into(tmp_path / "run") is None
    assert (tmp_path / "saved").exists()


def test_nothing_records_beside_a_program_whose_profile_was_killed(tmp_path: Path) -> None:
    """One that ignores SIGTERM, which it gets then. Its steps would be taken for those of the next program in that folder."""
    line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--quiet", "-o", "run", "--"]
    script = tmp_path / "waits.py"
    script.write_text(_IGNORES + "open('begun', 'w').close()\ntime.sleep(60)\n")
    with subprocess.Popen([*line, sys.executable, str(script)], cwd=tmp_path) as first:
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        first.kill()
    for option in ((), ("--force",)):
        again = [*line[:4], *option, *line[4:], sys.executable, str(TOY), "60"]
        refused = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert refused.returncode == 3
        told = re.search(r"run: a program that a killed command started still records into it \(process (\d+)\)", refused.stderr)
        assert told is not None
    os.kill(int(told[1]), signal.SIGKILL)
    while orphans.recording_into(tmp_path / "run"):
        time.sleep(0.05)
    done = subprocess.run([*line[:4], *SHORT, *line[4:], sys.executable, str(TOY), "60"], cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_a_pass_of_which_nothing_was_written_says_why(tmp_path: Path) -> None:
    """And not that the script had too few steps: run again it would be the same."""
    done = profiled(
        tmp_path / "run", sys.executable, str(TOY), "60", options=SHORT, env={**os.environ, "TOY_WRITES_NOTHING": "1"}
    )
    assert (done.returncode, done.stdout) == (0, _ALL)
    assert "kernels: not recorded: the framework's profiler wrote nothing: OSError: the toy's profiler has" in done.stderr
    assert "steps: clean 5, layers 2, lines 2" in done.stderr


@pytest.mark.parametrize(
    ("limit", "status", "said"),
    [
        (4 << 20, 0, "files may not be larger than"),
        (700, 0, "what was recorded could not be written (File too large): record again, into a folder"),
        (100, 3, "what was written until then is kept"),
    ],
)
def test_where_files_may_not_grow_the_script_prints_all_the_same(tmp_path: Path, limit: int, status: int, said: str) -> None:
    """Its stdout is a file of ours in the kernels pass: libraries print into none that may grow full."""
    script = tmp_path / "limited.py"
    text = f"import resource, runpy, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit},) * 2)\n"
    script.write_text(f"{text}sys.argv = ['toy', '60', {'three' if status else ''!r}]\n")
    with script.open("a") as out:
        out.write(f"runpy.run_path({str(TOY)!r}, run_name='__main__')\n")
    done = profiled(tmp_path / "run", sys.executable, str(script), options=SHORT)
    assert (done.returncode, done.stdout) == (status, _ALL)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "a fault of kernelscope" not in done.stderr


def test_a_loop_on_a_thread_of_its_own(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "steps_on_a_thread")
    assert (done.returncode, done.stdout) == (0, _ALL)
    record = json.loads((tmp_path / "run/lines/1/lines.json").read_text())
    assert "run" in {function["function"] for function in record["functions"]}


def test_a_script_that_is_traced_already(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "changes_what_is_traced")
    assert (done.returncode, done.stdout) == (0, _ALL)
    assert "lines: the script is traced already" in done.stderr
    assert _COMPLETE in done.stderr


def test_a_function_that_never_ran_is_named(tmp_path: Path) -> None:
    options = (*SHORT, "--focus", "toy_adapter.py:step", "--focus", "toy_adapter.py:nothing")
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "60", options=options)
    assert "--focus toy_adapter.py:nothing: no such function ran" in done.stderr
    record = json.loads((tmp_path / "run/lines/1/lines.json").read_text())
    assert [function["function"] for function in record["functions"]] == ["step"]
    wrong = profiled(tmp_path / "wrong", sys.executable, str(TOY), "60", options=("--focus", "step"))
    assert wrong.returncode == 2
    assert "write FILE:FUNCTION" in wrong.stderr
