"""Types that kernels of unknown kind have in their names, as the reason for fewer bytes; and remedies that the capture allows."""

from dataclasses import replace

from tests.analysis.explain.device.synthetic import Copy, Host, Kernel, Wait, assert_named, causes, explained, recording

WORK = [Kernel(f"gemm_{number}", 1000, "gemm", operator="aten::mm") for number in range(10)]
WIDE = Kernel("myBiasKernelFloat", 900, "unknown", "f32")
NARROW = Kernel("myBiasKernelHalf", 900, "unknown", "f16")


def copying(kernel, us, size):
    return recording([Copy(us, bytes=size), kernel, Wait()])


def test_fewer_bytes_of_narrower_types():
    said = explained(copying(WIDE, 4000, 80_000_000), copying(NARROW, 2000, 40_000_000))
    found = assert_named(said, "copies between host and device", -2.0)
    text = "B computes in f16 (myBiasKernelHalf), A in f32 (myBiasKernelFloat); the narrower type takes fewer bytes."
    assert text in found["evidence"]


def test_fewer_bytes_of_the_same_types_have_no_such_reason():
    for kernels in ((WIDE, WIDE), (NARROW, NARROW), (NARROW, WIDE)):
        said = explained(copying(kernels[0], 4000, 80_000_000), copying(kernels[1], 2000, 40_000_000))
        found = assert_named(said, "copies between host and device", -2.0)
        assert not any("narrower" in text for text in found["evidence"])


def test_pinned_copies_are_not_to_be_pinned():
    """A few bytes of results that go back to pageable memory do not count."""
    back = Copy(5, "device to host", "device to pageable", bytes=4)
    a, b = (recording([Copy(us, bytes=10_000 * us), *WORK, back, Wait()]) for us in (4000, 8000))
    assert "pin" not in assert_named(explained(a, b), "copies between host and device", 4.0)["remedy"]
    pageable = Copy(8000, memory="pageable to device", bytes=80_000_000)
    found = assert_named(explained(a, recording([pageable, *WORK, back, Wait()])), "copies between host and device", 4.0)
    assert "pin_memory" in found["remedy"]


def test_kernels_of_the_faster_side_are_not_to_be_left_out():
    more = [Kernel("clamp_kernel", 100) for _ in range(30)]
    said = explained(recording([*WORK, Wait(), Host(9000)]), recording([*WORK, *more, Wait(), Host(100)]))
    found = assert_named(said, "more elementwise kernels", 3.0)
    assert "faster side" in found["remedy"]
    said = explained(recording([*WORK, Wait()]), recording([*WORK, *more, Wait()]))
    assert assert_named(said, "more elementwise kernels", 3.0)["remedy"].startswith(
        "see whether A does this work in other kernels"
    )


def test_input_that_is_prepared_on_the_device():
    own = Kernel("void dali::kernels::FlipKernel<float>(float*)", 2000, "unknown")
    found = assert_named(explained(recording([*WORK, Wait()]), recording([*WORK, own, Wait()])),
                         "more kernels that prepare input on the device", 2.0)  # fmt: skip
    assert "leave out" not in found["remedy"]
    other = replace(own, name="void own::FlipKernel<float>(float*)")
    said = explained(recording([*WORK, Wait()]), recording([*WORK, other, Wait()]))
    assert list(causes(said)) == ["more kernels"]
