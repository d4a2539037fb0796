"""Busy time of each device, worked out by hand."""

from kernelscope.analysis.device.busy import busy
from kernelscope.analysis.trace import Trace, conform


def test_sum_and_busy_time_differ_where_kernels_overlap_and_devices_stay_apart():
    rows = [("cuda:0", 0, 10), ("cuda:0", 5, 12), ("cuda:0", 20, 21), ("cuda:1", 0, 100)]
    kernels = [
        {"device": device, "start_ns": start, "end_ns": end, "duration_ns": end - start, "count": 1, "name": "k"}
        for device, start, end in rows
    ]
    trace = Trace(kernels=conform("kernels", kernels), info={"devices": [{"device": "cuda:1", "name": "A GPU"}]})
    assert busy(trace) == [
        {"device": "cuda:0", "name": None, "kernels": 3, "kernel_sum_ns": 18, "kernel_busy_ns": 13},
        {"device": "cuda:1", "name": "A GPU", "kernels": 1, "kernel_sum_ns": 100, "kernel_busy_ns": 100},
    ]


def test_totals_have_no_busy_time():
    kernels = [{"device": "cuda:0", "duration_ns": 7, "count": 4, "name": "k"}]
    assert busy(Trace(kernels=conform("kernels", kernels)))[0]["kernel_busy_ns"] is None
