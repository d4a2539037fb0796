"""Extra and repeated work."""

import pytest

from kernelscope.analysis.explain.causes import work


@pytest.fixture
def suspected(suspected):
    """What the rules for particular work find, without the last one, which takes whatever is executed more often."""
    return lambda family, made: [found for found in suspected(family, made) if found.cause != "other operators"]


WEIGHTS, DATA = "convolution weight gradient", "convolution data gradient"


def test_the_first_layers_data_gradient_that_one_side_computes(make_kernel, make_kernels_case, suspected, swapped):
    k = make_kernel
    need, extra = k("convolution jit", WEIGHTS, 500), k("convolution jit", DATA, 400)
    made = make_kernels_case(
        [
            ("conv1", "backward", [need], [{**need, "time_ns": 510}, extra], 50, 90),
            ("conv2", "backward", [need, extra], [need, extra]),
        ]
    )
    (found,) = suspected(work, made)
    assert found.cause == "needless gradient of the input"
    assert found.title == "B computes the gradient of the input in conv1, A does not"
    assert found.claims == {"r2": 400, "r3": 40}, "the weights' gradient, most of the layer, is executed alike"
    assert "requires_grad_(False)" in found.remedy
    (mirrored,) = suspected(work, swapped(made))
    assert mirrored.title == found.title
    assert mirrored.claims == {"r2": -400, "r3": -40}


def test_a_dense_first_layer_has_one_product_more(make_kernel, make_kernels_case, make_side, suspected):
    one, two = [make_kernel("SGEMM", "gemm", 300)], [make_kernel("SGEMM", "gemm", 700, 2.0)]
    other = make_side("B", "tensorflow")
    (found,) = suspected(work, make_kernels_case([("fc1", "backward", one, two), ("fc2", "backward", two, two)], b=other))
    assert (found.cause, found.claims) == ("needless gradient of the input", {"r1": 400})
    assert suspected(work, make_kernels_case([("fc1", "backward", two, two), ("fc2", "backward", one, two)], b=other)) == []


@pytest.fixture
def checkpointed(make_kernel, make_kernels_case):
    k = make_kernel
    forward = [k("convolution jit", "convolution forward", 600, operator="aten::mkldnn_convolution", problem="mb64")]
    tanh = [k("aten::tanh", "activation", 100, operator="aten::tanh", problem="64x6")]
    back = [k("convolution jit", WEIGHTS, 700, operator="aten::convolution_backward", problem="mb64")]
    tanh_back = [k("aten::tanh_backward", "activation", 90, operator="aten::tanh_backward", problem="64x6")]
    return make_kernels_case(
        [
            ("conv1", "forward", forward, forward),
            ("tanh1", "forward", tanh, tanh),
            ("conv1", "backward", back, [*forward, *back], 40, 95),
            ("tanh1", "backward", tanh_back, [*tanh_back, *tanh], 10, 30),
            ("fc1", "backward", [k("SGEMM", "gemm", 50)], [k("SGEMM", "gemm", 60)], 10, 12),
            ("(unattributed)", "backward", [], [], 100, 180),
        ]
    )


def test_forward_work_in_the_backward_phase_is_recomputation(checkpointed, suspected, swapped):
    (found,) = suspected(work, checkpointed)
    assert found.cause == "recomputation"
    assert found.title == "B computes the forward pass of conv1 and tanh1 again in the backward phase"
    # both layers' backward phases, and the host's work around layers; not fc1, in which nothing is repeated
    assert found.claims == {"r4": 600, "r5": 55, "r6": 100, "r7": 20, "r10": 80}
    assert found.evidence[0] == "2 forward kernels per step run in B's backward phase, 0 in A's"
    assert "torch.utils.checkpoint" in found.remedy
    (mirrored,) = suspected(work, swapped(checkpointed))
    assert mirrored.title == found.title
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}


