"""Unified memory: kernels that wait longer for page faults, read memory of the host, or take longer for another reason."""

import pandas as pd
import pytest

from kernelscope.analysis.accounting.device_account import account
from kernelscope.analysis.attribution import steps
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.explain.device import CaptureSide, explain
from kernelscope.analysis.explain.device.causes import faults
from kernelscope.analysis.trace import Trace, conform, page_faults
from tests.analysis.explain.device.synthetic import Kernel, recording

CAUSE = "page faults of unified memory"


def totals(kernels, groups=0, us=0, of_cpu=0, calls=()):
    """A summary: kernels by name with their executions and µs, groups of page faults and how long all of them took."""
    rows = [
        {"name": name, "kind": "elementwise", "count": count, "duration_ns": kernel_us * 1000, "device": "cuda:0"}
        for name, (count, kernel_us) in kernels.items()
    ]
    return Trace(kernels=conform("kernels", rows), totals=conform("totals", told(groups, us, of_cpu, calls)))


def told(groups, us, of_cpu=0, calls=()):
    took = pd.Series([us * 1000] + [0] * (groups - 1) if groups else [], dtype="Int64")
    called = [{"table": "calls", "name": name, "count": 1, "duration_ns": 10} for name in calls]
    return pd.concat([page_faults.summed(took, of_cpu), pd.DataFrame(called)], ignore_index=True)


def findings(a, b):
    said = explain(CaptureSide("a", a), CaptureSide("b", b))
    assert sum(one["explains_ns"] for one in said["findings"]) + said["unexplained_ns"] == said["wall_delta_ns"]
    return {one["cause"]: one for one in said["findings"]}


def test_a_kernel_that_waits_longer_for_page_faults():
    before, after = totals({"add": (1, 2360)}, 12, 1610, 36), totals({"add": (1, 2898)}, 15, 3037, 36)
    found = findings(before, after)[CAUSE]
    assert found["title"] == (
        "kernels wait longer for page faults of unified memory in B than in A: "
        "1.61 ms in 12 groups in A, 3.04 ms in 15 groups in B"
    )
    assert (found["explains_ns"], found["confidence"]) == (538_000, "medium")
    assert "Page faults of the CPU: 36 in A, 36 in B." in found["evidence"]
    assert found["remedy"].startswith("cudaMemPrefetchAsync before the kernel")


def test_page_faults_that_are_gone():
    before, after = totals({"add": (1, 458)}, 2, 445), totals({"add": (1, 60)})
    found = findings(before, after)[CAUSE]
    assert "in A than in B: 445 µs in 2 groups in A, none in B" in found["title"]
    assert found["explains_ns"] == -398_000


def test_a_program_that_prefetches_is_told_what_else_to_prefetch():
    calls = ("cudaMemPrefetchAsync",)
    before, after = totals({"add": (1, 236)}, 1, 228, calls=calls), totals({"add": (1, 339)}, 1, 331, calls=calls)
    assert findings(before, after)[CAUSE]["remedy"].startswith("cudaMemPrefetchAsync of all that the kernel touches")


@pytest.mark.parametrize(
    "after",
    [
        totals({"add": (1, 2898)}, 12, 1610),  # as long as before: something else takes longer
        totals({"add": (1, 2898)}, 13, 1805),  # too little longer
        totals({"add": (1, 2898)}, 6, 800),  # shorter, where the kernel takes longer
        totals({"add": (200, 13437)}, 15, 3037),  # executed more often
    ],
)
def test_kernels_that_take_longer_for_another_reason(after):
    found = findings(totals({"add": (1, 2360)}, 12, 1610), after)
    assert CAUSE not in found
    assert found, "another rule has the kernels"


def test_kernels_that_got_faster_meanwhile_are_another_finding():
    before = totals({"add": (1, 2000), "sort": (1, 3000)}, 12, 1000)
    after = totals({"add": (1, 3000), "sort": (1, 1800)}, 15, 2000)
    found = findings(before, after)
    assert found[CAUSE]["explains_ns"] == 1_000_000
    assert sum(one["explains_ns"] for one in found.values()) == -200_000


def test_the_same_work_under_another_name():
    before, after = totals({"add_plain": (1, 2360)}, 12, 1610), totals({"add_prefetched": (1, 800)}, 1, 100)
    assert findings(before, after)[CAUSE]["explains_ns"] == -1_560_000


def test_nothing_tells_in_which_steps_page_faults_are():
    sides = []
    for us, groups, took in ((1000, 8, 800), (1500, 8, 8800)):
        trace = recording([Kernel("add", us), Kernel("mul", us, "gemm")], 8)
        trace.totals = conform("totals", told(groups, took))
        sides.append(trace)
    assert CAUSE not in findings(*sides)


