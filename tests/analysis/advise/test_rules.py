"""Rules of advice on made-up recordings of a GPU: each with what it finds, its ms, and what only looks like it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import conform
from kernelscope.reports.advice import answer, markdown
from tests.analysis.explain.device.synthetic import COMPUTE, COPIES, NETWORK, Copy, Host, Kernel, Wait, Within, recording

TUNED = [
    Kernel(f"ampere_bf16_s16816gemm_bf16_128x128_{number}", 1000, "gemm", dtype="bf16", operator="aten::mm", grid="512,1,1")
    for number in range(10)
]


def advised(*items, **options):
    trace = recording(items, **options)
    result = advice.of_subject(of_trace(trace, "made-up"))
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    return result


def topics(result):
    return {one["topic"]: one["saves_ns"] / 1e6 for one in result["advice"]}


def test_a_well_tuned_step_gets_no_advice():
    result = advised(Copy(3000, stream=COPIES), *TUNED)
    assert topics(result) == {}
    assert result["step_ns"] == pytest.approx(10e6, rel=0.02)


def test_waiting_for_the_loader():
    result = advised(Within("DataLoader.__next__", (Host(5000),)), *TUNED, Wait())
    assert topics(result)["input pipeline"] == pytest.approx(5, rel=0.05)
    assert result["advice"][0]["topic"] == "input pipeline"
    assert "num_workers" in result["advice"][0]["remedy"]
    assert result["parts"][1] == {"what": "waiting for input", "ns": pytest.approx(5e6, rel=0.05)}


def test_a_loader_that_keeps_up_is_no_topic():
    assert topics(advised(Within("DataLoader.__next__", (Host(5000),)), *TUNED, steps=40)) == {}  # but for the first batch


def test_blocking_reads_of_results():
    step = [*TUNED[:5], Wait("cudaStreamSynchronize"), Host(2000, operator="aten::item"), *TUNED[5:], Wait(), Host(2000)]
    result = advised(*step)
    first = result["advice"][0]
    assert first["topic"] == "synchronisation"
    assert first["saves_ns"] == pytest.approx(4e6, rel=0.05)
    assert ".item()" in first["remedy"]
    assert "cudaStreamSynchronize" in " ".join(first["evidence"])


def test_a_device_that_waits_for_launches():
    small = [item for number in range(100) for item in (Kernel("elementwise", 5, "reduction", dtype="bf16"), Host(20))]
    first = advised(*small)["advice"][0]
    assert first["topic"] == "host-bound"
    assert first["saves_ns"] == pytest.approx(100 * 17e3, rel=0.1)
    assert "torch.compile" in first["remedy"]


def test_few_long_gaps_are_no_launches():
    first = advised(*TUNED[:5], Host(30_000), *TUNED[5:])["advice"][0]
    assert first["topic"] == "host-bound"
    assert "record what the program does there" in first["remedy"]


def test_pageable_copies():
    first = advised(Copy(3000, memory="pageable to device"), *TUNED)["advice"][0]
    assert (first["topic"], first["saves_ns"]) == ("copies", pytest.approx(3e6, rel=0.01))
    assert "pin_memory" in first["remedy"]


def test_pinned_copies_that_nothing_hides():
    first = advised(Copy(3000), *TUNED)["advice"][0]
    assert first["topic"] == "copies"
    assert "separate stream" in first["remedy"]


def test_computation_hides_no_more_copies_than_it_lasts():
    found = advised(Copy(9000), *TUNED[:4])["advice"][0]
    assert found["saves_ns"] == pytest.approx(4e6, rel=0.01)
    assert "behind 4.00 ms of computation at most" in found["estimate"]
    most = advised(Copy(9000), TUNED[0])["advice"][0]
    assert most["saves_ns"] == pytest.approx(4.5e6, rel=0.01), "half of the bytes: nothing else is left"
    assert "fewer bytes" in most["remedy"]


def test_computation_that_hides_copies_already_hides_no_more():
    found = advised(Copy(8000), Copy(4000, stream=COPIES), *TUNED[:4])["advice"][0]
    assert "fewer bytes" in found["remedy"]
    assert "no computation is left" in found["estimate"]


def test_pinning_saves_what_the_host_link_can():
    link = 0.9 * 16e9 * 16 * 128 / 130 / 8 / 1e9  # GB/s that copies reach on the A100's PCIe 4 x16
    slow = advised(Copy(8000, memory="pageable to device", bytes=80_000_000), TUNED[0])["advice"][0]
    assert slow["saves_ns"] == pytest.approx(8e6 - 80e6 / link + 1e6, rel=0.01)
    assert "PCIe 4 x16" in slow["estimate"]
    fast = advised(Copy(3000, memory="pageable to device", bytes=85_000_000), TUNED[0])["advice"][0]
    assert fast["saves_ns"] == pytest.approx(1e6, rel=0.01), "as fast as pinned ones: only hiding is left"
    unknown = advised(Copy(8000, memory="pageable to device"), TUNED[0], hardware="a device of nobody's")["advice"][0]
    assert unknown["saves_ns"] == pytest.approx((8 * (1 - 1 / 2.3) + 1) * 1e6, rel=0.01)


def _moves(operator, stream=COMPUTE, number=10):
    return [Copy(100, "device to device", None, stream=stream, operator=operator) for _ in range(number)]


def test_copies_within_the_device():
    result = advised(*TUNED, *_moves("aten::clone", number=8), *_moves("aten::cat", number=2))
    first = result["advice"][0]
    assert (first["topic"], first["saves_ns"]) == ("copies within the device", pytest.approx(1e6, rel=0.01))
    assert "Launched by aten::clone (800 µs), aten::cat (200 µs)." in first["evidence"]
    assert "fewer clone()" in first["remedy"]


def test_copies_within_the_device_that_kernels_hide():
    assert topics(advised(*_moves("aten::clone", COPIES), *TUNED)) == {}


def test_copies_within_the_device_by_compiled_code():
    first = advised(*TUNED, *_moves("CompiledFunctionBackward"))["advice"][0]
    assert "100% of that time is in compiled code: CompiledFunctionBackward." in first["evidence"]
    assert "from the compiler" in first["remedy"]
    assert "inductor" in first["remedy"]
    fused = [*TUNED, Kernel("triton_poi_fused_mul_0", 200, dtype="bf16", grid="512,1,1")]
    assert "inductor" not in advised(*fused, *_moves("CompiledFunctionBackward"))["advice"][0]["remedy"]


def test_exposed_communication():
    step = [*TUNED, Wait(), Kernel("ncclDevKernel_AllReduce", 4000, "communication", stream=NETWORK), Wait()]
    assert topics(advised(*step))["communication"] > 0
    hidden = [Kernel("ncclDevKernel_AllReduce", 4000, "communication", stream=NETWORK), *TUNED]
    assert "communication" not in topics(advised(*hidden))


def test_communication_of_other_than_gradients_is_no_matter_of_buckets():
    exchange = Kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 4000, "communication", stream=NETWORK)
    reduced = replace(exchange, name="ncclDevKernel_AllReduce_Sum_f32")
    for one, buckets in ((exchange, False), (reduced, True)):
        first = advised(*TUNED, replace(TUNED[0], phase="backward"), Wait(), one, Wait())["advice"][0]
        assert first["topic"] == "communication"
        assert ("bucket_cap_mb" in first["remedy"]) is buckets
        assert ("all_to_all" in first["remedy"]) is not buckets


def test_communication_of_inference_has_no_backward_pass_to_hide_behind():
    reduced = Kernel("multimem_all_reduce_kernel", 4000, "communication", stream=NETWORK, operator="vllm::all_reduce")
    remedy = advised(*TUNED, Wait(), reduced, Wait())["advice"][0]["remedy"]
    assert "micro-batch" in remedy
    generic = replace(reduced, name="ncclDevKernel_Generic", operator="c10d::allreduce_")
    trained = [*TUNED, replace(TUNED[0], phase="backward"), Wait(), generic, Wait()]
    assert "bucket_cap_mb" in advised(*trained)["advice"][0]["remedy"], "the operator tells what the kernel's name does not"


def test_bfloat16_is_for_devices_that_have_it():
    plain = [replace(one, name="volta_sgemm_128x128_tn", dtype="f32") for one in TUNED]
    for hardware, has_it in (("Tesla V100-SXM2-16GB", False), ("NVIDIA A100-SXM4-40GB", True)):
        [mixed] = [one for one in advised(*plain, hardware=hardware)["advice"] if one["topic"] == "mixed precision"]
        assert ("dtype=torch.bfloat16" in mixed["remedy"]) is has_it
        assert ("GradScaler: this device has no bfloat16" in mixed["remedy"]) is not has_it


def test_the_optimizer_that_is_named_is_the_programs():
    update = [Kernel(f"add_{number}", 20, "elementwise", phase="optimizer", dtype="f32") for number in range(40)]
    for name, said in (("SGD", "torch.optim.SGD(..., fused=True"), ("Lion", "torch.optim.Lion(..., foreach=True)")):
        result = advised(*TUNED, Within(f"Optimizer.step#{name}.step", tuple(update)))
        assert said in next(one["remedy"] for one in result["advice"] if one["topic"] == "optimizer")
    result = advised(*TUNED, *update)
    assert next(one["remedy"] for one in result["advice"] if one["topic"] == "optimizer").startswith("fused=True")


def test_float32_beside_tensor_cores():
    plain = [replace(one, name="ampere_sgemm_128x128_tn", dtype="f32") for one in TUNED]
    found = topics(advised(*plain))
    assert found["tensor cores"] == pytest.approx(7.5, rel=0.01), "at least a quarter of 10 ms remains"
    assert found["mixed precision"] == pytest.approx(7.5, rel=0.01)
    without = topics(advised(*plain, hardware="Tesla P100-PCIE-16GB"))
    assert "tensor cores" not in without
    assert "mixed precision" not in without


def test_tf32_is_half_of_what_half_precision_gives():
    found = topics(advised(*[replace(one, dtype="tf32") for one in TUNED]))
    assert found == {"mixed precision": pytest.approx(5, rel=0.01)}


def test_norms_in_float32_of_a_program_in_half_precision_are_meant():
    norms = [Kernel(f"mean_{number}", 800, "reduction", dtype="f32", grid="512,1,1") for number in range(4)]
    assert "mixed precision" not in topics(advised(*TUNED, *norms))
    plain = [replace(one, name="ampere_sgemm_128x128_tn", dtype="f32") for one in TUNED]
    assert "mixed precision" in topics(advised(*plain, *norms))


def test_double_precision():
    found = topics(advised(*TUNED[:5], *[replace(one, dtype="f64") for one in TUNED[5:]]))
    assert found == {"double precision": pytest.approx(2.5, rel=0.01)}


def test_chains_of_elementwise_kernels():
    chain = [Kernel(f"mul_{number}", 200, dtype="bf16", grid="512,1,1") for number in range(5)]
    found = topics(advised(*TUNED, *chain, *TUNED))
    assert found == {"fusion": pytest.approx(0.8, rel=0.01)}


def test_what_a_compiler_made_is_fused_already():
    chain = [Kernel(f"triton_poi_fused_mul_{number}", 200, dtype="bf16", grid="512,1,1") for number in range(5)]
    assert topics(advised(*TUNED, *chain, *TUNED)) == {}


def test_what_is_compiled_already_is_not_told_to_compile():
    chain = [Kernel(f"mul_{number}", 200, dtype="bf16", grid="512,1,1") for number in range(5)]
    plain = advised(*TUNED, *chain, *TUNED)["advice"][0]
    assert plain["remedy"].startswith("torch.compile(model) fuses them")
    marks = [
        Host(1, operator="Torch-Compiled Region: 0/0"),
        Host(1, operator="CompiledFunction"),
        Kernel("triton_poi_fused_mul_0", 300, dtype="bf16", grid="512,1,1"),
    ]
    assert advised(*TUNED, *chain, *TUNED, replace(marks[-1], us=1))["advice"][0]["remedy"] == plain["remedy"], "a library's"
    for mark in marks:
        first = advised(*TUNED, *chain, *TUNED, mark)["advice"][0]
        assert first["topic"] == "fusion"
        assert first["remedy"].startswith("the program is compiled"), mark


def test_remedies_fit_the_frameworks_version():
    small = [item for number in range(100) for item in (Kernel("elementwise", 5, "reduction", dtype="bf16"), Host(20))]
    second = advised(*small, framework="tensorflow")["advice"][0]
    assert "tf.function(jit_compile=True) around the whole step" in second["remedy"]
    for about in ({"source": {"format": "tensorflow-timeline"}}, {"versions": {"tensorflow": "1.15.2"}}):
        first = advised(*small, framework="tensorflow", **about)["advice"][0]
        assert "session.run" in first["remedy"]
        assert not {"tf.function", "steps_per_execution", "Keras"} & set(first["remedy"].replace("'", " ").split())
        assert first["link"] is None
    clusters = advised(*small, Host(1, operator="_XlaLaunch"), framework="tensorflow", versions={"tensorflow": "1.15.2"})
    assert clusters["advice"][0]["remedy"].startswith("fewer and larger XLA clusters")


def test_names_of_programs_are_not_capitalised():
    small = [item for number in range(100) for item in (Kernel("elementwise", 5, "reduction", dtype="bf16"), Host(20))]
    shown = markdown(advised(*small, framework="tensorflow"))
    assert r"tf.function\(jit" in shown
    assert "Tf." not in shown
    assert "Do more work with each launch" in markdown(advised(*small, framework=None))


def _attention(operator="aten::bmm"):
    product = replace(TUNED[0], operator=operator)
    small = {"dtype": "bf16", "grid": "512,1,1"}
    return [
        product,
        Kernel("div", 300, **small),
        Kernel("softmax_warp_forward", 900, "softmax", **small),
        Kernel("dropout", 300, **small),
        product,
    ]


def test_attention_piece_by_piece():
    found = topics(advised(*[one for _ in range(4) for one in (*_attention(), TUNED[1], Kernel("norm", 10, "normalisation"))]))
    assert found["attention"] == pytest.approx(4 * 1.5, rel=0.01)


def test_a_softmax_between_dense_layers_is_no_attention():
    assert "attention" not in topics(advised(*[one for _ in range(4) for one in _attention("aten::addmm")]))


def _by_hand(*parts, product="aten::bmm", phase="forward"):
    """An operator's kernels between two products, 100 us each."""
    kinds = {"aten::sum": "reduction", "aten::max": "reduction"}
    small = [Kernel(part, 100, kinds.get(part, "elementwise"), dtype="f32", operator=part, grid="512,1,1") for part in parts]
    around = replace(TUNED[0], operator=product, dtype="tf32")
    return [replace(one, phase=phase) for one in (around, *small, around)]


