"""Advice on embeddings whose whole table gets a gradient, on made-up operators; what only looks like it."""

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE
from kernelscope.analysis.advise.rules.embeddings import dense_gradients
from tests.analysis.advise.test_host import MS, subject

# The gradient, what clears the table before, the update of all parameters, and a product
ROWS = [(COMPUTE, None, None, "backward", 2.0), (COMPUTE, None, None, "backward", 1.0), (COMPUTE, None, None, "optimizer", 4.0)]
NAMES = ["aten::embedding_dense_backward", "aten::zero_", "aten::add_"]
LOOKUP = ("aten::embedding", "[[1000, 64], [10, 5], [], [], []]", "forward")
UPDATES = [("aten::add_", "[[1000, 64], []]", "optimizer"), ("aten::add_", "[[250, 256], []]", "optimizer")]  # as many elements
FUSED = [("aten::_fused_adam_", "[[[1000, 64], [250, 256]], [], []]", "optimizer")]


def trained(*operators, names=NAMES):
    events = [
        {"thread": 1, "start_ns": n * 1000, "end_ns": n * 1000 + 500, "name": name, "shapes": shapes, "phase": phase}
        for n, (name, shapes, phase) in enumerate(operators)
    ]
    made = subject(*ROWS, framework="pytorch", operators=events)
    made.trace.operators["layer"] = pd.Categorical(["emb" if phase == "forward" else None for *_, phase in operators])
    made.rows = made.rows.assign(
        name=pd.Series(names, dtype="string"),
        operator=pd.Series(names, dtype="string"),
        layer=pd.Series(["emb", "emb", None], dtype="string"),
    )
    return made


@pytest.mark.parametrize("updates", [UPDATES, FUSED])
def test_entries_that_do_not_occur_are_cleared_and_updated(updates):
    (one,) = dense_gradients(trained(LOOKUP, *updates))
    assert one.saves_ns == pytest.approx((2 + 1 + 4 / 2) * MS * (1 - 50 / 1000))
    assert "1,000 x 64 numbers; at most 50 entries are looked up in each step" in one.evidence[0]
    assert "Its gradient takes 3.00 ms (30%), and its update 2.00 ms (20%) (50% of what" in one.evidence[0]


def test_all_lookups_of_a_step_count():
    (one,) = dense_gradients(trained(LOOKUP, LOOKUP, *UPDATES))
    assert "at most 100 entries" in one.evidence[0]


@pytest.mark.parametrize(
    "operators",
    [
        [("aten::embedding", "[[1000, 64], [10, 11], [], [], []]", "forward"), *UPDATES],  # a tenth of the table is used
        [LOOKUP, ("aten::addmm", "[[50, 64], [64, 1000], [], []]", "forward"), *UPDATES],  # the table is the last layer's, too
        [("aten::embedding", "[[1000000000000000000000, 64], [10, 5], [], [], []]", "forward")],
        [("aten::embedding", "[[1000, 64], 5]", "forward")],
        [("aten::embedding", None, "forward")],
        [("aten::embedding", "[" * 5000, "forward")],
        UPDATES,
    ],
)
def test_what_only_looks_like_it(operators):
    assert dense_gradients(trained(*operators)) == []


def test_sparse_gradients_are_left_alone():
    names = ["aten::embedding_sparse_backward", *NAMES[1:]]
    assert dense_gradients(trained(LOOKUP, *UPDATES, names=names)) == []


def test_where_shapes_of_updates_are_not_known_the_gradient_alone_counts():
    (one,) = dense_gradients(trained(LOOKUP, ("aten::add_", None, "optimizer")))
    assert one.saves_ns == pytest.approx(3 * MS * (1 - 50 / 1000))
