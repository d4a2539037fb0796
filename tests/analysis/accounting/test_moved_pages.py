"""Moves of unified memory in totals: they stand beside the sum if kernels wait for them."""

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.accounting.device_account import account
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.trace import conform
from tests.analysis.explain.device.test_faults import totals


def moves(*rows):
    names = ("memory", "count", "bytes", "duration_ns")
    given = [{"operation": "unified memory", "device": "cuda:0", **dict(zip(names, row, strict=True))} for row in rows]
    return conform("copies", given)


def sums(trace):
    """The whole by breakdown, by the account that explain uses, and by advise."""
    return int(breakdown(trace, "kernel").table["duration_ns"].sum()), account(trace).step_ns, of_trace(trace, "x").step_ns


@pytest.mark.parametrize(
    ("of_cpu", "back"),
    [
        (960, 5_816_995),  # each fault of the CPU may fetch 2 MiB, between kernels
        (31, 0),  # too few: the device makes room, while kernels wait
        (0, 0),
    ],
)
def test_moves_of_a_recording_with_page_faults(of_cpu, back):
    trace = totals({"sumMatrixGPU": (2, 72_837)}, 297, 71_997, of_cpu)
    trace.copies = moves(("host to device", 5030, 192 << 20, 28_770_710), ("device to host", 384, 64 << 20, 5_816_995))
    assert sums(trace) == (72_837_000 + back,) * 3


def test_a_kernel_that_fills_memory_and_one_that_finds_it_filled_have_the_same_moves_back():
    """Of a program with and without cudaMemPrefetchAsync: 24 moves to the host in both."""
    faulting = totals({"init": (1, 1063), "add": (1, 53)}, 14, 1028, 12)
    faulting.copies = moves(("device to host", 24, 4 << 20, 664_961))
    assert sums(faulting) == (1_063_000 + 53_000 + 664_961,) * 3


def test_small_moves_to_the_device_answer_faults_that_were_not_recorded():
    trace = totals({"add": (2, 3000)})
    trace.copies = moves(("host to device", 1000, 64 << 20, 900_000), ("device to host", 384, 64 << 20, 700_000))
    assert sums(trace) == (3_700_000,) * 3


def test_small_moves_of_unknown_size_are_known_by_their_time():
    """nsys prints moves by time and by size in two tables."""
    trace = totals({"inc": (1, 44_397)})
    trace.copies = moves(("host to device", 2003, None, 14_633_687), ("device to host", 768, None, 11_014_560))
    assert sums(trace) == (44_397_000 + 11_014_560,) * 3
    trace.copies = moves(("host to device", 100, None, 14_633_687))  # 146 us each: whole blocks
    assert sums(trace) == (44_397_000 + 14_633_687,) * 3


@pytest.mark.parametrize(
    ("calls", "move"),
    [
        (("cudaMemPrefetchAsync",), ("host to device", 1000, 64 << 20, 900_000)),  # moved ahead
        ((), ("host to device", 99, 6 << 20, 900_000)),  # few
        ((), ("host to device", 1000, 1000 << 20, 900_000)),  # large
        ((), ("host to device", 1000, 64 << 20, 3_000_001)),  # longer than the kernels
    ],
)
def test_other_moves_are_in_every_sum(calls, move):
    trace = totals({"add": (2, 3000)}, calls=calls)
    trace.copies = moves(move)
    assert sums(trace) == (3_000_000 + move[3],) * 3
