"""Page faults of unified memory: kernels that wait longer for them, and kernels that take longer for another reason."""

import pandas as pd
import pytest

from kernelscope.analysis.attribution import steps
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.explain.device import CaptureSide, explain
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
