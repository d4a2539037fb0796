"""Jobs that train in a pipeline: those of ByteDance's study, beside what it published, and made-up ones."""

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks.pipeline import is_recording, pipeline
from kernelscope.cli.main import main
from kernelscope.reports import pipeline as report
from tests.places import corpus

# data/result-ST.json and result-AR.json of github.com/ByteDance-Seed/StragglerAnalysis: the slowdown, and that by stage
PUBLISHED = {
    "ST": (1.1787021836556841, {3: 1.2322559543157936, 0: 0.9980450635272368, 1: 0.9830562530894704, 2: 0.9824931309511952}),
    "AR": (1.9730, {}),
}


@pytest.fixture(scope="module", params=PUBLISHED)
def published(request):
    return request.param, pipeline(corpus(f"ranks/bytedance_straggler/trace-{request.param}.parquet"))


def test_the_slowdown_is_the_published_one(published):
    name, result = published
    slowdown, by_stage = PUBLISHED[name]
    assert result["slowdown"] == pytest.approx(slowdown, abs=5e-5)
    found = {row["stage"]: row["slowdown"] for row in result["by_stage"]}
    assert {stage: found[stage] for stage in by_stage} == pytest.approx(by_stage, abs=1e-6)
    assert abs(result["error"]) < 1e-6


def test_whose_work_it_is(published):
    """Known: of ST the last stage has more to do, of AR one worker was slowed down."""
    name, result = published
    said = report.answer(result)
    if name == "ST":
        assert "Stage 3 of all replicas is slower than the others: alone it makes a step 1.23 times as long" in said
    else:
        assert (result["by_worker"][0]["replica"], result["by_worker"][0]["stage"]) == (0, 0)
        assert "Stage 0 of replica 0 is slower than the others" in said


def test_the_command(capsys):
    path = str(corpus("ranks/bytedance_straggler/trace-ST.parquet"))
    for form in ("table", "markdown"):
        assert main(["ranks", path, "--format", form]) == 0
        assert "With equal work it would take 329 ms less" in " ".join(capsys.readouterr().out.split())
    assert main(["ranks", path, path]) == 2
    assert "name it alone" in capsys.readouterr().err


# --- made up: two stages, forward and backward of each micro-batch, one after the other -----------------------------------------


def row(kind, number, stage, start, duration, replica=0, step=1):
    return {"dp_rank": replica, "stage": stage, "step": step, "optype": kind, "start_ts": start, "duration": duration,
            "seq_id": number, "mc": 0}  # fmt: skip


def step(first=1.0, second=1.0, replica=0, number=1):
    """Two stages of one micro-batch: forward there, backward back, messages of 0.1 s; then the optimizer, of both at once."""
    rows, at = [], 0.0
    rows.append(row("forward-compute", 0, 0, at, first, replica, number))
    at += first
    rows += [row("forward-send", 0, 0, at, 0.1, replica, number), row("forward-recv", 0, 1, 0.0, at + 0.1, replica, number)]
    at += 0.1
    rows.append(row("forward-compute", 0, 1, at, second, replica, number))
    at += second
    rows.append(row("backward-compute", 0, 1, at, 2 * second, replica, number))
    at += 2 * second
    rows += [row("backward-send", 0, 1, at, 0.1, replica, number)]
    rows += [row("backward-recv", 0, 0, first, at + 0.1 - first, replica, number)]
    at += 0.1
    rows.append(row("backward-compute", 0, 0, at, 2 * first, replica, number))
    last = [(0, at + 2 * first), (1, at - 0.1)]
    rows += [row("optimizer", 0, stage, start, 0.5, replica, number) for stage, start in last]
    return rows


def written(folder, rows):
    path = folder / "job.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return path


def test_equal_work_loses_nothing(tmp_path):
    result = pipeline(written(tmp_path, step()))
    assert result["step_s"] == pytest.approx(1 + 0.1 + 1 + 2 + 0.1 + 2 + 0.5)
    assert result["slowdown"] == pytest.approx(1.0)
    assert result["error"] == pytest.approx(0.0)
    assert "Work is shared equally" in report.answer(result)
    # a stage computes 3.5 of 6.7 s
    assert [bubble["measured"] for bubble in result["bubbles"]] == pytest.approx([1 - 3.5 / 6.7] * 2)


def test_a_replica_that_is_slower(tmp_path):
    """Without an exchange of gradients replicas do not wait for each other, but the step lasts until the last is done."""
    result = pipeline(written(tmp_path, [*step(), *step(second=2.0, replica=1)]))
    # equal: 1.25 for a forward pass, 2.5 for a backward one; the slow one takes 3 s more
    assert result["step_s"] == pytest.approx(9.7)
    assert result["equal_s"] == pytest.approx(2 * 1.25 + 2 * 2.5 + 0.2 + 0.5)
    assert (result["by_worker"][0]["replica"], result["by_worker"][0]["stage"]) == (1, 1)
    assert "Stage 1 of replica 1 is slower than the others" in report.answer(result)


def test_gaps_that_nothing_explains_are_no_slowdown(tmp_path):
    rows = [{**one, "start_ts": one["start_ts"] + (0.4 if one["optype"] == "optimizer" else 0.0)} for one in step()]
    result = pipeline(written(tmp_path, rows))
    assert result["step_s"] - result["played_s"] == pytest.approx(0.4)
    assert result["slowdown"] == pytest.approx(1.0)


def test_steps_that_lack_an_operation_are_left_out(tmp_path):
    result = pipeline(written(tmp_path, [*step(), *step(number=2)[1:], *step(number=3)]))
    assert result["steps"] == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: [{**one, "mc": 1} for one in rows], "several chunks"),
        (lambda rows: [*rows, rows[0]], "recorded twice"),
        (lambda rows: [one for one in rows if one["optype"] != "optimizer"], "no steps of a pipeline"),
        (lambda rows: [one for one in rows if one["stage"] == 1], "stages are missing"),
        (lambda rows: [{**one, "start_ts": "x"} for one in rows], "cannot be read"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path, change, said):
    with pytest.raises(EvidenceError, match=said):
        pipeline(written(tmp_path, change(step())))


def test_other_tables_are_none(tmp_path):
    path = tmp_path / "other.parquet"
    pd.DataFrame({"stage": np.arange(3)}).to_parquet(path)
    assert not is_recording(path)
    (tmp_path / "text.parquet").write_text("no parquet")
    assert not is_recording(tmp_path / "text.parquet")
    assert not is_recording(tmp_path)
