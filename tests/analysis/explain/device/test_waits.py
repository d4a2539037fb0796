"""Copies, communication and idle time: what nothing hides, and why the device waits. Each with what only looks like it."""

from dataclasses import replace

import pytest

from kernelscope.analysis.attribution.steps import parse
from tests.analysis.explain.device.synthetic import (
    COPIES,
    LOADER,
    NETWORK,
    Copy,
    Host,
    Kernel,
    Noise,
    Wait,
    assert_named,
    causes,
    changed,
    explained,
    recording,
    scaled,
    training,
)

WORK = [Kernel(f"gemm_{number}", 1000, "gemm", operator="aten::mm") for number in range(10)]


def of(*items, **options):
    return recording(items, **options)


# --- copies ---------------------------------------------------------------------------------------------------------------------


def test_pageable_against_pinned_memory():
    a = of(Copy(4000, memory="pageable to device", bytes=40_000_000), *WORK, Wait())
    b = of(Copy(1600, memory="pinned to device", bytes=40_000_000), *WORK, Wait())
    found = assert_named(explained(a, b), "copies between host and device", -2.4)
    assert "pageable" in found["title"]
    assert "pinned" in found["title"]


def test_half_the_bytes():
    a = of(Copy(4000, bytes=80_000_000), *WORK, Wait())
    b = of(Copy(2000, bytes=40_000_000), *WORK, Wait())
    found = assert_named(explained(a, b), "copies between host and device", -2.0)
    assert "2 times the bytes" in found["title"]


def test_hidden_copies_that_are_exposed():
    hidden = of(Copy(3000, stream=COPIES), *WORK, Wait())
    exposed = of(Copy(3000), *WORK, Wait())
    found = assert_named(explained(hidden, exposed), "copies between host and device", 3.0)
    assert "overlap" in found["title"]


def test_copies_that_are_as_hidden_are_no_cause():
    a = of(Copy(3000, stream=COPIES), *WORK, Wait())
    b = of(*WORK[:2], Copy(3100, stream=COPIES), *WORK[2:], Wait())
    assert causes(explained(a, b)) == {}


def test_copies_of_the_same_bytes_that_waver_are_no_cause():
    a, b = (of(Copy(us, bytes=40_000_000), *WORK, Wait()) for us in (4000, 4800))
    assert causes(explained(a, b)) == {}


def test_longer_copies_that_stay_hidden_are_no_cause():
    a = of(Copy(2000, stream=COPIES), *WORK, Wait())
    b = of(Copy(6000, stream=COPIES, bytes=3_000_000), *WORK, Wait())
    assert causes(explained(a, b)) == {}


def test_copies_back_to_the_host():
    loss = Copy(1500, "device to host", "device to pageable", bytes=9_000_000)
    assert_named(explained(of(*WORK, Wait()), of(*WORK, loss, Wait())), "copies between host and device", 1.5)


@pytest.mark.parametrize("operation", ["device to device", "peer to peer", "set"])
def test_copies_on_the_device(operation):
    more = [Copy(20, operation, None) for _ in range(100)]
    assert_named(explained(of(*WORK, Wait()), of(*WORK, *more, Wait())), "copies on the device", 2.0)


def test_as_many_copies_on_the_device_are_no_cause():
    some = [Copy(20, "device to device", None) for _ in range(100)]
    same = [replace(one, us=20.4) for one in some]
    assert causes(explained(of(*WORK, *some, Wait()), of(*some, *WORK, Wait()))) == {}
    assert causes(explained(of(*WORK, *some, Wait()), of(*WORK, *same, Wait()))) == {}


# --- communication --------------------------------------------------------------------------------------------------------------


def reduce(us, stream=NETWORK):
    return Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", us, "communication", stream=stream)


def test_communication_that_is_no_longer_hidden():
    hidden, exposed = of(reduce(4000), *WORK, Wait()), of(*WORK, Wait(), reduce(4000), Wait())
    found = assert_named(explained(hidden, exposed), "exposed communication", 4.0)
    assert "hidden" in found["title"]


def test_communication_that_lasts_longer():
    a, b = of(*WORK, Wait(), reduce(2000), Wait()), of(*WORK, Wait(), reduce(5000), Wait())
    found = assert_named(explained(a, b), "exposed communication", 3.0)
    assert "longer" in found["title"]


def test_longer_communication_that_stays_hidden_is_no_cause():
    assert causes(explained(of(reduce(2000), *WORK, Wait()), of(reduce(8000), *WORK, Wait()))) == {}


def test_communication_that_wavers_is_no_cause():
    a, b = (of(*WORK, Wait(), reduce(us), Wait()) for us in (8000, 9000))
    assert causes(explained(a, b)) == {}


