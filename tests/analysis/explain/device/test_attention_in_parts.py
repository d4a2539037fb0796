"""Attention in one fused kernel against a softmax that the program computes in parts, in totals and in timelines."""

import pytest

from tests.analysis.explain.device.synthetic import Kernel, assert_named, causes, recording
from tests.analysis.explain.device.synthetic import explained as of_timelines

FLASH = [("flash_fwd_kernel", 900, 800.0), ("triton_poi_fused_exp_mul_sub_unsqueeze_2", 900, 2100.0)]
AROUND = "void at::native::vectorized_elementwise_kernel<4, at::native::"
EXP = f"{AROUND}exp_kernel_cuda(int)>"
ADD = f"{AROUND}CUDAFunctor_add<float>>"
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, int>>"
PARTS = [
    (EXP, 880, 770.0), (f"{AROUND}neg_kernel_cuda(int)>", 1760, 1550.0), (f"{AROUND}where_kernel_impl(int)>", 880, 900.0),
    (REDUCE, 3520, 1490.0),
]  # fmt: skip
PRODUCTS = "cutlass_80_simt_sgemm_128x32_8x5_tn_align1"


def products(ms, count=4500):
    return PRODUCTS, count, ms


def test_attention_in_parts_is_one_cause_in_totals(explained):
    """1,550 + 900 + 770 + 1,490 ms in parts; 800 + 2,100 ms fused; sums over the scores: 1,140 and 20 ms."""
    a, b = [*FLASH, (ADD, 2400, 20.0), products(890.0)], [*PARTS, (ADD, 2450, 1140.0), products(890.0, 6300)]
    (found,) = [one for one in explained(a, b)["findings"] if one["cause"] == "attention algorithm"]
    assert (found["explains_ns"], found["confidence"]) == (2_930_000_000, "medium")
    assert found["title"] == "attention: A computes it in one fused (flash) kernel, B in parts: 2.92 s in A, 5.85 s in B"
    assert found["evidence"][0].startswith("B has exponentials (880 x) and reductions (3,520 x) of its own")
    assert found["remedy"].startswith("in B: torch.nn.functional.scaled_dot_product_attention")
    result = explained(b, a)
    assert "fusion" not in [one["cause"] for one in result["findings"]]
    assert sum(one["explains_ns"] for one in result["findings"]) + result["unexplained_ns"] == result["wall_delta_ns"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([*FLASH, products(890.0)], [("flash_fwd_kernel", 880, 900.0), *PARTS, products(890.0)]),  # both have it
        ([("triton_poi_fused_exp_mul_sub_0", 900, 2100.0), products(890.0)], [*PARTS, products(890.0)]),  # pointwise fusion
        ([*FLASH, products(890.0)], [*PARTS[1:], products(890.0)]),  # no exponentials
        ([*FLASH, products(890.0)], [*PARTS[:3], products(890.0)]),  # no reductions
        ([*FLASH, products(890.0)], [(EXP, 30, 7.0), *PARTS[1:], products(890.0)]),  # far fewer exponentials
    ],
    ids=["both fused", "pointwise", "no exponentials", "no reductions", "few exponentials"],
)
def test_other_small_kernels_are_no_attention_in_parts(explained, a, b):
    for sides in ((a, b), (b, a)):
        assert not any("in parts" in one["title"] for one in explained(*sides)["findings"])


def layers(attention):
    """Return a step of six layers."""
    return [Kernel("sgemm_qkv", 400, "gemm"), *attention, Kernel("sgemm_ff", 900, "gemm")] * 6


IN_PARTS = [
    Kernel("batched_sgemm_qk", 300, "gemm"), Kernel("where_kernel", 120), Kernel("row_max", 100, "reduction"),
    Kernel("at::native::exp_kernel_cuda", 150), Kernel("row_sum", 90, "reduction"), Kernel("batched_sgemm_pv", 250, "gemm"),
]  # fmt: skip


def test_attention_in_parts_in_timelines():
    """300 + 120 + 100 + 150 + 90 + 250 = 1,010 µs a layer against 200."""
    said = of_timelines(recording(layers(IN_PARTS)), recording(layers([Kernel("flash_fwd_kernel", 200, "attention")])))
    assert_named(said, "attention algorithm", 6 * (200 - 1010) / 1000)


def test_parts_against_other_parts_in_timelines():
    said = of_timelines(recording(layers(IN_PARTS)), recording(layers([Kernel("triton_fused_exp_sum", 400, "reduction")])))
    assert "attention algorithm" not in causes(said)
