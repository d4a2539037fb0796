"""Notes on single kernels: one of the program's own with most of the time, and one execution far longer than the others."""

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform
from tests.analysis.advise.test_totals import summary

OWN, OUTLIER = "is a kernel of no known library", "the longest of"


def notes(kernels, word=OWN, **more):
    return [note for note in summary(kernels, **more)["notes"] if word in note]


def test_a_kernel_of_the_programs_own_with_most_of_the_time():
    """90 of 100 ms; the remaining 10 are of a library."""
    (note,) = notes([("walk(int*, float*)", "unknown", None, 30, 90), ("volta_sgemm_128x64_nn", "gemm", "f32", 30, 10)])
    assert note.startswith("walk takes 90.0 ms (90%), 3.00 ms in each of 30 executions, and is a kernel of no known library")
    assert "ncu --set full --kernel-name walk" in note


def test_attention_is_to_be_compared_with_a_fused_one():
    (note,) = notes([("flash_attention_prefill_f16", "attention", "f16", 1, 90), ("add", "elementwise", "f16", 1, 10)])
    assert "FlashAttention" in note


@pytest.mark.parametrize(
    "kernels",
    [
        [("walk(int*)", "unknown", None, 30, 49), ("step(int*)", "unknown", None, 30, 51 - 2), ("add", "unknown", None, 1, 2)],
        [("walk(int*)", "unknown", None, 1, 0.09)],
        [("void at::native::reduce_kernel<512, 1>(int)", "reduction", None, 30, 90)],
        [("triton_poi_fused_add_0", "elementwise", None, 30, 90)],
        [("volta_sgemm_128x64_nn", "gemm", "f32", 30, 90)],
        [("ncclDevKernel_AllReduce(int)", "communication", None, 30, 90)],
        [("matmul_naive(float*)", "gemm", "f32", 30, 90)],
    ],
    ids=["half", "too short", "PyTorch's", "a compiler's", "a library's", "communication", "has advice of its own"],
)
def test_other_kernels_need_no_such_note(kernels):
    assert not notes(kernels)


def executions(longest_us, shortest_us=100, count=3, total_us=1200, kind="elementwise"):
    """Return the note on executions of a kernel in totals, beside 800 µs of others."""
    one = {"name": "saxpy(float*)", "kind": kind, "count": count, "duration_ns": total_us * 1000, "device": "cuda:0",
           "min_ns": shortest_us * 1000, "max_ns": longest_us * 1000}  # fmt: skip
    rest = {"name": "rest(float*)", "kind": "elementwise", "count": 1, "duration_ns": 800_000, "device": "cuda:0"}
    result = advice.of_subject(of_trace(Trace(kernels=conform("kernels", [one, rest])), "made-up"))
    return [note for note in result["notes"] if OUTLIER in note]


def test_an_execution_far_longer_than_the_others_is_told():
    """1,000 of 1,200 µs; the other two take 100 each."""
    (note,) = executions(1000)
    assert note.startswith("the longest of 3 executions of saxpy takes 1.00 ms, the others 100 µs on average, as with more data")
    assert "its first use" in note


def test_a_long_collective_waits_for_another_rank():
    (note,) = executions(1000, kind="communication")
    assert note.endswith("as when it waits for another rank")


@pytest.mark.parametrize(
    "numbers",
    [
        {"longest_us": 800},
        {"longest_us": 1000, "count": 2},
        {"longest_us": 200, "shortest_us": 1, "count": 100, "total_us": 1200},
    ],
    ids=["four times the others", "two executions", "a small part"],
)
def test_executions_that_differ_less_are_not_told(numbers):
    assert not executions(**numbers)


def one_by_one(grids, times=(200, 210, 1200)):
    rows = [
        {"name": "saxpy", "kind": "elementwise", "count": 1, "duration_ns": us * 1000, "device": "cuda:0", "grid": grid}
        for us, grid in zip(times, grids, strict=True)
    ]
    return [
        note for note in advice.of_subject(of_trace(Trace(kernels=conform("kernels", rows)), "x"))["notes"] if OUTLIER in note
    ]


def test_equal_grids_and_the_order_of_executions_are_used():
    (note,) = one_by_one(["64,1,1"] * 3)
    assert "the others 205 µs on average, with the same grid: as for page faults" in note
    (first,) = one_by_one(["64,1,1"] * 3, (1200, 200, 210))
    assert "its first use" in first
    (sizes,) = one_by_one(["64,1,1", "64,1,1", "512,1,1"])
    assert "as with more data" in sizes
