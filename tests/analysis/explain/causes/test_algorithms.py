"""Convolution algorithms and the form of matrix products."""

import pytest

from kernelscope.analysis.explain.causes import algorithms

CUDNN = {
    "winograd": ("cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>", "winograd"),
    "gemm": ("implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, true, true>", "implicit gemm"),
}


def convolution(k, way, ns, library="cudnn", problem="n64c3h32w32k16"):
    name, algorithm = CUDNN[way]
    return [k(name, "convolution forward", ns, library=library, algorithm=algorithm, problem=problem)]


def test_winograd_against_implicit_gemm_of_cudnn(make_kernel, make_kernels_case, suspected, swapped):
    made = make_kernels_case(
        [("conv1", "forward", convolution(make_kernel, "winograd", 300), convolution(make_kernel, "gemm", 1000), 20, 25)]
    )
    (found,) = suspected(algorithms, made)
    assert found.title == "B computes the convolutions of conv1 by implicit gemm, A by winograd"
    assert found.claims == {"r1": 700, "r2": 5}
    assert found.evidence[0] == f"conv1 forward, B: 1 x {CUDNN['gemm'][0][:59]}…, 1.00 µs"
    assert "cudnn.benchmark" in found.remedy
    (mirrored,) = suspected(algorithms, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {"r1": -700, "r2": -5})


def test_recorded_autotuning_that_alone_differs_owns_everything(make_kernel, make_kernels_case, make_side, suspected):
    sides = [make_side(name, settings={"cudnn_benchmark": value}) for name, value in (("A", True), ("B", False))]
    made = make_kernels_case(
        [("conv1", "forward", convolution(make_kernel, "winograd", 300), convolution(make_kernel, "gemm", 1000)),
         ("(unattributed)", "forward", [], [], 10, 12)], *sides
    )  # fmt: skip
    (found,) = suspected(algorithms, made)
    assert (found.precedence, found.claims) == (0, {"r1": 700, "r2": 2})


def test_between_frameworks_each_convolution_is_blamed_on_the_side_where_it_is_slower(
    make_kernel, make_kernels_case, make_side, suspected
):
    k = make_kernel
    made = make_kernels_case(
        [("conv1", "forward", convolution(k, "winograd", 300), convolution(k, "gemm", 1000), 20, 25),
         ("conv2", "forward", convolution(k, "winograd", 500), convolution(k, "gemm", 400))],
        b=make_side("B", "mxnet"),
    )  # fmt: skip
    assert [(one.title, one.claims) for one in suspected(algorithms, made)] == [
        ("B computes the convolutions of conv1 by implicit gemm, A by winograd", {"r1": 700}),
        ("A computes the convolutions of conv2 by winograd, B by implicit gemm", {"r3": -100}),
    ]


def test_other_problems_libraries_and_the_same_kernels_are_no_algorithms(make_kernel, make_kernels_case, suspected):
    a = convolution(make_kernel, "winograd", 300)
    for b in (
        convolution(make_kernel, "gemm", 1000, problem="n64c3h64w64k16"),
        convolution(make_kernel, "gemm", 1000, library="onednn"),
        convolution(make_kernel, "winograd", 1000),
    ):
        assert suspected(algorithms, make_kernels_case([("conv1", "forward", a, b)])) == []


def product(k, ns, flags, m=64, n=100, inner=400, count=1.0, name="ampere_sgemm_128x64"):
    return k(f"{name}_{flags.lower()}", "gemm", ns, count, library="cublas", m=m, n=n, k=inner, transpose=flags)


def test_products_of_the_same_size_with_other_flags(make_kernel, make_kernels_case, suspected, swapped):
    made = make_kernels_case([("fc1", "forward", [product(make_kernel, 200, "NN")], [product(make_kernel, 900, "TT")], 5, 6)])
    (found,) = suspected(algorithms, made)
    assert (found.cause, found.claims) == ("transposition of products", {"r1": 700})
    assert "1 x ampere_sgemm_128x64_tt 64x100x400 TT, 900 ns" in found.evidence[0]
    (mirrored,) = suspected(algorithms, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {"r1": -700})


def test_a_product_and_its_transpose_are_the_same(make_kernel, make_kernels_case, suspected):
    a, b = [product(make_kernel, 200, "NT")], [product(make_kernel, 900, "TN", m=100, n=64)]
    assert suspected(algorithms, make_kernels_case([("fc1", "forward", a, b)])) == []


@pytest.mark.parametrize(("n", "count", "found"), [(25, 4.0, ["shapes of products"]), (25, 2.0, []), (100, 1.0, [])])
def test_the_same_work_in_other_shapes(n, count, found, make_kernel, make_kernels_case, suspected):
    a = [product(make_kernel, 200, "NN")]
    b = [product(make_kernel, 900, "NN", n=n, count=count)]
    assert [one.cause for one in suspected(algorithms, make_kernels_case([("fc1", "forward", a, b)]))] == found
