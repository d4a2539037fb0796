"""Headings as PyTorch prints them: titles may be longer than their columns; and tables in Markdown."""

import pytest

from tests.analysis.formats.torch_table.made import NEW, markdown, printed, read, row

ROWS = [
    row("aten::_convolution", "1.500ms", "2.000ms", "3.000ms", "2"),
    row("void gemm<float*, 2>(int)", "0.000us", "0.000us", "3.000ms", "4"),
    row("ProfilerStep*", "1.000ms", "9.000ms", "0.000us", "1"),
]
TOTALS = ("Self CPU time total: 2.500ms", "Self CUDA time total: 3.000ms")


@pytest.mark.parametrize("last", ["Total FLOPs", "Total KFLOPs", "Total MFLOPs", "Total GFLOPs"])
def test_titles_longer_than_their_columns(tmp_path, last):
    heading = [*NEW[:-3], "CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem", "# of Calls", last]
    rows = [(*cells[:-3], "0 b", "0 b", "0 b", "0 b", cells[-3], "2886218.023") for cells in ROWS]
    trace = read(tmp_path, printed(heading, rows, TOTALS, width=12))
    assert trace.kernels[["name", "duration_ns", "count"]].values.tolist() == [["void gemm<float*, 2>(int)", 3_000_000, 4]]
    assert any("Self CUDA Mem" in note and last in note for note in trace.info["notes"])


def test_markdown(tmp_path):
    plain = read(tmp_path, printed(NEW, ROWS, TOTALS))
    posted = read(tmp_path, "### Initial run:\n\n" + markdown(NEW, ROWS, TOTALS) + "\nmore text\n")
    assert posted.kernels.equals(plain.kernels)
    assert posted.totals.equals(plain.totals)
    assert "aten::_convolution" in set(posted.totals["name"])
    assert posted.diagnostics == plain.diagnostics


def test_the_sum_below_a_table_in_markdown_is_read(tmp_path):
    trace = read(tmp_path, markdown(NEW, ROWS, ("Self CPU time total: 2.500ms", "Self CUDA time total: 5.000ms")))
    assert trace.kernels["duration_ns"].tolist() == [3_000_000, 2_000_000]
