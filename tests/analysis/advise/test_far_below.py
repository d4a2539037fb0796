"""Advice on products far below the roofline, on made-up totals of an A100: 312 TFLOP/s in f16, 19.5 in f32, 2,039 GB/s."""

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.rules import roofline
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform

A100 = {"device": "cuda:0", "name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0", "multiprocessors": 108}
PRODUCT = {
    "name": "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "kind": "gemm", "library": "cublas", "dtype": "f16",
    "count": 1, "duration_ns": 10_000_000, "m": 4096, "n": 4096, "k": 4096, "grid": "1024,1,1",
}  # fmt: skip
SINGLE = {"name": "ampere_sgemm_128x64_tn", "dtype": "f32"}


def advised(*kernels, device=A100):
    table = conform("kernels", [{"device": "cuda:0", **one} for one in kernels])
    return advice.of_subject(of_trace(Trace(kernels=table, info={"devices": [device]}), "made-up"))["advice"]


def found(*kernels, device=A100):
    return [one for one in advised(*kernels, device=device) if one["topic"] == roofline.TOPIC]


def test_arithmetic_is_the_bound():
    """2 * 4096^3 in 10 ms are 13.74 TFLOP/s, 4.405% of 312: at half of them it takes 0.881 ms."""
    (one,) = found(PRODUCT)
    assert one["title"].endswith("reaches 4% of what the device allows")
    assert one["saves_ns"] == pytest.approx(10e6 - 2 * 2 * 4096**3 / 312e12 * 1e9, abs=1)
    assert one["at_most"]
    assert "runs at 13.7 TFLOP/s; the device's arithmetic allows 312." in one["evidence"][1]
    assert not any("likely reason" in said for said in one["evidence"])


def test_memory_is_the_bound_of_a_narrow_product():
    """2 * 4096 * 16 * 4096 operations on 2 * (4096 * 16 * 2 + 4096 * 4096) bytes: 15.88 of each, 32.4 TFLOP/s at 2,039 GB/s."""
    narrow = {**PRODUCT, "n": 16, "count": 50}
    (one,) = found(narrow)  # 0.2 ms each, 2.68 TFLOP/s
    assert "runs at 2.68 TFLOP/s; the device's memory allows 32.4." in one["evidence"][1]
    assert "A likely reason: of its sizes 4096 x 16 x 4096, 16 is less than a tile of 64." in one["evidence"]


def test_odd_sizes():
    (one,) = found({**PRODUCT, "n": 4095})
    assert "A likely reason: of its sizes 4096 x 4095 x 4096, not all are multiples of 8." in one["evidence"]


@pytest.mark.parametrize(
    "changes",
    [
        {"duration_ns": 800_000},
        {"n": 16, "count": 250},
        {**SINGLE, "duration_ns": 20_000_000},
        {"m": None, "n": None, "k": None},
        {"count": 5_000, "m": 64, "n": 64, "k": 64},
        {"kind": "elementwise"},
    ],
    ids=["tuned", "memory's bound is reached", "float32 without tensor cores", "unknown problem", "short", "no product"],
)
def test_what_is_not_far_below(changes):
    """0.8 ms are 55% of 312; 40 us at 32.4 TFLOP/s allow 16.6 us; 6.9 TFLOP/s are 35% of 19.5 without tensor cores."""
    assert found({**PRODUCT, **changes}) == []


@pytest.mark.parametrize("device", [{"device": "cuda:0"}, {"device": "cuda:0", "name": "A device of nobody"}])
def test_an_unknown_device(device):
    assert found(PRODUCT, device=device) == []


def test_other_advice_on_the_same_rows_comes_first():
    """Kernels that load an element at a time are told by their alignment."""
    aligned = {**PRODUCT, "name": "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x128_nn_align1>(T1::Params)"}
    topics = [one["topic"] for one in advised(aligned)]
    assert "alignment" in topics
    assert roofline.TOPIC not in topics


def test_a_small_part_of_the_step():
    other = {**PRODUCT, "name": "full(float*)", "kind": "elementwise", "duration_ns": 300_000_000, "m": None}
    assert found(PRODUCT, other) == []
