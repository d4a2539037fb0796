"""Layers that compute another function, and layers that only one side has."""

import pytest

from kernelscope.analysis.explain.causes import attention, other_work, work
from kernelscope.analysis.explain.model import Layer, Match


def small(make_kernel, operator, ns, count=1.0, **keys):
    return make_kernel(operator, "activation", ns, count, operator=operator, library="aten", **keys)


@pytest.fixture
def k(make_kernel):
    return lambda *arguments, **keys: small(make_kernel, *arguments, **keys)


def test_another_activation_in_the_place_of_one(k, make_kernels_case, suspected, swapped):
    made = make_kernels_case(
        [
            ("act", "forward", [k("aten::relu_", 100)], [k("aten::gelu", 400)], 10, 12),
            ("act", "backward", [k("aten::threshold_backward", 100)], [k("aten::gelu_backward", 500)], 10, 12),
        ]
    )
    (found,) = suspected(other_work, made)
    assert found.cause == "another function"
    assert found.title == "B computes aten::gelu in act, A aten::relu"
    assert sum(found.claims.values()) == 300 + 400 + 2 + 2
    (mirrored,) = suspected(other_work, swapped(made))
    assert sum(mirrored.claims.values()) == -704


def test_beside_products_only_the_function_itself_counts(k, make_kernel, make_kernels_case, suspected):
    product = {"operator": "aten::addmm", "m": 64, "n": 64, "k": 64}
    a = [make_kernel("SGEMM", "gemm", 300, **product), k("aten::relu", 50)]
    b = [make_kernel("SGEMM", "gemm", 320, **product), k("aten::gelu", 250)]
    (found,) = suspected(other_work, make_kernels_case([("fc", "forward", a, b, 10, 30)]))
    assert found.claims == {"r2": 200}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([("aten::relu", 1.0)], [("aten::relu_", 1.0)]),  # in place
        ([("aten::relu", 1.0)], [("aten::relu", 1.0)]),
        ([("aten::native_batch_norm", 1.0)], [("aten::mul", 4.0), ("aten::sub", 3.0)]),  # a chain has a rule of its own
        ([("aten::relu", 1.0)], [("aten::relu", 1.0), ("aten::dropout", 1.0)]),  # nothing was replaced
    ],
)
def test_the_same_function_is_no_other(k, make_kernels_case, suspected, a, b):
    mine, other = ([k(name, 100 * place, count) for name, count in side] for place, side in enumerate((a, b), start=1))
    assert suspected(other_work, make_kernels_case([("act", "forward", mine, other)])) == []


def test_frameworks_name_one_function_differently(k, make_kernels_case, make_side, suspected):
    made = make_kernels_case([("act", "forward", [k("aten::relu", 100)], [k("Relu", 400)])], b=make_side("B", "tensorflow"))
    assert suspected(other_work, made) == []


def test_a_layer_that_only_one_side_has(k, make_kernels_case, suspected):
    common = [("conv1", "forward", [k("aten::relu", 100)], [k("aten::relu", 100)]), ("conv2", "forward", [], [])]
    made = make_kernels_case([*common, ("extra", "forward", [], [k("aten::tanh", 700)], 0, 50)])
    made.matches[-1] = Match((), ("extra",), 0.0, "missing")
    made.a.layers[:] = made.a.layers[:-1]
    made.b.layers[-1] = Layer("extra", 9, type="tanh")
    (found,) = suspected(other_work, made)
    assert (found.cause, sum(found.claims.values())) == ("other layers", 750)
    assert found.title == "B has extra (tanh), which A lacks"
    made.matches[:] = [Match((), (name,), 0.0, "missing") for name in ("conv1", "conv2", "extra")]
    made.a.layers[:] = [Layer("stem", 0)]
    assert suspected(other_work, made) == [], "where most is not matched, it is the matching that failed"


