"""Advice on a small kernel that is launched many times for each run of the kernels around it."""

import pytest

from kernelscope.analysis.advise import advice
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import Trace, conform

SMALL = {"name": "find_least(float*, int)", "kind": "reduction", "count": 1000, "duration_ns": 6_000_000, "max_ns": 9_000}
AROUND = {"name": "move(float*)", "kind": "unknown", "count": 10, "duration_ns": 20_000_000, "max_ns": 3_000_000}


def found(small=None, around=None, *others):
    rows = [{"device": "cuda:0", **one} for one in ({**SMALL, **(small or {})}, {**AROUND, **(around or {})}, *others)]
    result = advice.of_subject(of_trace(Trace(kernels=conform("kernels", rows)), "made-up"))
    return [one for one in result["advice"] if one["topic"] == "small kernels"]


def test_a_small_kernel_in_a_loop():
    """6 ms less one launch as long as the longest, 9 µs, in each of 10 runs."""
    (one,) = found()
    assert one["title"] == "find_least is launched 100 times for each run of move, hardly longer than a launch each"
    assert (one["saves_ns"], one["at_most"]) == (6_000_000 - 10 * 9_000, True)
    assert one["evidence"] == ["It takes 6.00 ms (23%) in all, 6.00 µs in each of 1,000 executions."]


@pytest.mark.parametrize(
    ("small", "around", "others"),
    [
        ({"duration_ns": 10_100_000}, {}, []),
        ({"count": 1001}, {}, []),
        ({}, {"count": 25}, []),
        ({}, {"duration_ns": 60_000_000}, []),
        ({"name": "void at::native::reduce_kernel<512, 1>(int)"}, {}, []),
        ({}, {}, [{"name": "scale(float*)", "kind": "elementwise", "count": 500, "duration_ns": 3_000_000}]),
        ({"count": 400, "duration_ns": 3_600_000}, {"count": 4, "duration_ns": 8_000_000}, []),
    ],
    ids=[
        "longer than a launch",
        "no whole number",
        "too often around",
        "a small part",
        "a framework's",
        "many small ones",
        "few",
    ],
)
def test_other_small_kernels_are_in_no_such_loop(small, around, others):
    assert not found(small, around, *others)
