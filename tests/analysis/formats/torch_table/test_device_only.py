"""Tables that have a device's columns only, as vLLM and people who cut columns print them, and numbers of calls that follow."""

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.analysis.formats.torch_table.made import markdown, printed, read

HEADING = ["Name", "Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg", "# of Calls"]
ROWS = [
    ("aten::mm", "6.000ms", "60.00%", "6.000ms", "3.000ms", "2"),
    ("void gemm<float, 2>(int)", "4.000ms", "40.00%", "4.000ms", "1.000ms", "4"),
    ("ampere_sgemm_128x64_tn", "2.000ms", "20.00%", "2.000ms", "1.000ms", "2"),
    ("aten::add_", "4.000ms", "40.00%", "4.000ms", "4.000ms", "1"),
    ("void at::native::vectorized_elementwise_kernel<4, at...", "2.000ms", "20.00%", "2.000ms", "2.000ms", "1"),
    ("Memcpy DtoD (Device -> Device)", "2.000ms", "20.00%", "2.000ms", "2.000ms", "1"),
    ("MmBackward0", "0.000us", "0.00%", "6.000ms", "3.000ms", "2"),
    ("cudaLaunchKernel", "1.000ms", "10.00%", "1.000ms", "1.000ms", "1"),
    ("Activity Buffer Request", "1.000ms", "10.00%", "1.000ms", "1.000ms", "1"),
]
TOTAL = ("Self CUDA time total: 10.000ms",)
KERNELS = [["void gemm<float, 2>(int)", 4, 4_000_000], ["ampere_sgemm_128x64_tn", 2, 2_000_000], [ROWS[4][0], 1, 2_000_000]]


def listed(trace):
    return trace.kernels[["name", "count", "duration_ns"]].values.tolist()


def notes(trace):
    return "\n".join(trace.info["notes"])


@pytest.mark.parametrize("device", ["CUDA", "XPU"])
def test_kernels_count_once_though_no_time_of_the_host_tells_operators_from_them(tmp_path, device):
    heading, totals = ([text.replace("CUDA", device) for text in texts] for texts in (HEADING, TOTAL))
    trace = read(tmp_path, "step 1\n" + printed(heading, ROWS, totals))
    assert listed(trace) == KERNELS
    assert trace.copies["duration_ns"].tolist() == [2_000_000]
    assert set(trace.kernels["device"]) == {device.lower()}
    assert trace.totals.empty
    assert captures.lost(trace) == {}
    assert "has no times of the CPU: operators and kernels are told apart by their names" in notes(trace)
    assert "does not print the calls" not in notes(trace)


def test_markdown(tmp_path):
    assert listed(read(tmp_path, markdown(HEADING, ROWS, TOTAL))) == KERNELS


def test_operators_stand_for_kernels_that_were_cut(tmp_path):
    rows = [ROWS[0], ROWS[3], ("void small(int)", "1.000ms", "10.00%", "1.000ms", "1.000ms", "1")]
    trace = read(tmp_path, printed(HEADING, rows, TOTAL))
    assert listed(trace) == [["aten::mm", 2, 6_000_000], ["aten::add_", 1, 4_000_000]]


def test_calls_that_are_not_printed_are_the_total_by_the_average(tmp_path):
    trace = read(tmp_path, printed(HEADING[:-1], [row[:-1] for row in ROWS], TOTAL))
    assert listed(trace) == KERNELS
    assert "table of line 2 does not print the calls: they are CUDA total divided by CUDA time avg, rounded" in notes(trace)
    assert "may be off" not in notes(trace)
    assert captures.lost(trace) == {}


@pytest.mark.parametrize(
    ("total", "average", "calls", "off"),
    [
        ("1.866s", "535.426us", 3485, 1),  # 3485.08 +- 0.94
        ("1.454s", "57.029us", 25496, 9),
        ("494.207ms", "30.888ms", 16, 0),
        ("3.000ms", "1.000ms", 3, 0),
        ("3.001ms", "1.000ms", 3, 0),  # the average may be 1.0003
    ],
)
def test_rounding_of_derived_calls(tmp_path, total, average, calls, off):
    trace = read(tmp_path, printed(HEADING[:-1], [("void gemm(int)", total, "100.00%", total, average)]))
    assert trace.kernels["count"].tolist() == [calls]
    assert (f"a number may be off by {off}" in notes(trace)) == (off > 0)


@pytest.mark.parametrize(
    ("total", "average"),
    [("2.500ms", "1.000ms"), ("1.000ms", "3.000ms"), ("1.000ms", "0.000us"), ("1.000ms", "nan"), ("1.000ms", "-1.000ms")],
)
def test_times_that_are_no_multiple_give_no_calls_and_are_told(tmp_path, total, average):
    rows = [("void gemm(int)", "3.000ms", "75.00%", "3.000ms", "1.000ms"), ("void add(int)", total, "25.00%", total, average)]
    trace = read(tmp_path, printed(HEADING[:-1], rows, ("Self CUDA time total: 4.000ms",)))
    assert listed(trace) == [["void gemm(int)", 3, 3_000_000], [UNLISTED, 0, 1_000_000]]
    assert captures.lost(trace) == {"rows without a usable time or count": 1}


@pytest.mark.parametrize(
    "heading",
    [
        ["Name", "Self CUDA", "Self CUDA %", "XPU total", "XPU time avg"],
        ["Kernel", *HEADING[1:]],
        ["Name", "CUDA total", "CUDA time avg"],
        ["Name", "Self CUDA", "CUDA total", "Throughput"],
    ],
)
def test_other_headings_are_no_table_of_the_profiler(tmp_path, heading):
    path = tmp_path / "t"
    path.write_text(printed(heading, [("void gemm(int)", *["1.000ms"] * (len(heading) - 1))]))
    with pytest.raises(EvidenceError, match="no capture of a known format"):
        detect(path)
