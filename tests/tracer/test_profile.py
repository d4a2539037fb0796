"""Scripts that know nothing of us: they do not notice, passes follow each other, and what was recorded outlives any end."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.analysis import Run, breakdown
from kernelscope.tracer import annotate, mark, step
from kernelscope.tracer.inside import annotations
from kernelscope.tracer.inside.launching.command import label, script_name
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.profiling import printed
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.profiling.rounds import SILENT, Rounds
from kernelscope.tracer.inside.ranges import Recorder
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.profile import names_of

TOY = Path(__file__).parent / "children" / "toy_adapter.py"
_SHORT = ("--steps", "5", "--warmup", "2", "--quiet")


def _profiled(
    folder: Path, *command: str, options: tuple[str, ...] = ("--quiet",), timeout: float = 60, **more: Any
) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "-o", str(folder), *options, "--", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False, **more)


def _plain(*command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


def _steps(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name / "1" / "steps.jsonl").read_text().splitlines()]


def _measured(folder: Path, name: str) -> list[int]:
    return [row["step"] for row in _steps(folder, name) if not row["warmup"]]


# --- which end ends a step -------------------------------------------------------------------------------------------------


def test_one_optimizer_ends_every_step() -> None:
    rounds = Rounds()
    assert [rounds.ends(key) for key in "aaaa"] == [True] * 4


def test_a_round_of_two_optimizers_is_one_step() -> None:
    rounds = Rounds()
    assert [rounds.ends(key) for key in "dgdgdg"] == [True, True, False, True, False, True]


def test_a_critic_that_steps_five_times_for_one_step_of_the_generator() -> None:
    rounds = Rounds()
    ends = [rounds.ends(key) for key in "cccccg" * 3]
    assert ends[6:] == [False, False, False, False, False, True] * 2


def test_ends_that_were_only_noted_count() -> None:
    rounds = Rounds()
    assert [rounds.ends(key) for key in ("first", "second")] == [True, True]
    for noted in range(1, 100):
        rounds.noted(noted)
        assert not rounds.ends("first")
    found = []
    for _ in range(60):
        rounds.noted(99)
        found.append(rounds.ends("first"))
    assert found.index(True) == SILENT - 2  # one of the silent ones was already told above


def test_one_that_no_longer_steps_gives_way() -> None:
    rounds = Rounds()
    for key in "ab":
        rounds.ends(key)
    ends = [rounds.ends("a") for _ in range(SILENT + 3)]
    assert ends == [False] * (SILENT - 1) + [True] * 4


# --- what is printed ---------------------------------------------------------------------------------------------------------

_LINE = b"onednn_verbose,v1,1795305997780.07,primitive,exec,cpu,relu,a,b,0.5\n"
_MKL = b"MKL_VERBOSE SGEMM(N,T,4,128,1) 9.59us CNR:OFF\n"


def test_the_scripts_bytes_come_out_as_they_went_in() -> None:
    own = [b"progress 50%\r", b"a line\n", "é".encode(), b"no newline"]
    mixed = own[0] + _LINE + own[1] + b"@kernelscope 12 B layer x\n" + own[2] + _MKL + own[3]
    lines, forwarded, waiting = printed.parted(mixed)
    assert forwarded == b"".join(own)
    assert lines == _LINE + b"@kernelscope 12 B layer x\n" + _MKL
    assert waiting == b""


def test_a_line_that_is_not_whole_waits() -> None:
    assert printed.parted(b"mine" + _LINE[:-9]) == (b"", b"mine", _LINE[:-9])


def test_lines_that_the_script_asked_for_are_its_own_too() -> None:
    lines, forwarded, _ = printed.parted(b"x" + _LINE + b"@kernelscope 12 E y\n", echo=True)
    assert forwarded == b"x" + _LINE
    assert lines == _LINE + b"@kernelscope 12 E y\n"


# --- wrappers ----------------------------------------------------------------------------------------------------------------


class _Base:
    def call(self) -> str:
        """Documented."""
        return "base"


class _Derived(_Base):
    pass


def test_wrappers_leave_nothing_behind() -> None:
    patches, before = Patches(), vars(_Base)["call"]
    for owner in (_Base, _Derived):
        patches.wrap(owner, "call", lambda original: lambda self: original(self) + "!")
    assert _Derived().call() == "base!!"
    assert _Derived.call.__doc__ == "Documented."
    patches.undo()
    assert vars(_Base)["call"] is before
    assert "call" not in vars(_Derived)


def test_a_wrapper_that_somebody_wrapped_stays() -> None:
    patches = Patches()
    patches.wrap(_Derived, "call", lambda original: lambda self: original(self) + "!")
    ours = _Derived.call
    theirs = lambda self: "<" + ours(self) + ">"  # noqa: E731
    _Derived.call = theirs  # type: ignore[method-assign]
    patches.undo()
    assert _Derived().call() == "<base!>"
    del _Derived.call


# --- injection ---------------------------------------------------------------------------------------------------------------

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
    plain = _plain(sys.executable, *how, cwd=project)
    seen = _profiled(project / "run", sys.executable, *how, cwd=project)
    assert plain.returncode == seen.returncode == 5
    assert seen.stdout == plain.stdout
    assert "spawned" in plain.stdout
    assert "at exit" in plain.stdout
    assert "no framework was imported" in seen.stderr


def test_a_console_script(project: Path) -> None:
    script = project / "tool"
    script.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:], sys.path[0])\nsys.exit(6)\n")
    script.chmod(0o755)
    plain, seen = _plain(str(script), "x"), _profiled(project / "run", str(script), "x")
    assert (plain.stdout, 6) == (seen.stdout, seen.returncode)


def test_the_users_own_sitecustomize_runs(project: Path) -> None:
    (project / "own").mkdir()
    (project / "own" / "sitecustomize.py").write_text("import builtins\nbuiltins.CUSTOM = __file__\n")
    environment = {**os.environ, "PYTHONPATH": str(project / "own")}
    command = (sys.executable, "-c", "import sitecustomize, sys; print(CUSTOM, sitecustomize.__file__, sys.path)")
    assert _profiled(project / "run", *command, env=environment).stdout == _plain(*command, env=environment).stdout


def test_signals_and_exit_statuses_are_passed_on(project: Path) -> None:
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\nprint('up', flush=True)\ntime.sleep(30)"
    )
    line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "-o", str(project / "run"), "--", sys.executable, "-c", code]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 9
    killed = _profiled(project / "second", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert killed.returncode == 128 + 9


def test_wrong_use_is_one_line(project: Path) -> None:
    for command, options, words in (
        (("nosuchcommand",), (), "no such command"),
        ((), (), "no command"),
        ((sys.executable, "tell.py"), ("--steps", "3:4"), "--steps: 3:4"),
    ):
        done = _profiled(project / "run", *command, options=options)
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


def test_an_interpreter_that_ignores_its_environment_is_named_as_the_reason(project: Path) -> None:
    done = _profiled(project / "run", sys.executable, "-I", "-c", "print(1)")
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


# --- passes ------------------------------------------------------------------------------------------------------------------


def test_passes_follow_each_other_in_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = _profiled(folder, sys.executable, str(TOY), "60", "three", options=_SHORT)
    assert done.returncode == 3
    assert done.stdout == "".join(f"step {number}, done\n" for number in range(60))
    record = json.loads((folder / "run.json").read_text())
    assert (record["complete"], record["recorder"], record["framework"]) == (True, "profile", "pytorch")
    assert record["options"]["network"] == "toy_adapter.py"
    clean, layers, kernels = (_measured(folder, name) for name in ("clean", "layers", "kernels"))
    assert (len(clean), len(layers), len(kernels)) == (5, 2, 2)
    assert max(clean) < min(layers)
    assert max(layers) < min(kernels)
    ranges = [json.loads(line) for line in (folder / "layers/1/ranges.jsonl").read_text().splitlines()]
    assert {row["layer"] for row in ranges if row["category"] == "layer"} == {"first"}
    threads = json.loads((folder / "kernels/1/child.json").read_text())["threads"]
    assert threads[str(_steps(folder, "kernels")[0]["thread"])] == "MainThread"
    lines = (folder / "kernels/1/stdout.raw").read_bytes()
    assert lines.count(b"onednn_verbose") == len(_steps(folder, "kernels"))
    assert b"done" not in lines
    assert not list(folder.glob("*/*/stdout.spool"))


@pytest.mark.parametrize("others", ["0", "8", "60"])
def test_a_step_lasts_from_one_end_to_the_next(tmp_path: Path, others: str) -> None:
    """Also where another optimizer steps in each round, or did so in the first ones, through parts of the clean pass."""
    folder, told = tmp_path / "run", tmp_path / "ends.json"
    _profiled(
        folder,
        sys.executable,
        str(TOY),
        "60",
        options=("--steps", "23", "--warmup", "2", "--once", "--quiet"),
        env={**os.environ, "TOY_ENDS": str(told), "TOY_OTHERS": others},
    )
    rows, ends = _steps(folder, "clean"), json.loads(told.read_text())
    assert [row["step"] for row in rows] == list(range(rows[0]["step"], rows[0]["step"] + 23))
    first = 2 if int(others) else 1  # the other one's first step was taken for a step's end
    assert [row["window"] for row in rows] == [number // 5 for number in range(23)]
    assert not any(row["warmup"] for row in rows)
    for row in rows:
        (told_before, after_before), (told_now, after_now) = ends[row["step"] - first : row["step"] - first + 2]
        assert told_before <= row["start_ns"] <= after_before
        assert told_now <= row["end_ns"] <= after_now
    assert all(after["start_ns"] >= before["end_ns"] for before, after in itertools.pairwise(rows))


@pytest.mark.parametrize("infers", ["1", "6", "10", "13"])
def test_training_that_begins_late_is_all_that_is_recorded(tmp_path: Path, infers: str) -> None:
    """In whatever pass of inference it begins, none of these has a step that stays."""
    folder = tmp_path / "run"
    environment = {**os.environ, "TOY_INFERS": infers}
    done = _profiled(folder, sys.executable, str(TOY), "60", options=(*_SHORT, "--warmup", "0"), env=environment)
    assert "training with pytorch toy; steps: clean 5, layers 2, kernels 2, lines 2" in done.stderr
    for name in ("clean", "layers", "kernels", "lines"):
        assert [path.name for path in (folder / name).iterdir()] == ["1"]
        assert json.loads((folder / name / "1" / "child.json").read_text())["training"]
    assert not (folder / "faults.log").exists()


def test_the_programs_own_files_are_kept_with_secrets_taken_out(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text('KEY = "hf_abcdefghijklmnopqrstuvwxyzABCDEF12"\n')
    script = tmp_path / "train.py"
    script.write_text(TOY.read_text().replace("import types\n", "import types\nimport helpers\n", 1))
    _profiled(tmp_path / "run", sys.executable, "train.py", "60", "three", options=_SHORT, cwd=tmp_path)
    main, files = Run(tmp_path / "run").sources()
    assert main == "train.py"
    assert files["train.py"] == script.read_text()
    assert files["helpers.py"].startswith("KEY = ")
    assert "abcdefghijklmnop" not in files["helpers.py"]
    assert not [path for path in files if "site-packages" in path or "kernelscope" in path]


def test_no_source_is_written_where_none_is_wanted(tmp_path: Path) -> None:
    _profiled(tmp_path / "run", sys.executable, str(TOY), "60", "three", options=(*_SHORT, "--no-source"))
    run = Run(tmp_path / "run")
    assert run.complete
    assert run.sources() == (None, {})
    written = [path for path in (tmp_path / "run").rglob("*") if path.suffix in (".json", ".jsonl", ".py")]
    assert not [path for path in written if "class Adapter" in path.read_text() or "_grown = []" in path.read_text()]


def test_other_processes_work_is_noted(tmp_path: Path) -> None:
    _profiled(tmp_path / "run", sys.executable, str(TOY), "60", "three", options=_SHORT)
    noted = [json.loads(path.read_text())["foreign_cores"] for path in (tmp_path / "run").glob("*/1/child.json")]
    assert len(noted) == 4
    assert all(cores is None or 0 <= cores <= (os.cpu_count() or 1) for cores in noted)


def test_a_window_of_the_scripts_steps(tmp_path: Path) -> None:
    _profiled(tmp_path / "run", sys.executable, str(TOY), "40", options=("--steps", "10:18", "--quiet"))
    found = [_measured(tmp_path / "run", name) for name in ("clean", "layers", "kernels", "lines")]
    assert found == [[10, 11, 12, 13, 14], [15], [16], [17]]


def test_one_run_for_each_pass(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "12", options=("--passes", "rerun", "--steps", "6", "--quiet"))
    assert done.returncode == 0
    assert done.stdout.count("step 0, done") == 4
    assert [len(_measured(tmp_path / "run", name)) for name in ("clean", "layers", "kernels", "lines")] == [6, 3, 3, 3]


@pytest.mark.parametrize(("ending", "status"), [("exit", 7), ("kill", 137)])
def test_what_was_recorded_before_a_sudden_end_is_kept(tmp_path: Path, ending: str, status: int) -> None:
    folder = tmp_path / "run"
    done = _profiled(folder, sys.executable, str(TOY), "20", ending, options=(*_SHORT, "--warmup", "0"))
    assert done.returncode == status
    assert done.stdout == "".join(f"step {number}, done\n" for number in range(20))
    assert len(_measured(folder, "clean")) == 5
    assert "steps: clean 5" in done.stderr


def test_a_script_that_ends_early_is_told_what_to_do(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "1")
    assert done.returncode == 4
    assert "ended after 1 steps" in done.stderr
    assert "--passes rerun" in done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert not record["complete"]


def test_a_script_with_too_few_steps_for_all_passes_is_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = _profiled(folder, sys.executable, str(TOY), "12", options=("--steps", "6"))
    assert done.returncode == 0
    assert "it is run 4 times more, once for each pass (--once forbids that)" in done.stderr
    assert done.stdout.count("step 0, done") == 1 + 4
    assert [len(_measured(folder, name)) for name in ("clean", "layers", "kernels", "lines")] == [6, 3, 3, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"], "the first recording, which has less, is not kept"


def test_a_script_is_run_once_where_that_is_asked_for(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "12", options=("--steps", "6", "--once", "--quiet"))
    assert done.stdout.count("step 0, done") == 1
    assert "not all recorded, the script ended after 12 steps" in done.stderr


def test_neither_options_nor_an_interpreter_are_needed(tmp_path: Path) -> None:
    shutil.copy(TOY, tmp_path / "train.py")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for how in (["train.py", "60", "three"], ["-m", "train", "60", "three"]):
        line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--steps", "5", "--warmup", "2", *how]
        done = _plain(*line, cwd=tmp_path, env={**os.environ, "PATH": path})
        assert done.returncode == 3, done.stderr
        assert done.stdout.startswith("step 0, done")
        assert "A step takes " in done.stderr
    folders = sorted((tmp_path / "profiles").iterdir())
    assert len(folders) == 2
    assert all(re.fullmatch(r"train-\d{8}-\d{6}(-1)?", folder.name) for folder in folders)
    assert all((folder / "run.json").is_file() for folder in folders)


def test_repeats_have_a_folder_each(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "60", "three", options=(*_SHORT, "--repeats", "2"))
    assert done.returncode == 3
    assert [len(_measured(tmp_path / "run" / number, "clean")) for number in "12"] == [5, 5]


def test_two_scripts_are_recorded_in_turns_to_be_explained(tmp_path: Path) -> None:
    for name in ("before.py", "after.py"):
        shutil.copy(TOY, tmp_path / name)
    line = [
        sys.executable,
        "-m",
        "kernelscope.cli.main",
        "explain",
        "before.py",
        "after.py",
        "--repeats",
        "2",
        "--arguments",
        "90",
    ]
    done = _plain(*line, cwd=tmp_path)
    assert done.stdout == "", "what the scripts print is not what is said of them"
    assert done.stderr.count("step 0, done") == 4
    (whole,) = (tmp_path / "profiles").iterdir()
    assert whole.name.startswith("explain-")
    for name in ("before", "after"):
        created = [json.loads((whole / name / number / "run.json").read_text())["created"] for number in "12"]
        assert created == sorted(created)
        assert (whole / name / "2" / "clean" / "1" / "steps.jsonl").is_file()


@pytest.mark.parametrize(
    ("scripts", "names"),
    [
        (("before.py", "after.py"), ("before", "after")),
        (("old/train.py", "new/train.py"), ("old", "new")),
        (("a/x/train.py", "b/x/train.py"), ("a", "b")),
    ],
)
def test_scripts_of_one_name_are_called_by_their_folders(scripts: tuple[str, str], names: tuple[str, str]) -> None:
    assert names_of((Path(scripts[0]), Path(scripts[1]))) == names


def test_plans() -> None:
    plan = ProfileOptions(steps=20).plans()
    assert [(entry["pass"], entry["skip"], entry["steps"]) for entry in plan[0]] == [
        ("clean", 0, 20), ("layers", 2, 10), ("kernels", 2, 10), ("lines", 2, 10),
    ]  # fmt: skip
    assert [len(run) for run in ProfileOptions(rerun=True).plans()] == [1, 1, 1, 1]
    assert ProfileOptions(window=(7, 27)).warming() == {"steps": 7, "settle": False}


@pytest.mark.parametrize(
    ("slow", "options", "count"),
    [("16:24", (), 40), ("0:0", (), 20), ("16:24", ("--steps", "20"), 20)],
    ids=["wavering", "steady", "asked for"],
)
def test_where_clean_steps_waver_there_are_more(tmp_path: Path, slow: str, options: tuple[str, ...], count: int) -> None:
    """As many as asked for, where a number is; a machine that is busy may make steady ones waver, too."""
    line = ("--quiet", "--warmup", "5", *options)
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "120", options=line, env={**os.environ, "TOY_SLOW": slow})
    assert done.returncode == 0, done.stderr
    assert len(_measured(tmp_path / "run", "clean")) in ({count} if slow != "0:0" else {20, 30, 40})
    assert len(_measured(tmp_path / "run", "layers")) == 10


# --- scripts that do what none should ----------------------------------------------------------------------------------------

BAD = TOY.with_name("bad_input.py")
_ALL = "".join(f"step {number}, done\n" for number in range(60))
_COMPLETE = "steps: clean 5, layers 2, kernels 2, lines 2"


def _bad(folder: Path, what: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return _profiled(folder, sys.executable, str(BAD), what, options=(*_SHORT, "--warmup", "0"), **more)


def test_a_script_that_never_steps(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "0")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no steps were seen: pytorch: nothing stepped" in done.stderr
    assert "`from kernelscope.tracer import step`, and `with step():` around it" in done.stderr


def test_a_script_that_crashes_after_the_passes_and_before_their_end(tmp_path: Path) -> None:
    done = _bad(tmp_path / "run", "crashes")
    assert (done.returncode, done.stdout) == (1, _ALL)
    assert done.stderr.index("RuntimeError: the script's own fault") < done.stderr.index(_COMPLETE)
    early = _bad(tmp_path / "early", "crashes_in_between")
    assert early.returncode == 1
    assert "it ended with exit status 1 before all passes had their steps (missing: " in early.stderr
    assert all(_measured(tmp_path / "early", name) for name in ("clean", "layers", "kernels", "lines"))


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
    done = _profiled(tmp_path / "run", sys.executable, str(SPAWNED), "both", options=_SHORT)
    assert _COMPLETE in done.stderr
    owner = json.loads((tmp_path / "run" / "owner").read_text())
    assert f"main {owner['pid']}\n" in done.stdout


def test_workers_that_step_alone_are_said(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(SPAWNED), "alone", options=_SHORT)
    assert done.returncode == 4
    assert "pytorch stepped in workers that multiprocessing started" in done.stderr


def test_a_worker_that_marks_its_steps_is_recorded(tmp_path: Path) -> None:
    done = _profiled(tmp_path / "run", sys.executable, str(SPAWNED), "marked", options=_SHORT)
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
    done = _profiled(tmp_path / "run", python, script, *arguments, options=_SHORT, timeout=300)
    assert _COMPLETE in done.stderr, done.stderr
    owner = json.loads((tmp_path / "run" / "owner").read_text())
    assert f"trains {owner['pid']}\n" in done.stdout
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["mode"] == "train"


@pytest.mark.parametrize("what", ["closes_descriptors", "closes_descriptors_first"])
def test_a_script_that_closes_its_descriptors(tmp_path: Path, what: str) -> None:
    done = _bad(tmp_path / "run", what)
    assert (done.returncode, done.stdout) == (0, "")
    assert _COMPLETE in done.stderr
    if what == "closes_descriptors_first":
        assert "lines of libraries: OSError" in done.stderr


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
            *_SHORT,
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
    assert "the process ended without notice" in done.stderr


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
        done = _profiled(work / "run" if inside else tmp_path / "run", *command, options=(*_SHORT, "--warmup", "0"), cwd=work)
        assert done.stdout == "".join(f"step {number}, done\n" for number in range(120))
        if inside:
            assert done.returncode == 3
            assert "the script removed it while it ran" in done.stderr
        else:
            assert done.returncode == 0
            assert _COMPLETE in done.stderr
        assert "Traceback" not in done.stderr


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
    options = (*_SHORT, "--focus", "toy_adapter.py:step", "--focus", "toy_adapter.py:nothing")
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "60", options=options)
    assert "--focus toy_adapter.py:nothing: no such function ran" in done.stderr
    record = json.loads((tmp_path / "run/lines/1/lines.json").read_text())
    assert [function["function"] for function in record["functions"]] == ["step"]
    wrong = _profiled(tmp_path / "wrong", sys.executable, str(TOY), "60", options=("--focus", "step"))
    assert wrong.returncode == 2
    assert "write FILE:FUNCTION" in wrong.stderr


# --- bounds ------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.slow
def test_the_oldest_parts_make_room(tmp_path: Path) -> None:
    """2500 clean steps of 290 bytes and ranges of the layers pass are more than 1 MB; what remains is whole and the newest."""
    folder = tmp_path / "run"
    options = ("--steps", "2500", "--warmup", "0", "--max-trace-size", "1MB", "--seconds", "100")
    environment = {**os.environ, "TOY_TRACE": "100"}
    done = _profiled(folder, sys.executable, str(TOY), "7000", options=options, env=environment)
    record = json.loads((folder / "run.json").read_text())
    layers = record["passes"]["layers"]
    assert f"layers: the first {layers['dropped_steps']} steps were dropped to stay below --max-trace-size" in done.stderr
    rows = [row for place in layers["folders"] for row in _json_rows(folder / place / "steps.jsonl") if not row["warmup"]]
    assert len(rows) + layers["dropped_steps"] == 1250
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    assert len(layers["folders"]) < 10


def test_a_pass_that_takes_long_ends(tmp_path: Path) -> None:
    options = ("--steps", "100", "--warmup", "0", "--seconds", "0.05")
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "200", options=options)
    assert re.search(r"clean: ended after \d+ steps: --seconds 0\.05 were over", done.stderr)
    assert 3 <= len(_measured(tmp_path / "run", "clean")) < 100


def test_a_kernels_pass_that_grows_ends(tmp_path: Path) -> None:
    """The toy takes 1 MB in each step: with room for 4 MB the pass has no more than 4 of its 10 steps."""
    folder = tmp_path / "run"
    options = ("--warmup", "0", "--max-trace-size", "8MB")
    environment = {**os.environ, "TOY_GROWS": "1000000"}
    done = _profiled(folder, sys.executable, str(TOY), "200", options=options, env=environment)
    assert "of trace can come: --max-trace-size is" in done.stderr
    assert 1 <= len(_measured(folder, "kernels")) <= 4
    assert len(_measured(folder, "lines")) == 10


def test_a_kernels_pass_goes_on_where_its_trace_can_be_written_in_parts(tmp_path: Path) -> None:
    """Until what is written takes all the room."""
    options = ("--warmup", "0", "--max-trace-size", "8MB")
    environment = {**os.environ, "TOY_GROWS": "1000000", "TOY_PARTS": "1"}
    done = _profiled(tmp_path / "run", sys.executable, str(TOY), "200", options=options, env=environment)
    assert "ended" not in done.stderr
    assert len(_measured(tmp_path / "run", "kernels")) == 10
    files = json.loads((tmp_path / "run/kernels/1/child.json").read_text())["operator_files"]
    numbered = [f"operators.{number}.pt.trace.json.gz" for number in range(2, len(files) + 1)]
    assert files == [*numbered, "operators.pt.trace.json.gz"]
    assert len(files) > 2
    full = {**environment, "TOY_TRACE": "1000000"}
    done = _profiled(tmp_path / "full", sys.executable, str(TOY), "200", options=options, env=full)
    assert "kernels: ended after" in done.stderr
    assert "more would not stay below --max-trace-size" in done.stderr
    assert 1 <= len(_measured(tmp_path / "full", "kernels")) < 10


def _json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.long
def test_samples_of_long_passes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = _profiled(folder, sys.executable, str(TOY), "700", options=("--steps", "500", "--warmup", "2"))
    assert "steps: clean 500" in done.stderr
    samples = Run(folder).passes("clean")[0].samples()
    assert {"core_busy", "resident_bytes", "threads"} <= set(samples["metric"])
    steps = _steps(folder, "clean")
    assert samples["time_ns"].between(steps[0]["start_ns"], steps[-1]["end_ns"] + 1_000_000_000).all()
    sampling = json.loads((folder / "run.json").read_text())["passes"]["clean"]["sampling"]
    assert sampling["readings"] == samples["time_ns"].nunique() > 0


# --- what scripts say themselves -----------------------------------------------------------------------------------------------


def test_annotations_are_ranges_while_ranges_are_recorded(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), layers=True)
    with annotate("too early"):
        annotations.record(recorder)
        recorder.begin_step()
        with annotate("outer"):
            annotate("inner")(lambda: mark("now"))()
            recorder.end_step()  # closes what is open
            recorder.begin_step()
        recorder.end_step()
    annotations.record(None)
    with annotate("too late"):
        mark("too late")
    recorder.flush()
    rows = [json.loads(line) for line in (tmp_path / "ranges.jsonl").read_text().splitlines()]
    assert [row["name"] for row in rows] == ["now", "inner", "outer", "step 0", "step 1"]


def test_where_nothing_records_nothing_happens() -> None:
    with annotate("a"), step():
        mark("b")
    assert annotate("a")(len)("abc") == 3
    with pytest.raises(ZeroDivisionError), annotate("a"), step():
        _ = 1 / 0


def test_a_marked_step_ends_at_its_blocks_end() -> None:
    ends: list[int] = []
    annotations.listen(lambda: ends.append(1))
    try:
        for _ in range(3):
            with step():
                assert len(ends) < 3
        with pytest.raises(ValueError, match="not whole"), step():
            raise ValueError("not whole")
    finally:
        annotations.listen(None)
    assert len(ends) == 3


# --- a real framework ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_training_script(tmp_path: Path) -> None:
    """Its output and files are as without us, its layers have their paths, and its convolutions' gradients are their own."""
    python = str(environments.resolve("pytorch", None).python)
    script = TOY.with_name("train_torch.py")
    outputs, digests = [], []
    for number, run in enumerate((_plain, functools.partial(_profiled, tmp_path / "run", options=()))):
        work = tmp_path / str(number)
        work.mkdir()
        done = run(python, str(script), cwd=work, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert done.returncode == 3, done.stderr
        outputs.append(done.stdout)
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in work.iterdir()})
    assert outputs[0] == outputs[1]
    assert digests[0] == digests[1]
    run = Run(tmp_path / "run")
    assert run.complete
    assert run.record["options"]["mode"] == "train"
    assert run.record["options"]["batch"] == 16
    found = breakdown(run.trace(), "layer")
    assert found.coverage >= 0.85
    layers = set(found.table["layer"])
    assert {"stem", "blocks.0.conv1", "blocks.1.conv2", "blocks.0.relu", "blocks.0.relu (2)", "head", "loss"} <= layers
    assert re.search(r"\nA step takes [\d.]+ ms: computing \d+%", done.stderr), "it ends with the answer"
    assert (tmp_path / "run" / "report.html").is_file()
    kinds = breakdown(run.trace(), "layer-kernel").table
    convolutions = kinds[kinds["kind"] == "convolution weight gradient"]
    assert set(convolutions["layer"]) == {"stem", *(f"blocks.{b}.conv{c}" for b in (0, 1) for c in (1, 2))}
    assert run.passes("clean")[0].report["odd_steps"].keys() <= {"a model was switched to evaluation"}
