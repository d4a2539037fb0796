"""The command `confirm`: a real program that is slow by a setting, what is refused, and trials that go on where they were cut."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelscope.analysis.confirm import candidates
from kernelscope.cli import confirm
from kernelscope.cli.main import main
from kernelscope.cli.trying import TriedScript
from kernelscope.tracer.inside.disclosure import HIDDEN
from kernelscope.tracer.outside import environments, trials
from kernelscope.tracer.outside.errors import ChildError
from kernelscope.tracer.outside.trials import Trial

SCRIPT = Path(__file__).parents[1] / "tracer" / "children" / "slow_torch.py"
OURS = (sys.executable, "-m", "kernelscope.cli.main")


@pytest.fixture(autouse=True)
def _own_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profiled program with anomaly detection on."""
    try:
        python = str(environments.resolve("pytorch", None).python)
    except ChildError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("confirm") / "run"
    line = [*OURS, "profile", "--quiet", "-o", str(folder), "--", python, str(SCRIPT)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_what_helps_is_confirmed_and_what_does_nothing_is_not(recorded: Path) -> None:
    """Alone shows the whole way in real processes: trials in turns, verdicts, results compared, and that a trial ends early."""
    line = [*OURS, "confirm", "--rounds", "3", "--format", "json"]
    line += ["--only", "no-anomaly-detection", "--only", "channels-last", str(recorded)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False, cwd="/")  # runs where it was recorded
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((recorded / "confirm" / "confirm.json").read_text())
    found = {row["topic"]: row for row in result["findings"]}
    assert found["debugging mode"]["change"] == "no-anomaly-detection"
    rows = {row["name"]: row for row in result["tried"]}
    changed = rows["no-anomaly-detection"]
    assert changed["verdict"] in ("confirmed", "partly") or changed["p"] >= 0.05, "on a busy machine it may be unseen"
    assert changed["interval_ns"][0] <= changed["saved_ns"] <= changed["interval_ns"][1]
    assert changed["results"] == "same"
    assert changed["met"] == ["anomaly detection"]
    assert rows["channels-last"]["verdict"] == "nothing to change", "it has no convolutions"
    if result["together"]:
        assert "torch.autograd.set_detect_anomaly(False)" in result["keep"]
        assert result["account"]["a_ns"] > 0
        assert list(recorded.glob("confirm/kept/*/*/run.json"))
    [log] = recorded.glob("confirm/trials/*/unchanged/1/log.txt")
    assert "to its end" not in log.read_text(), "a trial ends with its clean steps"
    again = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == result, "what was tried is not tried again"
    verdicts = subprocess.run([*OURS, "confirm", "--verdicts", "--format", "json"], capture_output=True, text=True, check=True)
    assert {row["topic"] for row in json.loads(verdicts.stdout)["rows"]} == {"debugging mode"}


def test_a_recording_s_variables_are_the_trials_own_but_for_what_a_change_sets(tmp_path: Path) -> None:
    record = {"variables": {"ONEDNN_MAX_CPU_ISA": "SSE41", "OMP_NUM_THREADS": "1", "TOKEN": HIDDEN}}
    program = TriedScript(3, tmp_path, record, tmp_path, ["python", "train.py"])
    trial = program.as_recorded(Trial("all-instructions", (), {"ONEDNN_MAX_CPU_ISA": "DEFAULT"}))
    assert trial.variables == {"ONEDNN_MAX_CPU_ISA": "DEFAULT", "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@pytest.mark.long
def test_trials_run_in_the_environment_of_the_recording(recorded: Path, tmp_path: Path) -> None:
    """Alone shows that a variable that made the recorded program slow is there in its trials, and that a change may set it."""
    copied = tmp_path / "run"
    shutil.copytree(recorded, copied, ignore=shutil.ignore_patterns("confirm"))
    record = json.loads((copied / "run.json").read_text())
    record["variables"] = {"ONEDNN_MAX_CPU_ISA": "SSE41"}
    (copied / "run.json").write_text(json.dumps(record))
    line = [*OURS, "confirm", "--only", "all-instructions", "--rounds", "3", str(copied)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    of = {
        name: json.loads(next(copied.glob(f"confirm/trials/*/{name}/1/run.json")).read_text())["variables"]["ONEDNN_MAX_CPU_ISA"]
        for name in ("unchanged", "all-instructions")
    }
    assert of == {"unchanged": "SSE41", "all-instructions": "DEFAULT"}


@pytest.mark.slow
@pytest.mark.long
def test_trials_that_were_killed_go_on(recorded: Path, tmp_path: Path) -> None:
    """Alone shows what is left when trials are killed at any moment: whole runs, which count, and others, which run again."""
    line = _nothing_tried(recorded, tmp_path / "trials")
    kept: dict[Path, int] = {}
    for wanted in (1, 3):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        _wait_for(tmp_path / "trials", wanted)
        time.sleep(random.uniform(0, 2))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kept |= _whole(tmp_path / "trials")
    done = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    assert kept.items() <= _whole(tmp_path / "trials").items(), "what was whole is not recorded again"
    row = json.loads(done.stdout)["tried"][0]
    assert row["saved_ns"] is not None
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == done.stdout


@pytest.mark.slow
@pytest.mark.long
def test_ctrl_c_ends_trials_at_once_and_the_same_command_goes_on(recorded: Path, tmp_path: Path) -> None:
    """Alone shows that a program that is told to end with us is no failed trial of its change."""
    line = _nothing_tried(recorded, tmp_path / "trials")
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    _wait_for(tmp_path / "trials", 2)
    time.sleep(2.0)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "the same command continues them" in stderr
    assert "Traceback" not in stderr
    kept = _whole(tmp_path / "trials")
    assert all(json.loads(path.read_text())["exit_status"] == 0 for path in kept)
    done = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    assert kept.items() <= _whole(tmp_path / "trials").items()
    assert json.loads(done.stdout)["tried"][0]["reason"] is None


def test_variables_that_the_recording_had_not_are_not_the_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    program = TriedScript(3, tmp_path, {"variables": {"MALLOC_ARENA_MAX": "2"}}, tmp_path, ["python", "train.py"])
    with program.environment():
        assert ("OMP_NUM_THREADS" in os.environ, os.environ["MALLOC_ARENA_MAX"]) == (False, "2")
    assert os.environ["OMP_NUM_THREADS"] == "1"
    with TriedScript(3, tmp_path, {}, tmp_path, ["python", "train.py"]).environment():
        assert os.environ["OMP_NUM_THREADS"] == "1", "an old recording does not tell"


def _nothing_tried(recorded: Path, trials: Path) -> list[str]:
    """Return a command that tries a change which does nothing."""
    return [*OURS, "confirm", "--rounds", "3", "--only", "nothing", "--format", "json", "-o", str(trials), str(recorded)]


def _wait_for(folder: Path, count: int) -> None:
    """Wait until so many trials have ended."""
    until = time.monotonic() + 200
    while len(_whole(folder)) < count and time.monotonic() < until:
        time.sleep(0.2)


def _whole(folder: Path) -> dict[Path, int]:
    """Return the run records of trials that ended, and when these were written."""
    records = {path: path.stat().st_mtime_ns for path in folder.glob("trials/*/*/*/run.json")}
    return {path: when for path, when in records.items() if "exit_status" in json.loads(path.read_text())}


@pytest.mark.slow
@pytest.mark.long
def test_changes_of_a_workload_take_turns_window_by_window(recorded: Path, tmp_path: Path) -> None:
    """Alone shows changes in our own workloads: made in the framework, and compared by the first losses of the check."""
    assert recorded.is_dir(), "PyTorch is there"
    first = [*OURS, "run", "lenet", "-f", "pytorch", "--steps", "10", "--repeats", "1", "-o", str(tmp_path / "run")]
    done = subprocess.run(first, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    names = ("fused-optimizer", "channels-last")
    line = [*OURS, "confirm", "--rounds", "3", "--format", "json", *(part for name in names for part in ("--only", name))]
    done = subprocess.run([*line, str(tmp_path / "run")], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["tried"]}
    assert set(rows) == set(names)
    assert rows["fused-optimizer"]["met"] == ["SGD"]
    assert "Conv2d" in rows["channels-last"]["met"]
    assert {row["results"] for row in rows.values()} == {"same"}
    assert all(row["saved_ns"] is not None for row in rows.values())


def test_what_cannot_be_tried_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", str(tmp_path)]) == 2
    assert "only recordings of `profile`, `run` or `compare` can run again" in capsys.readouterr().err
    assert main(["confirm", "--only", "magic", str(tmp_path)]) == 2
    assert "no such change; choose one of compiled-model" in capsys.readouterr().err
    assert main(["confirm", "--rounds", "2", str(tmp_path)]) == 2
    assert "--rounds 2: at least 3" in capsys.readouterr().err
    for command in (["advise", str(tmp_path)], ["explain", str(tmp_path), str(tmp_path)]):
        assert main([*command, "--rounds", "4"]) == 2
        assert "--rounds, --budget and --only are options of trials: add --confirm" in capsys.readouterr().err
    assert main(["confirm", str(tmp_path), "--budget", "4m", "--rounds", "2"]) == 2
    assert "--rounds 2: at least 3" in capsys.readouterr().err, "options of a folder stand behind it, too"
    assert main(["confirm", str(tmp_path), "--budget", "4m", "python", "train.py"]) == 2
    assert "python: write another command after --" in capsys.readouterr().err
    assert main(["confirm", str(tmp_path), "--", "python", "train.py"]) == 2
    assert "only recordings of `profile`, `run` or `compare`" in capsys.readouterr().err
    assert main(["confirm", str(tmp_path / "none.py")]) == 2
    assert "no such script" in capsys.readouterr().err


def test_of_a_comparison_that_framework_is_tried_of_which_changes_may_remove_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def explained(slow: str, cause: str, title: str, cost_ms: int) -> dict[str, Any]:
        finding = {"cause": cause, "title": title, "explains_ns": cost_ms * 1_000_000, "confidence": "high"}
        sides = {"a": {"name": "fast", "framework": "tensorflow"}, "b": {"name": slow, "framework": slow}}
        return {**sides, "wall_delta_ns": 30_000_000, "findings": [finding]}

    run = {"schema": "kernelscope/run/1", "profiled": ["python", "train.py"], "directory": "/gone"}
    for name in ("mxnet", "pytorch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({**run, "framework": name}))
    recorded = {"schema": "kernelscope/compare/1", "frameworks": ["fast", "cntk", "mxnet", "pytorch"]}
    several = [
        explained("cntk", "optimizer implementation", "cntk updates by 25 kernels", 20),  # a bound answers it, which is no remedy
        explained("mxnet", "eager against graph", "mxnet runs operators one by one", 3),
        explained("pytorch", "layout conversions", "pytorch converts the layout of conv1", 8),
    ]

    def said(status: int, *kept: dict[str, Any]) -> str:
        (tmp_path / "compare.json").write_text(json.dumps({**recorded, "explanations": kept}))
        assert main(["confirm", str(tmp_path)]) == status
        return capsys.readouterr().err

    text = said(2, *several)
    assert "trying on pytorch what makes it slower than fast; for others: kernelscope explain" in text
    assert f"{tmp_path / 'pytorch'}: it ran in /gone" in text
    assert "trying on mxnet" in said(2, *several[:2])
    none = explained("cntk", "slower library", "cntk computes pool1 with its own kernels", 9)
    assert "name one of its run folders to try the advice on it" in said(3, none)


def test_a_command_with_secrets_has_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {"schema": "kernelscope/run/1", "profiled": ["python", "train.py", "--token=(not recorded)"], "framework": "pytorch"}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert main(["confirm", str(tmp_path)]) == 2
    assert f"{tmp_path}: its command has secrets, which were not recorded; write the command after --" in capsys.readouterr().err


def test_where_it_ran_is_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(tmp_path / "gone")
    run = {"schema": "kernelscope/run/1", "profiled": ["python", "train.py"], "framework": "pytorch", "directory": gone}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert main(["confirm", str(tmp_path)]) == 2
    assert f"it ran in {gone}, which no longer exists" in capsys.readouterr().err


def test_nothing_is_tried_beside_what_a_killed_command_left_behind(tmp_path: Path) -> None:
    killed = """
import os, subprocess, sys
from pathlib import Path
from kernelscope.tracer.outside import trials
with trials.alone(Path(sys.argv[1]), lambda: None):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"], close_fds=False, stdout=subprocess.DEVNULL)
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False).returncode == 9
    waited = []
    with trials.alone(tmp_path, lambda: waited.append(time.monotonic())):
        assert len(waited) == 1, "the program still runs, and is waited for"
    with trials.alone(tmp_path, lambda: waited.append(time.monotonic())):
        assert len(waited) == 1


def test_trials_of_other_options_stay(tmp_path: Path) -> None:
    """What was tried is still there when something else was tried meanwhile."""
    several = [Trial("unchanged"), Trial("nothing", (), {"A": "1"})]
    first = trials._of_set(tmp_path, ["python", "train.py", "--token=hf_abcdefghijklmnopqrstuvwxyz012345"], several)
    (first / "nothing").mkdir()
    other = trials._of_set(tmp_path, ["python", "train.py"], several[:1])
    assert other != first
    assert trials._of_set(tmp_path, ["python", "train.py", "--token=hf_abcdefghijklmnopqrstuvwxyz012345"], several) == first
    assert (first / "nothing").is_dir()
    assert "hf_abc" not in (first / trials.SET).read_text()


@pytest.mark.parametrize(
    ("budget", "rounds", "expected"),
    [(900, None, (6, 3)), (250, None, (5, 3)), (200, None, (4, 3)), (60, None, (4, 1)), (250, 6, (6, 2)), (10, 3, (3, 1))],
)
def test_a_short_budget_takes_rounds_before_it_takes_findings(
    budget: float, rounds: int | None, expected: tuple[int, int]
) -> None:
    """Of 7 s a run: 3 changes in 6 rounds are 18 runs beside 22 others, 280 s; in 4 rounds 12 beside 16, 196 s."""
    findings = [candidates.Claim(str(number), str(number), 1) for number in range(3)]
    found = [candidates.Candidate(None, (one,)) for one in findings]  # type: ignore[arg-type]
    program = SimpleNamespace(count=rounds or 6, seconds=lambda: 7.0)
    mine, left_out, one_s = confirm._affordable(program, found, budget, rounds)  # type: ignore[arg-type]
    assert (program.count, len(mine)) == expected
    assert (len(mine) + len(left_out), one_s) == (3, 7.0)
