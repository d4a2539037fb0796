"""Kernels that are slow for what they compute, as totals show; and what only looks like it."""

import json
import re

import pytest

import kernelscope as ks
from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import UNLISTED, Trace, conform
from kernelscope.reports.advice import answer
from tests.analysis.advise.test_host_calls import KERNELS
from tests.analysis.advise.test_totals import pieces, summary
from tests.analysis.printed_totals import text_of

FORWARD, DATA, WEIGHT = "convolution forward", "convolution data gradient", "convolution weight gradient"
GROUPED = "void dgrad2d_grouped_direct_kernel<float, float, float, true, 0, 3>(cudnnTensorStruct)"
IMPLICIT = "volta_scudnn_128x64_relu_interior_nn_v1"
ALGORITHM = "convolution algorithm"
PLAIN = "attention is one plain kernel, of no known library, which takes a large part of the time"
UPDATE = "the update of the parameters takes a large part of the time"
POOLING = "pooling takes longer than any convolution"
SIZES = "mb1_ic32oc1_ih56oh56kh3sh1dh0ph1_iw96ow96kw3sw1dw0pw1"
ALLOCATED = "device memory is allocated again and again"


def topics(result):
    return [one["topic"] for one in result["advice"]]


def test_a_gradient_that_takes_many_times_its_forward():
    (found,) = summary([(GROUPED, DATA, "f32", 1000, 150.0), (IMPLICIT, FORWARD, "f32", 1000, 6.0)])["advice"]
    assert found["saves_ns"] == 144_000_000
    assert found["title"] == "the convolution data gradient takes 25 times as long as the forward of as many calls"
    assert "FLAGS_cudnn_exhaustive_search" in found["remedy"]


@pytest.mark.parametrize(
    "others",
    [
        [(IMPLICIT, FORWARD, "f32", 1000, 40.0)],  # a gradient may take a few times as long
        [(IMPLICIT, FORWARD, "f32", 700, 6.0)],  # not of the same convolutions
        [(IMPLICIT, FORWARD, "f32", 1000, 6.0), ("fprop", FORWARD, "f32", 1000, 6.0)],  # several of them
    ],
)
def test_gradients_that_cannot_be_compared(others):
    assert ALGORITHM not in topics(summary([("some_wgrad", WEIGHT, "f32", 1000, 150.0), *others]))


def test_grouped_convolutions_by_direct_kernels():
    (found,) = summary([(GROUPED, DATA, "f16", 8, 700.0), ("conv2d_grouped_direct_kernel", FORWARD, "f16", 8, 300.0)])["advice"]
    assert (found["topic"], found["saves_ns"]) == (ALGORITHM, 1_000_000_000)
    assert "grouped" not in found["title"], "convolutions of one group may run in these kernels, too"
    few = summary([(GROUPED, DATA, "f16", 8, 5.0), ("fprop", FORWARD, "f16", 99, 300.0)])
    assert ALGORITHM not in topics(few)


@pytest.mark.parametrize(
    ("name", "told"),
    [("attention_f16", True), ("naive_attn(float*)", True), ("flash_attention_f16", False), ("fmha_fwd", False),
     ("_attn_fwd", False), ("void vllm::paged_attention_v1_kernel<__half>", False), ("kernel_unified_attention_2d", False)],
)  # fmt: skip
def test_attention_by_one_plain_kernel(name, told):
    result = summary([(name, "attention", "f16", 32, 80.0), ("ampere_fp16_s1688gemm", "gemm", "f16", 200, 20.0)])
    assert (PLAIN in pieces(result)) is told


def test_an_update_that_takes_a_large_part():
    kernels = [("mxnet::op::MultiSGDKernel<half>", "optimizer", "f16", 1000, 5000.0), ("fprop", FORWARD, "f16", 1000, 5000.0)]
    found = pieces(summary(kernels))[UPDATE]
    assert found["saves_ns"] == 2_500_000_000
    assert "moves 1.50 GB, enough to update 250 million parameters of 2 bytes" in found["evidence"][1]
    assert "multi_precision" in found["remedy"]
    small = [(*kernels[0][:4], 1000.0), kernels[1]]
    assert UPDATE not in pieces(summary(small))
    assert UPDATE not in pieces(summary(kernels[:1])), "nothing is trained there: it measures the optimizer alone"