SOFTMAX = ("aten::div", "aten::max", "aten::sub", "aten::exp", "aten::sum", "aten::div")
GRADIENT = ("aten::div", "aten::mul", "aten::sum", "aten::mul")


@pytest.mark.parametrize(
    ("parts", "product", "found"),
    [
        (SOFTMAX, "aten::bmm", True),
        (SOFTMAX, "aten::addmm", False),
        ((*SOFTMAX, "aten::log", "aten::sum"), "aten::bmm", False),  # the loss of a contrastive network
        (("aten::div", "aten::sum", "aten::exp"), "aten::bmm", False),  # nothing is divided by a sum of exponentials
        (("aten::exp", "aten::mul", "aten::div", "aten::sum"), "aten::bmm", False),
        (("aten::expand", "aten::sum", "aten::div"), "aten::bmm", False),
        (GRADIENT, "aten::bmm", False),  # of what, no layer tells
    ],
)
def test_attention_whose_softmax_is_written_out(parts, product, found):
    step = [*_by_hand(*parts, product=product), TUNED[1], Kernel("norm", 10, "normalisation")]
    told = topics(advised(*[one for _ in range(4) for one in step]))
    assert told.get("attention") == (pytest.approx(4 * 0.6, rel=0.01) if found else None)


@pytest.mark.parametrize(("layer", "ms"), [("blocks.0.attn", 4 * 1.0), ("blocks.0.mlp", 4 * 0.6)], ids=["same layer", "another"])
def test_the_gradient_of_a_softmax_that_is_written_out(layer, ms):
    step = [*_by_hand(*SOFTMAX), TUNED[1], *_by_hand(*GRADIENT, phase="backward"), TUNED[1]]
    trace = recording([one for _ in range(4) for one in step])
    layers = trace.kernels["phase"].astype("string").map({"forward": "blocks.0.attn", "backward": layer})
    trace = replace(trace, kernels=trace.kernels.assign(layer=layers.astype("category")))
    assert topics(advice.of_subject(of_trace(trace, "made-up")))["attention"] == pytest.approx(ms, rel=0.01)


