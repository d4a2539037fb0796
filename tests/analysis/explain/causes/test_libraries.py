"""Libraries switched off, slower ones, and older instruction sets."""

import pytest

from kernelscope.analysis.explain.causes import libraries


def groups(k):
    conv = [k("convolution jit:avx512_core", "convolution forward", 600, library="onednn", dtype="f32")]
    native = [
        k("SGEMM", "gemm", 2600, 64.0, library="mkl", dtype="f32"),
        k("aten::_slow_conv2d_forward", "copy", 700, library="aten"),
    ]
    relu = [k("aten::relu", "activation", 100, library="aten")]
    return [("conv1", "forward", conv, native, 50, 90), ("relu1", "forward", relu, relu, 5, 7)]


def test_a_recorded_switch_that_alone_differs_owns_everything(make_kernel, make_kernels_case, make_side, suspected, swapped):
    sides = [make_side(name, settings={"onednn": value}) for name, value in (("A", True), ("B", False))]
    made = make_kernels_case(groups(make_kernel), *sides)
    found = suspected(libraries, made)[0]
    assert (found.cause, found.precedence, found.confidence) == ("library switched off", 0, "high")
    assert found.title == "B runs conv1 without oneDNN, which makes it slower than A"
    assert found.claims == {"r1": -600, "r2": 2600, "r3": 700, "r4": 40, "r6": 2}
    assert found.evidence[0] == "onednn: True for A, False for B"
    assert "torch.backends.mkldnn" in found.remedy
    mirrored = suspected(libraries, swapped(made))[0]
    assert (mirrored.title, mirrored.claims) == (found.title, {row: -ns for row, ns in found.claims.items()})


def test_a_switch_by_environment_among_other_differences_owns_the_layers_that_changed(
    make_kernel, make_kernels_case, make_side, suspected
):
    sides = [make_side(name, "tensorflow", variables={"TF_ENABLE_ONEDNN_OPTS": value}, settings={"seed": value})
             for name, value in (("A", "1"), ("B", "0"))]  # fmt: skip
    found = suspected(libraries, make_kernels_case(groups(make_kernel), *sides))[0]
    assert (found.cause, found.claims) == ("library switched off", {"r1": -600, "r2": 2600, "r3": 700, "r4": 40})
    assert "TF_ENABLE_ONEDNN_OPTS=1" in found.remedy


def test_without_a_recorded_switch_another_library_is_slower(make_kernel, make_kernels_case, suspected, swapped):
    made = make_kernels_case(groups(make_kernel))
    (found,) = suspected(libraries, made)
    assert found.title == "B computes conv1 with mkl, slower here than onednn in A"
    assert found.claims == {"r1": -600, "r2": 2600, "r3": 700, "r4": 40}
    assert "64 x SGEMM (mkl), 3.30 µs" in found.evidence[0]
    (mirrored,) = suspected(libraries, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {row: -ns for row, ns in found.claims.items()})


def test_between_frameworks_each_library_is_blamed_for_the_layers_in_which_it_is_slower(
    make_kernel, make_kernels_case, make_side, suspected
):
    k = make_kernel
    made = make_kernels_case(
        [("fc1", "forward", [k("SGEMM", "gemm", 100, library="mkl")], [k("inner_product", "gemm", 400, library="onednn")], 9, 2),
         ("fc2", "forward", [k("SGEMM", "gemm", 300, library="mkl")], [k("inner_product", "gemm", 200, library="onednn")]),
         ("tanh1", "forward", [k("tanh", "activation", 30, library="aten")], [k("tanh", "activation", 80)])],
        b=make_side("B", "mxnet"),
    )  # fmt: skip
    found = suspected(libraries, made)
    assert [(one.title, one.claims) for one in found] == [
        ("B computes fc1 with onednn, slower here than mkl in A", {"r1": 300}),
        ("A computes fc2 with mkl, slower here than onednn in B", {"r3": -100}),
    ]


@pytest.mark.parametrize(
    ("old", "new"), [("jit:avx2", "jit:avx512_core"), ("jit:sse41", "jit:avx2"), ("brg:avx512_core", "brg:avx512_core_amx")]
)
def test_an_older_instruction_set_of_the_same_library(old, new, make_kernel, make_kernels_case, suspected, swapped):
    a, b = (
        [make_kernel(f"convolution {way}", "convolution forward", ns, library="onednn")] for way, ns in ((new, 300), (old, 700))
    )
    made = make_kernels_case([("conv1", "forward", a, b, 10, 15)])
    (found,) = suspected(libraries, made)
    assert (found.cause, found.claims) == ("older instruction set", {"r1": 400, "r2": 5})
    (mirrored,) = suspected(libraries, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {"r1": -400, "r2": -5})


