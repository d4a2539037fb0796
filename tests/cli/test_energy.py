"""`kernelscope energy`: a whole energy pass of a loop with known powers; and one line where there is none."""

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest

from kernelscope.analysis.energy import of_step
from kernelscope.analysis.recordings.run import Run
from kernelscope.analysis.trace import Trace, conform
from kernelscope.cli import main

source = Path(__file__).parents[1] / "analysis" / "energy" / "planted.py"
found = importlib.util.spec_from_file_location("planted_energy", source)
planted = importlib.util.module_from_spec(found)
found.loader.exec_module(planted)
# conv1 alone as in the step: 107.5 ms at 300 W, 24.725 J more than idle; conv2 is planted to take twice as much alone
LOOP = planted.Loop(step_ms=430.0, replays=(("conv1", 50, 107.5, 300.0), ("conv2", 50, 150.5, 330.0), ("fc1", 0, 0.0, 0.0)))


@pytest.fixture
def run(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    truth = planted.folder(folder, LOOP, planted.Instrument(), 0)
    kernels, steps = planted.kernels_pass(LOOP)
    kernels = kernels.assign(device="cuda:0", name="k", count=1, kind="gemm", duration_ns=kernels["end_ns"] - kernels["start_ns"])
    kernels["launch_ns"] = kernels["start_ns"]
    trace = Trace(
        steps=conform("steps", steps.assign(step=range(len(steps)), warmup=False, thread=1)), kernels=conform("kernels", kernels)
    )
    monkeypatch.setattr(Run, "trace", lambda self: trace)
    return folder, truth, trace


def _rows(capsys, *arguments):
    assert main.main(["energy", *arguments, "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "kernelscope/energy/1"
    return content["rows"]


def test_joules_per_step_and_sample(run, capsys):
    folder, truth, _ = run
    (row,) = _rows(capsys, str(folder))
    whole = sum(truth.values()) * 1e6
    assert row["source"] == "cuda:0"
    assert row["energy_uj"] == pytest.approx(whole, rel=0.01)
    assert row["least_uj"] <= whole <= row["most_uj"]
    assert row["low_uj"] <= row["energy_uj"] <= row["high_uj"]
    assert row["idle_w"] == pytest.approx(70.0, rel=0.01)
    assert row["net_uj"] == pytest.approx(whole - 70.0 * 0.43 * 1e6, rel=0.02)
    assert row["sample_uj"] == pytest.approx(row["energy_uj"] / 4, abs=1)
    assert row["windows"] == 5
    assert row["update_ns"] == pytest.approx(100_000_000, rel=0.01)
    assert row["steady"] is True


def test_rows_by_layer_add_up_to_the_step_exactly(run, capsys):
    folder, truth, _ = run
    (whole,) = _rows(capsys, str(folder))
    rows = _rows(capsys, str(folder), "--by", "layer")
    assert sum(row["energy_uj"] or 0 for row in rows) == whole["energy_uj"]
    assert rows[-1]["layer"] == "(not resolved)"
    said = {row["layer"]: row for row in rows if row["energy_uj"] is not None}
    for name in ("conv1", "conv2", "fc1"):
        assert said[name]["low_uj"] <= truth[name] * 1e6 <= said[name]["high_uj"]
    kinds = _rows(capsys, str(folder), "--by", "kind")
    assert [row["kind"] for row in kinds] == ["gemm", "(no kernel)", "(not resolved)"]
    both = _rows(capsys, str(folder), "--by", "both")
    assert {(row["layer"], row["kind"]) for row in both} >= {("conv1", "gemm"), ("(no kernel)", "(no kernel)")}


def test_layers_that_ran_alone_stand_beside_what_samples_say(run, capsys):
    rows = {row["layer"]: row for row in _rows(capsys, str(run[0]), "--by", "layer")}
    assert rows["conv1"]["replay_uj"] == pytest.approx(24.725e6, rel=0.01)
    assert rows["conv1"]["replay_low_uj"] <= 24_725_000 <= rows["conv1"]["replay_high_uj"]
    assert rows["conv1"]["replay_note"] is None
    assert rows["conv2"]["replay_uj"] == pytest.approx(260.0 * 0.1505 * 1e6, rel=0.01)
    assert rows["conv2"]["replay_note"] == "disagree: alone it takes more, beyond both intervals"
    assert rows["fc1"]["replay_uj"] is None
    assert rows["fc1"]["replay_note"] == "not replayed: it is not called in a step"
    rest = rows["(no kernel)"]
    assert rest["replay_uj"] is rest["replay_low_uj"] is rest["replay_high_uj"] is rest["replay_note"] is None
    (by_kind, *_) = _rows(capsys, str(run[0]), "--by", "kind")
    assert "replay_uj" not in by_kind


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
@pytest.mark.parametrize("by", ["step", "layer"])
def test_formats(run, capsys, form, by):
    folder, *_ = run
    assert main.main(["energy", str(folder), "--by", by, "--format", form]) == 0
    out = capsys.readouterr().out
    assert "energy" in out
    if form == "csv":
        assert "energy_uj" in out.splitlines()[0]
    else:
        assert " J" in out
        assert "95%" in out or "add up to the step's energy exactly" in out
        assert ("disagree" in out) == (by == "layer")


def test_work_that_runs_in_a_later_step_is_refused(run, capsys):
    folder, _, trace = run
    trace.kernels["launch_ns"] = (trace.kernels["start_ns"] - 430_000_000).clip(lower=0)
    assert main.main(["energy", str(folder), "--by", "layer"]) == 3
    assert "of the device's work runs in a later step than the one that launched it" in capsys.readouterr().err


def _without(tmp_path, **record):
    (tmp_path / "run.json").write_text(json.dumps({"schema": "kernelscope/run/1", "framework": "pytorch", **record}))
    return str(tmp_path)


def test_without_evidence_one_line_says_why(tmp_path, capsys):
    cases = [
        ({"unavailable": {"energy": "the kernel offers no RAPL here"}}, "no energy: the kernel offers no RAPL here"),
        ({}, "no energy: it was not recorded; run again with --energy"),
        ({"passes": {"energy": {"folders": ["energy/1"], "reason": "energy pass: ended with signal SIGKILL"}}}, "signal SIGKILL"),
    ]
    for record, expected in cases:
        assert main.main(["energy", _without(tmp_path, **record)]) == 3
        err = capsys.readouterr().err
        assert expected in err
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("windows.jsonl", b"{oh", "windows.jsonl: not JSON Lines"),
        ("windows.jsonl", b'{"kind": "window"}\n', "windows.jsonl: lacks"),
        ("samples.parquet", b"PAR1 no", "samples.parquet: not a parquet file"),
        ("steps.jsonl", b"", "no measured window"),
    ],
)
def test_damaged_files_are_named(run, capsys, name, content, expected):
    folder, *_ = run
    (folder / "energy" / "1" / name).write_bytes(content)
    assert main.main(["energy", str(folder)]) == 3
    err = capsys.readouterr().err
    assert expected in err
    assert len(err.splitlines()) == 1


def test_samples_without_a_counter_are_refused(run, capsys):
    folder, *_ = run
    path = folder / "energy" / "1" / "samples.parquet"
    table = pd.read_parquet(path)
    table[table["metric"] == "gpu_power_w"].to_parquet(path)
    assert main.main(["energy", str(folder)]) == 3
    assert "no energy counter in samples.parquet" in capsys.readouterr().err


def test_comparisons_show_the_energy_of_the_device_that_computes(run, tmp_path):
    folder, truth, _ = run
    found = of_step(Run(folder))
    assert found["energy_uj"] == pytest.approx(sum(truth.values()) * 1e6, rel=0.01)
    low, high = found["energy_interval_uj"]
    assert low <= found["energy_uj"] <= high
    assert found["energy_unavailable"] is None
    (folder / "energy" / "1" / "windows.jsonl").write_text("no")
    assert "not JSON Lines" in of_step(Run(folder))["energy_unavailable"]
    assert set(of_step(Run(Path(_without(tmp_path)))).values()) == {None}
