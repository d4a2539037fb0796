"""Headings as PyTorch prints them: titles may be longer than their columns; and tables in Markdown."""

import pytest

from kernelscope.analysis.formats.torch_table import tables
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


def test_markdown_without_bars_around_it(tmp_path):
    framed = markdown(NEW, ROWS, TOTALS)
    posted = "".join(f"{line.strip('| ')}\n" for line in framed.splitlines())
    assert "| " not in posted[:2]
    plain, bare = read(tmp_path, framed), read(tmp_path, posted)
    assert bare.kernels.equals(plain.kernels)
    assert bare.totals.equals(plain.totals)
    assert bare.diagnostics == plain.diagnostics


@pytest.mark.parametrize("make", [markdown, printed])
def test_marks_of_bold_text_are_no_part_of_times(tmp_path, make):
    rows = [row("void gemm<int>(int)", "0.000us", "0.000us", "3.000ms", "4"), row("add<2>", "0.000us", "0.000us", "1.000ms", "1")]
    text = make(NEW, rows).replace("3.000ms", "**3.000ms**").replace("add<2>", "**add<2>**")
    kernels = read(tmp_path, text).kernels
    assert kernels[["name", "duration_ns", "count"]].values.tolist()[:2] == [
        ["void gemm<int>(int)", 3_000_000, 4],
        ["add<2>", 1_000_000, 1],
    ]


def test_the_sum_below_a_table_in_markdown_is_read(tmp_path):
    trace = read(tmp_path, markdown(NEW, ROWS, ("Self CPU time total: 2.500ms", "Self CUDA time total: 5.000ms")))
    assert trace.kernels["duration_ns"].tolist() == [3_000_000, 2_000_000]


def test_a_cut_table_of_the_same_profile_without_its_sums_counts_once(tmp_path):
    rows = [row("aten::mm", "1.000ms", "1.000ms", "5.000ms", "10"), row("aten::add", "2.000ms", "2.000ms", "3.000ms", "20")]
    whole = printed(NEW, [*rows, row("aten::mul", "1.000ms", "1.000ms", "2.000ms", "5")], ["Self CUDA time total: 10.000ms"])
    kernels = read(tmp_path, whole + "\nby time on the CPU\n" + printed(NEW, rows[::-1])).kernels
    assert kernels["duration_ns"].sum() == 10_000_000
    other = row("aten::mm", "1.000ms", "1.000ms", "5.001ms", "10")
    assert read(tmp_path, whole + "\nafter\n" + printed(NEW, [rows[1], other])).kernels["duration_ns"].sum() == 18_001_000


def test_sums_below_a_heading_and_in_bold(tmp_path):
    text = printed(NEW, [row("aten::mm", "1.000ms", "1.000ms", "5.000ms", "10")])
    kernels = read(
        tmp_path, text + "\n#### Summary\n\n- **Self CPU time total:** 7.000ms\n- **Self CUDA time total:** 8.000ms\n"
    ).kernels
    assert kernels["duration_ns"].tolist() == [5_000_000, 3_000_000]


def test_without_sums_percentages_tell_what_was_not_printed(tmp_path):
    shares = {"aten::mm": "50.00%", "aten::add": "30.00%"}
    rows = [row("aten::mm", "1.000ms", "1.000ms", "5.000ms", "10"), row("aten::add", "1.000ms", "1.000ms", "3.000ms", "10")]
    rows = [tuple(shares[one[0]] if place == 7 else cell for place, cell in enumerate(one)) for one in rows]
    kernels = read(tmp_path, printed(NEW, rows)).kernels
    assert kernels["duration_ns"].tolist() == [5_000_000, 3_000_000, 2_000_000]
    assert kernels["name"].tolist()[-1] == "(in rows that were not printed)"


def test_views_and_the_profiler_s_own_rows_are_no_work(tmp_path):
    rows = [
        row("aten::mm", "1.000ms", "1.000ms", "5.000ms", "10"), row("aten::transpose", "1.000ms", "1.000ms", "1.000ms", "10"),
        row("Activity Buffer Request", "0.000us", "0.000us", "9.000ms", "1"),
    ]  # fmt: skip
    assert read(tmp_path, printed(NEW, rows)).kernels["name"].tolist() == ["aten::mm"]


def test_rules_of_equals_signs_as_in_restructuredtext(tmp_path):
    sums = ("**Self CPU time total:** 2.500ms", "**Self CUDA time total:** 5.000ms")
    plain = printed(NEW, ROWS, sums)
    lines = [f"   {line.replace('-', '=') if set(line) <= set('- ') else line}" for line in plain.splitlines()]
    ruled = read(tmp_path, "Profile::\n\n" + "\n".join(lines) + "\n")
    assert ruled.kernels[["name", "duration_ns"]].values.tolist()[0] == ["void gemm<float*, 2>(int)", 3_000_000]
    assert ruled.kernels["duration_ns"].sum() == 5_000_000
    assert ruled.info["host_ns"] == 2_500_000


def test_a_heading_above_other_signs_is_no_table(tmp_path):
    text = printed(["Name", "CPU total", "# of Calls"], [("aten::mm", "1.000ms", "2")])
    assert tables.has_table(text)
    assert tables.has_table(text.replace("-", "="))
    assert not tables.has_table(text.replace("-", "~"))
    assert not tables.has_table(text.replace("---  ", "-==  "))  # a rule has one sign