def test_communication_as_exposed_is_no_cause():
    a = of(*WORK, Wait(), reduce(4000), Wait())
    b = of(*WORK[:5], reduce(4000, NETWORK), *WORK[5:], Wait(), reduce(4040), Wait())
    assert causes(explained(a, b)) == {}


# --- idle -----------------------------------------------------------------------------------------------------------------------


def after_wait(*host):
    return of(*WORK, Wait(), *host)


LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.mark.parametrize("where", ["operator", "range"])
def test_waiting_for_the_loader(where):
    a, b = (after_wait(Host(us, **{where: LOADING})) for us in (500, 6500))
    assert_named(explained(a, b), "input pipeline", 6.0)
    assert_named(explained(b, a), "input pipeline", -6.0)


def test_waiting_before_the_batch_is_copied_where_no_operators_are_recorded():
    plain = [replace(kernel, operator=None) for kernel in WORK]
    a, b = (of(Host(us), Copy(300), *plain, Wait()) for us in (300, 5300))
    assert_named(explained(a, b), "input pipeline", 5.0)


def test_waiting_for_a_batch_that_another_thread_copies():
    a, b = (of(Host(us), Copy(300, thread=LOADER, stream=COPIES), Wait(), *WORK, Wait()) for us in (300, 5300))
    assert_named(explained(a, b), "input pipeline", 5.0)


def test_the_hosts_own_work():
    a, b = (after_wait(Host(us, operator="aten::index_put_")) for us in (500, 4500))
    assert_named(explained(a, b), "host-bound", 4.0)
    a, b = (after_wait(Host(us)) for us in (500, 4500))
    assert_named(explained(a, b), "host-bound", 4.0)


def test_launches_one_by_one_of_kernels_that_are_too_short():
    small = [item for _ in range(200) for item in (Kernel("tiny", 5, operator="aten::add"), Host(20, operator="aten::add"))]
    dense = [item for _ in range(200) for item in (Kernel("tiny", 5, operator="aten::add"), Host(2, operator="aten::add"))]
    assert_named(explained(of(*dense, Wait()), of(*small, Wait())), "host-bound", 200 * (22 - 7) / 1000, within=0.15)


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("cudaStreamSynchronize", "synchronisation"),
        ("cuModuleLoadData", "compilation in steps"),
        ("cudaMalloc", "allocator traffic"),
        ("cudaFree", "allocator traffic"),
    ],
)
def test_what_the_host_does_in_calls(call, cause):
    assert_named(explained(after_wait(Host(300)), after_wait(Host(300), Host(3000, call=call))), cause, 3.0)


def test_copying_calls_that_take_longer():
    """As many wait on both sides, so that the calls themselves are what differs."""
    copying = [Host(us, call="cudaMemcpyAsync") for us in (300, 3300)]
    said = explained(*(after_wait(call, Host(300)) for call in copying))
    assert "cudaMemcpyAsync" in assert_named(said, "slow copying calls", 3.0)["title"]
    hidden = [of(*WORK, call, Wait(), Host(300)) for call in copying]
    assert causes(explained(*hidden)) == {}


def test_a_difference_that_no_rule_knows_is_not_said_to_be_noise():
    said = explained(after_wait(Host(300)), after_wait(Host(300), Host(3000, range="warm-up")))
    assert (said["findings"], "(idle: warming up) +3.00 ms" in said["abstained"]) == ([], True)
    assert "two runs of one program" not in said["abstained"]


def step_by_step(wait):
    """Return a step whose host works for 150 us between kernels of 200 us, and waits for each of them or not."""
    own = [item for n in range(20) for item in (Kernel(f"k{n}", 200), *([wait] if wait else []), Host(150, operator="aten::x"))]
    return of(*own, Wait(), Host(300))


def test_waits_that_keep_the_host_from_launching_ahead():
    """The device idles while the host works, and that is because the host waits after each kernel."""
    said = explained(step_by_step(None), step_by_step(Wait("cudaStreamSynchronize")))
    assert_named(said, "synchronisation", 20 * 0.152, within=0.15)


def test_as_many_waits_are_no_synchronisation():
    a, b = step_by_step(Wait("cudaStreamSynchronize")), step_by_step(Wait("cudaStreamSynchronize"))
    assert causes(explained(a, b)) == {}


def test_waits_when_nothing_is_left_to_launch_are_no_cause():
    a, b = of(*WORK, Wait(), Host(300)), of(*WORK, Wait(), Wait("cudaStreamSynchronize"), Host(300))
    assert causes(explained(a, b)) == {}


