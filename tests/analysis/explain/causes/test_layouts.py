"""Layout conversions, memory formats and copies."""

import pytest

from kernelscope.analysis.explain.causes import layouts


@pytest.fixture
def between_copies(make_kernel, make_kernels_case):
    k = make_kernel
    plain = [
        k("convolution jit", "convolution forward", 600, layout="src abcd, wei Acdb16a, dst aBcd16b"),
        k("reorder jit:uni", "layout", 300),
    ]
    copied = [k("convolution brg", "convolution forward", 700, layout="src acdb, wei Acdb16a, dst acdb"),
              k("aten::copy_", "copy", 900, 2.0, operator="aten::copy_")]  # fmt: skip
    relu = [k("aten::relu", "activation", 100)]
    return make_kernels_case([("conv1", "forward", plain, copied, 50, 130), ("relu1", "forward", relu, relu, 5, 6)])


def test_convolutions_channels_last_between_copies_own_their_layers(between_copies, suspected, swapped):
    (found,) = suspected(layouts, between_copies)
    assert found.cause == "layout conversions"
    assert found.title == (
        "B computes the convolutions of conv1 channels last, with conversions and copies around them; A channels first"
    )
    assert found.claims == {"r1": 100, "r2": -300, "r3": 900, "r4": 80}
    assert found.evidence[0] == "B: 2 conversions and copies per step, 900 ns; A: 1 conversions and copies per step, 300 ns"
    assert "convolutions read acdb" in found.evidence[1]
    (mirrored,) = suspected(layouts, swapped(between_copies))
    assert mirrored.title == found.title
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}


def test_a_recorded_memory_format_that_alone_differs_owns_everything(make_kernel, make_kernels_case, make_side, suspected):
    sides = [make_side(n, settings={"memory_format": f"channels {f}"}) for n, f in (("A", "last"), ("B", "first"))]
    a, b = ([make_kernel("conv", "convolution forward", ns, layout=f"src {s}")] for ns, s in ((500, "acdb"), (900, "abcd")))
    relu = [make_kernel("relu", "activation", 100)]
    made = make_kernels_case([("conv1", "forward", a, b), ("relu1", "forward", relu, [{**relu[0], "time_ns": 120}])], *sides)
    (found,) = suspected(layouts, made)
    assert (found.precedence, found.claims) == (0, {"r1": 400, "r2": 20})
    assert "memory_format: channels last for A, channels first for B" in found.evidence


def test_between_frameworks_the_conversions_themselves_are_claimed(make_kernel, make_kernels_case, make_side, suspected, swapped):
    k = make_kernel
    a = [k("convolution jit:avx512_core", "convolution forward", 600), k("reorder jit:uni", "layout", 300, 2.0)]
    b = [k("convolution jit:avx512_common", "convolution forward", 400)]
    for library in (a, b):
        for one in library:
            one["library"] = "onednn"
    made = make_kernels_case([("conv1", "forward", a, b, 50, 10)], b=make_side("B", "mxnet"))
    (found,) = suspected(layouts, made)
    assert found.title == "A converts the layout of data in conv1"
    assert found.claims == {"r2": -300}
    (mirrored,) = suspected(layouts, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {"r2": 300})


def test_copies_that_one_side_makes_own_what_the_layer_takes_longer(make_kernel, make_kernels_case, suspected, swapped):
    k = make_kernel
    relu = k("aten::relu", "activation", 100)
    clone = k("aten::copy_", "copy", 400, 2.0, operator="aten::copy_")
    made = make_kernels_case([("relu1", "forward", [relu], [{**relu, "time_ns": 130}, clone], 20, 70)])
    (found,) = suspected(layouts, made)
    assert found.cause == "extra copies"
    assert found.title == "B makes copies in relu1 that A does not make"
    assert found.claims == {"r1": 30, "r2": 400, "r3": 50}
    assert ".clone()" in found.remedy
    (mirrored,) = suspected(layouts, swapped(made))
    assert (mirrored.title, mirrored.claims) == (found.title, {"r1": -30, "r2": -400, "r3": -50})


def test_tensors_that_are_joined_in_each_step_are_told_how_to_be_joined_once(make_kernel, make_kernels_case, suspected):
    joined = make_kernel("aten::cat", "copy", 400, operator="aten::cat")
    (found,) = suspected(layouts, make_kernels_case([("(in the program)", "other", [], [joined], 20, 70)]))
    assert (found.cause, ".clone()" in found.remedy) == ("extra copies", False)
    assert "collect them in a list" in found.remedy


def test_copies_are_blamed_for_themselves_only_where_other_kernels_differ_too(make_kernel, make_kernels_case, suspected):
    a = [make_kernel("aten::relu", "activation", 100)]
    b = [make_kernel("aten::leaky_relu", "activation", 500), make_kernel("aten::copy_", "copy", 40)]
    (found,) = suspected(layouts, make_kernels_case([("relu1", "forward", a, b, 20, 70)]))
    assert found.claims == {"r2": 40}


def test_copies_and_conversions_that_both_sides_make_are_no_cause(make_kernel, make_kernels_case, suspected):
    for kind in ("copy", "layout"):
        a, b = ([make_kernel("reorder", kind, ns)] for ns in (100, 900))
        assert suspected(layouts, make_kernels_case([("relu1", "forward", a, b, 20, 70)])) == []
