"""The command `confirm`: a real program that is slow by a setting, what is refused, and trials that go on where they were cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.cli.main import main
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError

SCRIPT = Path(__file__).parents[1] / "tracer" / "children" / "slow_torch.py"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profiled program with anomaly detection on."""
    try:
        python = str(environments.resolve("pytorch", None).python)
    except ChildError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("confirm") / "run"
    line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--quiet", "-o", str(folder), "--", python, str(SCRIPT)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_what_helps_is_confirmed_and_what_does_nothing_is_not(recorded: Path) -> None:
    """Alone shows the whole way in real processes: trials in turns, verdicts, results compared, and that a trial ends early."""
    line = [sys.executable, "-m", "kernelscope.cli.main", "confirm", "--rounds", "4", "--format", "json"]
    line += ["--only", "no-anomaly-detection", "--only", "nothing", "--only", "channels-last", str(recorded)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((recorded / "confirm" / "confirm.json").read_text())
    rows = {row["name"]: row for row in result["tried"]}
    assert rows["no-anomaly-detection"]["verdict"] in ("confirmed", "partly")
    assert rows["no-anomaly-detection"]["results"] == "same"
    assert rows["no-anomaly-detection"]["met"] == ["anomaly detection"]
    assert rows["channels-last"]["verdict"] == "nothing to change", "it has no convolutions"
    assert result["together"]["names"][0] == "no-anomaly-detection"
    assert result["together"]["saved_ns"] > 0
    assert result["keep"][0] == "torch.autograd.set_detect_anomaly(False)"
    log = recorded / "confirm" / "trials" / "unchanged" / "1" / "log.txt"
    assert "to its end" not in log.read_text(), "a trial ends with its clean steps"
    runs = sorted((recorded / "confirm").glob("trials/*/*/run.json"))
    before = {path: path.stat().st_mtime_ns for path in runs}
    os.unlink(runs[0])
    again = subprocess.run(line, capture_output=True, text=True, timeout=400, check=False, env=dict(os.environ))
    assert again.returncode == 0, again.stderr
    after = {path: path.stat().st_mtime_ns for path in runs}
    assert [path for path in runs if before[path] != after[path]] == [runs[0]], "only what is not there is recorded again"


@pytest.mark.slow
def test_changes_of_a_workload_take_turns_window_by_window(recorded: Path, tmp_path: Path) -> None:
    """Alone shows changes in our own workloads: made in the framework, and compared by the first losses of the check."""
    assert recorded.is_dir(), "PyTorch is there"
    ours = [sys.executable, "-m", "kernelscope.cli.main"]
    first = [*ours, "run", "lenet", "-f", "pytorch", "--steps", "10", "--repeats", "1", "-o", str(tmp_path / "run")]
    done = subprocess.run(first, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    names = ("fused-optimizer", "channels-last", "nothing")
    line = [*ours, "confirm", "--rounds", "3", "--format", "json", *(part for name in names for part in ("--only", name))]
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
    assert "not a folder that `profile` or `run` wrote" in capsys.readouterr().err
    assert main(["confirm", "--only", "magic", str(tmp_path)]) == 2
    assert "no such change; there are compiled-model" in capsys.readouterr().err
    assert main(["confirm", "--rounds", "2", str(tmp_path)]) == 2
    assert "--rounds 2: at least 3" in capsys.readouterr().err
    assert main(["confirm", str(tmp_path / "none.py")]) == 2
    assert "no such script" in capsys.readouterr().err


def test_a_command_with_secrets_has_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {"schema": "kernelscope/run/1", "profiled": ["python", "train.py", "--token=(not recorded)"], "framework": "pytorch"}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert main(["confirm", str(tmp_path)]) == 2
    assert f"{tmp_path}: its command has secrets, which were not recorded; name it behind --" in capsys.readouterr().err