def test_rows_that_were_not_printed_are_a_part_of_their_own():
    result = summary([(UNLISTED, "unknown", None, 1, 60.0), ("mine", "gemm", "f32", 10, 30.0), ("other", "gemm", "f32", 1, 10.0)])
    assert result["parts"] == [
        {"what": "in rows that were not printed", "ns": 60_000_000}, {"what": "computing", "ns": 40_000_000},
    ]  # fmt: skip
    assert result["longest"] == {"name": "mine", "ns": 30_000_000}
    assert "computing 40% (most in mine, 30%)" in answer(result)


def operators(*rows):
    """Advice on MXNet's operators: (name, kind, count, ms)."""
    made = [
        {"name": name, "operator": name, "kind": kind, "count": count, "duration_ns": int(ms * 1e6)}
        for name, kind, count, ms in rows
    ]
    return advice.of_subject(of_trace(Trace(info={"framework": "mxnet"}, kernels=conform("kernels", made)), "made-up"))


def test_copies_of_many_arrays_on_the_device():
    result = operators(("_copyto_GPU2GPU", "copy", 3600, 140.0), ("sqrt", "elementwise", 6, 1.0), ("min", "reduction", 6, 1.0))
    assert result["parts"] == [{"what": "copying", "ns": 140_000_000}, {"what": "computing", "ns": 2_000_000}]
    assert result["longest"] is None
    (found,) = result["advice"]
    assert found["saves_ns"] == 140_000_000
    assert "600 for each of the 6 executions of most other operators" in found["evidence"][0]


def test_few_copies_on_the_device_and_operators_that_gather_are_no_such_copies():
    assert not operators(("_copyto_GPU2GPU", "copy", 6, 140.0), ("sqrt", "elementwise", 6, 1.0))["advice"]
    result = operators(("Concat", "copy", 3600, 140.0), ("sqrt", "elementwise", 6, 1.0))
    assert result["parts"] == [{"what": "computing", "ns": 141_000_000}]


def moved(ms, kind="host to device", hardware=None, megabytes=100.0):
    """Advice on totals with copies of pageable memory."""
    copies = {"operation": kind, "memory": "pageable", "count": 10, "duration_ns": int(ms * 1e6), "bytes": int(megabytes * 1e6)}
    return summary([("kernel", "gemm", "f32", 10, 0.1)], [copies], hardware)["advice"][0]


@pytest.mark.parametrize(
    ("hardware", "ms", "reaches"),
    [("GeForce GTX 108", 20.0, "12.5"), ("NVIDIA GeForce RTX 2080 Ti", 20.0, "12.6"), (None, 20.0, "12.5"), (None, 6.0, "25"),
     ("NVIDIA A30X", 20.0, "12.5"), ("NVIDIA RTX A4500", 10.0, "28.4")],
)  # fmt: skip
def test_pinned_memory_is_no_faster_than_the_link(hardware, ms, reaches):
    found = moved(ms, hardware=hardware)
    assert "pinned memory" in found["estimate"]
    assert re.search(rf"some {reaches} GB/s|80% of the 15.8 GB/s|90% of the 31.5 GB/s", found["estimate"])
    rate = 100e6 / ms * 1e3 / 1e9
    assert found["saves_ns"] <= ms * 1e6 * (1 - rate / (float(reaches) * 1.01)) + 0.2e6


@pytest.mark.parametrize("hardware", ["GeForce GTX 1080", "GeForce GTX 108", None])
def test_copies_that_are_as_fast_as_the_link_are_not_to_be_pinned(hardware):
    found = moved(8.2, hardware=hardware)  # 12.2 GB/s
    assert "pinned" not in found["estimate"]
    assert found["remedy"].startswith("send fewer bytes")


def test_results_that_are_fetched_in_each_step():
    found = summary(
        [("kernel", "gemm", "f32", 10, 1.0)], [{"operation": "device to host", "count": 1001, "duration_ns": 330_000_000}]
    )
    remedy = found["advice"][0]["remedy"]
    assert remedy.startswith("fetch fewer results")
    assert "keep data there" not in remedy


