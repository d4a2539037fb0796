"""The account of a device's step, on loops made up: what each part is, and that all add up to the step."""

import numpy as np
import pytest

from kernelscope.analysis.accounting.device_account import COMMUNICATION, COMPUTE, COPY, GRAPH, IDLE, account
from kernelscope.analysis.attribution import steps
from kernelscope.analysis.errors import EvidenceError
from tests.analysis.accounting.unions import assert_adds_up, assert_counts_every_kernel
from tests.analysis.explain.device.synthetic import COPIES, NETWORK, Copy, Graph, Host, Kernel, Noise, Wait, recording


def made(*items, **options):
    trace = recording(items, **options)
    return steps.applied(trace, steps.find(trace))


def test_each_part_of_a_step():
    step = (
        Copy(300), Kernel("gemm", 1000, "gemm"), Wait(), Kernel("nccl", 700, "communication", stream=NETWORK), Wait(),
        Graph(400), Wait(), Host(500, operator="aten::item"),
    )  # fmt: skip
    done = assert_adds_up(made(*step))
    for part, us in ((COPY, 300), (COMPUTE, 1000), (COMMUNICATION, 700), (GRAPH, 400)):
        assert done.time_ns(part=part) == us * 1000, part
    assert done.time_ns(part=IDLE, cause="in operators") == pytest.approx(500_000, rel=0.02)
    assert done.busy_ns == 2_400_000


def test_what_runs_beside_kernels_has_its_duration_and_no_time():
    step = (Copy(300, stream=COPIES), Kernel("nccl", 700, "communication", stream=NETWORK), Kernel("gemm", 2000, "gemm"), Wait())
    done = assert_adds_up(made(*step))
    copy, network = done.of(part=COPY), done.of(part=COMMUNICATION)
    assert copy["duration_ns"].sum() == 300_000
    assert network["duration_ns"].sum() == 700_000
    assert copy["time_ns"].sum() + network["time_ns"].sum() <= 10_000  # but for what starts before the kernel is launched
    assert done.time_ns(part=COMPUTE) == 2_000_000


def test_kernels_at_a_time_share_it():
    done = assert_adds_up(made(Kernel("left", 1000, "gemm"), Kernel("right", 1000, "gemm", stream=30), Wait(), Host(50)))
    left, right = (done.time_ns(name=name) for name in ("left", "right"))
    assert left == pytest.approx(right, rel=0.01)
    assert left + right == done.time_ns(part=COMPUTE) == pytest.approx(1_002_000, abs=2)


def test_a_copy_that_overlaps_a_kernel_in_part_is_exposed_for_the_rest():
    done = assert_adds_up(made(Kernel("gemm", 500, "gemm"), Copy(1800, stream=COPIES), Wait(), Host(30)))
    assert done.of(part=COPY)["duration_ns"].sum() == 1_800_000
    assert done.time_ns(part=COPY) == pytest.approx(1_302_000, abs=2)  # it is launched 2 us after the kernel


def test_work_outside_of_steps_is_counted_there():
    done = assert_adds_up(made(Kernel("k", 1000), Wait(), before=[Kernel("warm", 60)] * 3, after=[Copy(70)]))
    outside = done.outside.set_index("part")
    assert outside.loc[COMPUTE, ["count", "duration_ns"]].tolist() == [3, 180_000]
    assert outside.loc[COPY, ["count", "duration_ns"]].tolist() == [1, 70_000]
    assert not done.rows["name"].isin(["warm"]).any()


def test_other_devices_are_not_of_the_account():
    trace = made(Kernel("k", 1000), Kernel("other", 300, device="cuda:1", stream=9), Wait(), Host(20))
    assert account(trace).device == "cuda:0"
    assert not assert_adds_up(trace, "cuda:0").rows["name"].isin(["other"]).any()
    other = assert_adds_up(trace, "cuda:1")
    assert other.time_ns(name="other") == 300_000
    assert assert_adds_up(trace, "all").busy_ns == pytest.approx(1_000_000, abs=3000)


def test_a_device_that_is_not_there():
    with pytest.raises(EvidenceError):
        account(made(Kernel("k", 1000), Wait()), "cuda:5")


@pytest.mark.parametrize("seed", range(5))
def test_random_loops(seed):
    random = np.random.default_rng(seed)

    def step(_number):
        items = [Kernel("first", float(random.integers(50, 900)), "gemm")]
        for _ in range(random.integers(5, 20)):
            us = float(random.integers(5, 700))
            items.append(random.choice([
                Kernel("k", us, "gemm"), Kernel("side", us, stream=21), Kernel("nccl", us, "communication", stream=NETWORK),
                Copy(us, stream=COPIES), Copy(us / 3), Graph(us), Host(us, operator="aten::x"), Host(us), Wait(),
            ]))  # fmt: skip
        return items

    trace = recording(step, 12, noise=Noise(0.05, 0.1, seed))
    applied = steps.applied(trace, steps.find(trace))
    assert_counts_every_kernel(applied, assert_adds_up(applied))
    assert_adds_up(steps.applied(trace, None))
