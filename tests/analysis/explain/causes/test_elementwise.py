"""Elementwise chains, fused and not."""

import pytest

from kernelscope.analysis.explain.causes import elementwise


@pytest.fixture
def by_hand(make_kernel, make_kernels_case):
    k = make_kernel
    one = [k("aten::tanh", "activation", 300, operator="aten::tanh", dtype="f32", problem="64x100")]
    ten = [k("aten::mul", "elementwise", 900, 6.0, dtype="f32", problem="64x100:64x100"),
           k("aten::exp", "elementwise", 500, 4.0, dtype="f32", problem="64x100")]  # fmt: skip
    return make_kernels_case(
        [("tanh1", "forward", one, ten, 20, 120), ("fc1", "forward", [k("S", "gemm", 50)], [k("S", "gemm", 55)])]
    )


def test_a_chain_of_kernels_in_place_of_one_owns_the_layer(by_hand, suspected, swapped):
    (found,) = suspected(elementwise, by_hand)
    assert found.title == "B computes tanh1 by 10 elementwise kernels, A by 1"
    assert found.claims == {"r1": -300, "r2": 1400, "r3": 100}
    # 64 x 100 values of 4 bytes: 6 x (2 read, 1 written) and 4 x (1 read, 1 written), against 1 read and 1 written
    assert "6 x aten::mul and 4 x aten::exp, at least 666 kB" in found.evidence[0]
    assert "1 x aten::tanh, at least 51.2 kB" in found.evidence[1]
    (mirrored,) = suspected(elementwise, swapped(by_hand))
    assert mirrored.title == found.title
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}


def test_triton_fuses_what_others_launch_one_by_one(make_kernel, make_kernels_case, suspected):
    fused = [make_kernel("triton_poi_fused_add_mul_gelu_0", "elementwise", 100)]
    loose = [make_kernel(f"void at::native::vectorized_elementwise_kernel<4, {n}>", "elementwise", 90) for n in range(5)]
    (found,) = suspected(elementwise, make_kernels_case([("mlp", "forward", fused, loose, 10, 60)]))
    assert found.claims == {"r1": 350, "r2": 50}


@pytest.mark.parametrize("counts", [(10.0, 10.0), (1.0, 2.0), (20.0, 23.0)])
def test_as_many_kernels_or_a_few_more_are_no_chain(counts, make_kernel, make_kernels_case, suspected):
    a, b = ([make_kernel("aten::mul", "elementwise", ns, n)] for ns, n in zip((100, 900), counts, strict=True))
    assert suspected(elementwise, make_kernels_case([("tanh1", "forward", a, b)])) == []


def test_rows_in_the_noise_are_not_named(by_hand, suspected):
    by_hand.rows["significant"] = False
    assert suspected(elementwise, by_hand) == []


def test_a_bias_of_its_own_and_an_activation_that_is_fused_away(make_kernel, make_kernels_case, make_side, suspected, swapped):
    k = make_kernel
    conv, plus, tanh = k("conv", "convolution forward", 500), k("Plus", "elementwise", 300), k("Tanh", "activation", 200)
    made = make_kernels_case(
        [("conv1", "forward", [conv], [{**conv, "time_ns": 700}, plus], 10, 90), ("tanh1", "forward", [], [tanh], 0, 5),
         ("tanh1", "backward", [tanh], [tanh])],
        b=make_side("B", "cntk"),
    )  # fmt: skip
    (found,) = suspected(elementwise, made)
    assert (found.cause, found.claims) == ("unfused bias or activation", {"r2": 300, "r4": 200})
    assert found.title == "B computes bias or activation of conv1 and tanh1 in separate kernels, A inside other kernels"
    (mirrored,) = suspected(elementwise, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {"r2": -300, "r4": -200})