def test_gradients_that_are_filled_with_zeros():
    zeros = [Kernel(f"fill_{number}", 200, "elementwise", phase="optimizer", operator="aten::zero_") for number in range(5)]
    found = topics(advised(*TUNED, *zeros))
    assert found["zeroed gradients"] == pytest.approx(5 * 200 / 1000, rel=0.01)
    assert "zeroed gradients" not in topics(
        advised(*TUNED, Kernel("fill", 1000, "elementwise", phase="forward", operator="aten::zero_"))
    )


def test_an_optimizer_kernel_by_kernel():
    small = {"kind": "optimizer", "phase": "optimizer", "grid": "512,1,1"}
    update = [Kernel(name, 20, **small) for name in ("mul", "add", "sqrt", "addcdiv") for _ in range(25)]
    fused = [Kernel("multi_tensor_apply_kernel", 20, **small) for _ in range(100)]
    found = topics(advised(*TUNED, *update))
    assert found == {"optimizer": pytest.approx(2 * 3 / 4, rel=0.01)}, "one pass over memory of four"
    assert "optimizer" not in topics(advised(*TUNED, *fused))
    counters = [Kernel(f"aten::add_{number}", 1, "elementwise", phase="optimizer") for number in range(40)]
    update = Kernel("aten::_fused_adamw_", 200, "optimizer", phase="optimizer", operator="aten::_fused_adamw_")
    assert "optimizer" not in topics(advised(*TUNED, update, *counters)), "its counters of steps"
    averages = [Kernel(f"aten::mul_{number}", 20, "elementwise", phase="optimizer") for number in range(40)]
    beside = next(one for one in advised(*TUNED, update, *averages)["advice"] if one["topic"] == "optimizer")
    assert beside["title"] == "parameters are changed one by one, besides the optimizer's update"
    assert "fused=True" not in beside["remedy"], "the update is fused already"


