"""Many small kernels against few that do the same, and CUDA graphs against kernels one by one."""

import pytest

from tests.analysis.explain.device.synthetic import (
    Graph,
    Host,
    Kernel,
    Wait,
    assert_named,
    causes,
    explained,
    recording,
    training,
)

ADDS = [Kernel("vectorized_elementwise_add", 40) for _ in range(30)] + [Kernel("addcmul_kernel", 30) for _ in range(20)]
FUSED = [Kernel("multi_tensor_apply_kernel<FusedAdamFunctor>", 150, "optimizer") for _ in range(2)]
NETWORK = [item for item in training() if not (isinstance(item, Kernel) and item.phase == "optimizer")][:-2]


def step(*kernels):
    return recording([*NETWORK, *kernels, Wait(), Host(800)])


def test_a_fused_optimizer():
    said = explained(step(*ADDS), step(*FUSED))
    found = assert_named(said, "fusion", (2 * 150 - 30 * 40 - 20 * 30) / 1000)
    assert "optimizer" in found["title"]


def test_compiled_kernels():
    pointwise = [Kernel("mul_kernel", 60), Kernel("add_kernel", 60), Kernel("gelu_kernel", 60, "activation")] * 8
    compiled = [Kernel("triton_poi_fused_add_gelu_mul_0", 70, "fused") for _ in range(8)]
    said = explained(step(*pointwise), step(*compiled))
    assert_named(said, "fusion", (8 * 70 - 24 * 60) / 1000)


def test_fewer_small_kernels_without_any_that_fuses_them_are_no_fusion():
    said = explained(step(*ADDS), step())
    assert "fusion" not in causes(said)
    assert sum(causes(said).values()) == pytest.approx(-1.8, rel=0.1)


def test_fused_kernels_on_both_sides_are_no_fusion():
    said = explained(step(*ADDS, *FUSED), step(*FUSED))
    assert "fusion" not in causes(said)


def test_fusion_that_gains_nothing_is_no_cause():
    assert causes(explained(step(*ADDS[:10]), step(Kernel("multi_tensor_apply_kernel", 395, "optimizer")))) == {}


# --- graphs ---------------------------------------------------------------------------------------------------------------------


def test_graphs_against_kernels_one_by_one():
    graphs = recording([Graph(5000), Wait(), Host(300)])
    kernels = recording([*(Kernel(f"k{number}", 500, "gemm") for number in range(16)), Wait(), Host(300)])
    assert_named(explained(graphs, kernels), "CUDA graphs", 3.0)
    assert_named(explained(kernels, graphs), "CUDA graphs", -3.0)


def test_graphs_that_take_longer():
    said = explained(recording([Graph(5000), Wait(), Host(300)]), recording([Graph(7000), Wait(), Host(300)]))
    assert_named(said, "CUDA graphs", 2.0)


def test_graphs_that_take_as_long_are_no_cause():
    said = explained(recording([Graph(5000), Wait(), Host(300)]), recording([Graph(5040), Wait(), Host(310)]))
    assert causes(said) == {}


def test_a_graph_that_takes_as_long_as_its_kernels_is_no_cause():
    graphs = recording([Graph(8000), Wait(), Host(300)])
    kernels = recording([*(Kernel(f"k{number}", 500, "gemm") for number in range(16)), Wait(), Host(300)])
    assert causes(explained(graphs, kernels)) == {}
