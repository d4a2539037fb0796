"""Steps much longer than the others, of which the step, a median, holds nothing."""

import json
import shutil

import pandas as pd
import pytest

from kernelscope.analysis.advise import advise
from kernelscope.analysis.advise.subject import _typical as typical
from kernelscope.analysis.trace import Trace, conform
from kernelscope.reports.advice import answer
from tests.places import ROOT

RUN = ROOT / "tests/data/gpu/h200/lenet-pytorch-framework"


def lengthened(folder, times, of_device=True):
    """Let the last clean step take so many times as long; return the rows. of_device: the device tells when it was done."""
    (file,) = folder.glob("clean/1/steps.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[-1]["end_ns"] += (times - 1) * (rows[-1]["end_ns"] - rows[-1]["start_ns"])
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = file.with_name("child.json")
    ends = {"device_ends_ns": [row["end_ns"] for row in rows]} if of_device else {}
    report.write_text(json.dumps({**json.loads(report.read_text()), **ends}))
    return rows


@pytest.mark.parametrize(("times", "told"), [(1, False), (4, False), (4000, True)])
def test_a_step_that_takes_much_of_all_steps_time_is_told(tmp_path, times, told):
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    rows = lengthened(folder, times)
    before = advise(RUN)
    measured = [row["end_ns"] - row["start_ns"] for row in rows if not row["warmup"]]
    result = advise(folder)
    assert result["step_ns"] == pytest.approx(before["step_ns"], rel=0.05), "one step is nothing in the median"
    expected = {"count": 1, "of": len(measured), "ns": measured[-1], "of_ns": sum(measured)}
    assert result["long_steps"] == (expected if told else None)
    sentence = f"1 of {len(measured)} steps took "
    assert (sentence in answer(result)) == told
    assert ("which is not included here; `profile --mode whole` shows what it does." in answer(result)) == told


def test_of_one_window_the_step_is_a_mean_and_holds_its_long_step(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    rows = [{**row, "window": 0} for row in lengthened(folder, 4000)]
    (folder / "clean/1/steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = advise(folder)
    measured = [row["end_ns"] - row["start_ns"] for row in rows if not row["warmup"]]
    assert result["step_ns"] == pytest.approx(sum(measured) / len(measured), abs=1)
    assert (result["median"], result["long_steps"]) == (False, None)
    assert result["median_ns"] == pytest.approx(pd.Series(measured).median(), abs=1)
    assert " on average (" in answer(result)


def test_steps_that_end_before_their_work_have_no_times_of_their_own(tmp_path):
    """Where the device's own ends are not known, one of the steps of a window waits for all of them."""
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    rows = lengthened(folder, 4000, of_device=False)
    result = advise(folder)
    assert result["long_steps"] is None
    windows = {}
    for row in rows:
        if not row["warmup"]:
            windows.setdefault(row["window"], []).append(row["end_ns"] - row["start_ns"])
    means = sorted(sum(window) // len(window) for window in windows.values())
    assert result["range_ns"] is None or result["range_ns"] == pytest.approx([means[0], means[-1]], abs=1)


def test_a_step_that_is_long_while_kernels_are_recorded_is_no_part_of_the_typical_one():
    lengths = [10, 11, 9, 10, 3000, 10, 12]
    steps = [
        {"step": number, "warmup": number < 1, "thread": 1, "start_ns": 10_000 * number, "end_ns": 10_000 * number + length}
        for number, length in enumerate(lengths)
    ]
    trace = Trace(steps=conform("steps", pd.DataFrame(steps)))
    assert typical(trace).steps["warmup"].tolist() == [True, False, False, False, True, False, False]
    even = Trace(steps=conform("steps", pd.DataFrame(steps[:4])))
    assert typical(even) is even
