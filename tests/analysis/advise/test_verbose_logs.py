"""Advice on verbose logs of oneDNN and MKL: slow first executions, fallback code, and conversions of data and weights."""

from pathlib import Path

import pytest

import kernelscope as ks

CONV = "cpu,convolution,{},forward_inference,src_f32::blocked:{}:f0 wei_f32::blocked:{}:f0 dst_f32::blocked:{}:f0,,{},{}"
SIZE = "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3"
JIT = CONV.format("jit:avx512_common", "abcd", "Acdb16a", "aBcd16b", "alg:convolution_direct", SIZE)
REORDER = "cpu,reorder,{},undef,src_f32::blocked:{}:f0 dst_f32::blocked:{}:f0,,,{}"
SGEMM = "MKL_VERBOSE SGEMM(N,N,{0},{0},{0},0x1,0x2,{0},0x3,{0},0x4,0x5,{0}) {1} CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2"


def dnnl(*executed: tuple[str, float]) -> str:
    return "".join(f"dnnl_verbose,exec,{body},{ms}\n" for body, ms in executed)


def old(*executed: tuple[str, float]) -> str:
    return "".join(f"mkldnn_verbose,exec,{body},{ms}\n" for body, ms in executed)


@pytest.fixture
def advised(tmp_path: Path):
    def run(text):
        path = tmp_path / "verbose.log"
        path.write_text(text)
        return ks.advise(path)

    return run


def of_first(result):
    return [note for note in result["notes"] if note.startswith("the first execution of")]


# First executions


def test_a_first_execution_is_compared_with_later_ones(advised):
    result = advised(dnnl((JIT, 0.988), (JIT, 0.152), (JIT, 0.128)))
    (note,) = of_first(result)
    assert note.startswith(
        f"the first execution of convolution jit:avx512_common ({SIZE}) takes 7.1 times as long as the 2 later"
    )
    assert "(988 µs; those: 140 µs on average): creation or warm-up" in note  # (152 + 128) / 2
    assert "execute everything once before the part that you measure" in note
    assert note.endswith("without that, the 1.27 ms would be 420 µs")  # 3 * 140


@pytest.mark.parametrize(
    "executed",
    [
        [(JIT, 0.988), (JIT, 0.152)],  # one later execution may itself be unusual
        [(JIT, 0.988), (JIT, 0.152), (JIT, 0.6)],  # times vary
        [(JIT, 0.152), (JIT, 0.988), (JIT, 0.128)],  # a later one is long
        [(JIT, 0.988), (JIT, 0.152), (JIT, 0.128), (JIT.replace("mb1_", "mb9_"), 50.0)],  # little of all
    ],
)
def test_other_differences_are_no_slow_first_execution(advised, executed):
    assert not of_first(advised(dnnl(*executed)))


def test_a_tiny_reorder_that_takes_long_holds_initialisation(advised):
    tiny = REORDER.format("simple:any", "a", "a", "64")
    result = advised(dnnl((tiny, 23.4939), (JIT, 1.76587)))
    (note,) = of_first(result)
    assert note.startswith(
        "the first execution of the recording, reorder simple:any (64), takes 23.5 ms, far too long for its size"
    )
    assert note.endswith("without that, the 25.3 ms would be 1.77 ms")


@pytest.mark.parametrize(
    "executed",
    [
        [(REORDER.format("simple:any", "a", "b", "64"), 0.9)],  # short
        [(REORDER.format("simple:any", "a", "b", "64"), 4.4), (JIT, 9670.0)],  # of no weight beside the rest
        [(REORDER.format("simple:any", "ab", "ba", "1000x1000"), 9.0)],  # 8 MB in 9 ms
        [(JIT, 1.7), (REORDER.format("simple:any", "a", "b", "64"), 23.0)],  # not the first of all
        [(CONV.format("ref:any", "abcd", "abcd", "abcd", "alg:convolution_direct", "mb1_ic8oc8_ih9oh9kh3_iw9ow9kw3"), 30.0)],
        [("cpu,pooling,ref:any,forward_inference,src_f32::blocked:ab:f0 dst_f32::blocked:ab:f0,,alg:pooling_max,mb1ic4", 5.0)],
    ],
)
def test_a_single_execution_may_be_slow(advised, executed):
    assert not of_first(advised(dnnl(*executed)))


