"""Primitives of oneDNN that do activations on their own results against primitives of their own for these."""

import pytest

import kernelscope as ks
from kernelscope.analysis.recordings import captures

MATMUL = (
    "onednn_verbose,exec,cpu,matmul,gemm:jit:f32,undef,src_f32::blocked:abc::f0 wei_f32::blocked:abc::f0 "
    "dst_f32::blocked:abc::f0,{attributes},,1x12800x128:1x128x64,{ms}"
)
RELU = (
    "onednn_verbose,exec,cpu,eltwise,jit:avx2,forward_inference,data_f32::blocked:abc::f0 diff_undef::undef:::,,"
    "alg:eltwise_relu alpha:0 beta:0,1x12800x64,{ms}"
)


def log(path, *lines):
    path.write_text("\n".join(["onednn_verbose,info,oneDNN v3.2.0 (commit 2a3fbc8)", *lines]) + "\n")
    return path


def matmul(ms, attributes=""):
    return MATMUL.format(attributes=attributes, ms=ms)


@pytest.mark.parametrize(
    ("attributes", "post_ops"),
    [
        ("attr-post-ops:eltwise_relu:1.2 ", {"eltwise_relu": 1}),  # 3.2
        ("attr-scratchpad:user attr-post-ops:sum+eltwise_tanh", {"sum": 1, "eltwise_tanh": 1}),  # 3.7
        ("attr-post-ops:binary_add:f32:5+eltwise_gelu_erf", {"binary_add": 1, "eltwise_gelu_erf": 1}),
        ("oscale:0;post_ops:'sum:1;eltwise_relu;';", {"sum": 1, "eltwise_relu": 1}),  # 1.x
        ("attr-scratchpad:user", None),
    ],
)
def test_what_a_primitive_does_besides_is_read(tmp_path, attributes, post_ops):
    trace = captures.read(log(tmp_path / "a.log", matmul(1.5, attributes)))
    assert trace.info.get("post_ops") == post_ops
    assert trace.kernels["name"].tolist() == ["matmul gemm:jit:f32"]


def test_activations_within_products_are_fusion(tmp_path):
    fused = log(
        tmp_path / "fused.log", matmul(18.0, "attr-post-ops:eltwise_relu:1.2 "), matmul(1.0, "attr-post-ops:eltwise_relu ")
    )
    apart = log(tmp_path / "apart.log", matmul(18.0), RELU.format(ms=13.0), matmul(1.0), RELU.format(ms=25.0))
    for a, b, ms in ((fused, apart, 38.0), (apart, fused, -38.0)):
        (cause,) = ks.explain(a, b)["findings"]
        assert (cause["cause"], cause["confidence"]) == ("fusion", "high")
        assert cause["explains_ns"] == pytest.approx(1e6 * ms)
        assert "eltwise_relu" in cause["title"]


@pytest.mark.parametrize("attributes", ["", "attr-post-ops:eltwise_relu "])
def test_equally_many_of_them_are_no_fusion(tmp_path, attributes):
    """One side has more activations apart, but the other does not do them within its products."""
    fewer = log(tmp_path / "fewer.log", matmul(18.0, attributes), RELU.format(ms=13.0))
    more = log(tmp_path / "more.log", matmul(18.0, attributes), RELU.format(ms=13.0), RELU.format(ms=13.0))
    assert [one["cause"] for one in ks.explain(fewer, more)["findings"]] != ["fusion"]


def test_more_activations_than_post_ops_are_other_work(tmp_path):
    fused = log(tmp_path / "fused.log", matmul(18.0, "attr-post-ops:eltwise_relu "))
    more = log(tmp_path / "more.log", matmul(18.0), *[RELU.format(ms=13.0)] * 5)
    assert "fusion" not in [one["cause"] for one in ks.explain(fused, more)["findings"]]