def test_arithmetic_and_products_of_both_phases_are_no_recomputation(make_kernel, make_kernels_case, suspected):
    small = [make_kernel("aten::mul", "elementwise", 100, 5.0, operator="aten::mul", problem="4x4")]
    product = [make_kernel("SGEMM", "gemm", 100, operator="aten::mm", problem="4x4:4x4")]
    loop = [make_kernel("aten::tanh", "activation", 20, operator="aten::tanh", problem="4x4")]
    made = make_kernels_case([("l", "forward", loop, small), ("l", "backward", loop[:0], [*small]),
                              ("f", "forward", product, product), ("f", "backward", product, product)])  # fmt: skip
    assert [found.cause for found in suspected(work, made)] == []


def test_the_same_convolution_more_often_and_larger_products_are_more_work(make_kernel, make_kernels_case, suspected, swapped):
    k = make_kernel
    once = [k("convolution jit", "convolution forward", 600, problem="mb64_ic1")]
    thrice = [k("convolution jit", "convolution forward", 1900, 3.0, problem="mb64_ic1")]
    small = [k("SGEMM", "gemm", 100, m=64, n=10, k=100)]
    large = [k("SGEMM", "gemm", 250, m=64, n=10, k=200)]
    made = make_kernels_case([("conv1", "forward", once, thrice, 10, 30), ("fc1", "forward", small, large)])
    (found,) = suspected(work, made)
    assert (found.cause, found.claims) == ("more work", {"r1": 1300, "r2": 20, "r3": 150})
    assert found.title == "B does more work in conv1 and fc1 than A"
    (mirrored,) = suspected(work, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {row: -ns for row, ns in found.claims.items()})


def test_products_of_unknown_shape_and_of_equal_work_are_no_more_work(make_kernel, make_kernels_case, suspected):
    known = [make_kernel("SGEMM", "gemm", 100, m=64, n=10, k=100)]
    for other in ([make_kernel("SGEMM", "gemm", 900)], [make_kernel("SGEMM", "gemm", 900, 4.0, m=16, n=10, k=100)]):
        assert suspected(work, make_kernels_case([("fc1", "forward", known, other)])) == []


def test_operators_that_nothing_else_explains(make_kernel, make_kernels_case, make_side, swapped):
    k = make_kernel
    relu, norm = k("aten::relu", "activation", 100), k("aten::linalg_vector_norm", "reduction", 300, 10.0)
    made = make_kernels_case([("relu1", "forward", [relu], [relu, norm], 20, 90), ("(unattributed)", "other", [], [norm], 50, 70),
                              ("(optimizer)", "optimizer", [relu], [relu, norm])])  # fmt: skip
    (found,) = work.other_operators(made)
    assert (found.precedence, found.confidence) == (2, "medium")
    assert found.title == "B executes aten::linalg_vector_norm in relu1 and (unattributed) more often than A"
    # the layer's other kernels are executed alike, and the host's time outside of layers is in operators of no name
    assert found.claims == {"r2": 300, "r3": 70, "r4": 300}
    (mirrored,) = work.other_operators(swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {row: -ns for row, ns in found.claims.items()})
    other = make_kernels_case([("relu1", "forward", [relu], [relu, norm])], b=make_side("B", "mxnet"))
    assert work.other_operators(other) == [], "operators of two frameworks always differ"


def test_larger_inputs_are_more_work_in_layers_that_multiply_nothing_too(make_kernel, make_kernels_case, suspected):
    def product(ns, m):
        return [make_kernel("SGEMM", "gemm", ns, operator="aten::addmm", m=m, n=64, k=64)]

    def norm(ns, rows):
        return [make_kernel("aten::batch_norm", "normalisation", ns, operator="aten::batch_norm", problem=f"{rows}x64:64")]

    groups = [("fc", "forward", product(300, 64), product(450, 96)), ("bn", "forward", norm(100, 64), norm(160, 96), 5, 9)]
    (found,) = suspected(work, make_kernels_case(groups))
    assert found.title == "B does more work in fc and bn than A: 1.5 times the operations"
    assert found.claims == {"r1": 150, "r2": 60, "r3": 4}
    slower = [groups[0], ("bn", "forward", norm(100, 64), norm(160, 64), 5, 9)]
    (found,) = suspected(work, make_kernels_case(slower))
    assert found.claims == {"r1": 150}, "the same input for longer is no more work"
