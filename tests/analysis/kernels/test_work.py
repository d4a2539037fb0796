"""Operations and bytes of kernels: every formula with numbers by hand."""

import json

import pandas as pd
import pytest

from kernelscope.analysis.kernels import work
from kernelscope.analysis.kernels.work.descriptions import KernelColumns, of_description
from kernelscope.analysis.kernels.work.operators import of_operator
from kernelscope.analysis.trace import Trace, conform

EMPTY = dict.fromkeys(
    ("kind", "library", "name", "operator", "phase", "problem", "dtype", "algorithm", "m", "n", "k", "transpose")
)


def described(**columns):
    found = of_description(KernelColumns(**{**EMPTY, "library": "onednn", "dtype": "f32", **columns}))
    return found.flops, found.bytes


def test_products():
    assert described(kind="gemm", library="mkl", m=120, n=64, k=400, problem="m120 n64 k400") == (
        2 * 120 * 64 * 400, 4 * (120 * 400 + 400 * 64 + 120 * 64),
    )  # fmt: skip
    # eight products of 16x32 by 32x24
    assert described(kind="gemm", problem="8x16x32:8x32x24", m=16, n=24, k=32, dtype="bf16") == (
        8 * 2 * 16 * 24 * 32, 2 * 8 * (16 * 32 + 32 * 24 + 16 * 24),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "flops"),
    [
        ("8x4x96x32:8x4x32x96:8x4x96x96", 2 * 32 * 96 * 32 * 96),
        ("8x4x96x96:8x4x96x32:8x4x96x32", 2 * 32 * 96 * 96 * 32),
        ("8x4x96x32:8x4x96x96:8x4x32x96", 2 * 32 * 96 * 32 * 96),  # the first one transposed
        ("3x5:5x7:3x7", 2 * 3 * 5 * 7),
        ("3x5:5x7:3x8", None),  # no product
    ],
)
def test_products_of_tensors_with_several_batch_dimensions(problem, flops):
    assert described(kind="gemm", library="eigen", problem=problem)[0] == flops


@pytest.mark.parametrize("kind", ["convolution forward", "convolution data gradient", "convolution weight gradient"])
def test_convolutions(kind):
    # LeNet's second: 6 to 16 channels, 5x5, 14x14 to 10x10, 64 samples
    flops = 2 * 64 * 16 * 10 * 10 * 6 * 5 * 5
    moved = 4 * (64 * 6 * 14 * 14 + 16 * 6 * 5 * 5 + 64 * 16 * 10 * 10)
    problem = "mb64_ic6oc16_ih14oh10kh5sh1dh0ph0_iw14ow10kw5sw1dw0pw0"
    assert described(kind=kind, problem=problem) == (flops, moved)


def test_grouped_convolution():
    assert described(kind="convolution forward", problem="mb2_g4ic8oc12_ih6oh4kh3sh1dh0ph0_iw6ow4kw3sw1dw0pw0") == (
        2 * 2 * 12 * 4 * 4 * 2 * 9, 4 * (2 * 8 * 36 + 12 * 2 * 9 + 2 * 12 * 16),
    )  # fmt: skip


def test_recurrent():
    weights = 4 * 128 * (128 + 28)
    moved = 4 * (weights + 28 * 64 * (28 + 128))
    layer = {"kind": "recurrent", "problem": "l1t28mb64sic128slc28dhc128dic128", "algorithm": "vanilla_lstm, reference"}
    assert described(**layer, phase="forward") == (2 * 28 * 64 * weights, moved)
    assert described(**layer, phase="backward") == (4 * 28 * 64 * weights, 2 * moved)
    assert described(**{**layer, "algorithm": "some new cell"}) == (None, None)


def test_what_only_moves():
    assert described(kind="layout", problem="64x6x28x28") == (None, 2 * 4 * 64 * 6 * 28 * 28)
    assert described(kind="cast", problem="10x10", dtype="f32 to bf16") == (None, 100 * (4 + 2))
    assert described(kind="pooling", problem="mb64ic16_ih10oh5kh2sh2dh0ph0_iw10ow5kw2sw2dw0pw0") == (
        None, 4 * 64 * 16 * (100 + 25),
    )  # fmt: skip
    tanh = {"kind": "activation", "library": "aten"}
    assert described(**tanh, operator="aten::tanh", problem="64x120") == (None, 4 * 2 * 64 * 120)
    assert described(**tanh, operator="aten::tanh_backward", problem="64x120:64x120") == (None, 4 * 3 * 64 * 120)
    copy = {"kind": "copy", "library": "aten", "operator": "aten::copy_"}
    assert described(**copy, problem="5x5:5x5") == (None, 4 * 2 * 25)  # the target comes first, and is not read
    assert described(kind="copy", library="aten", operator="aten::zero_", problem="5x5") == (None, 4 * 25)


def test_vectors():
    assert described(kind="optimizer", library="mkl", name="saxpy", problem="n48000 fc1.W") == (96000, 4 * 3 * 48000)
    assert described(kind="optimizer", library="mkl", name="sscal", problem="n10") == (10, 4 * 2 * 10)


@pytest.mark.parametrize("text", ["", "x", "mb64", "99999999999999999999x2", "1x2:", "64x10:64", "mb_ic_", "\x1b[31m"])
def test_odd_problems_tell_nothing_or_something_finite(text):
    for kind in ("gemm", "convolution forward", "pooling", "recurrent", "softmax", "unknown"):
        for value in described(kind=kind, problem=text, operator="aten::x"):
            assert value is None or value >= 0