@pytest.mark.parametrize("where", ["operator", "range"])
def test_compiling(where):
    a, b = after_wait(Host(300)), after_wait(Host(300), Host(3000, **{where: "TorchDynamo compile_inner"}))
    assert_named(explained(a, b), "compilation in steps", 3.0)


def test_host_work_that_the_device_does_not_wait_for_is_no_cause():
    a, b = (of(*WORK, Host(us, operator="aten::item"), Wait(), Host(300)) for us in (500, 7500))
    assert causes(explained(a, b)) == {}


def test_loading_that_the_device_does_not_wait_for_is_no_cause():
    a, b = (of(*WORK, Host(us, operator=LOADING), Wait(), Host(300)) for us in (500, 7500))
    assert causes(explained(a, b)) == {}


@pytest.mark.parametrize("steps", [None, "period"])
@pytest.mark.parametrize("copies", [1, 3])
def test_the_same_idle_time_has_one_cause_however_steps_are_found(steps, copies):
    """The period of the kernels begins with any of them: what is copied for a step comes somewhere within it."""
    plain = [replace(kernel, operator=None) for kernel in WORK]
    a, b = (of(Host(us), *[Copy(300)] * copies, *plain, Wait(), steps=20) for us in (300, 5300))
    assert_named(explained(a, b, parse(steps)), "input pipeline", 5.0)


def test_idle_time_before_one_of_several_copies_within_a_period_is_none_of_the_loaders():
    plain = [replace(kernel, operator=None) for kernel in WORK]
    a, b = (of(Copy(300), *plain[:5], Wait(), Host(us), Copy(300), *plain[5:], Wait(), steps=20) for us in (300, 5300))
    assert_named(explained(a, b, parse("period")), "host-bound", 5.0)


def test_the_programs_own_time_is_not_surely_one_of_launches():
    """As many kernels on both sides, and the device idles while none is launched."""
    a, b = (after_wait(Host(us)) for us in (500, 4500))
    found = assert_named(explained(a, b), "host-bound", 4.0)
    assert found["confidence"] == "medium"
    assert "CUDA graphs" not in found["remedy"]
    small = [item for _ in range(200) for item in (Kernel("tiny", 5, operator="aten::add"), Host(20, operator="aten::add"))]
    found = assert_named(explained(of(*small[:200], Wait()), of(*small, Wait())), "host-bound", 1.5, within=0.3)
    assert found["confidence"] == "high"
    assert "CUDA graphs" in found["remedy"]


# --- noise ----------------------------------------------------------------------------------------------------------------------

BUSY = [*training()[:-1], Host(2000, operator="aten::index"), Host(1000, operator=LOADING), Host(1000)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("steps", [3, 8, 20])
def test_two_recordings_of_one_program_differ_by_nothing(seed, steps):
    sides = [recording(BUSY, steps, noise=Noise(0.02, 0.08, seed=number)) for number in (2 * seed, 2 * seed + 1)]
    said = explained(*sides)
    assert causes(said) == {}
    assert said["abstained"]


@pytest.mark.long
@pytest.mark.parametrize("steps", [1, 8])
@pytest.mark.parametrize(("kernels", "host"), [(1.018, 1.0), (1.0, 1.08), (0.985, 1.08), (1.015, 0.93), (1.0, 1.09)])
def test_a_little_slower_in_all_is_noise(kernels, host, steps):
    assert causes(explained(recording(BUSY, steps), recording(scaled(BUSY, kernels, host), steps))) == {}


@pytest.mark.parametrize("steps", [3, 8, 20])
def test_a_difference_is_seen_through_the_noise(steps):
    slower = changed(
        BUSY, lambda item: replace(item, us=item.us + 9000) if isinstance(item, Host) and item.operator == LOADING else None
    )
    a, b = recording(BUSY, steps, noise=Noise(0.02, 0.08, 1)), recording(slower, steps, noise=Noise(0.02, 0.08, 2))
    assert_named(explained(a, b), "input pipeline", 9.0, within=0.25)


def test_movements_that_hide_each_other_are_both_named():
    faster = changed(
        BUSY, lambda item: replace(item, us=item.us * 0.5) if isinstance(item, Kernel) and item.kind == "gemm" else None
    )
    slower = changed(
        faster, lambda item: replace(item, us=item.us + 950) if isinstance(item, Host) and item.operator == LOADING else None
    )
    said = explained(recording(BUSY), recording(slower))
    assert abs(said["wall_delta_ns"]) < 100_000
    assert_named(said, "input pipeline", 0.95)
    assert_named(said, "slower gemm kernels", -0.9)
    assert said["hidden"]
