"""Advice on products without a gradient, on made-up operators of a step; what has none for another reason."""

import json

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE, KEYS
from kernelscope.analysis.advise.rules.constants import without_gradient
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import Trace, conform

MS = 1_000_000
SQUARE = [[1500, 1500], [1500, 1500]]
COLUMNS = ["part", "kind", "name", "operator", "phase", "layer", "problem"]


def op(name, shapes, layer="c1", phase="forward", gradient=None, ms=1.0, kind="gemm", **more):
    """An operator, and the kernel of it where it has a kind; around: the next one runs inside of it."""
    known = {"name": name, "shapes": shapes, "layer": layer, "phase": phase, "gradient": gradient, "ms": ms, "kind": kind}
    return {**known, **more}


def stepped(*operators, batch=None, steps=1, framework="pytorch"):
    """A subject whose steps execute these operators one after another, and their kernels with them."""
    events, kernels, at = [], [], 0
    for number, one in enumerate([*operators] * steps):
        start, end = at, at + round(one["ms"] * MS)
        at = at if one.get("around") else end
        event = {**one, "thread": 1, "start_ns": start, "end_ns": end, "step": number // len(operators)}
        event |= {key: json.dumps(one[key]) for key in ("shapes", "strides", "arguments") if one.get(key) is not None}
        events.append({**event, "types": None})
        if one["kind"]:
            tensors = [shape for shape in one["shapes"] if shape]
            problem = ":".join("x".join(map(str, shape)) for shape in tensors)
            known = {"operator": one["name"], "problem": problem, "duration_ns": end - start, "count": 1, "device": "cpu"}
            kernels.append({**event, **known, "m": None, "n": None, "k": None})
    marks = [{"step": 0, "warmup": False, "thread": 1, "start_ns": 0, "end_ns": at}]
    length = at // steps
    marks = [
        {**marks[0], "step": number, "start_ns": number * length, "end_ns": (number + 1) * length} for number in range(steps)
    ]
    table = conform("kernels", pd.DataFrame(kernels))
    trace = Trace(
        steps=conform("steps", pd.DataFrame(marks)), operators=conform("operators", pd.DataFrame(events)), kernels=table,
        info={"batch": batch},
    )  # fmt: skip
    rows = table.assign(part=COMPUTE).astype(dict.fromkeys(COLUMNS, "string")).groupby(COLUMNS, dropna=False)
    rows = rows[["duration_ns", "count"]].sum().div(steps).reset_index()
    rows = rows.assign(time_ns=rows["duration_ns"].astype("int64")).reindex(columns=[*KEYS, "count", "duration_ns", "time_ns"])
    rows = rows.astype(dict.fromkeys(KEYS, "string"))
    return Subject("run", trace, rows, length, "cpu", None, STEPS, None, steps, {"framework": framework})


def layer(name):
    """Two products of an adjacency, which no gradient goes through, and one with what is trained."""
    return [
        op("aten::mm", SQUARE, name, gradient=False, ms=40),
        op("aten::mm", SQUARE, name, gradient=False, ms=40),
        op("aten::mm", [[1500, 1500], [1500, 64]], name, gradient=True, ms=2),
    ]


BACKWARD = op("aten::mm", [[1500, 1500], [1500, 64]], "c1", "backward", ms=2)


def test_a_product_of_inputs_alone_that_each_layer_makes_again():
    (one,) = without_gradient(stepped(*layer("c1"), *layer("c2"), BACKWARD, batch=1500, steps=2))
    assert one.saves_ns == pytest.approx(160 * MS)
    assert one.title == "matrix products that depend on no trained parameter take 160 ms in each step"
    assert "No gradient goes through 4 products in each step, 160 ms (96%)" in one.evidence[0]
    assert "1,500 x 1,500 by 1,500 x 1,500, 2 in each of c1 and c2." in one.evidence[0]
    assert "once, before the loop" in one.remedy
    assert "diagonal" not in one.remedy


def test_a_diagonal_matrix_is_told_to_be_a_vector():
    diagonal = op("aten::diag", [[1500], []], gradient=False, kind="copy")
    (one,) = without_gradient(stepped(diagonal, *layer("c1"), BACKWARD, batch=1500))
    assert "multiply by a vector instead of a diagonal matrix" in one.remedy


def test_one_that_has_none_of_the_batchs_sizes_need_not_be_made_twice():
    polynomial = [
        op("aten::mm", [[207, 207], [207, 207]], gradient=False, ms=4),
        op("aten::bmm", [[64, 207, 8], [64, 8, 8]], gradient=True),
    ]
    (one,) = without_gradient(stepped(*polynomial, BACKWARD, batch=64))
    assert one.saves_ns == pytest.approx(4 * MS)
    assert without_gradient(stepped(*polynomial, BACKWARD)) == [], "it may be made of the batch, where that is not known"


def test_a_layer_counts_as_trained_where_a_part_of_it_is():
    only = [op("aten::mm", SQUARE, "conv", gradient=False, ms=4)] * 2
    part = op("aten::addmm", [[8], [1500, 64], [64, 8]], "conv.lin", gradient=True)
    assert len(without_gradient(stepped(*only, part, BACKWARD, batch=1500))) == 1
    assert without_gradient(stepped(*only, {**part, "layer": "head"}, BACKWARD, batch=1500)) == []


FIXED = op("aten::mm", [[64, 128], [128, 512]], "loss", gradient=False, ms=4)
TRAINED = op("aten::add", [[64, 512]], "loss", gradient=True, kind="elementwise")


@pytest.mark.parametrize(
    ("operators", "batch"),
    [
        (layer("c1"), 1500),  # nothing is trained
        ([*[{**one, "gradient": None} for one in layer("c1")], BACKWARD], 1500),  # autograd is off: an evaluation
        ([*[{**one, "gradient": None, "phase": "other"} for one in layer("c1")], TRAINED, BACKWARD], 1500),  # checkpointing
        ([{**one, "phase": "backward"} for one in layer("c1")], 1500),  # and what that computes again
        ([FIXED, TRAINED, BACKWARD], 64),  # of the batch: a teacher's keys and a queue, a fixed projection
        ([FIXED, FIXED, TRAINED, BACKWARD], 64),
        ([FIXED, TRAINED, BACKWARD], None),
        ([FIXED, FIXED, {**FIXED, "gradient": True}, TRAINED, BACKWARD], None),  # the teacher of a student that does the same
        ([op("aten::mm", [[64, 8], [8, 8]], "t"), FIXED, FIXED, TRAINED, BACKWARD], None),  # a step with a teacher
        ([op("aten::detach", [[64, 128]], "loss", gradient=True, kind=None), FIXED, FIXED, TRAINED, BACKWARD], None),
        ([op("aten::linear", SQUARE, gradient=False, ms=90, kind=None, around=True), *layer("c1"), BACKWARD], 1500),  # weights
        ([op("aten::bmm", [[8, 64, 64], [8, 64, 64]], "loss", gradient=False, ms=4)] * 2 + [TRAINED, BACKWARD], None),
    ],
)  # fmt: skip
def test_what_has_no_gradient_for_another_reason(operators, batch):
    assert without_gradient(stepped(*operators, batch=batch)) == []


def test_products_that_are_not_in_each_step_have_inputs_that_change():
    made = stepped(*layer("c1"), BACKWARD, batch=1500, steps=2)
    made.trace.operators = made.trace.operators.iloc[1:]
    assert without_gradient(made) == []


def test_a_recording_that_does_not_tell_what_autograd_noted():
    assert without_gradient(stepped(*[{**one, "gradient": None} for one in layer("c1")], BACKWARD, batch=1500)) == []
