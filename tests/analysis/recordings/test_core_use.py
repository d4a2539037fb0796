import json
import math

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.core_use import binned, foreign, timeline
from kernelscope.analysis.recordings.run import Run

MS = 1_000_000


def step(window, start_ms, end_ms, warmup=False):
    return {"step": 0, "window": window, "warmup": warmup, "thread": 1, "start_ns": start_ms * MS, "end_ns": end_ms * MS}


def reading(window, at_ms, core, value, metric="core_busy"):
    return {"time_ns": at_ms * MS, "window": window, "core": core, "device": None, "metric": metric, "value": value}


@pytest.fixture
def run(tmp_path):
    """Two windows of 100 and 50 ms with another's turn of 200 ms between them, and a warm-up before."""
    folder = tmp_path / "clean" / "1"
    folder.mkdir(parents=True)
    steps = [step(0, 0, 50, warmup=True), step(1, 100, 150), step(1, 150, 200), step(2, 400, 450)]
    (folder / "steps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in steps))
    (folder / "child.json").write_text("{}")
    samples = [
        reading(0, 50, 0, 0.9), reading(1, 160, 0, 0.5), reading(1, 160, 1, 0.0), reading(1, 200, 0, 1.0),
        reading(1, 200, 1, 0.25), reading(2, 450, 0, 0.75), reading(2, 450, None, 1e9, "resident_bytes"),
    ]  # fmt: skip
    pd.DataFrame(samples).to_parquet(folder / "samples.parquet")
    record = {"schema": "kernelscope/run/1", "framework": "x", "complete": True, "passes": {"clean": {"folders": ["clean/1"]}}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    return Run(tmp_path)


def test_readings_cover_the_time_since_the_one_before_in_their_window(run):
    found = timeline(run)
    rows = [(core, start / MS, end / MS, busy) for core, start, end, busy in found.itertuples(index=False)]
    assert sorted(rows) == [
        (0, 0, 60, 0.5), (0, 60, 100, 1.0), (0, 100, 150, 0.75),
        (1, 0, 60, 0.0), (1, 60, 100, 0.25),
    ]  # fmt: skip


def test_parts_of_the_time_are_means_weighted_by_time_and_unread_ones_unknown(run):
    table = binned(timeline(run), 3)  # parts of 50 ms
    assert list(table.columns) == [0, 50 * MS, 100 * MS]
    assert list(table.loc[0]) == pytest.approx([0.5, (10 * 0.5 + 40 * 1.0) / 50, 0.75])
    assert list(table.loc[1])[:2] == pytest.approx([0.0, (10 * 0.0 + 40 * 0.25) / 50])
    assert math.isnan(table.loc[1].iloc[2]), "core 1 was not read in the last window"


def test_what_was_not_sampled_is_an_error(run):
    (run.path / "clean" / "1" / "samples.parquet").unlink()
    with pytest.raises(EvidenceError, match="the use of cores was not sampled"):
        timeline(run)
    with pytest.raises(EvidenceError, match="no restart 2"):
        timeline(run, 1)


def test_what_other_processes_kept_busy_is_what_this_one_did_not_use():
    """Two cores busy for 100% and 50% of the time; steps of 100 ms in which the process used 60 ms of them: 1.5 less 0.6."""
    samples = pd.DataFrame([reading(1, 10 * n, core, value) for n in range(10) for core, value in ((0, 1.0), (1, 0.5))])
    steps = pd.DataFrame(
        {"start_ns": [0, 100 * MS], "end_ns": [100 * MS, 200 * MS], "user_ns": [40 * MS] * 2, "system_ns": [20 * MS] * 2}
    )
    assert foreign(samples, steps) == pytest.approx(0.9)
    assert foreign(samples, steps.assign(user_ns=180 * MS)) == 0.0  # the kernel counts cores in ticks: never less than nothing
    assert foreign(samples.iloc[:18], steps) is None  # nine of each core say too little
    assert foreign(samples, steps.assign(user_ns=[40 * MS, None])) is None