def test_layers_behind_one_that_is_gone_compute_on_another_size(make_kernel, make_kernels_case, suspected):
    def convolution(ns):
        return [make_kernel("_MklConv2D", "convolution forward", ns, operator="_MklConv2D")]

    pool = [make_kernel("_MklMaxPool", "pooling", 120, operator="_MklMaxPool")]
    before = ("conv1", "forward", convolution(300), convolution(460))
    behind = ("conv3", "forward", convolution(380), convolution(1020))
    alike = ("conv4", "forward", convolution(300), convolution(310))
    made = make_kernels_case([before, ("pool2", "forward", pool, []), behind, alike])
    made.matches[1] = Match(("pool2",), (), 0.0, "missing")
    made.a.layers[:] = [Layer(name, order) for order, name in enumerate(("conv1", "pool2", "conv3", "conv4"))]
    made.b.layers[:] = [Layer(name, order) for order, name in enumerate(("conv1", "conv3", "conv4"))]
    (found,) = suspected(other_work, made)
    assert found.title == "B lacks pool2, which A has: conv3 behind it then work on another size"
    assert sum(found.claims.values()) == 640 - 120, "what comes before it, and what takes as long, is not its doing"
    made = make_kernels_case([("pool2", "forward", [], pool), ("conv3", "forward", convolution(1020), convolution(380)), alike])
    made.matches[0] = Match((), ("pool2",), 0.0, "missing")
    made.a.layers[:] = [Layer("conv3", 0), Layer("conv4", 1)]
    made.b.layers[:] = [Layer(name, order) for order, name in enumerate(("pool2", "conv3", "conv4"))]
    (mirrored,) = suspected(other_work, made)
    assert mirrored.title == "A lacks pool2, which B has: conv3 behind it then work on another size"
    assert sum(mirrored.claims.values()) == 120 - 640
    known = [[{**kernel, "problem": "same"} for kernel in side] for side in (convolution(380), convolution(1020))]
    made = make_kernels_case([before, ("pool2", "forward", pool, []), ("conv3", "forward", *known), alike])
    made.matches[1] = Match(("pool2",), (), 0.0, "missing")
    made.b.layers[:] = [layer for layer in made.b.layers if layer.name != "pool2"]
    assert not any("behind" in one.title for one in suspected(other_work, made)), "of one size by what was recorded"


def test_twelve_heads_are_twelve_products(make_kernel, make_kernels_case, suspected):
    whole = {"operator": "aten::mm", "m": 64, "n": 64, "k": 768, "problem": "64x768:768x64"}
    heads = {"operator": "aten::bmm", "m": 64, "n": 64, "k": 64, "problem": "12x64x64:12x64x64"}
    one, many = [make_kernel("SGEMM", "gemm", 300, **whole)], [make_kernel("SGEMM", "gemm", 700, **heads)]
    found = suspected(work, make_kernels_case([("attention", "forward", one, many)]))
    assert "more work" not in [one.cause for one in found]
    twice = [make_kernel("SGEMM", "gemm", 1500, 2.0, **heads)]
    (found,) = [
        one for one in suspected(work, make_kernels_case([("attention", "forward", many, twice)])) if one.cause == "more work"
    ]
    assert "(12.6 MFLOP)" in found.evidence[0]


def test_a_wider_convolution_is_more_work(make_kernel, make_kernels_case, suspected):
    def convolution(channels, ns):
        problem = f"mb8_ic16oc{channels}_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1"
        return make_kernel("jit", "convolution forward", ns, library="onednn", problem=problem, dtype="f32")

    made = make_kernels_case([("conv1", "forward", [convolution(16, 100)], [convolution(32, 210)])])
    found = [one for one in suspected(work, made) if one.cause == "more work"]
    assert len(found) == 1
    assert "(75.5 MFLOP)" in found[0].evidence[0]
    assert "(37.7 MFLOP)" in found[0].evidence[1]


def test_another_call_of_a_module_is_no_other_layer(k, make_kernels_case, suspected):
    rows = [(name, "forward", [k("aten::tanh", 100)], [k("aten::tanh", 100)]) for name in ("cell", "fc", "out")]
    made = make_kernels_case([*rows, ("cell (2)", "forward", [], [k("aten::tanh", 700)])])
    made.matches[-1] = Match((), ("cell (2)",), 0.0, "missing")
    made.a.layers[:] = made.a.layers[:-1]
    assert suspected(other_work, made) == []