@pytest.mark.parametrize(("size", "took", "said"), [(64, "2.91ms", 1), (64, "29.1us", 0), (500, "2.91ms", 0)])
def test_a_small_first_call_of_mkl(advised, size, took, said):
    """2 * 64**3 operations in 2.91 ms are 0.18 GFLOP/s; 2 * 500**3 are 86."""
    notes = of_first(advised(SGEMM.format(size, took) + "\n"))
    assert len(notes) == said
    assert all("SGEMM (m64 n64 k64), takes 2.91 ms, far too long" in note for note in notes)


def test_later_calls_of_mkl(advised):
    text = "\n".join(SGEMM.format(500, took) for took in ("9.00ms", "1.50ms", "1.00ms")) + "\n"
    (note,) = of_first(advised(text))
    assert "takes 7.2 times as long as the 2 later ones (9.00 ms; those: 1.25 ms on average)" in note


# Fallback code


PLAIN = "convolution,{},forward_training,fsrc:nchw fwei:oihw fbia:undef fdst:nchw,alg:convolution_direct,{}"
ONE = "mb48_ic48oc192_ih32oh32kh1sh1dh0ph0_iw32ow32kw1sw1dw0pw0"


def fallbacks(result):
    return [one for one in result["advice"] if one["topic"] == "fallback code"]


def test_convolutions_by_products_on_plain_tensors(advised):
    (one,) = fallbacks(advised(old((PLAIN.format("gemm:blas", ONE), 7.195), (PLAIN.format("gemm:blas", ONE), 6.805))))
    assert one["title"] == "oneDNN computes convolutions as matrix products, on tensors in a plain layout"
    assert (one["saves_ns"], one["at_most"]) == (14_000_000, True)
    assert "format::any in MKL-DNN 0.x" in one["remedy"]
    # 2 * 48 * 48 * 192 * 32 * 32 operations each: 1.812 G in 14 ms
    assert one["evidence"][1] == "They compute 129 GFLOP/s."


def test_reference_code(advised):
    body = CONV.format("ref:any", "abcd", "abcd", "abcd", "alg:convolution_direct", SIZE)
    (one,) = fallbacks(advised(dnnl((body, 90.0), (JIT, 10.0))))
    assert one["title"] == "oneDNN computes with its reference code, which is slow"
    assert one["saves_ns"] == 90_000_000


@pytest.mark.parametrize(
    "text",
    [
        old((PLAIN.format("jit:avx2", ONE), 7.2)),
        old((PLAIN.format("gemm:blas", ONE).replace("nchw", "nChw16c"), 7.2)),
        old((PLAIN.format("gemm:blas", ONE), 0.5), (PLAIN.format("jit:avx2", ONE), 9.5)),  # little of all
        dnnl((CONV.format("gemm:acl", "acdb", "acdb", "acdb", "alg:convolution_direct", SIZE), 7.0)),
        dnnl((CONV.format("gemm:acl", "abcd", "abcd", "abcd", "alg:convolution_direct", SIZE), 7.0)),
        dnnl((REORDER.format("ref:any", "ab", "ba", "1000x1000"), 9.0)),
    ],
)
def test_other_code_is_no_fallback(advised, text):
    assert not fallbacks(advised(text))


# Conversions whose layouts' names tell what lies in them


BLOCKED = "convolution,jit:avx512_common,forward_training,fsrc:nchw fwei:Ohwi16o fbia:x fdst:nChw16c,alg:convolution_direct,{}"
CONVERTED = "reorder,jit:uni,undef,in:f32_{} out:f32_{},num:1,{}"


@pytest.mark.parametrize(
    ("layouts", "saves"),
    [
        ((("oihw", "Ohwi16o"), ("nChw16c", "nchw")), 4_830_000),
        ((("oihw", "Ohwi16o"), ("oihw", "OIhw16i16o")), None),  # nothing of it is data
        ((("goihw", "gOIhw8i8o"), ("tnc", "ntc")), 4_830_000),
        ((("abcd", "aBcd16b"), ("nChw16c", "nchw")), 1_753_333),  # one is unknown: a third of 5.26 ms
    ],
)
def test_conversions_of_data_are_told_from_those_of_weights(advised, layouts, saves):
    of_weights, of_data = (CONVERTED.format(*ends, "64x3x11x11") for ends in layouts)
    result = advised(old((BLOCKED.format(SIZE), 15.6), (of_weights, 0.43), (of_data, 4.83)))
    found = [one for one in result["advice"] if one["topic"] == "layout"]
    assert [one["saves_ns"] for one in found] == ([] if saves is None else [pytest.approx(saves, abs=1)])
    if saves == 4_830_000:
        assert "Of data: 4.83 ms; of weights: 430 µs." in found[0]["evidence"]
        assert found[0]["estimate"].startswith("the conversions of data, by the names of the layouts")
