"""Advice on models that are called with all that they generated so far, on made-up operators; what only looks like it."""

import pytest

from kernelscope.analysis.accounting.device_account import COMPUTE
from kernelscope.analysis.advise.advice import of_subject
from kernelscope.analysis.advise.rules.generation import without_cache
from tests.analysis.advise.test_host import KERNEL, MS, subject


def looked_up(*shapes, rows=(KERNEL,)):
    """A step in which these numbers are looked up, each as (entries of the table, *their shape)."""
    operators = [
        {"thread": 1, "start_ns": n * 1000, "end_ns": n * 1000 + 500, "name": "aten::embedding",
         "shapes": f"[[{entries}, 256], {list(numbers)}, [], [], []]"}
        for n, (entries, *numbers) in enumerate(shapes)
    ]  # fmt: skip
    return subject(*rows, framework="pytorch", operators=operators)


GROWS = [(5000, 2, 31 + n) for n in range(10)]


def test_each_call_sees_one_position_more():
    (one,) = without_cache(looked_up(*GROWS))
    assert one.saves_ns == pytest.approx(4 * MS * (1 - 1 / 35.5))
    assert "Calls get 31 to 40 positions, for 2 texts at once, each one more than the call before" in one.evidence[0]
    assert "4.00 ms (40%) a step" in one.evidence[0]
    positions = [shape for n, call in enumerate(GROWS) for shape in (call, (512, 31 + n))]
    assert without_cache(looked_up(*positions)), "a smaller table of positions is looked up beside it"
    assert without_cache(looked_up(*[(5000, 31 + n) for n in range(10)])), "one text without an axis for texts"


def test_what_else_can_be_done_stands_beside():
    """Advice on all that computes hides no other on the same time."""
    made = looked_up(*GROWS)
    made.facts["padding"] = {"positions": 100, "padded": 60, "beyond_longest": 60}
    assert [one["topic"] for one in of_subject(made)["advice"]] == ["no cache of positions", "padding"]


@pytest.mark.parametrize(
    "shapes",
    [
        [(5000, 2, 31)] * 10,  # batches of one length
        [(5000, 2, 1)] * 10,  # with a cache
        [(5000, 2, length) for length in (31, 17, 44, 18, 20, 63, 62, 30, 15, 80)],  # texts of any length
        GROWS[:5],
        [(5000, 2, 1 + n) for n in range(10)],  # there is hardly anything to keep yet
        [("x", 2, 31 + n) for n in range(10)],
        [(5000, 2, 10**30 + n) for n in range(10)],
        [(10**30, 2, 31 + n) for n in range(10)],
        [],
    ],
)
def test_what_only_looks_like_it(shapes):
    assert without_cache(looked_up(*shapes)) == []


def test_training_on_texts_that_grow_is_no_generation():
    assert without_cache(looked_up(*GROWS, rows=(KERNEL, (COMPUTE, None, None, "backward", 2.0)))) == []
