"""Advice on products of matrices in a kernel that a program brings along, and on kernels that only look like one."""

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.rules import products
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform
from tests.analysis.advise.test_totals import summary

BATCHED = "batched_matrix_multiplication(unsigned int, float const*, float const*, float*)"
OTHER = ("add(float*)", "elementwise", "f32", 1, 10.0)


def found(name, *others, kind="gemm", dtype="f32", ms=90.0):
    result = summary([(name, kind, dtype, 2, ms), *others])
    return [one for one in result["advice"] if one["topic"] == products.TOPIC]


@pytest.mark.parametrize(
    "name",
    [BATCHED, "matmul_naive(float*, float*)", "matmul_naive", "sgemm_naive(int, float const*)", "mm_kernel(float*, float*)",
     "void MatrixMulCUDA<32>(float*, float*, float*, int)", "batched_matrix_multiplication(float*) [clone .kd]"],
)  # fmt: skip
def test_a_product_by_hand(name):
    """45 ms each; in half of that 45e9 multiply-adds at 2 TFLOP/s: 2,823 rows, cubed 22.5e9; half of 90 ms."""
    (one,) = found(name, OTHER)
    assert (one["saves_ns"], one["at_most"]) == (45_000_000, True)
    assert "cuBLAS" in one["remedy"]
    assert "square matrices of 2,800 rows" in one["evidence"][1]


@pytest.mark.parametrize(
    "name",
    [
        "matmul_kernel",  # as Triton names one
        "volta_sgemm_128x64_nn",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)",
        "void mine::matmul<float>(float*)",
        "sgemm_32x32x32_NN(float*)",
        "void gemm_q4k(int, float*)",
        "wmma_gemm(half*)",
        "mat_mul_vec(float*)",
        "sgemm_warptiling(float*)",
    ],
)
def test_kernels_of_libraries_and_other_products(name):
    assert not found(name, OTHER)


def test_a_product_that_takes_a_small_part():
    assert not found(BATCHED, OTHER, ms=9.0)


def test_several_products_by_hand_are_told_together():
    """Half of 60 + 30 ms; launched twice each, as versions of one product are."""
    (one,) = found("gemm_plain(float*, float*)", ("void gemm_tiled<16>(float*, float*)", "gemm", "f32", 2, 30.0), ms=60.0)
    assert one["title"] == "gemm_plain and gemm_tiled multiply matrices, and are kernels of no known library"
    assert (one["saves_ns"], one["at_most"]) == (45_000_000, True)
    assert one["evidence"][1].startswith("If both compute the same product, gemm_tiled takes 50% of the time of gemm_plain")


@pytest.mark.parametrize(("count", "ms"), [(3, 30.0), (2, 55.0)])
def test_products_that_differ_in_number_or_take_as_long_are_not_compared(count, ms):
    (one,) = found("gemm_plain(float*, float*)", ("void gemm_tiled<16>(float*, float*)", "gemm", "f32", count, ms), ms=60.0)
    assert len(one["evidence"]) == 1


@pytest.mark.parametrize(("library", "told"), [(None, True), ("cublas", False)])
def test_a_program_that_calls_a_library_besides(library, told):
    """It compares both, perhaps, or knows what it does."""
    rows = [
        {"name": BATCHED, "kind": "gemm", "dtype": "f32", "count": 2, "duration_ns": 90_000_000, "device": "cuda:0"},
        {"name": "gemm_small", "kind": "gemm", "count": 1, "duration_ns": 5_000_000, "device": "cuda:0", "library": library},
    ]
    result = advice.of_subject(of_trace(Trace(kernels=conform("kernels", rows)), "made-up"))
    assert (products.TOPIC in [one["topic"] for one in result["advice"]]) is told


def test_sizes_are_told_for_float32_alone():
    (one,) = found(BATCHED, OTHER, dtype="f16")
    assert len(one["evidence"]) == 1