def test_a_fused_operator_that_runs_products_is_fused_attention(k, make_kernel, make_kernels_case, suspected):
    fused = [make_kernel("SGEMM", "gemm", 100, 360.0, operator="aten::_scaled_dot_product_flash_attention_for_cpu")]
    parts = [product(make_kernel, 300, 24.0, 8), k("aten::div", 60, 24.0), k("aten::exp", 60, 12.0)]
    [found] = suspected(attention, make_kernels_case([("attn", "forward", fused, parts, 10, 50)]))
    assert sum(found.claims.values()) == 360


def product(make_kernel, ns, count, m):
    return make_kernel("SGEMM", "gemm", ns, count, operator="aten::mm", library="mkl", m=m, n=64, k=64)


def test_a_batch_in_pieces(make_kernel, make_kernels_case, suspected):
    whole, pieces = product(make_kernel, 100, 1.0, 48), product(make_kernel, 240, 12.0, 4)
    rows = [(name, "forward", [whole], [pieces], 5, 40) for name in ("fc1", "fc2")]
    [found] = suspected(other_work, make_kernels_case([*rows, ("(in the program)", "other", [], [], 10, 30)]))
    assert found.cause == "smaller batches"
    assert sum(found.claims.values()) == 2 * (140 + 35) + 20
    assert "12 times as many" in found.title
    one = [("fc1", "forward", [whole], [pieces]), *((f"fc{n}", "forward", [whole], [whole]) for n in (2, 3, 4))]
    assert suspected(other_work, make_kernels_case(one)) == [], "one layer is no batch"
    more = product(make_kernel, 240, 12.0, 48)
    assert suspected(other_work, make_kernels_case([("fc1", "forward", [whole], [more])])) == [], "twelve times the work"


def test_more_kernels_of_another_type_are_no_batch_in_pieces(make_kernel, make_kernels_case, suspected):
    """In double precision PyTorch's convolutions are a product for each sample."""
    whole, pieces = product(make_kernel, 100, 1.0, 48), product(make_kernel, 240, 12.0, 4)
    rows = [(name, "forward", [{**whole, "dtype": "f32"}], [{**pieces, "dtype": "f64"}]) for name in ("fc1", "fc2")]
    assert [one.cause for one in suspected(other_work, make_kernels_case(rows))] == []


def test_a_layer_that_loops_over_its_samples_hides_no_batch_in_pieces(make_kernel, make_kernels_case, suspected):
    whole, pieces = product(make_kernel, 100, 1.0, 16), product(make_kernel, 180, 4.0, 4)
    heads = product(make_kernel, 900, 256.0, 8)
    rows = [*((name, "forward", [whole], [pieces]) for name in ("fc1", "fc2")), ("attention", "forward", [heads], [heads])]
    [found] = suspected(other_work, make_kernels_case(rows))
    assert found.cause == "smaller batches"


def test_everything_of_a_layer_once_more_is_more_work(k, make_kernel, make_kernels_case, suspected):
    rows = [("fc", "backward", [product(make_kernel, 100, 2.0, 8), k("aten::tanh_backward", 20)],
             [product(make_kernel, 210, 4.0, 8), k("aten::tanh_backward", 41, 2.0), k("aten::add_", 9)], 10, 19)]  # fmt: skip
    [found] = [one for one in suspected(work, make_kernels_case(rows)) if one.cause == "more work"]
    assert sum(found.claims.values()) == 110 + 21 + 9 + 9


def test_attention_in_parts(k, make_kernel, make_kernels_case, suspected, swapped):
    fused = [make_kernel("aten::flash", "attention", 100, operator="aten::flash")]
    parts = [product(make_kernel, 100, 8.0, 8), make_kernel("aten::_softmax", "softmax", 90, 4.0), k("aten::mul", 30, 4.0)]
    made = make_kernels_case([("attn", "forward", fused, parts, 10, 50)])
    [found] = suspected(attention, made)
    assert (found.cause, sum(found.claims.values())) == ("attention in parts", 160)
    assert [one.cause for one in suspected(attention, swapped(made))] == ["attention in parts"]
    assert suspected(attention, make_kernels_case([("attn", "forward", parts, parts)])) == []
    assert suspected(attention, make_kernels_case([("attn", "forward", fused, fused)])) == []
