"""Tables whose columns count what is nested again: the device's before PyTorch 1.7, and lists of single events."""

import pytest

from kernelscope.analysis.formats.torch_table import nested
from kernelscope.analysis.formats.torch_table.trace import NOT_COUNTED
from tests.analysis.formats.torch_table.made import printed, read

OLD = ["Name", "Self CPU total", "CPU total", "CPU time avg", "CUDA total", "CUDA time avg", "Number of Calls"]
EVENTS = ["Name", "Self CPU total %", "Self CPU total", "CPU total", "CPU time avg"]


def old(tmp_path, *rows):
    """Read a table of rows with a name, own and total time of the host, total time of the device, and calls."""
    cells = [(name, own, host, "1.000us", device, "1.000us", calls) for name, own, host, device, calls in rows]
    return read(tmp_path, printed(OLD, cells, ("Self CPU time total: 60.000ms", "CUDA time total: 99.000ms"), width=16))


def events(tmp_path, *rows):
    cells = [(name, "1%", time, time, time) for name, time in rows]
    return read(tmp_path, printed(EVENTS, cells, ("Self CPU time total: 1.000s", "CUDA time total: 0.000us"), width=16))


def work(trace):
    return [(name, ns / 1e6) for name, ns in zip(trace.kernels["name"], trace.kernels["duration_ns"], strict=True)]


MATMUL, MM = ("aten::matmul", "1.000ms", "53.000ms", "79.200ms", "10"), ("aten::mm", "50.000ms", "52.000ms", "79.000ms", "10")


def test_an_operator_in_another_counts_once_on_the_device(tmp_path):
    """52 of matmul's 53 ms on the host are in what it calls, as long as mm takes; mm's callees take 2 ms, less than a matmul."""
    trace = old(tmp_path, MATMUL, MM)
    assert work(trace) == [("aten::mm", 79), (NOT_COUNTED, 0.2)]
    assert set(trace.kernels["device"]) == {"cuda"}
    assert trace.info["counted"] == "operators"
    assert trace.info["host_ns"] == 60_000_000
    assert work(old(tmp_path, MATMUL, MM, ("aten::add", "?", "1.000ms", "3.000ms", "10"))) == work(trace)


def test_very_long_tables_are_not_compared_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr(nested, "_MOST", 1)
    trace = old(tmp_path, MATMUL, MM)
    assert trace.kernels.empty
    assert "do not show which of its operators contain which" in trace.info["unavailable"]["kernels"]


@pytest.mark.parametrize(
    "other",
    [
        ("aten::add", "1.000ms", "1.000ms", "3.000ms", "10"),  # of 0.1 ms each: mm may call it, in its 2 ms of others
        ("aten::mul", "2.000ms", "9.000ms", "3.000ms", "10"),  # what it calls in 7 ms is unknown, and add may be
    ],
)
def test_no_device_time_counts_where_it_is_unclear_what_is_nested(tmp_path, other):
    trace = old(tmp_path, MATMUL, MM, other, ("aten::sub", "0.100ms", "0.100ms", "1.000ms", "10"))
    assert trace.kernels.empty
    assert "do not show which of its operators contain which" in trace.info["unavailable"]["kernels"]
    assert len(trace.totals) == 4


def test_views_that_may_be_nested_leave_it_clear(tmp_path):
    trace = old(tmp_path, MATMUL, MM, ("aten::t", "0.100ms", "0.100ms", "0.050ms", "10"))
    assert work(trace) == [("aten::mm", 79), (NOT_COUNTED, 0.25)]


def test_an_event_around_another_of_its_name_counts_once(tmp_path):
    """Two nodes are around the two operators, 0.02 ms longer each; the third, of 67 ms, is around none that is listed."""
    trace = events(
        tmp_path,
        ("uniform_", "176.000ms"), ("MkldnnConvolutionBackward", "67.000ms"), ("MkldnnConvolutionBackward", "65.070ms"),
        ("mkldnn_convolution_backward", "65.050ms"), ("MkldnnConvolutionBackward", "65.040ms"),
        ("mkldnn_convolution_backward", "65.020ms"),
    )  # fmt: skip
    inner = "mkldnn_convolution_backward"
    assert work(trace) == [
        ("uniform_", 176), ("MkldnnConvolutionBackward", 67), (inner, 65.05), (inner, 65.02), (NOT_COUNTED, 0.04),
    ]  # fmt: skip
    assert set(trace.kernels["device"]) == {"cpu"}
    assert any(
        "the longest single events only, nested ones included: 2 are surely nested" in note for note in trace.info["notes"]
    )


def test_events_of_about_the_same_time_that_are_not_surely_nested_all_count(tmp_path):
    rows = [
        ("relu", "5.000ms"),
        ("relu_", "4.999ms"),
        ("relu", "4.998ms"),
        ("AddBackward", "4.000ms"),
        ("add_backward", "3.900ms"),
    ]
    trace = events(tmp_path, *rows)
    assert work(trace)[:5] == [(name, float(time.removesuffix("ms"))) for name, time in rows]
    assert NOT_COUNTED not in set(trace.kernels["name"])


def test_sums_by_name_are_no_list_of_events(tmp_path):
    rows = [("MulBackward0", "5.000ms"), ("mul_backward", "4.999ms")]
    assert [ms for _, ms in work(events(tmp_path, *rows))][:2] == [5, 4.999]