def test_nothing_tells_which_of_several_devices_had_page_faults():
    trace = totals({"add": (1, 2360), "mul": (1, 2360)}, 12, 1610)
    trace.kernels = conform("kernels", trace.kernels.assign(device=["cuda:0", "cuda:1"]))
    assert page_faults.of_device(trace, "cuda:1") is None
    assert page_faults.of_device(trace, "all") == page_faults.PageFaults(12, 1_610_000, 0)


def test_nothing_tells_which_page_faults_are_in_a_window():
    trace = recording([Kernel("add", 1000)], 8)
    trace.totals = conform("totals", told(8, 800, 3, ("cudaFree",)))
    window = steps.windowed(trace, Request(window=(0, 2_000_000)))
    assert page_faults.of(window) == page_faults.PageFaults(0, 0, 0)
    assert window.totals["name"].tolist() == ["cudaFree"]
    assert page_faults.of(trace) == page_faults.PageFaults(8, 800_000, 3)


def of_unified_memory(bytes_to_device, bytes_back, blocks_back, took_ns):
    """Totals of moves of unified memory."""
    rows = [("host to device", 1000, bytes_to_device), ("device to host", blocks_back, bytes_back)]
    names = ["operation", "memory", "count", "bytes", "duration_ns", "device"]
    return conform("copies", pd.DataFrame([("unified memory", *row, took_ns, "cuda:0") for row in rows], columns=names))


def test_moves_that_kernels_wait_for_are_not_added_to_their_time():
    with_faults, without = totals({"add": (1, 2360)}, 12, 1610), totals({"add": (1, 2360)})
    for trace in (with_faults, without):
        trace.copies = of_unified_memory(8 << 20, 4 << 20, 1000, 100_000)
    assert account(with_faults).step_ns == 2_360_000
    assert account(with_faults).outside.to_dict("records") == [{"part": "copy", "count": 2000, "duration_ns": 200_000}]
    assert account(without).step_ns == 2_460_000, "small pieces answer faults that were not recorded; those back do not"
    without.copies = of_unified_memory(2000 << 20, 4 << 20, 1000, 100_000)
    assert account(without).step_ns == 2_560_000, "before Pascal, pages move between kernels, in large pieces"


def test_data_that_does_not_fit_is_worked_on_in_parts():
    before, after = totals({"add": (10, 5000)}, 10, 1000), totals({"add": (40, 80_000)}, 400, 70_000)
    before.copies = of_unified_memory(5 << 30, 1 << 20, 256, 600_000)
    after.copies = of_unified_memory(200 << 30, 180 << 30, 180 << 9, 16_000_000)  # 2 MiB each
    found = findings(before, after)[CAUSE]
    assert found["remedy"].startswith("work on parts of the data that fit into the device's memory")
    # 30 more executions at 0.5 ms; the rest of 75 ms is that each takes 2 ms
    assert "B runs it more often (+15.0 ms), and an execution takes longer there (+60.0 ms)." in found["evidence"]
    assert any("193 GB were evicted to the host" in sentence for sentence in found["evidence"])


def test_results_that_the_host_reads_are_not_evicted():
    trace = totals({"add": (10, 5000)}, 10, 1000)
    trace.copies = of_unified_memory(5 << 30, 5 << 30, 5 << 18, 600_000)  # pages of 4 KiB
    assert faults.evicted(trace) == 0


def mapped(kernels, remote):
    rows = pd.DataFrame([{"table": page_faults.TABLE, "name": page_faults.REMOTE, "count": remote}])
    trace = totals(kernels)
    return Trace(kernels=trace.kernels, totals=conform("totals", rows[: 1 if remote else 0]))


def test_memory_that_stays_on_the_host():
    found = findings(mapped({"flux": (60, 300)}, 0), mapped({"flux": (60, 27_000)}, 1037))["memory on the host"]
    assert found["explains_ns"] == 26_700_000
    assert "flux 300 µs in A, 27.0 ms in B (60 executions each)" in " ".join(found["evidence"])
    assert found["remedy"].startswith("keep the data on the device")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (mapped({"flux": (60, 300)}, 1000), mapped({"flux": (60, 27_000)}, 1037)),  # on both sides
        (mapped({"flux": (60, 300)}, 1037), mapped({"flux": (60, 27_000)}, 0)),  # on the faster one
        (mapped({"flux": (60, 300)}, 0), mapped({"flux": (6000, 27_000)}, 1037)),  # executed more often
    ],
)
def test_memory_on_the_host_that_is_not_the_reason(before, after):
    assert "memory on the host" not in findings(before, after)