def test_layouts_and_casts():
    moves = [Kernel("nchwToNhwcKernel", 500, "layout", grid="512,1,1"), Kernel("cast", 400, "cast", grid="512,1,1")]
    found = topics(advised(*TUNED, moves[0], TUNED[0], moves[1], TUNED[1]))
    assert found == {"layout": pytest.approx(0.5, rel=0.01), "casts": pytest.approx(0.4, rel=0.01)}


def test_the_allocator_in_steps():
    found = topics(advised(*TUNED, Wait(), Host(1500, call="cudaMalloc"), Host(10)))
    assert found["allocator"] == pytest.approx(1.5, rel=0.05)


def test_memory_that_is_taken_once_does_not_recur():
    """Nothing repeats, so that all of it counts: memory is taken when it is needed first, and kept."""
    once = [*TUNED[:2], Wait(), Host(8000, call="cudaMalloc"), TUNED[3], Wait(), Host(10, operator="aten::add"), TUNED[5]]
    assert "allocator" not in topics(advised(*once, marked=False, steps=1))
    given_back = [*once, Wait(), Host(9000, call="cudaFree"), TUNED[6]]
    assert topics(advised(*given_back, marked=False, steps=1))["allocator"] == pytest.approx(17, rel=0.05)


def test_compilation_in_steps():
    found = topics(advised(*TUNED, Wait(), Within("torch._dynamo compile", (Host(3000),))))
    assert found["compilation"] == pytest.approx(3, rel=0.05)


