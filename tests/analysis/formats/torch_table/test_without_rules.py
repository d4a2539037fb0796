"""Tables as people post them: without the lines of dashes, or without columns; and what only looks like them."""

import re
import time

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.formats.torch_table import tables
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.analysis.formats.torch_table.made import NEW, printed, read, row

ROWS = [
    row("aten::_convolution", "1.500ms", "2.000ms", "3.000ms", "2"),
    row("SLOW PASS", "1.000ms", "9.000ms", "0.000us", "1"),
    row("cudaLaunchKernel", "10.000us", "10.000us", "0.000us", "2"),
]
TOTALS = ("Self CPU time total: 2.510ms", "Self CUDA time total: 5.000ms")
CPU = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
ON_CPU = [
    ("aten::bmm", "97.30%", "2.320s", "98.37%", "2.345s", "117.248ms", "20"),
    ("aten::_softmax", "1.00%", "23.830ms", "1.00%", "23.830ms", "2.383ms", "10"),
]


def bare(heading, rows, totals=()):
    """Return a table without its lines of dashes."""
    return re.sub(r"(?m)^[- ]+\n", "", printed(heading, rows, totals))


def without(names, heading, rows):
    """Return heading and rows without some columns."""
    kept = [place for place, name in enumerate(heading) if name not in names]
    return [[line[place] for place in kept] for line in (heading, *rows)]


@pytest.mark.parametrize("around", ["{}", "step 1\n{}done\n", "```\n{}```\nMore text  with  spaces\n", "\n\n{}\n\n"])
def test_the_heading_alone_marks_a_table(tmp_path, around):
    plain = read(tmp_path, printed(NEW, ROWS, TOTALS))
    posted = read(tmp_path, around.format(bare(NEW, ROWS, TOTALS)))
    assert posted.kernels.equals(plain.kernels)
    assert posted.totals.equals(plain.totals)
    assert posted.diagnostics == plain.diagnostics
    assert posted.kernels["name"].tolist() == ["aten::_convolution", UNLISTED]


def test_in_a_comment_of_the_program(tmp_path):
    text = "".join(f"# {line}\n" for line in bare(NEW, ROWS, TOTALS).splitlines())
    assert read(tmp_path, text).kernels["duration_ns"].tolist() == [3_000_000, 2_000_000]


def test_rows_that_were_cut_out(tmp_path):
    lines = bare(NEW, ROWS, TOTALS).splitlines()
    trace = read(tmp_path, "\n".join([*lines[:2], "  ...", *lines[2:]]) + "\n")
    assert trace.totals["name"].tolist() == ["aten::_convolution", "SLOW PASS", "cudaLaunchKernel"]
    assert trace.kernels["duration_ns"].sum() == 5_000_000


def test_calls_follow_from_the_cpu_s_average(tmp_path):
    heading, *rows = without(["# of Calls"], CPU, ON_CPU)
    trace = read(tmp_path, bare(heading, rows, ["Self CPU time total: 2.384s"]))
    assert trace.kernels["count"].tolist() == [20, 10, 0]
    assert "calls" not in trace.info["unavailable"]
    assert any("they are CPU total divided by CPU time avg" in note for note in trace.info["notes"])


@pytest.mark.parametrize("table", [printed, bare])
def test_without_calls_and_averages_they_are_unknown(tmp_path, table):
    heading, *rows = without(["CPU time avg", "CUDA time avg", "# of Calls", "Input Shapes", "Total MFLOPs"], NEW, ROWS[:1])
    trace = read(tmp_path, table(heading, rows, ["Self CUDA time total: 3.000ms"]))
    assert trace.kernels[["name", "count", "duration_ns"]].values.tolist() == [["aten::_convolution", 1, 3_000_000]]
    assert trace.totals["count"].isna().all()
    assert "does not print the calls" in trace.info["unavailable"]["executions"]
    assert captures.lost(trace) == {}


@pytest.mark.parametrize(
    "text",
    [
        "Name  Self CPU  CPU total\n",  # no row
        "Name  Self CPU  CPU total\n\naten::mm  1.000ms  1.000ms\n",
        "Name  Self CPU  CPU total\naten::mm  1.0  1.0\n",  # no unit
        "Name Self CPU CPU total\naten::mm 1.000ms 1.000ms\n",  # one space
        "Name  Self CPU  Owner\naten::mm  1.000ms  me\n",  # no title of the profiler
        "Name  CPU total  CPU Mem\naten::mm  1.000ms  2 b\n",  # no own time
        "Name  Total Count  Time (ms)  Min Time (ms)\nConvolution  2  1.0000  0.5000\n",  # of MXNet
        "Name  Self CUDA  XPU total\naten::mm  1.000ms  1.000ms\n",  # of two devices
        "The Name  Self CPU  CPU total\naten::mm  1.000ms  1.000ms\n",
    ],
)
def test_what_only_looks_like_a_table(tmp_path, text):
    assert not tables.has_table(text)
    path = tmp_path / "t.txt"
    path.write_text(text)
    with pytest.raises(EvidenceError, match="no capture of a known format"):
        detect(path)


def test_nvprof_s_tables_are_its_own():
    text = "Time(%)   Time  Calls    Avg    Min    Max  Name\n 50.00%  1.000ms  1  1.000ms  1.000ms  1.000ms  Self\n"
    assert not tables.has_table(text)


def test_many_headings_and_long_lines_take_linear_time():
    text = "Name  Self CPU  CPU total\n" * 20_000 + "Name" + "  Self CPU" * 1000 + "\n" + "Name" + " " * 16_000 + "\n"
    before = time.perf_counter()
    assert not tables.has_table(text)
    assert tables.tables((text + "aten::mm  1.000ms  1.000ms\n" * 20_000).split("\n")) == []
    assert time.perf_counter() - before < 10


@pytest.mark.parametrize("below", ["\n", "\n\n"])
def test_empty_lines_below_the_heading_and_a_fence_above_the_sums(tmp_path, below):
    heading, *lines = bare(CPU, ON_CPU).splitlines()
    text = "\n".join(["```", heading + below, *lines, "```", "", "Self CPU time total: 2.384s"]) + "\n"
    kernels = read(tmp_path, text).kernels
    assert kernels["name"].tolist() == ["aten::bmm", "aten::_softmax", UNLISTED]
    # 2.384 s less 2.320 s and 23.830 ms
    assert kernels["duration_ns"].tolist() == [2_320_000_000, 23_830_000, 40_170_000]


def test_a_sum_behind_other_text_is_not_the_tables(tmp_path):
    heading, *lines = bare(CPU, ON_CPU).splitlines()
    text = "\n".join([heading, *lines, "```", "Another program", "Self CPU time total: 9.000s"]) + "\n"
    assert read(tmp_path, text).kernels["duration_ns"].sum() < 2_400_000_000  # as the percentages tell