def moving(kernel_us, host_to_device, back=(0, 0)):
    """A summary with one kernel and moves of unified memory: number and µs, to the device and back; no groups of faults."""
    trace = totals({"grow": (1, kernel_us)})
    rows = [
        {"operation": page_faults.UNIFIED, "memory": memory, "count": count, "duration_ns": us * 1000, "device": "cuda:0"}
        for memory, (count, us) in (("host to device", host_to_device), ("device to host", back))
        if count
    ]
    trace.copies = conform("copies", rows)
    return trace


@pytest.mark.parametrize("ahead", [(0, 0), (40, 7000)], ids=["not at all", "ahead"])
def test_kernels_that_wait_while_pages_move_in_small_pieces(ahead):
    managed, other = moving(24_000, (1500, 9000), (500, 6000)), moving(400, ahead, ahead)
    for a, b, slower in ((managed, other, "A"), (other, managed, "B")):
        found = findings(a, b)[CAUSE]
        assert found["title"].startswith(f"grow waits for page faults of unified memory in {slower}: ")
        assert found["explains_ns"] == (-23_600_000 if slower == "A" else 23_600_000)
        assert found["confidence"] == "medium"
        assert found["remedy"].startswith(f"in {slower}: cudaMemPrefetchAsync before the kernel")
        assert f"In {slower} unified memory moves to the device in 1,500 pieces of 6.00 µs" in found["evidence"][0]


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        (moving(24_000, (1500, 9000)), moving(23_000, (0, 0))),  # hardly longer
        (moving(24_000, (1500, 9000)), moving(400, (1200, 9000))),  # pages move alike on both sides
        (moving(24_000, (1500, 300)), moving(400, (0, 0))),  # moves take little of it
    ],
)
def test_moves_that_do_not_go_with_the_kernels_are_no_cause(slow, fast):
    assert CAUSE not in findings(slow, fast)


def test_the_side_that_moves_pages_ahead_is_not_told_to_prefetch():
    found = findings(moving(24_000, (1500, 9000), (500, 4000)), moving(400, (40, 12_000), (40, 7000)))
    remedy = found["copies between host and device"]["remedy"]
    assert remedy.startswith("B moves its data in few large pieces, as ahead of its use, and A on page faults")


@pytest.mark.parametrize("call", ["cudaMemPrefetchAsync", "cudaMalloc"])
def test_a_side_that_prefetches_is_not_told_to(call):
    a, b = moving(400, (0, 0), (24, 665)), moving(400, (4, 1317), (24, 664))
    b.totals = conform("totals", [{"table": "calls", "name": call, "count": 2, "duration_ns": 675_000}])
    remedy = findings(a, b)["copies between host and device"]["remedy"]
    assert remedy.startswith("B moves data ahead already" if call != "cudaMalloc" else "cudaMemPrefetchAsync and cudaMemAdvise")


def test_kernels_that_mostly_wait_for_faults_on_both_sides():
    found = findings(totals({"add": (1, 4200)}, 12, 3300), totals({"add": (1, 3600)}, 12, 3500))["slower kernels"]
    assert found["title"].startswith("add, which mostly waits for page faults of unified memory, takes 1.17 times as long in A")
    assert "without them it would take about 900 µs in A, 100 µs in B" in found["evidence"][0]
    assert found["remedy"].startswith("on both sides: cudaMemPrefetchAsync")


def test_faults_that_are_little_of_the_time_are_not_named():
    found = findings(totals({"add": (1, 4200)}, 12, 300), totals({"add": (1, 3600)}, 12, 350))["slower kernels"]
    assert "page faults" not in found["title"] + found["remedy"]


@pytest.mark.parametrize("faults_of_a", [True, False])
def test_bytes_are_compared_only_if_no_moves_are_part_of_kernels(faults_of_a):
    """A moves 8 MB on page faults (part of its kernel) and 4 back; B 12 ahead: as many bytes, or, without faults, unlike ones."""
    a = totals({"add": (1, 2360)}, *((12, 1610) if faults_of_a else ()))
    b = totals({"add": (1, 2360)})
    a.copies = (
        of_unified_memory(8 << 20, 4 << 20, 24, 100_000) if faults_of_a else of_unified_memory(1 << 30, 4 << 20, 24, 100_000)
    )
    b.copies = of_unified_memory(3 << 30, 4 << 20, 24, 900_000)
    found = findings(a, b)["copies between host and device"]
    text = " ".join([found["title"], *found["evidence"]])
    assert ("times the bytes" not in text and "They move" not in text) is faults_of_a
    assert found["confidence"] == ("medium" if faults_of_a else "high")