def test_kernels_too_small_for_the_device():
    found = topics(advised(*TUNED, *[replace(one, grid="27,1,1") for one in TUNED]))
    assert found == {"small kernels": pytest.approx(10 * (1 - 27 / 108), rel=0.01)}


def test_recomputation():
    again = [Kernel("sgemm", 1000, "gemm", dtype="bf16", operator="aten::addmm", phase="backward", grid="512,1,1")] * 3
    assert topics(advised(*TUNED, *again)) == {"recomputation": pytest.approx(3, rel=0.01)}


def test_what_two_rules_see_is_said_once():
    waits = [Within("DataLoader.__next__", (Host(5000),)), *TUNED, Wait()]
    assert list(topics(advised(*waits))) == ["input pipeline"]


def test_sizes_that_are_no_multiples_of_16_bytes():
    odd = Kernel("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1", 5000, "gemm", dtype="bf16", operator="aten::bmm")
    result = advised(*TUNED, odd)
    assert topics(result)["alignment"] == pytest.approx(2.5, rel=0.02)
    assert "multiples of 8" in result["advice"][0]["remedy"]
    for name in ("align8", "aligna8_alignc8"):
        assert "alignment" not in topics(advised(*TUNED, replace(odd, name=odd.name.replace("align1", name))))
    # without tensor cores elements are loaded singly whatever the sizes are: seen of matrices of 768 and 3072 columns
    plain = replace(odd, name="void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>", dtype="f32")
    assert "alignment" not in topics(advised(*TUNED, plain))


