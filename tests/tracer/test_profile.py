"""Passes of a script follow each other, and are run again or in turns where one run does not have them all."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.profile import names_of
from tests.tracer.toy import SHORT, TOY, measured, profiled, steps_of, unrecorded


def test_passes_follow_each_other_in_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = profiled(folder, sys.executable, str(TOY), "60", "three", options=SHORT)
    assert done.returncode == 3
    assert done.stdout == "".join(f"step {number}, done\n" for number in range(60))
    record = json.loads((folder / "run.json").read_text())
    assert (record["complete"], record["recorder"], record["framework"]) == (True, "profile", "pytorch")
    assert record["options"]["network"] == "toy_adapter.py"
    clean, layers, kernels = (measured(folder, name) for name in ("clean", "layers", "kernels"))
    assert (len(clean), len(layers), len(kernels)) == (5, 2, 2)
    assert max(clean) < min(layers)
    assert max(layers) < min(kernels)
    ranges = [json.loads(line) for line in (folder / "layers/1/ranges.jsonl").read_text().splitlines()]
    assert {row["layer"] for row in ranges if row["category"] == "layer"} == {"first"}
    threads = json.loads((folder / "kernels/1/child.json").read_text())["threads"]
    assert threads[str(steps_of(folder, "kernels")[0]["thread"])] == "MainThread"
    lines = (folder / "kernels/1/stdout.raw").read_bytes()
    assert lines.count(b"onednn_verbose") == len(steps_of(folder, "kernels"))
    assert b"done" not in lines
    assert not list(folder.glob("*/*/stdout.spool"))


@pytest.mark.parametrize("others", ["0", "8", "60"])
def test_a_step_lasts_from_one_end_to_the_next(tmp_path: Path, others: str) -> None:
    """Also where another optimizer steps in each round, or did so in the first ones, through parts of the clean pass."""
    folder, told = tmp_path / "run", tmp_path / "ends.json"
    profiled(
        folder,
        sys.executable,
        str(TOY),
        "60",
        options=("--steps", "23", "--warmup", "2", "--once", "--quiet"),
        env={**os.environ, "TOY_ENDS": str(told), "TOY_OTHERS": others},
    )
    rows, ends = steps_of(folder, "clean"), json.loads(told.read_text())
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
    done = profiled(folder, sys.executable, str(TOY), "60", options=(*SHORT, "--warmup", "0"), env=environment)
    assert "training with pytorch toy; steps: clean 5, layers 2, kernels 2, lines 2" in done.stderr
    for name in ("clean", "layers", "kernels", "lines"):
        assert [path.name for path in (folder / name).iterdir()] == ["1"]
        assert json.loads((folder / name / "1" / "child.json").read_text())["training"]
    assert not (folder / "faults.log").exists()


def test_the_programs_own_files_are_kept_with_secrets_taken_out(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text('KEY = "hf_abcdefghijklmnopqrstuvwxyzABCDEF12"\n')
    script = tmp_path / "train.py"
    script.write_text(TOY.read_text().replace("import types\n", "import types\nimport helpers\n", 1))
    profiled(tmp_path / "run", sys.executable, "train.py", "60", "three", options=SHORT, cwd=tmp_path)
    main, files = Run(tmp_path / "run").sources()
    assert main == "train.py"
    assert files["train.py"] == script.read_text()
    assert files["helpers.py"].startswith("KEY = ")
    assert "abcdefghijklmnop" not in files["helpers.py"]
    assert not [path for path in files if "site-packages" in path or "kernelscope" in path]


def test_no_source_is_written_where_none_is_wanted(tmp_path: Path) -> None:
    profiled(tmp_path / "run", sys.executable, str(TOY), "60", "three", options=(*SHORT, "--no-source"))
    run = Run(tmp_path / "run")
    assert run.complete
    assert run.sources() == (None, {})
    written = [path for path in (tmp_path / "run").rglob("*") if path.suffix in (".json", ".jsonl", ".py")]
    assert not [path for path in written if "class Adapter" in path.read_text() or "_grown = []" in path.read_text()]


def test_other_processes_work_is_noted(tmp_path: Path) -> None:
    profiled(tmp_path / "run", sys.executable, str(TOY), "60", "three", options=SHORT)
    noted = [json.loads(path.read_text())["foreign_cores"] for path in (tmp_path / "run").glob("*/1/child.json")]
    assert len(noted) == 4
    assert all(cores is None or 0 <= cores <= (os.cpu_count() or 1) for cores in noted)


def test_a_window_of_the_scripts_steps(tmp_path: Path) -> None:
    profiled(tmp_path / "run", sys.executable, str(TOY), "40", options=("--steps", "10:18", "--quiet"))
    found = [measured(tmp_path / "run", name) for name in ("clean", "layers", "kernels", "lines")]
    assert found == [[10, 11, 12, 13, 14], [15], [16], [17]]


def test_one_run_for_each_pass(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "12", options=("--passes", "rerun", "--steps", "6", "--quiet"))
    assert done.returncode == 0
    assert done.stdout.count("step 0, done") == 4
    assert [len(measured(tmp_path / "run", name)) for name in ("clean", "layers", "kernels", "lines")] == [6, 3, 3, 3]


@pytest.mark.parametrize(("ending", "status"), [("exit", 7), ("kill", 137)])
def test_what_was_recorded_before_a_sudden_end_is_kept(tmp_path: Path, ending: str, status: int) -> None:
    folder = tmp_path / "run"
    done = profiled(folder, sys.executable, str(TOY), "20", ending, options=(*SHORT, "--warmup", "0"))
    assert done.returncode == status
    assert done.stdout == "".join(f"step {number}, done\n" for number in range(20))
    assert len(measured(folder, "clean")) == 5
    assert "steps: clean 5" in done.stderr


EVALUATING = """
import torch
model = torch.nn.Linear(64, 8)
torch.optim.SGD(model.parameters(), lr=0.1)
model.eval()
with torch.no_grad():
    for _ in range(200):
        model(torch.randn(24, 64))
