"""One plant recorded for real, through the script and through the command line; and the judging of what is said about pairs."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run

FOLDER = Path(__file__).parent
PROGRAM = FOLDER / "programs" / "pytorch_manual_activation.py"
SMALL = ["--device", "cpu", "--batch", "8", "--steps", "5", "--warmup", "2", "--repeats", "1"]


@pytest.fixture(scope="module")
def script():
    """The script as a module; it stands beside its table, as scripts do."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("planted_run", FOLDER / "run.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["planted_run"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("planted_run", None)


def _said(findings, delta_ns=1_000_000, a_ns=5_000_000):
    sides = {"a": {"step_ns": a_ns}, "b": {"step_ns": a_ns + delta_ns}}
    return {**sides, "wall_delta_ns": delta_ns, "abstained": None if findings else "noise", "findings": findings}


def _finding(cause, ns, interval=None):
    return {"cause": cause, "explains_ns": ns, "interval_ns": interval}


@pytest.mark.parametrize(
    ("findings", "right", "verdict"),
    [
        ([_finding("thread count", 850_000)], True, "found"),
        ([_finding("thread count", 849_999)], False, "size wrong"),
        ([_finding("thread count", 600_000, [400_000, 1_000_000])], True, "found"),
        ([_finding("page faults", 1_000_000), _finding("thread count", 10)], False, "not first: ranked 2"),
        ([_finding("page faults", 1_000_000)], False, "not first: not named"),
        ([], False, "nothing said: noise"),
    ],
)
def test_a_plant_is_found_when_it_is_first_and_of_the_right_size(script, findings, right, verdict):
    plant = script.Plant("pytorch one thread", ("thread count",), "cnn")
    judged = script.judged(plant, _said(findings))
    assert (judged.right, judged.verdict) == (right, verdict)


def test_a_control_is_right_when_nothing_is_said(script):
    control = script.Plant("pytorch as it is", (), "lenet")
    assert script.judged(control, _said([])).right
    accused = script.judged(control, _said([_finding("page faults", 1)]))
    assert not accused.right
    text = script.table([accused])
    assert "0 of 1 controls left alone" in text
    assert "page faults" in text


def test_every_plant_has_its_files_and_its_own_folder(script):
    every = script.plants.PLANTS + script.plants.CONTROLS
    assert len({plant.folder for plant in every}) == len(every)
    assert len(script.plants.PLANTS) >= 16
    assert len(script.plants.CONTROLS) >= 4
    used = {name for plant in every for name in (plant.program, plant.base) if name}
    assert used == {path.stem for path in (FOLDER / "programs").glob("*.py")}
    assert all(plant.causes for plant in script.plants.PLANTS)
    assert not any(plant.causes for plant in script.plants.CONTROLS)


@pytest.mark.long
def test_a_plant_is_recorded_and_judged_end_to_end(tmp_path):
    command = [sys.executable, FOLDER / "run.py", "--only", "manual activation", "--repeats", "1", "--output", tmp_path]
    subprocess.run([*command, "--table", tmp_path / "table.md"], capture_output=True, text=True, timeout=600, check=False)
    a, b = (Run(tmp_path / "pytorch-manual-activation" / side) for side in "ab")
    assert (a.name, b.name, b.framework) == ("a", "b", "pytorch")
    assert a.complete
    assert b.complete
    kernels = {run.name: breakdown(run.trace(), "operator").table for run in (a, b)}
    made = {name: table.loc[table["operator"] == "aten::reciprocal", "count"].sum() for name, table in kernels.items()}
    assert made["a"] == 0
    assert made["b"] == 4 * len(b.kernels_pass().measured)  # one for each tanh
    row = (tmp_path / "table.md").read_text().splitlines()[2]
    assert row.startswith("| pytorch manual activation |")
    assert row.count("|") == 8


@pytest.mark.slow
@pytest.mark.long
def test_sides_of_one_framework_are_compared_under_their_labels(tmp_path):
    folder = tmp_path / "out"
    sides = f"plain=pytorch,varied=pytorch@{PROGRAM}"
    variables = ["--threads", "2", "--env", "varied:OMP_NUM_THREADS=1", "--env", "ANY_TOKEN=abcdef"]
    command = [sys.executable, "-m", "kernelscope.cli.main", "compare", "lenet", "-f", sides, *variables, *SMALL, "-o", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "compare.json").read_text())
    assert result["frameworks"] == ["plain", "varied"]
    assert result["framework_of"] == {"plain": "pytorch", "varied": "pytorch"}
    assert (result["settings"]["plain"]["threads"], result["settings"]["varied"]["threads"]) == (2, 1)
    for row in result["summary"]:
        for table in ("layers", "kinds"):
            assert sum(line["time_ns"][row["framework"]] or 0 for line in result[table]) == row["step_median_ns"]
    assert result["fairness"]["failed"] is False
    record = json.loads((folder / "varied" / "run.json").read_text())
    assert (record["label"], record["program"]["file"]) == ("varied", PROGRAM.name)
    assert (folder / "varied" / PROGRAM.name).read_bytes() == PROGRAM.read_bytes()
    assert "varied" in done.stdout
    written = [path.read_text(errors="replace") for path in folder.rglob("*.json")]
    assert not any("abcdef" in text for text in written)
    layers = {row["layer"] for row in breakdown(Run(folder / "varied").trace(), "layer").table.to_dict("records")}
    assert {"tanh1", "tanh4", "conv1"} <= layers


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class Other: pass", "p.py: defines no class Program"),
        ("import no_such_module", "p.py: import failed: No module named 'no_such_module'"),
        ("class Program:\n    def __init__(self, network, options):\n        raise ValueError('wrong')", "ValueError: wrong"),
        ("class Program(", "SyntaxError"),
    ],
)
def test_a_program_that_does_not_work_is_named(tmp_path, text, expected):
    program = tmp_path / "p.py"
    program.write_text(text)
    command = [sys.executable, "-m", "kernelscope.cli.main", "run", "lenet", "-f", "pytorch", "--program", program, *SMALL]
    done = subprocess.run([*command, "-o", tmp_path / "out"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 4
    complaints = [line for line in done.stderr.splitlines() if line.startswith("kernelscope: ")]
    assert len(complaints) == 1
    assert expected in complaints[0]
    assert "p, check pass" in complaints[0]
    assert "env create" not in done.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_text())["complete"] is False
