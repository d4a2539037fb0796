"""Steps much longer than the others, of which the step, a median, holds nothing."""

import json
import shutil

import pytest

from kernelscope.analysis.advise import advise
from kernelscope.reports.advice import answer
from tests.places import ROOT

RUN = ROOT / "tests/data/gpu/h200/lenet-pytorch-framework"


@pytest.mark.parametrize(("times", "told"), [(1, False), (4, False), (4000, True)])
def test_a_step_that_takes_much_of_all_steps_time_is_told(tmp_path, times, told):
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    before = advise(RUN)
    (file,) = folder.glob("clean/1/steps.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    last = rows[-1]["end_ns"] - rows[-1]["start_ns"]
    rows[-1]["end_ns"] += (times - 1) * last
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = [row["end_ns"] - row["start_ns"] for row in rows if not row["warmup"]]
    result = advise(folder)
    assert result["step_ns"] == pytest.approx(before["step_ns"], rel=0.05), "one step is nothing in the median"
    expected = {"count": 1, "of": len(measured), "ns": measured[-1], "of_ns": sum(measured)}
    assert result["long_steps"] == (expected if told else None)
    sentence = f"1 of {len(measured)} steps took "
    assert (sentence in answer(result)) == told
    assert ("which is not in this; `profile --mode whole` shows what it does." in answer(result)) == told


def test_a_step_that_is_long_while_kernels_are_recorded_is_no_part_of_the_typical_one(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    before = {part["what"]: part["ns"] for part in advise(RUN)["parts"]}
    (file,) = folder.glob("kernels/1/steps.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[-1]["end_ns"] += 200 * (rows[-1]["end_ns"] - rows[-1]["start_ns"])  # somebody waits at its end
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    after = {part["what"]: part["ns"] for part in advise(folder)["parts"]}
    assert after.keys() == before.keys()
    assert all(after[what] == pytest.approx(ns, rel=0.05, abs=0.01 * sum(before.values())) for what, ns in before.items())