"""


def test_a_script_of_one_step_is_told_what_to_do(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "1", options=("--quiet", "--once"))
    assert done.returncode == 4
    assert "the script ended with its first step" in done.stderr
    assert "let it make two or more" in done.stderr
    assert done.stdout.count("step 0, done") == 1
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert not record["complete"]


def test_a_script_with_too_few_steps_for_all_passes_is_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = profiled(folder, sys.executable, str(TOY), "12", options=("--steps", "6"))
    assert done.returncode == 0
    assert "it is run 4 more times, once for each pass (--once prevents this)" in done.stderr
    assert done.stdout.count("step 0, done") == 1 + 4
    assert [len(measured(folder, name)) for name in ("clean", "layers", "kernels", "lines")] == [6, 3, 3, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"], "the first recording, which has less, is not kept"


def test_a_script_whose_steps_suffice_for_shorter_passes_is_run_once_more(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = profiled(folder, sys.executable, str(TOY), "45", options=())
    assert done.returncode == 0
    assert "lines): it is run once more with shorter passes (--once prevents this)" in done.stderr
    assert done.stdout.count("step 0, done") == 2
    assert [len(measured(folder, name)) for name in ("clean", "layers", "kernels", "lines")] == [12, 6, 6, 6]


@pytest.mark.parametrize(("steps", "found"), [(2, [1, 1, 1, 1]), (3, [2, 1, 1, 1]), (5, [4, 2, 2, 2])])
def test_a_script_of_very_few_steps_has_an_answer(tmp_path: Path, steps: int, found: list[int]) -> None:
    folder = tmp_path / "run"
    done = profiled(folder, sys.executable, str(TOY), str(steps), options=())
    assert done.returncode == 0
    assert done.stdout.count("step 0, done") == 1 + 4
    assert [len(measured(folder, name)) for name in ("clean", "layers", "kernels", "lines")] == found


@pytest.mark.slow
def test_a_script_that_makes_an_optimizer_and_only_evaluates_is_run_again(tmp_path: Path) -> None:
    """Alone shows that its calls of the model are its steps then, and how many samples these have."""
    script = tmp_path / "evaluate.py"
    script.write_text(EVALUATING)
    python = str(environments.resolve("pytorch", None).python)
    done = profiled(tmp_path / "run", python, str(script), options=())
    assert done.returncode == 0
    assert "it created an optimizer but never stepped it: it is run once more, with calls of the model as steps" in done.stderr
    record = Run(tmp_path / "run").record
    assert (record["options"]["mode"], record["options"]["batch"]) == ("infer", 24)
    assert record["batch_source"] == "the first axis of the model's input"
    assert re.search(r"samples/s at 24 a step \(the first axis of the model's input\)", done.stderr)


def test_it_is_said_beforehand_that_a_script_is_run_again(tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "kernelscope.cli.main",
        "profile",
        "-o",
        str(tmp_path / "run"),
        "--",
        sys.executable,
        str(TOY),
        "4",
    ]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=True, env=unbuffered
    )
    before = done.stdout[: done.stdout.index("it is run 4 more times")]
    assert before.count("step 0, done") == 1


def test_a_script_is_run_once_where_that_is_asked_for(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "12", options=("--steps", "6", "--once", "--quiet"))
    assert done.stdout.count("step 0, done") == 1
    assert "not all recorded, the script ended after 12 steps;" in done.stderr, "the clean pass tells how long they take"


def test_neither_options_nor_an_interpreter_are_needed(tmp_path: Path) -> None:
    shutil.copy(TOY, tmp_path / "train.py")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for how in (["train.py", "60", "three"], ["-m", "train", "60", "three"]):
        line = [sys.executable, "-m", "kernelscope.cli.main", "profile", "--steps", "5", "--warmup", "2", *how]
        done = unrecorded(*line, cwd=tmp_path, env={**os.environ, "PATH": path})
        assert done.returncode == 3, done.stderr
        assert done.stdout.startswith("step 0, done")
        assert "A step takes " in done.stderr
    folders = sorted((tmp_path / "profiles").iterdir())
    assert len(folders) == 2
    assert all(re.fullmatch(r"train-\d{8}-\d{6}(-1)?", folder.name) for folder in folders)
    assert all((folder / "run.json").is_file() for folder in folders)


def test_repeats_have_a_folder_each(tmp_path: Path) -> None:
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "60", "three", options=(*SHORT, "--repeats", "2"))
    assert done.returncode == 3
    assert [len(measured(tmp_path / "run" / number, "clean")) for number in "12"] == [5, 5]


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
    done = unrecorded(*line, cwd=tmp_path)
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
    done = profiled(tmp_path / "run", sys.executable, str(TOY), "120", options=line, env={**os.environ, "TOY_SLOW": slow})
    assert done.returncode == 0, done.stderr
    assert len(measured(tmp_path / "run", "clean")) in ({count} if slow != "0:0" else {20, 30, 40})
    assert len(measured(tmp_path / "run", "layers")) == 10


@pytest.mark.slow
def test_a_real_training_script(tmp_path: Path) -> None:
    """Its output and files are as without us, its layers have their paths, and its convolutions' gradients are their own."""
    python = str(environments.resolve("pytorch", None).python)
    script = TOY.with_name("train_torch.py")
    outputs, digests = [], []
    for number, run in enumerate((unrecorded, functools.partial(profiled, tmp_path / "run", options=()))):
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
    answer = r"\nA step takes [\d.]+ ms(?: in the median \(.+? to .+?\))?: computing \d+%"  # steps differ on a busy machine
    assert re.search(answer, done.stderr), "it ends with the answer"
    assert (tmp_path / "run" / "report.html").is_file()
    kinds = breakdown(run.trace(), "layer-kernel").table
    convolutions = kinds[kinds["kind"] == "convolution weight gradient"]
    assert set(convolutions["layer"]) == {"stem", *(f"blocks.{b}.conv{c}" for b in (0, 1) for c in (1, 2))}
    assert run.passes("clean")[0].report["odd_steps"].keys() <= {"a model was switched to evaluation"}
