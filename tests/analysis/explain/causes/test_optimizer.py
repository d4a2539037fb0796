"""The optimizer's implementation, and how much it updates."""

import pytest

from kernelscope.analysis.explain.causes import optimizer
from kernelscope.analysis.trace import Trace


def test_a_loop_over_parameters_against_few_kernels_owns_the_phase(make_kernel, make_kernels_case, suspected, swapped):
    few = [make_kernel("aten::_foreach_add_", "optimizer", 60, 2.0)]
    many = [make_kernel("aten::add_", "optimizer", 300, 40.0), make_kernel("aten::mul_", "optimizer", 200, 20.0)]
    made = make_kernels_case([("(optimizer)", "optimizer", few, many, 50, 750)])
    (found,) = suspected(optimizer, made)
    assert found.cause == "optimizer implementation"
    assert found.title == "the optimizer's update is implemented differently: B by 60 kernels per step, A by 2 kernels (foreach)"
    assert found.claims == {"r1": 440, "r2": 700}
    assert found.evidence[0] == "B: 40 x aten::add_ and 20 x aten::mul_ per step, 500 ns in kernels and 750 ns on the host"
    assert "foreach=True" in found.remedy
    (mirrored,) = suspected(optimizer, swapped(made))
    assert mirrored.claims == {"r1": -440, "r2": -700}
    assert mirrored.title == found.title


def test_other_kernels_as_often_are_another_implementation_within_one_framework(
    make_kernel, make_kernels_case, make_side, suspected
):
    a, b = [make_kernel("aten::add_", "optimizer", 60, 4.0)], [make_kernel("aten::lerp_", "optimizer", 160, 4.0)]
    (found,) = suspected(optimizer, make_kernels_case([("(optimizer)", "optimizer", a, b)]))
    assert found.claims == {"r1": 100}
    other = make_kernels_case([("(optimizer)", "optimizer", a, b)], b=make_side("B", "mxnet"))
    assert suspected(optimizer, other) == [], "names of two frameworks always differ"


def test_the_same_kernels_and_none_at_all_are_no_cause(make_kernel, make_kernels_case, suspected):
    a, b = ([make_kernel("aten::add_", "optimizer", ns, 40.0)] for ns in (60, 160))
    assert suspected(optimizer, make_kernels_case([("(optimizer)", "optimizer", a, b, 5, 50)])) == []
    assert suspected(optimizer, make_kernels_case([("(optimizer)", "optimizer", [], b, 5, 50)])) == []


def test_kernels_outside_of_the_update_are_none_of_it(make_kernel, make_kernels_case, suspected):
    """Averages of weights and clipping, by foreach operators on one side and by loops on the other, beside one optimizer."""
    update = [make_kernel("aten::add_", "optimizer", 60, 1200.0)]
    beside = [make_kernel("aten::_foreach_lerp_", "optimizer", 10, 208.0)], [make_kernel("aten::mul", "elementwise", 90, 800.0)]
    made = make_kernels_case([("(optimizer)", "optimizer", update, update), ("(unattributed)", "other", *beside)])
    assert suspected(optimizer, made) == []


def test_other_kernels_for_another_type_are_no_other_implementation(make_kernel, make_kernels_case, suspected):
    a, b = (
        [make_kernel("aten::add_", "optimizer", ns, count, dtype=dtype)]
        for ns, count, dtype in ((60, 4.0, "f32"), (160, 9.0, "f64"))
    )
    assert suspected(optimizer, make_kernels_case([("(optimizer)", "optimizer", a, b, 5, 50)])) == []


def modules(**parameters):
    """A Trace of a program with these modules."""
    return Trace(info={"modules": [{"name": name, "type": "Linear", "parameters": n} for name, n in parameters.items()]})


@pytest.fixture
def larger(make_kernel, make_kernels_case, make_side):
    """B's embedding has four times the parameters, and the optimizer executes the same kernels as often."""
    k = make_kernel
    a, b = ([k("aten::mul_", "optimizer", ns, 40.0), k("aten::sqrt", "optimizer", ns, 20.0)] for ns in (60, 160))
    looked_up = [k("aten::embedding", "embedding", ns) for ns in (10, 15)]
    sides = make_side("A", trace=modules(emb=4000, fc=500)), make_side("B", trace=modules(emb=16000, fc=500))
    groups = [("(optimizer)", "optimizer", a, b, 5, 50), ("emb", "forward", looked_up[:1], looked_up[1:])]
    return make_kernels_case(groups, *sides)


def test_a_larger_model_is_updated_by_the_same_kernels(larger, suspected, swapped):
    (found,) = suspected(optimizer, larger)
    assert found.cause == "more parameters"
    assert found.title == "B's optimizer updates 3.67 times as many parameters as A's: 16,500 against 4,500"
    assert found.evidence == ["Parameters of emb: 16,000 in B and 4,000 in A."]
    assert found.claims == {"r1": 200, "r2": 45, "r3": 5}
    (mirrored,) = suspected(optimizer, swapped(larger))
    assert mirrored.title == found.title


def test_more_parameters_in_more_tensors_are_no_other_implementation(make_kernel, make_kernels_case, make_side, suspected):
    few, many = (
        [make_kernel("aten::mul_", "optimizer", ns, count), make_kernel("aten::sqrt", "optimizer", ns, count / 2)]
        for ns, count in ((60, 24.0), (100, 32.0))
    )
    sides = make_side("A", trace=modules(fc=500)), make_side("B", trace=modules(fc=500, mha=100))
    (found,) = suspected(optimizer, make_kernels_case([("(optimizer)", "optimizer", few, many)], *sides))
    assert found.cause == "more parameters"
    assert found.evidence == ["Parameters of mha: 100 in B and none in A."]
    loop = [make_kernel("aten::add_", "optimizer", 300, 60.0)]
    (found,) = suspected(optimizer, make_kernels_case([("(optimizer)", "optimizer", few, loop)], *sides))
    assert found.cause == "optimizer implementation", "other kernels are one, whatever they update"
