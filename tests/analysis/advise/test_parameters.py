"""Loops over a model's parameters: averages of weights, clipping, norms; and what only looks like them."""

from dataclasses import replace

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE, IDLE, KEYS
from kernelscope.analysis.accounting.idle_causes import OPERATOR
from kernelscope.analysis.advise.rules import loops, parameters
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import Trace, conform

MS = 1_000_000
US = 1_000
SHAPES = {"256x512": 16, "512x256": 16, "512": 16, "256": 52}  # 100 parameters


def shape_of(text):
    return "[[" + ", ".join(text.split("x")) + "]]"


def events(names, start=5 * MS, **columns):
    """Operators one after the other: (name, shapes as a problem writes them)."""
    return [
        {"thread": 1, "start_ns": at, "end_ns": at + 900, "name": name, "shapes": shape_of(shape), **columns}
        for at, (name, shape) in zip(range(start, start + len(names) * US, US), names, strict=True)
    ]


def gradients(passes=1):
    """What autograd runs for each parameter, in so many backward passes of a step."""
    mine = [("torch::autograd::AccumulateGrad", shape) for shape, number in SHAPES.items() for _ in range(number)]
    return [one for n in range(passes) for one in events(mine, 5 * MS + n * MS, phase="backward")]


def each(operator, ms, times=1, shapes=None, **columns):
    """Rows of a kernel that runs so often for each parameter of these shapes, for a time in all."""
    shapes = SHAPES if shapes is None else shapes
    total = sum(shapes.values())
    common = {"part": COMPUTE, "phase": "other", "operator": operator, **columns}
    return [{**common, "problem": shape, "count": float(times * n), "ms": ms * n / total} for shape, n in shapes.items()]


def host(operator, count, ms):
    return {"part": IDLE, "cause": OPERATOR, "phase": "other", "operator": operator, "count": float(count), "ms": ms}


def subject(rows, operators=None, batch=32, framework="pytorch", passes=1, optimizer="aten::_fused_adam_", lines=()):
    """A step of 10 ms. lines: (line, its text, how often it runs)."""
    update = [{"part": COMPUTE, "phase": "optimizer", "operator": optimizer, "count": 1.0, "ms": 0.5}] if optimizer else []
    table = pd.DataFrame([*rows, *update])
    table = table.assign(time_ns=(table.pop("ms") * MS).astype("int64"), duration_ns=0)
    table = table.reindex(columns=[*KEYS, "count", "duration_ns", "time_ns"]).astype(dict.fromkeys(KEYS, "string"))
    steps = conform("steps", pd.DataFrame([{"step": 0, "warmup": False, "thread": 1, "start_ns": 0, "end_ns": 10 * MS}]))
    ranges = [
        {"thread": 1, "category": "phase", "name": "backward", "phase": "backward", "start_ns": (5 + n) * MS,
         "end_ns": (6 + n) * MS - US}
        for n in range(passes)
    ]  # fmt: skip
    operators = gradients(passes) if operators is None else operators
    trace = Trace(steps=steps, ranges=conform("ranges", pd.DataFrame(ranges)),
                  operators=conform("operators", pd.DataFrame(operators)))  # fmt: skip
    if lines:
        own = [{"file": "a.py", "function": "f", "line": n, "last_line": n, "text": text, "hits": hits, "time_ns": 2 * MS}
               for n, text, hits in lines]  # fmt: skip
        trace = replace(trace, lines=conform("lines", pd.DataFrame(own)), info={"lines_steps": 1})
    facts = {"framework": framework, "options": {"batch": batch}}
    return Subject("run", trace, table, 10 * MS, "cpu", None, STEPS, None, 1, facts)


CLIPPED = [*each("aten::copy_", 1.0), *each("aten::pow", 1.0), *each("aten::sum", 1.0), *each("aten::mul_", 1.0)]
READ = [host("aten::item", 100, 0.2), host("aten::detach", 200, 0.2)]


def test_a_loop_over_parameters_is_none_over_samples():
    """Four kernels for each parameter become one, and what the host does for each is done once."""
    made = subject([*CLIPPED, *READ])
    (one,) = parameters.over_parameters(made)
    assert one.topic == "loop over parameters"
    assert one.title == "400 small operators run in each step in loops over the model's 100 parameters"
    assert one.saves_ns == pytest.approx(4 * MS * 3 / 4 + 0.4 * MS * 99 / 100)
    assert "clip_grad_norm_" in one.remedy
    assert "avoid .item() for each parameter" in one.remedy
    assert "optimizer of torch.optim" not in one.remedy
    assert loops.over_samples(made) == []


def test_nothing_but_a_number_near_multiples_of_the_batch_is_no_loop_over_samples():
    """934 of 32 samples are 29.2 for each; 928 are 29."""
    shapeless = [{**row, "problem": None} for row in each("aten::copy_", 4.0, shapes={"256": 934})]
    assert [one.topic for one in loops.over_samples(subject(shapeless, operators=events([("x", "2")])))] == ["small operators"]
    exact = [{**row, "count": 928.0} for row in shapeless]
    assert [one.topic for one in loops.over_samples(subject(exact, operators=events([("x", "2")])))] == ["loop over samples"]


