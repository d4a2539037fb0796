"""What recording cost the step of a breakdown: said with both steps and the rows that it made longer."""

import json

import pytest

from kernelscope.analysis.accounting.breakdowns import BY, breakdown
from kernelscope.analysis.accounting.statistics import median_step_ns
from kernelscope.analysis.explain import recording_cost
from kernelscope.analysis.recordings.run import Run
from kernelscope.cli import main
from kernelscope.reports import recorded, units

from .conftest import DATA, slower


@pytest.fixture
def run(tmp_path, run_folder):
    """A run whose recorded step is twice the clean one."""
    options = {"network": "lenet", "mode": "train", "batch": 64, "device": "cpu", "threads": None}
    about = {"options": options, "machine": {}, "command": ["kernelscope"], "kernelscope": "0", "created": None}
    return Run(run_folder(tmp_path / "run", clean=(0.5,), **about))


@pytest.fixture
def layered(tmp_path, run_folder):
    """The same with a layers pass."""
    folder = run_folder(tmp_path / "layered", clean=(0.5,))
    slower(DATA / "pytorch/lenet-train", folder / "layers" / "1", 0.6)
    record = json.loads((folder / "run.json").read_text())
    record["passes"]["layers"] = {"status": "complete", "folders": ["layers/1"]}
    (folder / "run.json").write_text(json.dumps(record))
    return Run(folder)


@pytest.mark.parametrize("by", [by for by in BY if by not in ("line", "step")])
def test_rows_are_those_of_the_breakdown_and_hold_what_it_cost(run, by):
    found = breakdown(run.trace(), by)
    cost = recording_cost.of_run(run, found)
    assert cost.recorded_ns == found.step_ns == found.table["time_ns"].sum()
    assert cost.clean_ns == median_step_ns([data.measured for data in run.passes("clean")])
    assert not cost.from_layers
    times = {tuple(row[key] for key in BY[by]): row["time_ns"] for row in found.as_dict()["rows"]}
    for row in cost.rows:
        assert row["time_ns"] == times[tuple(row[key] for key in BY[by])]
        assert 0 < row["cost_ns"] <= row["time_ns"]
    assert 0 < sum(row["cost_ns"] for row in cost.rows) <= cost.recorded_ns - cost.clean_ns


def test_the_layers_pass_tells_where_there_is_one(layered):
    cost = recording_cost.of_run(layered, breakdown(layered.trace(), "layer"))
    assert cost.from_layers
    assert [row["cost_ns"] for row in cost.rows] == sorted((row["cost_ns"] for row in cost.rows), reverse=True)
    assert recorded.sentence(cost).endswith("as the layers pass shows")


def test_steps_and_lines_are_no_cells_and_get_both_steps_only(run):
    cost = recording_cost.of_run(run, breakdown(run.trace(), "step"))
    assert cost.rows == []
    assert recorded.sentence(cost).endswith(f"the clean one, {units.duration(cost.clean_ns)}")


def test_nothing_is_said_where_recording_cost_next_to_nothing(tmp_path, run_folder):
    run = Run(run_folder(tmp_path / "run", clean=(0.95,)))
    assert recording_cost.of_run(run, breakdown(run.trace(), "layer")) is None


def test_a_recorded_step_that_is_shorter_is_said_to_be_so(tmp_path, run_folder):
    """Recording makes no step shorter: the passes, or the machine, were not alike."""
    run = Run(run_folder(tmp_path / "run", clean=(2.0,)))
    cost = recording_cost.of_run(run, breakdown(run.trace(), "layer"))
    assert (cost.rows, cost.clean_ns > 1.1 * cost.recorded_ns) == ([], True)
    assert recorded.sentence(cost).endswith("the steps do different work, or the machine was busy")


def test_the_line_comes_first_and_never_into_data(run, capsys):
    said = "times below are of the recorded step"
    for form in ("table", "markdown"):
        for command in ("breakdown", "report"):
            assert main.main([command, str(run.path), "--format", form]) == 0
            assert capsys.readouterr().out.startswith(said)
    for form in ("csv", "json"):
        assert main.main(["breakdown", str(run.path), "--format", form]) == 0
        out, err = capsys.readouterr()
        assert said not in out
        assert err.startswith(f"kernelscope: {said}")
        assert form == "csv" or json.loads(out)["by"] == "layer"


def test_the_page_says_it_first(run, tmp_path):
    assert main.main(["report", str(run.path), "-o", str(tmp_path / "run.html")]) == 0
    assert '<ul class="warnings">\n<li>times below are of the recorded step' in (tmp_path / "run.html").read_text()


def test_later_steps_that_are_longer_are_no_cost(run):
    """Steps that get longer from one to the next: the recorded ones came later, and no row is blamed for that."""
    starts = [1_000_000 * step + 25_000 * step * (step - 1) for step in range(41)]  # 1 ms, and each step 50 µs longer
    rows = [
        {"step": step, "window": step, "warmup": False, "thread": 1, "start_ns": starts[step], "end_ns": starts[step + 1]}
        for step in range(40)
    ]
    (run.path / "clean" / "1" / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cost = recording_cost.of_run(run, breakdown(run.trace(), "layer"))
    assert cost.rows == []
    said = recorded.sentence(cost)
    assert said.endswith("steps get longer as the program runs, from 1.73 ms to 2.73 ms, and the recorded ones came later")