def test_the_answer_names_what_takes_most():
    long = Kernel("ampere_bf16_s16816gemm_bf16_256x128", 6000, "gemm", dtype="bf16", operator="aten::mm", grid="512,1,1")
    result = advised(*TUNED, long)
    assert result["longest"] == {"name": long.name, "ns": pytest.approx(6e6, rel=0.02)}
    assert f"computing 100% (most in {long.name}, 37%" in answer(result) or f"(most in {long.name}, 38%)" in answer(result)
    assert advised(*TUNED)["longest"] is None, "ten kernels of a tenth each"


# --- recordings without steps ---------------------------------------------------------------------------------------------------


def _plain():
    return [replace(one, name=f"sgemm_{number}", dtype="f32", operator=None) for number, one in enumerate(TUNED)]


def test_a_start_up_of_seconds_gets_no_advice_on_its_kernels():
    result = advised(*_plain(), steps=1, marked=False, before=[Kernel("first", 10), Host(3_000_000, call="cudaFree")])
    assert result["advice"] == []
    assert result["recorded_ns"] == pytest.approx(3.01e9, rel=0.01)
    assert answer(result).startswith("Mostly start-up: kernels take 10.0 ms of the 3.01 s recorded on NVIDIA A100")
    assert "totals only" not in " ".join(result["notes"])
    assert "any advice covers its kernels only" in " ".join(result["notes"])


