"""Which implementation of oneDNN, or algorithm of a convolution, each side uses, and how to get the other's."""

import pytest

import kernelscope as ks

LINE = "onednn_verbose,v1,primitive,exec,cpu,{what},,,{problem},{ms}\n"
MATMUL = "matmul,{code},undef,src:{type}:a:blocked:ab::f0 wei:{type}:a:blocked:{layout}::f0 dst:{type}:a:blocked:ab::f0"
CONVOLUTION = (
    "mkldnn_verbose,exec,convolution,{code},forward_training,fsrc:nchw fwei:OIhw16i16o fbia:x fdst:nChw16c,alg:{alg},"
    "mb64_g1ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1,{ms}\n"
)


def matmul(path, code, dtype, ms, times=1, layout="ab"):
    what = MATMUL.format(code=code, type=dtype, layout=layout)
    path.write_text("onednn_verbose,v1,info,oneDNN v3.7.0\n" + LINE.format(what=what, problem="64x2048:2048x1024", ms=ms) * times)
    return path


def convolution(path, code, ms, algorithm):
    path.write_text(CONVOLUTION.format(code=code, alg=algorithm, ms=ms))
    return path


def only(a, b):
    (finding,) = ks.explain(a, b)["findings"]
    return finding


def test_two_types_of_16_bits_are_no_mixed_precision(tmp_path):
    a = matmul(tmp_path / "a.log", "brg_matmul:avx512_core_fp16", "f16", 0.9)
    b = matmul(tmp_path / "b.log", "brg_matmul:avx10_1_512_amx", "bf16", 0.3)
    for one in (only(a, b), only(b, a)):
        assert one["cause"] == "products by other kernels"
        assert "mixed precision" not in one["title"]
        assert one["confidence"] == "medium"
        assert any("of as many bits each" in sentence for sentence in one["evidence"])
    assert only(a, b)["remedy"].startswith("in A: bf16, as in B: for it oneDNN uses AMX")


def test_fewer_bits_still_are(tmp_path):
    a, b = matmul(tmp_path / "a.log", "brg:avx512_core", "f32", 0.9), matmul(tmp_path / "b.log", "brg:avx512_bf16", "bf16", 0.3)
    assert only(a, b)["title"].startswith("mixed precision: A computes in f32, B in bf16")


def test_the_fallback_is_named_with_the_implementation_that_the_other_side_has(tmp_path):
    a, b = matmul(tmp_path / "a.log", "gemm:jit:f32", "f32", 0.7), matmul(tmp_path / "b.log", "brg:sve_512", "f32", 0.05)
    one = only(a, b)
    assert "by another implementation (gemm:jit:f32 in A, brg:sve_512 in B): 700 µs in A, 50.0 µs in B" in one["title"]
    assert one["remedy"].startswith("in A, gemm:jit:f32 is oneDNN's fallback; get brg:sve_512, as in B")
    assert "multiples of 8" not in one["remedy"]
    assert any(sentence.startswith("Each side executed it once") for sentence in one["evidence"])


def test_repeated_executions_are_not_called_cold(tmp_path):
    a, b = (
        matmul(tmp_path / "a.log", "gemm:jit:f32", "f32", 0.7, 40),
        matmul(tmp_path / "b.log", "brg:sve_512", "f32", 0.05, 40),
    )
    assert not any(sentence.startswith("Each side executed it once") for sentence in only(a, b)["evidence"])


@pytest.mark.parametrize("turned", [False, True])
def test_direct_against_winograd_convolution(tmp_path, turned):
    a = convolution(tmp_path / "a.log", "jit:avx512_common", 88.0, "convolution_direct")
    b = convolution(tmp_path / "b.log", "jit_wino_4x3:avx512_core", 33.0, "convolution_winograd")
    one = only(b, a) if turned else only(a, b)
    ways = "Winograd in A, direct in B" if turned else "direct in A, Winograd in B"
    assert one["title"].startswith(f"convolutions by another algorithm ({ways})")
    slower = "B" if turned else "A"
    assert one["remedy"].startswith(f"in {slower}: convolution_winograd")


def test_one_algorithm_in_two_implementations_is_not_another_algorithm(tmp_path):
    a = convolution(tmp_path / "a.log", "jit:avx2", 88.0, "convolution_direct")
    one = only(a, convolution(tmp_path / "b.log", "jit:avx512_common", 33.0, "convolution_direct"))
    assert "another algorithm" not in one["title"]
    assert "another implementation (jit:avx2 in A, jit:avx512_common in B)" in one["title"]
