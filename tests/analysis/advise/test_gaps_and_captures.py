"""Advice on idle time: the longest gaps are named, a graph's capture is no slow run, and pauses do not hide in a mean."""

import pandas as pd
import pytest

from kernelscope.analysis.advise.advice import of_subject
from kernelscope.analysis.advise.subject import of_trace
from kernelscope.analysis.attribution import calls
from kernelscope.reports.advice import answer
from tests.analysis.explain.device.synthetic import Host, Kernel, Wait, recording

STREAM = [Kernel("mul", 100, stream=7), Kernel("add", 100, stream=7)]


def advised(trace):
    return of_subject(of_trace(trace, "trace"))


def test_few_gaps_that_hold_the_time_are_named_with_what_is_around_them():
    """The first kernel of each step is launched long before it can run, and the device is idle meanwhile."""
    trace = recording([Kernel(f"k{number}", 50) for number in range(20)], 10)
    kernels = trace.kernels.sort_values("start_ns", ignore_index=True)
    late = kernels["name"].astype("object").eq("k10").astype(int)  # of each step: what runs from here on begins 2 ms later
    shift = late.cumsum() * 2_000_000
    trace.kernels = kernels.assign(start_ns=kernels["start_ns"] + shift, end_ns=kernels["end_ns"] + shift)
    found = next(one for one in advised(trace)["advice"] if one["topic"] == "gaps between kernels")
    text = " ".join(found["evidence"])
    assert "2.00 ms between k9 and k10 (10 gaps)" in text


def test_gaps_that_are_all_alike_are_not_named():
    trace = recording([Kernel(f"k{number}", 50) for number in range(20)], 10)
    kernels = trace.kernels.sort_values("start_ns", ignore_index=True)
    shift = pd.Series(range(len(kernels))) * 30_000
    trace.kernels = kernels.assign(start_ns=kernels["start_ns"] + shift, end_ns=kernels["end_ns"] + shift)
    found = next(one for one in advised(trace)["advice"] if one["topic"] == "gaps between kernels")
    assert not any("between k" in sentence for sentence in found["evidence"])


@pytest.mark.parametrize("prefix", ["cuda", "hip"])
def test_the_capture_of_a_graph_is_no_slow_run(prefix):
    captured = [Host(100, call=f"{prefix}StreamBeginCapture"), Host(40_000, operator="aten::mm"),
                Host(100, call=f"{prefix}StreamEndCapture")]  # fmt: skip
    trace = recording([Kernel("warm", 20), *captured, Kernel("warm", 20), Wait()], 1, marked=False)
    said = advised(trace)
    assert said["advice"] == []
    assert said["parts"][0]["what"] == "capturing a graph"
    assert said["parts"][0]["ns"] == pytest.approx(40_200_000, rel=0.01)
    assert sum(part["ns"] for part in said["parts"]) == said["step_ns"]
    assert said["notes"][0].startswith("a graph is captured here")


def test_a_short_capture_leaves_the_advice():
    captured = [Host(10, call="cudaStreamBeginCapture"), Host(100, operator="aten::mm"), Host(10, call="cudaStreamEndCapture")]
    trace = recording([Kernel("warm", 20), *captured, Host(5000), Kernel("warm", 20), Wait()], 1, marked=False)
    said = advised(trace)
    assert not any("captured" in note for note in said["notes"])
    assert any(part["what"] == "capturing a graph" for part in said["parts"])


def test_a_few_pauses_are_told_by_the_median():
    """148 steps of about 17 µs, and one that pauses for 3 ms."""
    trace = recording(lambda number: [Kernel("gemm", 100, "gemm"), Wait(), Host(30_000 if number == 70 else 5)], 149)
    text = answer(advised(trace))
    assert " on average (" in text
    assert "median " in text


@pytest.mark.parametrize(
    ("operation", "copy_ends_us", "waits"),
    [("device to device", 10, False), ("host to device", 500, False), ("host to device", 90, True), ("device to host", 99, True)],
)
def test_an_asynchronous_copy_that_ends_later_or_stays_on_the_device_is_not_waited_for(operation, copy_ends_us, waits):
    call = pd.DataFrame({"name": pd.Categorical(["cudaMemcpyAsync"]), "start_ns": [0], "end_ns": [100_000]})
    call = call.assign(correlation=pd.array([7], dtype="Int64"), process=pd.array([1], dtype="Int64"))
    copy = call[["correlation", "process"]].assign(end_ns=copy_ends_us * 1000, operation=operation)
    assert calls.waits(call).tolist() == [True]
    assert calls.waits(call, copy).tolist() == [waits]
