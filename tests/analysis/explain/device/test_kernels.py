"""Kernels that differ: types, attention, other algorithms, work, clocks and other devices. Each with what only looks like it."""

from dataclasses import replace

import pytest

from kernelscope.analysis.trace import conform
from tests.analysis.explain.device.synthetic import (
    Copy,
    Kernel,
    Wait,
    assert_named,
    causes,
    changed,
    explained,
    recording,
    scaled,
    training,
)

MAIN = ("convolution forward", "convolution data gradient", "convolution weight gradient", "gemm")


def kernels_of(kinds, **changes):
    """Return a change of the kernels of some kinds: fields to set, each a value or a function of the kernel."""

    def change(item):
        if not isinstance(item, Kernel) or item.kind not in kinds:
            return None
        return replace(item, **{key: value(item) if callable(value) else value for key, value in changes.items()})

    return change


def said_of(items, base=None, **info):
    return explained(recording(base or training()), recording(items, **info))


# --- precision ------------------------------------------------------------------------------------------------------------------

HALF = {"dtype": "f16", "us": lambda item: item.us * 0.4, "name": lambda item: f"h16816_{item.name}"}


def test_products_and_convolutions_in_another_type():
    said = said_of(changed(training(), kernels_of(MAIN, **HALF)))
    found = assert_named(said, "precision", -0.6 * (12 * 900 + 3 * 600) / 1000)
    text = " ".join([found["title"], *found["evidence"]])
    assert "f16" in text
    assert "f32" in text


def test_longer_products_of_the_same_type_are_no_other_precision():
    said = said_of(changed(training(), kernels_of(MAIN, us=lambda item: item.us * 2.5)))
    assert "precision" not in causes(said)
    assert sum(causes(said).values()) == pytest.approx(1.5 * 12.6, rel=0.1)


def test_another_type_that_takes_as_long_is_no_cause():
    assert causes(said_of(changed(training(), kernels_of(MAIN, dtype="tf32")))) == {}


# --- attention ------------------------------------------------------------------------------------------------------------------


def transformer(attention):
    """Return a step of six layers: projections, an attention, and a feed-forward network."""
    layer = [
        Kernel("sgemm_qkv", 400, "gemm"), *attention, Kernel("sgemm_out", 300, "gemm"),
        Kernel("layer_norm", 80, "normalisation"), Kernel("sgemm_ff", 900, "gemm"), Kernel("gelu", 90, "activation"),
    ]  # fmt: skip
    return layer * 6


UNFUSED = [
    Kernel("batched_sgemm_qk", 300, "gemm"), Kernel("masked_fill", 120), Kernel("softmax_warp_forward", 260, "softmax"),
    Kernel("fused_dropout_kernel", 150, "random"), Kernel("batched_sgemm_pv", 250, "gemm"),
]  # fmt: skip
FLASH = [Kernel("flash_fwd_kernel", 200, "attention")]
CUTLASS = [Kernel("fmha_cutlassF_f32_aligned_64x64", 420, "attention")]


def test_one_fused_attention_kernel_against_products_and_softmax():
    said = explained(recording(transformer(UNFUSED)), recording(transformer(FLASH)))
    assert_named(said, "attention algorithm", 6 * (200 - 1080) / 1000)


def test_attention_by_another_kernel():
    said = explained(recording(transformer(FLASH)), recording(transformer(CUTLASS)))
    assert_named(said, "attention algorithm", 6 * 0.220)


def test_fewer_softmaxes_without_a_fused_kernel_are_no_attention_algorithm():
    said = explained(recording(transformer(UNFUSED)), recording(transformer(UNFUSED[:2] + UNFUSED[3:])))
    assert "attention algorithm" not in causes(said)


def test_attention_of_another_name_that_takes_as_long_is_no_cause():
    other = [Kernel("pytorch_flash::flash_fwd_splitkv", 201, "attention")]
    assert causes(explained(recording(transformer(FLASH)), recording(transformer(other)))) == {}


def test_fused_attention_that_takes_as_long_is_no_cause():
    fused = [Kernel("flash_fwd_kernel", 1080, "attention")]
    assert causes(explained(recording(transformer(UNFUSED)), recording(transformer(fused)))) == {}


# --- recomputation --------------------------------------------------------------------------------------------------------------


def twice(kinds):
    return lambda item: [item, item] if isinstance(item, Kernel) and item.kind in kinds else None


def test_forward_kernels_again_with_gradients_as_many():
    again = ("convolution forward", "normalisation")
    said = said_of(changed(training(), twice(again)))
    assert_named(said, "recomputation", 4 * 0.9 + 4 * 0.2)


