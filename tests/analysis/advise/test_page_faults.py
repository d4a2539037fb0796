"""Advice on kernels that wait for page faults of unified memory."""

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import conform
from tests.analysis.explain.device.synthetic import Kernel, recording
from tests.analysis.explain.device.test_faults import told, totals


def advised(trace):
    return advice.of_subject(of_trace(trace, "made-up"))


def of_page_faults(trace):
    return next((one for one in advised(trace)["advice"] if one["topic"] == "page faults"), None)


def test_kernels_that_wait_for_page_faults():
    found = of_page_faults(totals({"add": (1, 2360)}, 12, 1610, 36))
    assert (found["title"], found["saves_ns"]) == ("kernels wait for page faults of unified memory", 1_610_000)
    assert found["at_most"]
    assert found["evidence"] == [
        "Page faults take 1.61 ms in 12 groups; kernels take 2.36 ms, which includes these waits.", "The CPU had 36 page faults.",
    ]  # fmt: skip
    assert found["remedy"].startswith("cudaMemPrefetchAsync before the kernel")


def test_page_faults_save_no_more_than_kernels_take():
    found = of_page_faults(totals({"add": (1, 2898)}, 15, 3037))
    assert found["saves_ns"] == 2_898_000
    assert "which cannot include all of that" in found["evidence"][0]


def test_a_program_that_prefetches_is_told_what_else_to_prefetch():
    trace = totals({"add": (1, 236)}, 1, 228, calls=("cudaMemPrefetchAsync",))
    assert of_page_faults(trace)["remedy"].startswith("cudaMemPrefetchAsync of all that the kernel touches")


def test_few_page_faults_are_a_note():
    trace = totals({"add": (200, 13437)}, 3, 900)
    assert of_page_faults(trace) is None
    said = "kernels wait for page faults of unified memory, 900 µs in 3 groups: a small part of their time"
    assert said in advised(trace)["notes"]


@pytest.mark.parametrize("trace", [totals({"add": (1, 2360)}), totals({"add": (1, 2360)}, of_cpu=36)])
def test_no_page_faults_of_the_device_are_no_topic(trace):
    assert of_page_faults(trace) is None
    assert not any("page faults" in note for note in advised(trace)["notes"])


def test_nothing_tells_in_which_steps_page_faults_are():
    trace = recording([Kernel("add", 1000), Kernel("mul", 1000, "gemm")], 8)
    trace.totals = conform("totals", told(8, 8000))
    assert of_page_faults(trace) is None


def first(longest_us=3000, shortest_us=30, calls=("cudaMallocManaged",)):
    """Three executions that take 3,060 µs in all."""
    trace = totals({"add": (3, 3060)}, calls=calls)
    trace.kernels["min_ns"], trace.kernels["max_ns"] = shortest_us * 1000, longest_us * 1000
    return trace


def test_one_long_execution_with_unified_memory_is_its_page_faults():
    found = of_page_faults(first())
    assert found["title"] == "one execution of add waits, as for page faults of unified memory at its first use"
    assert (found["saves_ns"], found["at_most"]) == (2_970_000, True), "3,000 µs less the mean of the others, 30 µs"
    assert found["remedy"].startswith("cudaMemPrefetchAsync before the kernel")


@pytest.mark.parametrize(
    "trace",
    [first(calls=()), first(calls=("cudaMallocManaged", "cudaMemPrefetchAsync")), first(longest_us=1100, shortest_us=900)],
    ids=["no unified memory", "moved ahead", "all alike"],
)
def test_otherwise_a_long_execution_is_not_known_to_wait_for_pages(trace):
    assert of_page_faults(trace) is None