def test_allocations_that_go_with_loading(tmp_path):
    calls = [("cuMemAlloc", 450, 130.0), ("cuMemFree", 450, 40.0), ("cuMemcpyHtoD", 293, 1400.0)]
    path = tmp_path / "log.txt"
    path.write_text(text_of([("step(float*)", 193, 100.0)], calls))
    assert ALLOCATED not in pieces(ks.advise(path))
    path.write_text(text_of([("step(float*)", 150, 100.0)], [*calls[:2], ("cuMemcpyHtoD", 300, 1400.0)]))
    assert ALLOCATED in pieces(ks.advise(path)), "two uploads for each kernel: a loop"
    path.write_text(text_of(KERNELS, [*calls, ("cuMemcpyDtoH", 293, 10.0)]))
    assert ALLOCATED in pieces(ks.advise(path)), "results come back as often"


def onednn(tmp_path, *primitives):
    path = tmp_path / "onednn.log"
    lines = [f"onednn_verbose,exec,cpu,{one}" for one in primitives]
    path.write_text("\n".join(["onednn_verbose,info,oneDNN v3.2.0 (commit 2a3fbc8)", *lines]) + "\n")
    return ks.advise(path)


def reorder(of, to, size, ms):
    return f"reorder,jit:uni,undef,src_f32::blocked:{of}::f0 dst_f32::blocked:{to}::f0,,,{size},{ms}"


def convolution(ms):
    tensors = "src_f32:a:blocked:acdb::f0 wei_f32:a:blocked:Acdb8a::f0 dst_f32:a:blocked:acdb::f0"
    return f"convolution,brgconv:avx2,forward_inference,{tensors},,alg:convolution_direct,{SIZES},{ms}"


def test_conversions_that_are_undone_are_none_of_weights(tmp_path):
    many = [convolution(1.0)] * 4
    there, back = reorder("acdb", "abcd", "1x32x56x96", 0.5), reorder("abcd", "acdb", "1x32x56x96", 0.5)
    found = pieces(onednn(tmp_path, *many, there, back))["tensors are converted to another layout, and back"]
    assert found["saves_ns"] == 1_000_000
    other = pieces(onednn(tmp_path, *many, there, reorder("abcd", "acdb", "64x32x3x3", 0.5)))
    assert other["tensors change their layout in memory between layers"]["saves_ns"] == pytest.approx(333_333, abs=1)


def test_pooling_that_takes_longer_than_any_convolution(tmp_path):
    tensors = "src_f32::blocked:aBcd8b::f0 dst_f32::blocked:aBcd8b::f0"
    sizes = "mb1ic64_ih112oh56kh3sh2dh0ph1_iw112ow56kw3sw2dw0pw1"
    pool = f"pooling,jit:avx,forward_inference,{tensors},,alg:pooling_max,{sizes},"
    found = pieces(onednn(tmp_path, convolution(4.0), f"{pool}6.0"))[POOLING]
    assert found["saves_ns"] == 6_000_000
    assert POOLING not in pieces(onednn(tmp_path, convolution(4.0), f"{pool}3.0"))


def holes(tmp_path, gap_us):
    """Notes on a recording of operators on a processor, with a gap between two of them."""
    at = {"aten::addmm": 1000, "aten::ones_like": 1300, "NllLossBackward0": 1600 + gap_us, "aten::mm": 1900 + gap_us}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": 290, "args": {"External id": number}}
        for number, (name, start) in enumerate(at.items())
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    return [note for note in ks.advise(path)["notes"] if "nothing was recorded for" in note]


def test_a_hole_between_operators_is_told_with_what_is_around_it(tmp_path):
    (said,) = holes(tmp_path, 4990)
    assert said.startswith("nothing was recorded for 5.00 ms between the operators aten::ones_like and NllLossBackward0")
    assert not holes(tmp_path, 50)


def test_totals_of_a_processor_s_operators_are_called_so():
    kernel = [{"name": "aten::mm", "kind": "gemm", "count": 1, "duration_ns": 10**6, "device": "cpu"}]
    for framework, begin in (("pytorch", "Operators add up to 1.00 ms"), (None, "Kernels and copies add up to 1.00 ms")):
        trace = Trace(info={"framework": framework}, kernels=conform("kernels", kernel))
        assert answer(advice.of_subject(of_trace(trace, "made-up"))).startswith(begin)