def test_layers_of_a_transformer_again_before_each_of_their_gradients():
    forward = [
        Kernel("gemm_fwd", 400, "gemm"), Kernel("flash_fwd", 200, "attention"), Kernel("ln_fwd", 60, "normalisation"),
        Kernel("gelu_fwd", 50, "activation"),
    ]  # fmt: skip
    backward = [Kernel("gemm_dx", 500, "gemm"), Kernel("gemm_dw", 500, "gemm"), Kernel("flash_bwd", 400, "attention")]
    said = explained(recording(forward * 6 + backward * 6), recording(forward * 6 + (forward + backward) * 6))
    assert_named(said, "recomputation", 6 * 0.71)


def test_twice_the_layers_are_no_recomputation():
    said = said_of(changed(training(), twice((*MAIN, "normalisation", "activation"))))
    assert "recomputation" not in causes(said)
    assert sum(causes(said).values()) == pytest.approx(12 * 0.9 + 1.8 + 0.8 + 1.2, rel=0.1)


# --- algorithms -----------------------------------------------------------------------------------------------------------------


def test_convolutions_by_other_kernels():
    renamed = kernels_of(MAIN[:3], name=lambda item: f"cudnn_winograd_{item.name}", us=1200)
    assert_named(said_of(changed(training(), renamed)), "convolution algorithm", 12 * 0.3)


def test_products_by_other_kernels():
    renamed = kernels_of(["gemm"], name=lambda item: f"ampere_{item.name}_splitK", us=1100)
    assert_named(said_of(changed(training(), renamed)), "products by other kernels", 3 * 0.5)


def test_conversions_of_layouts():
    before = changed(
        training(),
        lambda item: [Kernel("nchwToNhwcKernel", 150, "layout"), item] if getattr(item, "kind", "") in MAIN[:3] else None,
    )
    assert_named(said_of(before), "layout conversions", 12 * 0.15)


def test_other_names_that_take_as_long_are_no_cause():
    renamed = kernels_of(MAIN, name=lambda item: f"other_{item.name}", us=lambda item: item.us * 1.005)
    assert causes(said_of(changed(training(), renamed))) == {}


def test_more_convolutions_are_no_other_algorithm():
    more = [Kernel(f"wider_convolve_{number}", 900, "convolution forward") for number in range(8)]
    said = said_of([*more, *training()])
    assert not {"convolution algorithm", "products by other kernels"} & set(causes(said))
    assert sum(causes(said).values()) == pytest.approx(7.2, rel=0.1)


def test_as_many_conversions_of_layouts_are_no_layout_conversions():
    base = [Kernel("nchwToNhwcKernel", 150, "layout")] * 8 + training()
    slower = changed(base, kernels_of(["layout"], us=400))
    assert "layout conversions" not in causes(said_of(slower, base=base))


# --- work -----------------------------------------------------------------------------------------------------------------------


def test_more_kernels_of_a_kind():
    more = [Kernel("clamp_kernel", 100, "elementwise") for _ in range(20)]
    found = said_of([*more, *training()])
    assert_named(found, "more elementwise kernels", 2.0)


def test_kernels_that_take_longer():
    slower = kernels_of(["normalisation"], us=900)
    assert_named(said_of(changed(training(), slower)), "slower normalisation kernels", 4 * 0.7)


def test_kernels_that_take_a_little_longer_are_no_cause():
    slower = kernels_of(["normalisation"], us=212)
    assert causes(said_of(changed(training(), slower))) == {}


# --- sizes ----------------------------------------------------------------------------------------------------------------------


def batch_of(samples):
    """Return the step for a batch: blocks and times of all kernels grow with it."""
    return changed(
        training(),
        lambda item: replace(item, us=item.us * samples / 32, grid=f"{samples * 4},2,1") if isinstance(item, Kernel) else None,
    )


def test_a_larger_batch():
    whole = sum(item.us for item in batch_of(32) if isinstance(item, Kernel)) / 1000
    said = explained(recording(batch_of(32)), recording(batch_of(48)))
    assert_named(said, "larger problems", whole * 0.5)
    assert "clocks" not in causes(said)


def test_slower_kernels_on_the_same_grids_are_no_larger_problems():
    said = explained(recording(batch_of(32)), recording(scaled(batch_of(32), 1.5)))
    assert "larger problems" not in causes(said)
    assert "clocks" in causes(said)


def test_far_more_blocks_in_hardly_more_time_are_no_larger_problem():
    """Each thread did many elements in a loop, and now does one."""
    loop = [Kernel(f"vector_add_{number}", 266, grid="1024,1,1") for number in range(10)]
    plain = [replace(kernel, us=341, grid="39063,1,1") for kernel in loop]
    said = explained(recording([*loop, Wait()]), recording([*plain, Wait()]))
    assert "larger problems" not in causes(said)
    assert "how the work is divided into blocks" in said["findings"][0]["remedy"]


