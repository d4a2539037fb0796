"""Jobs that train in a pipeline: those of ByteDance's study, beside what it published, and made-up ones."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
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
        assert "Stage 3 of all replicas is slower than the others: it alone makes a step 1.23 times as long" in said
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


# Megatron's order with two stages, two chunks of each and two micro-batches: kind, chunk of its stage, micro-batch
FORWARDS = [("forward", chunk, batch) for chunk in (0, 1) for batch in (0, 1)]
BACKWARDS = [("backward", chunk, batch) for chunk in (1, 0) for batch in (0, 1)]
ORDERS = {
    0: [*FORWARDS, *BACKWARDS],
    1: [*FORWARDS[:3], BACKWARDS[0], FORWARDS[3], *BACKWARDS[1:]],
}


def interleaved(lasting, unsent=False):
    """Return rows of such a step, and how long it takes. lasting: of kind, stage and chunk. unsent: whether messages that the
    model's ends do not have are recorded, too, which take no time."""
    begun, over, rows, busy = {}, {}, [], {0: 0.0, 1: 0.0}
    at, number = dict.fromkeys(ORDERS, 0), {}
    received, sent = {}, {}  # when the last one of a stage and way was over
    while any(at[stage] < len(order) for stage, order in ORDERS.items()):
        stage = next(one for one, order in ORDERS.items() if at[one] < len(order) and ready(order[at[one]], one, over))
        way, chunk, batch = ORDERS[stage][at[stage]]
        place, step = 2 * chunk + stage, 1 if way == "forward" else -1
        mine = number[way, stage] = number.get((way, stage), -1) + 1
        asked = max(received.get((way, stage), 0.0), begun.get((way, stage, mine - 1), (0.0, 0.0))[1])
        if way == "backward" and not mine:  # from the last forward pass but one before it
            asked = begun["forward", stage, number["forward", stage] - 1][1]
        there = 0.0
        if 0 <= place - step < 4:
            ready_at = max(over[way, place - step, batch], sent.get((way, 1 - stage), 0.0))
            there = received[way, stage] = sent[way, 1 - stage] = max(asked, ready_at) + 0.1
            rows += [message(f"{way}-recv", mine, stage, asked, there),
                     message(f"{way}-send", number_of(way, place - step, batch), 1 - stage, ready_at, there)]  # fmt: skip
        elif unsent:
            rows.append(message(f"{way}-recv", mine, stage, asked, asked))
        start = max(busy[stage], there)
        busy[stage] = over[way, place, batch] = start + lasting[way, stage, chunk]
        begun[way, stage, mine] = start, busy[stage]
        rows.append({**row(f"{way}-compute", mine, stage, start, lasting[way, stage, chunk]), "mc": chunk})
        if unsent and not 0 <= place + step < 4:
            rows.append(message(f"{way}-send", mine, stage, busy[stage], busy[stage]))
        at[stage] += 1
    rows += [row("optimizer", 0, stage, end, 0.5) for stage, end in busy.items()]
    return rows if unsent else counted(rows), max(busy.values()) + 0.5


def ready(operation, stage, over):
    """Return whether what an operation waits for is known."""
    way, chunk, batch = operation
    before = 2 * chunk + stage - (1 if way == "forward" else -1)
    return not 0 <= before < 4 or (way, before, batch) in over


def number_of(way, place, batch):
    """Return which operation of its kind and stage it is."""
    return (FORWARDS if way == "forward" else BACKWARDS).index((way, place // 2, batch))


def message(kind, number, stage, start, end):
    return {**row(kind, number, stage, start, end - start), "mc": -1}


def counted(rows):
    """Return rows whose messages are counted without those that were never sent."""
    kinds = {}
    for one in sorted(rows, key=lambda one: one["seq_id"]):
        kinds.setdefault((one["optype"], one["stage"]), []).append(one)
    return [{**one, "seq_id": number} for several in kinds.values() for number, one in enumerate(several)]


def lasting(slow=0.0):
    """Return how long operations last; the last chunk's forward pass is slow."""
    long = {
        (way, stage, chunk): 1.0 if way == "forward" else 2.0
        for way in ("forward", "backward")
        for stage in (0, 1)
        for chunk in (0, 1)
    }
    return {**long, ("forward", 1, 1): 1.0 + slow}


@pytest.mark.parametrize("unsent", [False, True])
def test_stages_of_several_chunks(tmp_path, unsent):
    """The step as a schedule of its own makes it; with equal work every forward pass lasts the mean of all."""
    rows, step_s = interleaved(lasting(slow=1.0), unsent)
    result = pipeline(written(tmp_path, rows))
    even = lasting() | {("forward", stage, chunk): 1.25 for stage in (0, 1) for chunk in (0, 1)}
    _, equal_s = interleaved(even, unsent)
    assert (result["chunks"], result["micro_batches"]) == (2, 2)
    assert result["step_s"] == pytest.approx(step_s)
    assert result["error"] == pytest.approx(0.0)
    assert result["equal_s"] == pytest.approx(equal_s)
    assert result["by_stage"][0]["stage"] == 1
    assert result["ideal_bubble"] == 1 / (1 + 2 * 2)
    assert "in a pipeline (1 replica of 2 stages with 2 chunks of the model each, 2 micro-batches)" in report.answer(result)


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
        (lambda rows: [{**one, "mc": 1} for one in rows], "some are missing"),
        (lambda rows: [one for one in rows if one["optype"] != "forward-send"], "0 forward-send where 1 are needed"),
        (lambda rows: [*rows, rows[0]], "recorded twice"),
        (lambda rows: [one for one in rows if one["optype"] != "optimizer"], "no steps of a pipeline"),
        (lambda rows: [one for one in rows if one["stage"] == 1], "stages are missing"),
        (lambda rows: [{**one, "start_ts": "x"} for one in rows], "cannot be read"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path, change, said):
    with pytest.raises(EvidenceError, match=said):
        pipeline(written(tmp_path, change(step())))


def test_what_pandas_noted_in_a_file_may_be_damaged(tmp_path):
    path = written(tmp_path, step())
    table = pq.read_table(path)
    noted = table.schema.metadata[b"pandas"].replace(b"numpy_type", b"numpy type")
    pq.write_table(table.replace_schema_metadata({b"pandas": noted}), path)
    assert pipeline(path)["slowdown"] == pytest.approx(1.0)


def test_other_tables_are_none(tmp_path):
    path = tmp_path / "other.parquet"
    pd.DataFrame({"stage": np.arange(3)}).to_parquet(path)
    assert not is_recording(path)
    (tmp_path / "text.parquet").write_text("no parquet")
    assert not is_recording(tmp_path / "text.parquet")
    assert not is_recording(tmp_path)
