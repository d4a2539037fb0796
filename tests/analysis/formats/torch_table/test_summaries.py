"""Summaries with people's own titles: read where these say what the columns are, and never with a guessed unit."""

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.formats.torch_table import summaries, tables
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.analysis.formats.torch_table.made import read


def table(*lines):
    """Return a Markdown table of lines whose cells commas divide."""
    cells = [line.split(", ") for line in lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in [cells[0], ["---"] * len(cells[0]), *cells[1:]])


OPERATORS = (
    "aten::svd, 17, 3.12, 37.71",
    "void gesvd(long), 513, 0.00e+00, 37.5",
    "Optimizer.step#AdamW.step, 16, 0.00e+00, 4.87",
)


@pytest.mark.parametrize(
    "titles", ["op, calls, self cpu ms, self device ms", "Name, # of Calls, Self CPU (ms), Self Device time [ms]"]
)
def test_units_in_titles(tmp_path, titles):
    """The kernel has 37.5 of the operator's 37.71 ms, and the step is a range, no work."""
    trace = read(tmp_path, "### top\n\n" + table(titles, *OPERATORS))
    assert trace.kernels[["name", "duration_ns", "count", "device"]].values.tolist() == [
        ["void gesvd(long)", 37_500_000, 513, "device"]
    ]
    assert trace.info["host_own"] == {"aten::svd": {"ns": 3_120_000, "device_ns": 37_710_000, "place": None}}
    assert any("its columns are read as name, count, self_cpu, self_device" in note for note in trace.info["notes"])


KERNELS = (
    "#, Kernel, CUDA time, %, Calls, Avg/call",
    "1, gemm (large), 7.677ms, 70.0%, 160, 48us",
    "2, aten::mul, 830\u03bcs, 8%, 71, 9us",
)


def test_kernels_with_units_in_cells_and_sums_above(tmp_path):
    sums = "Self CPU time total: 103.137ms\nSelf CUDA time total: 10.000ms\n"
    trace = read(tmp_path, f"```\n{sums}```\n\n### Kernels\n\n{table(*KERNELS)}")
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["gemm (large)", 7_677_000], [UNLISTED, 2_323_000]]
    assert trace.info["host_ns"] == 103_137_000
    assert any("are those that stand above it" in note for note in trace.info["notes"])
    assert "columns that are not read: '#', '%', 'Avg/call'" in trace.info["notes"]
    again = read(tmp_path, f"{sums}\nafter:\n{sums}\n{table(*KERNELS)}")  # which of the two is unknown
    assert again.kernels["duration_ns"].tolist() == [7_677_000]


def test_a_greek_mu_is_a_unit(tmp_path):
    text = table("op, calls, self cpu, self cuda", "aten::mul, 71, 12\u03bcs, 830\u03bcs")
    assert read(tmp_path, text).kernels["duration_ns"].tolist() == [830_000]


def test_times_without_a_unit_are_unknown(tmp_path):
    path = tmp_path / "post.md"
    path.write_text(table("op, calls, self cpu, self cuda", "aten::svd, 17, 3.12, 37.71"))
    assert detect(path).name == "torch-table"
    with pytest.raises(EvidenceError, match=r"has the time '37.71.' and the count '17'; needed are .* and times with a unit"):
        captures.read(path)


@pytest.mark.parametrize(
    "titles",
    [
        "op, calls, cpu ms, cuda ms",  # with the time of nested operators, or without
        "op, calls, self cpu %, self cuda %",
        "op, self cpu ms, self cuda ms, share",
        "op, kernel, calls, self cuda ms",
        "kernel, calls, cuda time (ms)",  # of all calls, or of one
        "op, calls, self cuda ms, self cuda us",
        "layer, calls, self cpu ms, self cuda ms",
    ],
)
def test_titles_that_leave_doubt_are_not_read(titles):
    assert not summaries.titles(titles.split(", "))
    assert not tables.has_table(table(titles, "aten::svd, 17, 3.12, 37.71"))


def test_a_summary_of_another_program_is_not_claimed():
    assert not tables.has_table(table("op, calls, self cpu ms, self device ms", "Conv2D, 17, 3.12, 37.71"))
