"""Remedies that depend on what the recording shows beside the finding: sizes of messages, dimensions, other devices, vLLM, ..."""

from dataclasses import replace

import pandas as pd
import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis import advise as advising
from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from tests.analysis.advise.test_rules import TUNED
from tests.analysis.explain.device.synthetic import COPIES, NETWORK, Copy, Host, Kernel, Wait, recording
from tests.places import corpus

REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
SMALL = [item for _ in range(100) for item in (Kernel("elementwise", 5, "reduction", dtype="bf16"), Host(20))]


def of(trace):
    result = advice.of_subject(of_trace(trace, "made-up"))
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    return result


def first(trace, topic):
    return next((one for one in of(trace)["advice"] if one["topic"] == topic), None)


def titles(trace):
    return [one["title"] for one in of(trace)["advice"]]


# --- communication ----------------------------------------------------------------------------------------------------


def exchanging(us, elements, dtype, number=1, name=REDUCE, more=()):
    """Return steps of training that compute, and then exchange messages of so many elements each."""
    reduce = Kernel(name, us, "communication", dtype=dtype, stream=NETWORK)
    backward = replace(TUNED[0], phase="backward")
    trace = recording([*TUNED, backward, *more, Wait(), *[reduce] * number, Wait()])
    talks = trace.kernels["kind"] == "communication"
    sizes = pd.Series(elements, index=range(number)) if isinstance(elements, int) else pd.Series(elements)
    told = sizes.astype(str) + ":" + sizes.astype(str) + " on 8 ranks"
    problem = trace.kernels["problem"].astype("object")
    problem[talks] = list(told) * (int(talks.sum()) // number)
    return replace(trace, kernels=trace.kernels.assign(problem=problem.astype("category")))


def test_messages_far_below_any_link_are_no_matter_of_bytes():
    """5e6 elements of 2 bytes in 8 ms: 1.25 GB/s. At 5 GB/s it takes 2 ms; what computes hides all of it."""
    one = first(exchanging(8000, 5_000_000, "bf16"), "communication")
    assert "1.2 GB/s" in one["title"]
    assert "They exchange 10.0 MB a step, large messages at 1.2 GB/s." in one["evidence"]
    assert "kernelscope ranks" in one["remedy"]
    assert "half" not in one["remedy"] + one["estimate"]


def test_messages_at_the_rate_of_a_link_are_only_told_with_it():
    """100e6 elements of 4 bytes in 4 ms: 100 GB/s."""
    one = first(exchanging(4000, 100_000_000, "f32"), "communication")
    assert one["title"] == "communication between devices is not hidden behind computation"
    assert "They exchange 400 MB a step, large messages at 100.0 GB/s." in one["evidence"]
    assert "half precision" in one["remedy"]


def test_messages_of_16_bits_are_not_to_be_halved():
    one = first(exchanging(4000, 100_000_000, "bf16"), "communication")
    assert "16-bit numbers already" in one["estimate"]
    assert "half precision" not in one["remedy"]


def test_small_messages_have_no_rate():
    """100 elements of 4 bytes: their latency says nothing about a link."""
    one = first(exchanging(4000, 100, "f32"), "communication")
    assert one["title"] == "communication between devices is not hidden behind computation"
    assert "GB/s" not in " ".join(one["evidence"])


def test_an_all_reduce_for_each_parameter():
    sizes = [1000 * (1 + number % 40) for number in range(150)]
    one = first(exchanging(20, sizes, "f32", 150), "communication")
    assert one["title"] == "150 all-reduces in each step, most of them short: one for each parameter"
    assert "flatten" in one["remedy"]


def test_many_all_reduces_of_few_sizes_are_those_of_layers():
    assert "parameter" not in first(exchanging(20, 4000, "f32", 150), "communication")["title"]


def test_many_all_reduces_beside_buckets_of_the_framework():
    buckets = [Host(1, operator="DistributedDataParallel.forward")]
    sizes = [1000 * (1 + number % 40) for number in range(150)]
    assert "parameter" not in first(exchanging(20, sizes, "f32", 150, more=buckets), "communication")["title"]


def test_few_all_reduces_are_buckets():
    sizes = [1000 * (1 + number) for number in range(20)]
    assert "parameter" not in first(exchanging(20, sizes, "f32", 20), "communication")["title"]


def test_notify_waits_of_an_npu_are_no_transfer():
    """The file's own tasks: of 85.5 ms in four collectives, copies between devices cover 4.23 ms."""
    name = "Ascend__msinsight__test_data_pytorch_text_level0_rank0_ascend_pt_ASCEND_PROFILER_OUTPUT_trace_view.json"
    [one] = [one for one in advising.advise(corpus(f"more/{name}"))["advice"] if one["topic"] == "communication"]
    assert one["title"] == "devices wait for other ranks: most of their communication is no transfer"
    assert "No data moves in 95% of that time." in one["evidence"][0]
    assert "half" not in one["remedy"]


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_a_library_that_converts_around_each_convolution():
    """Sums of the log's lines by awk: 1,080 and 1,110 conversions there and back in 396.043 and 286.794 ms, and 45 from a padded
    one in 2.954 ms, of 9,669.8 ms.
    """
    result = advising.advise(corpus("onednn/Sauravrp67__UniYOLO__dnnl.log"))
    [one] = [one for one in result["advice"] if one["topic"] == "layout"]
    assert one["title"] == "tensors change their layout around each convolution, and back"
    assert one["saves_ns"] / 1e6 == pytest.approx(396.043 + 286.794 + 2.954, abs=0.1)
    assert "1,125 convolutions compute in aBcd8b: 1,125 conversions from it to abcd, and 1,110 back" in " ".join(one["evidence"])
    assert "blocked layout between operators" in one["remedy"]


def convolving(name, problem=None):
    layout = Kernel("nchwToNhwcKernel", 1000, "layout", dtype="f16")
    trace = recording([Kernel(name, 2000, "convolution forward", dtype="f16"), layout] * 4)
    return replace(trace, kernels=trace.kernels.assign(problem=pd.Categorical([problem] * len(trace.kernels))))


@pytest.mark.parametrize(
    ("name", "problem", "remedy"),
    [
        ("void cudnn::cnn::convolveNd_sgemm<float, 3, 512>", None, "channels_last_3d"),
        ("xmma_fprop", "2x16x8x64x64:32x16x3x3x3", "channels_last_3d"),
        ("xmma_fprop", "2x16x64x64:32x16x3x3", "channels_last)"),
        ("implicit_convolve_sgemm", None, "channels_last)"),
        ("void implicit_convolveNd_sgemm<float, (int)2, (int)1024>", None, "channels_last)"),
    ],
)
def test_convolutions_of_three_dimensions(name, problem, remedy):
    assert remedy in first(convolving(name, problem), "layout")["remedy"]


def test_transposes_without_convolutions_have_no_link_to_channels_last():
    found = first(recording([*TUNED, Kernel("transpose_kernel", 2000, "layout", dtype="bf16")]), "layout")
    assert "channels_last" not in found["remedy"]
    assert found["link"].endswith("tensor_view.html")


def test_few_kernels_tell_how_many_dimensions_a_network_has():
    """xmma kernels do not tell; the others, cuDNN's convolveNd, have three."""
    result = advising.advise(corpus("pairs/n21-dali-amp/b.sqlite"))
    assert "channels_last_3d" in next(one["remedy"] for one in result["advice"] if one["topic"] == "layout")
    [half] = [one for one in result["advice"] if "16-bit types do not use tensor cores" in one["title"]]
    assert "channels_last_3d" in half["remedy"]


def test_half_convolutions_without_tensor_cores():
    """4 x 2 ms; an A100's 19.5 TFLOP/s in float32 are 6% of its 312 in float16, so at most three quarters are saved."""
    slow = "void cudnn::cnn::convolveNd_dgrad_float_engine<__half, 3, 512, 6, 5, 3, 3, 3, false>"
    one = first(convolving(slow), "tensor cores")
    assert one["title"] == "convolutions in 16-bit types do not use tensor cores"
    assert one["saves_ns"] == pytest.approx(4 * 2e6 * 0.75, rel=0.01)
    assert "channels_last_3d" in one["remedy"]
    assert first(recording(TUNED), "tensor cores") is None


# --- types ------------------------------------------------------------------------------------------------------------


def doubles(**info):
    return recording([Kernel("triad_kernel", 1000, dtype="f64"), Wait(), Host(200)] * 4, **info)


def test_numerical_programs_compute_in_float64_on_purpose():
    found = of(doubles(framework=None))["advice"]
    assert [one["topic"] for one in found] == ["synchronisation", "double precision"], "although it could save more"
    assert found[1]["at_most"]
    assert "only if the results allow" in found[1]["estimate"]


def test_double_precision_of_a_network_is_a_default():
    found = of(doubles())["advice"]
    assert found[0]["topic"] == "double precision"
    assert "only if the results allow" not in found[0]["estimate"]


def norm(cast):
    names = ("aten::pow", "aten::mean", "aten::rsqrt", "aten::mul")
    parts = [Kernel(f"elementwise_{name[6:]}", 50, "reduction", operator=name) for name in names]
    return [cast, *parts, cast]


def test_casts_around_a_norm():
    cast = Kernel("copy_bfloat16_to_float", 300, "cast", operator="aten::copy_")
    assert "rms_norm" in first(recording([*norm(cast), *TUNED]), "casts")["remedy"]


def test_casts_elsewhere_are_not_those_of_norms():
    cast = Kernel("copy_bfloat16_to_float", 1000, "cast", operator="aten::copy_")
    small = Kernel("copy_bfloat16_to_float", 3, "cast", operator="aten::copy_")
    assert "rms_norm" not in first(recording([*norm(small), *TUNED, cast, *TUNED]), "casts")["remedy"]


# --- copies -----------------------------------------------------------------------------------------------------------


def test_copies_on_a_stream_of_their_own_need_none():
    apart, same = (first(recording([Copy(3000, stream=stream), Wait(), *TUNED, Wait()]), "copies") for stream in (COPIES, 7))
    assert "copy the next batch on a separate stream" not in apart["remedy"]
    assert "fewer bytes" in apart["remedy"]
    assert apart["saves_ns"] == pytest.approx(3e6 / 2, rel=0.02)
    assert "copy the next batch on a separate stream" in same["remedy"]


def test_weights_that_each_step_copies_again():
    weights = [Copy(3000, bytes=size) for size in (67_108_864, 201_326_592) * 5]
    one = first(recording([*weights, *TUNED]), "copies")
    assert one["title"] == "large tensors are copied to the device again in each step"
    assert "Each step copies 10 tensors of 67.1 MB to 201 MB, 1.34 GB in all." in one["evidence"]
    assert one["saves_ns"] == pytest.approx(30e6, rel=0.02)


def test_large_batches_are_no_weights():
    batch = [Copy(3000, bytes=77_070_336), Copy(3000, bytes=77_070_336)]
    assert "again in each step" not in first(recording([*batch, *TUNED]), "copies")["title"]
    others = [[Copy(3000, bytes=60_000_000 + 1000 * step + number) for number in range(10)] for step in range(8)]
    assert "again in each step" not in first(recording(lambda step: [*others[step], *TUNED]), "copies")["title"]


def test_large_work_outside_of_the_steps():
    """Eight steps of 10 ms: a copy of 30 ms behind them is 27% of the device's work."""
    notes = of(recording(TUNED, after=[Wait(), Copy(30_000, "device to host", "device to pageable")]))["notes"]
    assert "outside of the steps, copies (device to host, device to pageable) take 30.0 ms, 27% of the device's work" in notes
    notes = of(recording(TUNED, before=[Kernel("first_call", 40_000), Wait()]))["notes"]
    assert "outside of the steps, one execution of first_call takes 40.0 ms, 33% of the device's work" in notes
    assert "outside of the steps" not in " ".join(of(recording(TUNED, before=[*TUNED[:3], Wait()]))["notes"])


# --- the host ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "says"), [("mtia:0", "the device's own backend"), ("rocm:0", "HIP graphs"), ("cuda:0", "CUDA graphs")]
)
def test_cuda_graphs_are_for_nvidia(device, says):
    trace = recording(SMALL)
    moved = {name: getattr(trace, name).assign(device=device).astype({"device": "category"}) for name in ("kernels", "copies")}
    elsewhere = replace(trace, **moved)
    remedy = first(elsewhere, "host-bound")["remedy"]
    assert says in remedy
    assert ("CUDA" in remedy) == (device == "cuda:0")


