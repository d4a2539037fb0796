"""Whole loops of Keras in each step: ten steps of 10 ms, which call predict, evaluate or fit."""

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE, KEYS
from kernelscope.analysis.accounting.idle_causes import OPERATOR
from kernelscope.analysis.advise.advice import of_subject
from kernelscope.analysis.advise.rules import host, inputs, keras_loops
from kernelscope.analysis.advise.subject import STEPS, WHOLE, Subject
from kernelscope.analysis.attribution.frameworks import placed_ranges
from kernelscope.analysis.trace import Trace, conform

MS = 1_000_000
COUNT = 10
LINE = {"thread": 1, "file": "dqn.py", "function": "act", "line": 39, "last_line": 39, "text": "return model.predict(x)"}


def range_(step, start, end, name, category="phase", phase="other"):
    at = step * 10 * MS
    return {"thread": 1, "start_ns": at + round(start * MS), "end_ns": at + round(end * MS), "name": name,
            "category": category, "phase": phase}  # fmt: skip


def call(step, name="predict", batches=1):
    """A call of 8 ms, of which 2 ms are work on batches: 1 ms in each of a data set and of the model."""
    parts = [range_(step, 4, 6, "call"), range_(step, 4, 5, "data", "data", "data")]
    ended = [range_(step, 6 + place * 0.01, 6 + (place + 1) * 0.01, "callbacks") for place in range(batches)]
    return [range_(step, 1, 9, name), *parts, *ended]


def subject(*ranges, framework="keras-tensorflow"):
    """A step has 7.5 ms in which nothing computes in the calls, and 1.5 ms of dispatch elsewhere."""
    rows = [
        (COMPUTE, None, None, "dense", "forward", 1.0),
        (IDLE, OPERATOR, "MakeIterator", "(predict)", "other", 6.0),
        (IDLE, OPERATOR, "call", "(predict)", "other", 1.5),
        (IDLE, OPERATOR, "call", None, "other", 1.5),
    ]
    table = pd.DataFrame(rows, columns=["part", "cause", "detail", "layer", "phase", "ms"])
    table = table.assign(time_ns=(table.pop("ms") * MS).astype("int64"), count=100.0, duration_ns=0)
    table = table.reindex(columns=[*KEYS, "count", "duration_ns", "time_ns"]).astype(dict.fromkeys(KEYS, "string"))
    steps = [
        {"step": step, "warmup": False, "thread": 1, "start_ns": step * 10 * MS, "end_ns": (step + 1) * 10 * MS}
        for step in range(COUNT)
    ]
    lines = [{**LINE, "start_ns": step * 10 * MS, "end_ns": (step * 10 + 9) * MS} for step in range(COUNT)]
    trace = Trace(
        steps=conform("steps", pd.DataFrame(steps)),
        ranges=placed_ranges(conform("ranges", pd.DataFrame(list(ranges)))),
        host_lines=conform("host_lines", pd.DataFrame(lines)),
        info={"framework": framework},
    )
    return Subject("run", trace, table, 10 * MS, "cpu", None, STEPS, None, COUNT)


def in_each(*calls):
    return [one for step in range(COUNT) for name in calls for one in call(step, name)]


def test_predict_in_each_step():
    found = of_subject(subject(*in_each("predict")))["advice"]
    assert [one["topic"] for one in found] == ["whole loops in each step", "dispatch"]
    first = found[0]
    assert first["title"] == "Keras' predict is called once in each step, for small batches"
    assert first["saves_ns"] == round(7.5 * MS * 7 / 8), "of 8 ms in calls 1 ms is in the model's own, which stays"
    assert "7.50 ms (75%) a step" in first["evidence"][0]
    assert "Called in dqn.py:39 `return model.predict(x)` (7.50 ms)." in first["evidence"]
    assert "model(x, training=False), in a tf.function" in first["remedy"]
    assert "model.predict_on_batch(x)" in first["remedy"]
    assert first["link"] == "https://keras.io/api/models/model_training_apis/#predict-method"


@pytest.mark.parametrize(("framework", "words"), [("keras-torch", "torch.no_grad()"), ("keras-jax", "stateless_call")])
def test_the_model_is_called_in_its_backends_words(framework, words):
    [one] = keras_loops.called(subject(*in_each("predict"), framework=framework))
    assert words in one.remedy


def test_what_the_call_takes_is_neither_dispatch_nor_input():
    made = subject(*in_each("predict"))
    [dispatch] = host.dispatch(made)
    assert "1.50 ms (15%)" in dispatch.evidence[0]
    assert [one.saves_ns for one in inputs.waiting(made)] == [0]


def test_calls_are_counted():
    two = [one for step in range(COUNT) for one in (*call(step), range_(step, 9.2, 9.4, "predict"))]
    [one] = keras_loops.called(subject(*two))
    assert "called 2 times in each step" in one.title
    ends = [range_(step, 0, 0.5, "end of predict") for step in range(COUNT)]
    [one] = keras_loops.called(subject(*in_each("predict"), *ends))
    assert "called once in each step" in one.title, "an end belongs to the call in the step before"


@pytest.mark.parametrize("name", ["predict", "evaluate", "fit"])
def test_a_loop_over_a_data_set_is_to_be_called_less_often(name):
    calls = [one for step in range(COUNT) for one in call(step, name, batches=20)]
    made = subject(*calls)
    made.rows["layer"] = made.rows["layer"].replace("(predict)", f"({name})")
    [one] = keras_loops.called(made)
    assert one.title == f"Keras' {name} is called once in each step, for 20 batches each"
    assert one.saves_ns == 7.5 * MS
    assert "on_batch" not in one.remedy


@pytest.mark.parametrize("steps", [1, 5])
def test_loops_that_some_steps_call_are_none_of_each(steps):
    """So it is with an evaluation after each epoch, and with fit itself, whose first batch is in its first step."""
    made = subject(*[one for step in range(steps) for one in call(step)])
    assert keras_loops.called(made) == []


def test_no_advice_on_a_loop_that_takes_little_or_on_a_program_without_steps():
    made = subject(*in_each("predict"))
    made.rows["layer"] = made.rows["layer"].replace("(predict)", "wide")
    assert keras_loops.called(made) == []
    whole = subject(*in_each("predict"))
    whole.per = WHOLE
    assert keras_loops.called(whole) == []
    assert keras_loops.called(subject()) == []


def test_on_a_device_what_idles_within_the_calls():
    kernels = [{"start_ns": step * 10 * MS + 5 * MS, "end_ns": step * 10 * MS + 6 * MS, "duration_ns": MS, "name": "k",
                "device": "cuda:0", "kind": "gemm", "count": 1} for step in range(COUNT)]  # fmt: skip
    made = subject(*in_each("predict"))
    made.trace.kernels = conform("kernels", pd.DataFrame(kernels))
    made.device = "cuda:0"
    [one] = keras_loops.called(made)
    assert "7.00 ms (70%)" in one.evidence[0], "all of 8 ms but the kernel's"
    assert one.saves_ns == pytest.approx(7 * MS * 7 / 8)
    assert [other.saves_ns for other in host.device_waits(made)] == [9 * MS]
    assert [advice["topic"] for advice in of_subject(made)["advice"]] == ["whole loops in each step"], "the same idle time"