def test_a_loop_over_samples_of_a_model_with_as_many_parameters_is_told_by_its_shapes():
    """100 samples of another shape than the parameters have, and parameters as many as there are samples in three batches."""
    samples = each("aten::mul", 4.0, shapes={"3x32x32": 300})
    made = subject(samples, batch=100)
    assert parameters.over_parameters(made) == []
    assert [one.topic for one in loops.over_samples(made)] == ["loop over samples"]
    assert parameters.over_parameters(subject(CLIPPED, batch=100)) != []


def test_vectors_of_one_parameters_shape_are_no_loop_over_parameters():
    """Samples of 256 numbers are of the shape of half of the parameters."""
    made = subject(each("aten::mul", 4.0, shapes={"256": 256}), batch=128)
    assert parameters.over_parameters(made) == []
    assert [one.topic for one in loops.over_samples(made)] == ["loop over samples"]


def test_both_loops_are_told_apart():
    made = subject([*CLIPPED, *READ, *each("aten::flip", 3.0, shapes={"3x32x32": 128})])
    (one,), (other,) = parameters.over_parameters(made), loops.over_samples(made)
    assert other.topic == "loop over samples"
    assert other.saves_ns == pytest.approx(3 * MS * 31 / 32)
    assert not one.rows & other.rows


def test_what_runs_within_operators_on_lists_is_no_loop_of_the_program():
    """On processors torch._foreach_lerp_ runs lerp_ for each tensor."""
    inside = events([("aten::lerp_", shape) for shape, number in SHAPES.items() for _ in range(number)], phase="other")
    around = {**inside[0], "name": "aten::_foreach_lerp_", "end_ns": inside[-1]["end_ns"]}
    rows = each("aten::lerp_", 2.0, times=2)
    assert parameters.over_parameters(subject(rows, operators=[*gradients(), around, *inside])) == []
    assert parameters.over_parameters(subject(rows, operators=[*gradients(), *inside])) != []


def test_clipping_by_the_library_is_no_loop_of_the_program():
    rows = [*each("aten::linalg_vector_norm", 2.0, layer="(clip gradients)"), *each("aten::mul_", 2.0, layer="(clip gradients)")]
    assert parameters.over_parameters(subject(rows)) == []


def test_gradients_of_several_batches_are_of_the_same_parameters():
    made = subject(CLIPPED, passes=3)
    assert parameters.parameters(made) == parameters.Parameters(100, {shape: float(n) for shape, n in SHAPES.items()})


def test_an_update_by_hand():
    (one,) = parameters.over_parameters(subject([*each("aten::add_", 4.0, times=2)], optimizer=None))
    assert "update with an optimizer of torch.optim" in one.remedy
    assert ".item()" not in one.remedy


@pytest.mark.parametrize(("count", "batch", "found"), [(200, 32, True), (130, 32, False), (256, 32, False), (100, 100, False)])
def test_where_no_shapes_are_known_the_number_of_updates_tells(count, batch, found):
    """Twice for each of 100 parameters; not 130; 256 are eight for each sample; and 100 one for each of as many samples."""
    rows = [{**row, "count": float(count)} for row in each("Square", 4.0, shapes={"": 1})]
    update = {"part": COMPUTE, "phase": "optimizer", "operator": "ResourceApplyAdam", "count": 100.0, "ms": 2.0}
    made = subject([*rows, update], operators=events([("Square", "2")]), batch=batch, framework="tensorflow", optimizer=None)
    advice = parameters.over_parameters(made)
    assert [one.topic for one in advice] == ["loop over parameters"] * found
    assert all("torch" not in one.remedy + one.link for one in advice)


def test_lines_are_those_of_the_loop():
    """A line of the model that runs for each of its 16 blocks is none of it, though it takes as long."""
    lines = [(31, "x = b(x)", 16), (48, "total += p.grad.pow(2).sum().item()", 100)]
    (one,) = parameters.over_parameters(subject([*CLIPPED, *READ], lines=lines))
    assert "a.py:48" in one.evidence[-1]
    assert "a.py:31" not in one.evidence[-1]


def test_values_read_for_each_parameter_are_told_once():
    made = subject([*CLIPPED, *READ])
    assert loops.one_by_one_read(made) == []
    assert loops.one_by_one_read(subject(READ)) != []


def test_few_parameters_and_few_kernels_are_no_loop():
    assert parameters.over_parameters(subject(each("aten::norm", 4.0, times=0.9))) == []
    assert parameters.over_parameters(subject([])) == []
    few = events([("torch::autograd::AccumulateGrad", "256")] * 4, phase="backward")
    assert parameters.over_parameters(subject(CLIPPED, operators=few, optimizer=None)) == []


def test_shapes_that_no_trace_should_hold_are_unknown():
    hostile = ["[", "[[-1]]", "[[[[]]]]", "[" * 10_000, '["x"]', "[[1e9]]"]
    operators = [{**one, "shapes": text} for one, text in zip(gradients(), hostile * 20, strict=False)]
    assert parameters.over_parameters(subject(CLIPPED, operators=operators)) == []
