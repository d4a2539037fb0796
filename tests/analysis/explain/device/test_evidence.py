"""What only looks like a cause: other names for the same, edges, warm-up, stalls; and what shows in spite of them."""

from dataclasses import replace

import numpy as np

from kernelscope.analysis.explain.device.case import batches
from tests.analysis.explain.device.synthetic import (
    Host,
    Kernel,
    Wait,
    assert_named,
    causes,
    explained,
    recording,
)

LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
GEMMS = [Kernel(f"volta_sgemm_{number}", 800, "gemm", operator="aten::mm") for number in range(10)]
RELU = [Kernel("threshold_kernel_impl", 300, "activation") for _ in range(4)]


def loop(us, **where):
    return [*GEMMS, *RELU, Wait(), Host(us, **where)]


def test_idle_time_that_only_one_capture_puts_down_to_the_loader_is_no_cause():
    """One profiler recorded the loader, the other did not: the device idles as long."""
    a, b = recording(loop(4000, operator=LOADING)), recording(loop(4000, operator="aten::index"))
    assert causes(explained(a, b)) == {}


def test_work_from_before_that_is_in_the_first_step_is_told():
    """The marks begin while the device still computes what was launched before: the mean is what they say, and not the usual."""
    earlier = [Kernel("earlier", 3000, launched=False)]
    late, clean = recording(loop(500), before=earlier), recording(loop(500))
    notes = explained(clean, late)["notes"]
    assert "B: 3.00 ms of its first step are kernels launched before it; other steps take 9.70 ms each" in notes
    assert not any(note.startswith("A: kernels of") for note in notes)


def test_idle_time_that_goes_with_the_loaders_is_one():
    a, b = recording(loop(4000, operator=LOADING)), recording(loop(200, operator="aten::index"))
    assert_named(explained(a, b), "input pipeline", -4.0, within=0.1)


def test_kernels_in_place_of_others_under_another_kind_are_no_cause():
    other = [replace(kernel, name="clamp_min_scalar_kernel_impl", kind="elementwise") for kernel in RELU]
    assert causes(explained(recording(loop(500)), recording([*GEMMS, *other, Wait(), Host(500)]))) == {}


def test_kernels_that_one_side_alone_puts_down_to_the_optimizer_are_no_cause():
    plain = [Kernel("vectorized_elementwise_kernel", 200) for _ in range(8)]
    known = [
        replace(kernel, kind="optimizer", phase="optimizer") if number % 2 else kernel for number, kernel in enumerate(plain)
    ]
    a, b = (recording([*GEMMS, *some, Wait(), Host(300)]) for some in (plain, known))
    assert causes(explained(a, b)) == {}


def test_all_convolutions_are_one_cause():
    kinds = ("convolution forward", "convolution data gradient", "convolution weight gradient")
    work = [Kernel(f"conv_{kind}", 1000, kind) for kind in kinds]
    slower = [replace(kernel, us=1400) for kernel in work]
    said = explained(recording([*work, *RELU, Wait()]), recording([*slower, *RELU, Wait()]))
    found = assert_named(said, "slower convolution kernels", 1.2)
    assert said["findings"] == [found]


def test_a_part_of_the_products_in_a_narrower_type():
    narrow = [replace(kernel, name=f"fp16_s884gemm_{kernel.name}", dtype="f16", us=400) for kernel in GEMMS[:3]]
    said = explained(recording(loop(300)), recording([*narrow, *GEMMS[3:], *RELU, Wait(), Host(300)]))
    found = assert_named(said, "precision", -1.2)
    assert "f16" in found["title"]
    same = [replace(kernel, name=f"other_{kernel.name}", us=400) for kernel in GEMMS[:3]]
    assert "precision" not in causes(explained(recording(loop(300)), recording([*same, *GEMMS[3:], *RELU, Wait(), Host(300)])))


def test_a_longer_wait_for_the_loader_shows_although_the_edges_of_the_capture_differ():
    """The first marked step holds the wait for the first batch besides its own; the last has none after it."""

    def fetching(us):
        return [Host(us, operator=LOADING), *GEMMS, *RELU, Wait()]

    assert_named(explained(recording(fetching(9000), 6), recording(fetching(11000), 6)), "input pipeline", 2.0)
    ends = batches(np.array([9.0, 2.0, 2.0, 1.0]))
    assert ends.tolist() == [5.0, 2.0, 2.0, 5.0]


def test_marked_steps_that_warm_up_are_left_out():
    def warming(number):
        return [*(loop(500)), *([Host(60_000, operator="aten::index")] if number < 2 else [])]

    said = explained(recording(loop(500), 8), recording(warming, 8))
    assert said["b"]["windows"] == 6
    assert causes(said) == {}


def test_one_stall_in_one_step_hides_no_other_difference():
    def stalling(number):
        return [*loop(5000, operator=LOADING), *([Host(18_000, operator="aten::index")] if number == 4 else [])]

    found = causes(explained(recording(loop(1000, operator=LOADING), 10), recording(stalling, 10)))
    assert abs(found["input pipeline"] - 4.0) < 0.4


def test_running_compiled_code_is_no_compilation():
    a, b = (recording([*GEMMS, Wait(), Host(us, range="CompiledFunction")]) for us in (300, 4300))
    found = causes(explained(a, b))
    assert "compilation in steps" not in found
    assert abs(found["host-bound"] - 4.0) < 0.4
