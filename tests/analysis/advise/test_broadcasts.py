"""Advice on tensors of all pairs that are summed up again, on made-up operators; what else broadcasts."""

import pytest

from kernelscope.analysis.advise.rules import fusion
from kernelscope.analysis.advise.rules.broadcasts import summed_up
from tests.analysis.advise.test_constants import MS, op, stepped

PAIRS = [64, 1088, 128]


def pointwise(name, *shapes, phase="forward", ms=8.0, **more):
    return op(name, [*shapes], "loss", phase, ms=ms, kind="elementwise", **more)


DIFFERENCE = pointwise("aten::sub", [64, 1, 128], [1, 1088, 128], [])
SQUARE = pointwise("aten::pow", PAIRS, [], arguments=["", "2"])
SUM = op("aten::sum", [PAIRS, [], [], []], "loss", ms=1.0, kind="reduction", arguments=["", "[-1]", "False", ""])
GRADIENTS = [
    pointwise("aten::mul", PAIRS, PAIRS, phase="backward"),
    op("aten::sum", [PAIRS, []], "loss", "backward", kind="reduction"),
]
PRODUCT = pointwise("aten::mul", [64, 1, 128], [1, 1088, 128])


def test_distances_of_all_pairs():
    (one,) = summed_up(stepped(DIFFERENCE, SQUARE, SUM, *GRADIENTS))
    assert one.title == "tensors of 64 x 128 and 1,088 x 128 are expanded to 64 x 1,088 x 128, and then summed"
    assert one.saves_ns == pytest.approx((8 + 8 + 1 + 8 + 1 - 3 * 1) * MS), "less three passes of the quickest kernel"
    assert "Kernels that make or use the expanded tensor take 26.0 ms (100%) a step" in one.evidence[0]
    assert "Most of it in loss" in one.evidence[1]
    assert "torch.cdist" in one.remedy


def test_a_program_that_is_not_trained_has_one_product_in_place_of_it():
    (one,) = summed_up(stepped(DIFFERENCE, SQUARE, SUM, steps=2))
    assert one.saves_ns == pytest.approx((17 - 1) * MS)


def test_the_rate_of_the_steps_other_products():
    made = stepped(DIFFERENCE, SQUARE, SUM, op("aten::mm", [[1000, 1000], [1000, 1000]], "net", ms=10))
    gemm = made.trace.kernels["kind"] == "gemm"
    made.trace.kernels.loc[gemm, ["m", "n", "k"]] = 1000
    (one,) = summed_up(made)
    assert one.saves_ns == pytest.approx(17 * MS - 10 * MS * 64 * 1088 * 128 / 1e9)
    assert "rate of the step's other products" in one.estimate


@pytest.mark.parametrize(
    ("operators", "remedy"),
    [
        ([PRODUCT, SUM], "a @ b.T"),
        ([DIFFERENCE, pointwise("aten::mul", PAIRS, PAIRS), SUM], "cdist"),
        ([DIFFERENCE, {**SUM, "name": "aten::linalg_vector_norm", "arguments": ["", "2", "[-1]", "False", ""]}], "cdist"),
        ([pointwise("aten::sub", PAIRS, PAIRS, strides=[[128, 0, 1], [0, 128, 1]]), SQUARE, SUM], "cdist"),  # expanded
        ([pointwise("aten::cosine_similarity", [64, 1, 128], [1, 1088, 128])], "F.normalize"),
        ([PRODUCT, {**SUM, "arguments": None}], "a @ b.T"),
    ],
)
def test_other_ways_to_write_it(operators, remedy):
    (one,) = summed_up(stepped(*operators))
    assert remedy in one.remedy


@pytest.mark.parametrize(
    "operators",
    [
        [DIFFERENCE, SQUARE],  # all of it is needed
        [PRODUCT, pointwise("aten::softmax", PAIRS)],
        [PRODUCT, {**SUM, "arguments": ["", "[1]", "False", ""]}],  # over what only one of them has
        [DIFFERENCE, pointwise("aten::exp", PAIRS), SUM],
        [DIFFERENCE, SUM],  # nothing is squared
        [DIFFERENCE, {**SQUARE, "arguments": ["", "3"]}, SUM],
        [pointwise("aten::add", [64, 1, 128], [1, 1088, 128]), SUM],  # additive attention
        [pointwise("aten::sub", [64, 1], [1, 64]), pointwise("aten::pow", [64, 64]), SUM],  # no axis that both have: an outer one
        [pointwise("aten::mul", [64, 1, 1], [1, 1088, 128]), SUM],
        [pointwise("aten::sub", PAIRS, [64, 1088, 1]), SQUARE, SUM],  # a layer's norm
        [pointwise("aten::mul", PAIRS, [128]), SUM],  # a scale
        [pointwise("aten::sub", [2, 1, 128], [1, 3, 128]), pointwise("aten::pow", [2, 3, 128]), SUM],  # not much larger
        [pointwise("aten::sub", [64, 1, 128], [1, 1088, 127]), SQUARE, SUM],
        [{**DIFFERENCE, "phase": "backward"}, {**SQUARE, "phase": "backward"}, {**SUM, "phase": "backward"}],
        [{**DIFFERENCE, "shapes": None, "kind": None}],
        [{**DIFFERENCE, "shapes": [[10**30, 1, 5], "x"], "kind": None}],
    ],
)
def test_what_broadcasts_and_is_needed(operators):
    assert summed_up(stepped(*operators)) == []


def test_a_tensor_that_another_layer_uses_is_needed():
    assert summed_up(stepped(DIFFERENCE, {**SQUARE, "layer": "other"}, {**SUM, "layer": "other"})) == []
    assert summed_up(stepped(DIFFERENCE, SQUARE, SUM, {**SQUARE, "name": "aten::tanh", "layer": "other"})) == []


def test_layers_that_each_make_one():
    twice = [{**one, "layer": layer} for layer in ("a", "b") for one in (DIFFERENCE, SQUARE, SUM)]
    (one,) = summed_up(stepped(*twice))
    assert one.saves_ns == pytest.approx((2 * 17 - 2 * 1) * MS)


def test_what_need_not_be_is_not_to_be_fused():
    chain = [pointwise("aten::neg", [64, 9], ms=2.0), pointwise("aten::tanh", [64, 9], ms=3.0)]
    (one,) = fusion.memory_traffic(stepped(DIFFERENCE, SQUARE, SUM, *chain))
    assert one.saves_ns == pytest.approx(2 * MS)
    assert "1 chain of 2 kernels" in one.evidence[0]
    (alone,) = fusion.memory_traffic(stepped(DIFFERENCE, SQUARE, *chain))
    assert alone.saves_ns == pytest.approx((8 + 2 + 3) * MS)