def test_a_variable_that_bounds_instructions_is_named(make_kernel, make_kernels_case, make_side, suspected):
    sides = [make_side(name, variables=values) for name, values in (("A", {}), ("B", {"ONEDNN_MAX_CPU_ISA": "SSE41"}))]
    a, b = (
        [make_kernel(f"conv jit:{way}", "convolution forward", ns, library="onednn")]
        for way, ns in (("avx2", 300), ("sse41", 700))
    )
    (found,) = suspected(libraries, make_kernels_case([("conv1", "forward", a, b)], *sides))
    assert (found.precedence, found.claims) == (0, {"r1": 400})
    assert found.evidence[0] == "ONEDNN_MAX_CPU_ISA: (not set) for A, SSE41 for B"
    assert found.remedy == "do not set ONEDNN_MAX_CPU_ISA"


def test_the_same_library_and_an_unknown_one_are_no_cause(make_kernel, make_kernels_case, suspected):
    for pair in (("mkl", "mkl"), ("mkl", None), (None, None)):
        a, b = ([make_kernel("SGEMM", "gemm", ns, library=library)] for ns, library in zip((100, 900), pair, strict=True))
        assert suspected(libraries, make_kernels_case([("fc1", "forward", a, b)])) == []


def test_a_library_that_is_off_may_still_serve_another(make_kernel, make_kernels_case, make_side, suspected):
    sides = [make_side(name, "tensorflow", settings={"onednn": value}) for name, value in (("A", True), ("B", False))]
    conv = [make_kernel("convolution brg", "convolution forward", 600, library="onednn")]
    pool = [make_kernel("pooling jit", "pooling", 100, library="onednn")]
    eigen = [make_kernel("gemm_api", "gemm", 1400, 40.0, library="onednn")]
    native = [make_kernel("MaxPool", "pooling", 500, library="eigen")]
    made = make_kernels_case([("conv1", "forward", conv, eigen), ("pool1", "forward", pool, native)], *sides)
    (found,) = [one for one in suspected(libraries, made) if one.precedence == 0]
    assert found.title == "B runs conv1 and pool1 without oneDNN, which makes it slower than A"
    assert found.claims == {"r1": -600, "r2": 1400, "r3": 400}


def test_between_frameworks_the_one_without_onednn_is_told_how_to_get_it(
    make_kernel, make_kernels_case, make_side, suspected, swapped
):
    sides = [make_side(name, name, settings={"onednn": value}) for name, value in (("pytorch", True), ("tensorflow", False))]
    onednn = [make_kernel("convolution jit:avx2", "convolution forward", 600, library="onednn")]
    eigen = [make_kernel("gemm_api", "gemm", 1400, 40.0, library="onednn")]
    made = make_kernels_case([("conv1", "forward", onednn, eigen)], *sides)
    (found,) = suspected(libraries, made)
    assert found.title == "tensorflow runs conv1 without oneDNN, which makes it slower than pytorch"
    assert (found.precedence, found.confidence) == (1, "medium")
    assert found.evidence[0] == "onednn: True for pytorch, False for tensorflow"
    assert found.claims == {"r1": -600, "r2": 1400}
    assert "TF_ENABLE_ONEDNN_OPTS=1" in found.remedy
    (mirrored,) = suspected(libraries, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {row: -ns for row, ns in found.claims.items()})


def test_between_frameworks_nothing_is_said_of_a_switch_that_makes_faster_or_is_not_stated(
    make_kernel, make_kernels_case, make_side, suspected
):
    onednn = [make_kernel("convolution jit:avx2", "convolution forward", 1600, library="onednn")]
    eigen = [make_kernel("gemm_api", "gemm", 400, 40.0, library="onednn")]
    for theirs in (False, None, True):
        sides = (
            make_side("pytorch", "pytorch", settings={"onednn": True}),
            make_side("tensorflow", "tensorflow", settings={"onednn": theirs}),
        )
        assert suspected(libraries, make_kernels_case([("conv1", "forward", onednn, eigen)], *sides)) == []