def operator(name, kind, shapes, types=None, strides=None, arguments=None, seen=()):
    texts = ["" if value is None else json.dumps(value) for value in (shapes, types, strides, arguments)]
    return of_operator(name, kind, *texts, "f32", seen)


def test_products_of_operators():
    found = operator("aten::addmm", "gemm", [[640], [888, 2880], [2880, 640], [], []],
                     ["c10::BFloat16"] * 3 + ["Scalar"] * 2, [[1], [2880, 1], [1, 2880], [], []])  # fmt: skip
    assert (found.m, found.n, found.k, found.transpose) == (888, 640, 2880, "NT")
    assert found.flops == 2 * 888 * 640 * 2880
    assert found.bytes == 2 * (888 * 2880 + 2880 * 640 + 888 * 640)
    batched = operator("aten::bmm", "gemm", [[12, 8, 64], [12, 64, 8]], ["float", "float"])
    assert (batched.flops, batched.bytes) == (12 * 2 * 8 * 8 * 64, 12 * 4 * (8 * 64 + 64 * 8 + 8 * 8))
    assert batched.transpose is None


def test_convolutions_of_operators():
    # 224 by 16 with stride 16: 14
    shapes = [[128, 3, 224, 224], [768, 3, 16, 16], [], [], [], [], [], [], []]
    arguments = ["", "", "[0, 0]", "[16, 16]", "[1, 1]", "1", "False", "False", "True"]
    found = operator("aten::cudnn_convolution", "convolution forward", shapes, ["c10::BFloat16"] * 2, arguments=arguments)
    assert found.flops == 2 * 128 * 768 * 14 * 14 * 3 * 16 * 16
    assert found.bytes == 2 * (128 * 3 * 224**2 + 768 * 3 * 256 + 128 * 768 * 14 * 14)
    both = operator("aten::convolution_backward", "convolution weight gradient", [[2, 8, 4, 4], [2, 3, 6, 6], [8, 3, 3, 3]])
    assert both.flops == 2 * 2 * 8 * 16 * 27


def test_convolutions_without_arguments_are_told_by_their_gradients():
    x, weights, y = (32, 64, 56, 56), (64, 64, 3, 3), (32, 64, 56, 56)
    arguments = {"shapes": [list(x), list(weights)], "seen": [(x, weights, y)]}
    assert operator("aten::cudnn_convolution", "convolution forward", **arguments).flops == 2 * 32 * 64 * 56**2 * 64 * 9
    unlike = [(x, weights, y), (x, weights, (32, 64, 28, 28))]  # two strides: nothing tells which
    assert operator("aten::cudnn_convolution", "convolution forward", [list(x), list(weights)], seen=unlike).flops is None


def test_attention():
    shapes = [[2, 12, 128, 64], [2, 12, 256, 64], [2, 12, 256, 64]]
    found = operator("aten::_scaled_dot_product_flash_attention", "attention", shapes)
    assert found.flops == 2 * 2 * 12 * 128 * 256 * (64 + 64)
    turned = [[2, 128, 12, 64], [2, 256, 12, 64], [2, 256, 12, 64]]
    assert operator("aten::_flash_attention_forward", "attention", turned).flops == found.flops
    backward = operator("aten::_scaled_dot_product_flash_attention_backward", "attention", [[2, 12, 128, 64], *shapes])
    assert backward.flops == 2 * 2 * 12 * 128 * 256 * 5 * 64


def test_several_kernels_of_one_operator_share_its_work():
    operators = conform("operators", pd.DataFrame({
        "thread": [1], "start_ns": [0], "end_ns": [100], "name": ["aten::mm"],
        "shapes": ["[[3, 5], [5, 7]]"], "types": ['["float", "float"]'],
    }))  # fmt: skip
    kernels = conform("kernels", pd.DataFrame({
        "duration_ns": [20, 10, 40], "count": 1, "kind": ["gemm", "gemm", "copy"], "name": ["product", "splitKreduce", "memcpy"],
        "launch_ns": [10, 20, 30], "launch_thread": 1, "dtype": "f32",
    }))  # fmt: skip
    found = work.of_kernels(Trace(operators=operators, kernels=kernels))
    assert list(found["flops"].fillna(-1)) == [140, 70, -1]  # 210 together, by duration
    assert found["bytes"].sum() == 4 * (15 + 35 + 21)
    assert (found["m"].iloc[0], found["n"].iloc[0], found["k"].iloc[0]) == (3, 7, 5)
    assert found["source"].iloc[0] == "shapes of aten::mm"


def test_forward_pooling_is_told_by_its_gradient():
    kernels = conform("kernels", pd.DataFrame({
        "duration_ns": [1, 1], "count": [1, 2], "kind": "pooling", "library": "aten", "dtype": "f32",
        "name": ["aten::avg_pool2d_backward", "aten::avg_pool2d"], "problem": ["2x3x4x4:2x3x8x8", "2x3x8x8"],
    }))  # fmt: skip
    found = work.of_kernels(Trace(kernels=kernels))
    assert list(found["bytes"]) == [4 * (96 + 384), 2 * 4 * (96 + 384)]
    assert list(found["problem"]) == ["2x3x4x4:2x3x8x8", "2x3x8x8"]