def test_a_recording_of_work_is_no_start_up():
    result = advised(*_plain(), steps=1, marked=False)
    assert result["recorded_ns"] is None
    assert "mixed precision" in topics(result)
    assert answer(result).startswith("What ran spans 10.0 ms on NVIDIA A100")


def test_a_recording_of_nothing_that_computes_gets_no_advice():
    result = advised(Within("load", (Host(5000),)), Host(4000), marked=False)
    assert result["advice"] == []
    assert result["unrecorded"] == "the recording holds no kernels and no operators"
    assert answer(result).startswith(
        "The recording covers 68.0 ms: in the program's ranges 59%, nothing recorded 41%; by range: "
    )
    assert answer(result).endswith("What computes is not known: the recording holds no kernels and no operators.")


def test_devices_that_are_taken_as_one_have_no_name():
    result = {**advised(*TUNED), "device": "all", "hardware": None}
    assert answer(result).startswith("A step takes 10.0 ms: computing")
    assert answer({**result, "hardware": "TITAN V"}).startswith("A step takes 10.0 ms on TITAN V:")


_CONVOLUTION = Kernel("conv", 30, "convolution forward", device="cpu", operator="aten::conv2d")


def _calls_of_a_model(calls, loads=1, batch=8, kernel=_CONVOLUTION, problem=None):
    """What is advised where a step on the host loads so many batches and calls the model so often."""
    layer = Within("Net", (Host(20), kernel, Host(40)))
    trace = recording([*[Within("load", (Host(10),))] * loads, *[layer] * calls, Host(5)])
    kinds = trace.ranges["name"].astype("string").map({"Net": "layer", "load": "data"})
    phases = kinds.map({"layer": "forward", "data": "data"})
    layers = trace.ranges["name"].astype("string").where(kinds == "layer")
    ranges = trace.ranges.assign(category=kinds, phase=phases, layer=layers).dropna(subset="category")
    kernels = conform("kernels", trace.kernels.assign(layer="Net", problem=problem))
    subject = of_trace(replace(trace, ranges=conform("ranges", ranges), kernels=kernels), "made-up")
    found = advice.of_subject(replace(subject, facts={**subject.facts, "options": {"batch": batch}}))
    return [one for one in found["advice"] if one["topic"] == "loop over samples"]


def test_a_model_that_is_called_for_each_sample():
    (one,) = _calls_of_a_model(8)
    assert one["title"] == "Net is called 8 times in each step, once for each sample of a batch of 8"
    assert one["saves_ns"] == pytest.approx(8 * 30e3 * 7 / 8, rel=0.05), "the kernel runs for 30 of the layer's 60 us"
    assert _calls_of_a_model(8, loads=8) == [], "gradients are accumulated over whole batches"
    assert _calls_of_a_model(2) == []
    assert _calls_of_a_model(8, batch=64) == []


def test_what_reads_the_weights_for_each_sample_is_saved_too():
    product = Kernel("SGEMM", 30, "gemm", device="cpu", operator="aten::mm")
    (one,) = _calls_of_a_model(8, kernel=product, problem="m256 n1 k256")
    assert one["saves_ns"] == pytest.approx(8 * 60e3 * 7 / 8, rel=0.05)
    assert "for one sample each: 240 µs" in " ".join(one["evidence"])
    (one,) = _calls_of_a_model(8, kernel=product, problem="m256 n64 k256")
    assert one["saves_ns"] == pytest.approx(8 * 30e3 * 7 / 8, rel=0.05), "of 64 rows it computes more than it reads"


def test_links_stand_in_one_line_of_a_terminal_of_100_columns():
    sources = [path.read_text() for path in Path(advice.__file__).parent.rglob("*.py")]
    links = {link for source in sources for link in re.findall(r"https://[^\s\"]+", source)}
    assert len(links) > 15
    assert max(map(len, links)) <= 100 - len("   See ")