def test_larger_grids_that_take_as_long_are_no_cause():
    same = changed(batch_of(48), lambda item: replace(item, us=item.us * 32 / 48) if isinstance(item, Kernel) else None)
    assert causes(explained(recording(batch_of(32)), recording(same))) == {}


# --- clocks ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.15, 0.8])
def test_all_kernels_slower_or_faster_by_one_factor(factor):
    whole = sum(item.us for item in training() if isinstance(item, Kernel)) / 1000
    assert_named(said_of(scaled(training(), factor)), "clocks", whole * (factor - 1))


@pytest.mark.parametrize(("mhz", "confidence"), [((1980, 1700), "high"), ((1980, 1980), "medium"), ((None, None), "medium")])
def test_samples_of_the_clock_make_it_sure(mhz, confidence):
    sides = [recording(training()), recording(scaled(training(), 1.15))]
    for trace, clock in zip(sides, mhz, strict=True):
        rows = [] if clock is None else [{"time_ns": 0, "device": "cuda:0", "metric": "gpu_sm_clock_hz", "value": clock * 1e6}]
        trace.samples = conform("samples", rows)
    (found,) = [one for one in explained(*sides)["findings"] if one["cause"] == "clocks"]
    assert found["confidence"] == confidence
    assert any("MHz" in text for text in found["evidence"]) == (confidence == "high")


def test_one_slower_kernel_is_no_clock():
    slower = kernels_of(["convolution data gradient"], us=1500)
    assert "clocks" not in causes(said_of(changed(training(), slower)))


def test_kernels_slower_by_factors_of_their_own_are_no_clock():
    factors = {"convolution forward": 1.3, "gemm": 1.0, "normalisation": 1.8, "convolution data gradient": 1.05}
    other = changed(training(), lambda i: replace(i, us=i.us * factors.get(i.kind, 1.0)) if isinstance(i, Kernel) else None)
    assert "clocks" not in causes(said_of(other))


# --- other devices --------------------------------------------------------------------------------------------------------------

H100, MI300X = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"


def test_other_devices_are_named_with_what_their_ceilings_predict():
    base = [Copy(50), *(Kernel("softmax_warp_forward", 2000, "softmax") for _ in range(5)), Kernel("tiny", 20)]
    faster = changed(base, kernels_of(["softmax"], us=2000 * 3.35 / 5.3, name="softmax_rocm"))
    said = explained(recording(base, hardware=H100), recording(faster, hardware=MI300X))
    found = assert_named(said, "other hardware", 10 * (3.35 / 5.3 - 1))
    assert "predicts -37%" in found["title"]
    assert found["confidence"] == "high"


def test_kernels_that_one_side_lacks_are_not_its_hardwares_doing():
    base = [Copy(50), *(Kernel("softmax_warp_forward", 2000, "softmax") for _ in range(5)), Kernel("gemm", 3000, "gemm")]
    other = [*base, *(Kernel("pool", 900, "pooling") for _ in range(5))]
    said = explained(recording(base, hardware=H100), recording(other, hardware=MI300X))
    assert not any("pooling" in one["title"] for one in said["findings"] if one["cause"] == "other hardware")


def test_small_kernels_of_many_kinds_on_another_device_are_its_doing():
    """Each kind moves too little to be named alone; together they are no work that could be left out."""
    kinds = ("reduction", "softmax", "normalisation", "pooling", "activation", "elementwise", "random", "embedding")
    base = [*(Kernel(f"of_{kind}", 60, kind) for kind in kinds for _ in range(3)), Kernel("gemm", 20_000, "gemm")]
    slower = changed(base, lambda one: replace(one, us=90) if one.kind != "gemm" else one)
    on = {"hardware": H100}, {"hardware": MI300X}
    said = explained(recording(base, **on[0]), recording(slower, **on[1]))
    assert set(causes(said)) == {"other hardware"}
    assert any("small kernels" in one["title"] for one in said["findings"])
    alone = explained(recording(base, **on[0]), recording(slower, **on[0]))
    assert "other hardware" not in causes(alone)


def test_what_ceilings_do_not_explain_is_said():
    base = [Kernel("softmax_warp_forward", 2000, "softmax") for _ in range(5)]
    slower = changed(base, kernels_of(["softmax"], us=6000))
    said = explained(recording(base, hardware=H100), recording(slower, hardware=MI300X))
    found = assert_named(said, "other hardware", 20.0)
    assert found["confidence"] != "high"
    assert any("do not explain it" in sentence for sentence in found["evidence"])


def test_one_model_of_device_is_no_other_hardware():
    said = said_of(changed(training(), kernels_of(["normalisation"], us=900)))
    assert "other hardware" not in causes(said)


def test_other_devices_that_take_as_long_are_no_cause():
    assert causes(explained(recording(training(), hardware=H100), recording(training(), hardware=MI300X))) == {}