def test_vllm_has_an_option_for_graphs():
    served = [replace(item, operator="vllm::unified_attention") if isinstance(item, Kernel) else item for item in SMALL]
    remedy = first(recording(served), "host-bound")["remedy"]
    assert "enforce_eager" in remedy
    assert "fused optimizers" not in remedy
    assert "enforce_eager" not in first(recording(SMALL), "host-bound")["remedy"]


def test_gradients_of_lookups_are_no_parameters_one_by_one():
    def updated(name):
        kernels = [f"{name}_{number % 4}" for number in range(40)]
        update = [Kernel(kernel, 100, "optimizer", operator=name, phase="optimizer") for kernel in kernels]
        return first(recording([*TUNED, *update], framework="tensorflow"), "optimizer")

    assert updated("ResourceApplyAdam")["title"] == "the optimizer updates parameters one by one"
    assert updated("UnsortedSegmentSum") is None


# --- recordings without device work -----------------------------------------------------------------------------------


def test_logs_without_device_work_tell_what_they_hold():
    """Epochs of 12.9259, 12.2905 and 12.1425 s, as logged."""
    with pytest.raises(EvidenceError, match=r"epoch 1 12\.9 s, epoch 2 12\.3 s, epoch 3 12\.1 s \(`kernelscope breakdown"):
        advising.advise(corpus("cntk/yzhang87__CNTK__AlexNet_baseline.linux.release.gpu.txt"))
    with pytest.raises(EvidenceError, match=r"gpu_utilisation \d+% on average"):
        advising.advise(corpus("smi/Unshapendwarf__SlowFast__gpu_utilization.csv"))
