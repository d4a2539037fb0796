"""Tables as web pages leave them: runs of spaces made single ones, rows beside their titles, sums in rows of Markdown."""

import re

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats import detect
from kernelscope.analysis.formats.torch_table import tables
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED
from tests.analysis.formats.torch_table.made import NEW, markdown, printed, read, row

ROWS = [
    row("my own block 2", "1.000ms", "9.000ms", "0.000us", "1"),
    row("aten::mm", "1.500ms", "2.000ms", "3.000ms", "2"),
    row("void gemm<float, 2>(int, float const*)", "0.000us", "0.000us", "3.000ms", "1,024"),
]
TOTALS = ("Self CPU time total: 2.500ms", "Self CUDA time total: 5.000ms")
MEMORY = [*NEW[:10], "CPU Mem", "Self CUDA Mem", "# of Calls"]
WITH_MEMORY = [(*cells[:10], "1.50 Kb", "-4 b", cells[10]) for cells in ROWS]


def close(text):
    """Return a text with one space in place of several, as HTML shows it."""
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


@pytest.mark.parametrize(("heading", "rows"), [(NEW, ROWS), (NEW[:-2], [cells[:-2] for cells in ROWS]), (MEMORY, WITH_MEMORY)])
@pytest.mark.parametrize("ruled", [True, False])
def test_runs_of_spaces_made_single(tmp_path, heading, rows, ruled):
    text = printed(heading, rows, TOTALS)
    trace = read(tmp_path, "Some words\n" + close(text if ruled else re.sub(r"(?m)^[- ]+\n", "", text)))
    kernels = [["void gemm<float, 2>(int, float const*)", 3_000_000, 1024], [UNLISTED, 2_000_000, 0]]
    assert trace.kernels[["name", "duration_ns", "count"]].values.tolist() == kernels
    assert trace.totals[["name", "duration_ns"]].values.tolist() == [["my own block 2", 9_000_000], ["aten::mm", 2_000_000]]
    assert captures.lost(trace) == {}


def test_units_apart_from_their_numbers(tmp_path):
    text = re.sub(r"(\d)(us|ms)", r"\1 \2", close(printed(NEW, ROWS, TOTALS)))
    assert read(tmp_path, text).kernels["duration_ns"].tolist() == [3_000_000, 2_000_000]


def test_rows_with_single_spaces_that_lack_a_cell_are_told_not_shifted(tmp_path):
    text = close(printed(NEW, [*ROWS, row("void add()", "0.000us", "0.000us", "1.000ms", "7")], TOTALS))
    lines = [line.replace("1.000ms 1%", "1.000ms") if line.startswith("void add()") else line for line in text.splitlines()]
    trace = read(tmp_path, "\n".join(lines) + "\n")
    assert trace.kernels["name"].tolist() == ["void gemm<float, 2>(int, float const*)", UNLISTED]
    assert captures.lost(trace) == {"lines of tables that are no rows": 1}


@pytest.mark.parametrize(
    "text",
    [
        "Name Self CPU Self CUDA Calls and more\naten::mm 1.000ms 1.000ms 2\n",
        "Name Self CPU Self CUDA # of Calls\naten::mm 1.000 1.000 2\n",  # without units
        "Name Self CPU Overload Name # of Calls\naten::mm 1.000ms out 2\n",  # whose cells tell nothing of where they end
    ],
)
def test_what_is_no_table_with_single_spaces(text):
    assert not tables.has_table(text)


def test_rows_that_stand_a_column_beside_their_titles(tmp_path):
    """Cut at the titles' places, the cells of each column would be those of the one before it."""
    rows = [ROWS[1], row("void gemm()", "0.000us", "0.000us", "3.000ms", "1,024")]
    plain = printed(NEW, [*rows, ("a name as long as those that were left out", *rows[0][1:])], TOTALS).splitlines()
    lines = [*plain[:3], *[line[16:] for line in plain[3:5]], *plain[6:]]
    trace = read(tmp_path, "\n".join(lines) + "\n")
    assert trace.kernels[["name", "duration_ns", "count"]].values.tolist() == [
        ["void gemm()", 3_000_000, 1024],
        [UNLISTED, 2_000_000, 0],
    ]


def test_a_table_with_own_times_of_the_device_only(tmp_path):
    text = "\n".join(
        [
            "                Name     Self CUDA   Self CUDA %   # of Calls",
            "    c10d::allreduce_        1.902s        89.63%           85",
            "ncclDevKernel_AllReduce_Sum_f32(...)   1.902s   89.63%   85",
            "   Optimizer.step#AdamW.step   152.077ms   7.17%    5",
            "Self CUDA time total: 2.122s\n",
        ]
    )
    trace = read(tmp_path, text)
    expected = [["ncclDevKernel_AllReduce_Sum_f32(...)", 1_902_000_000, 85], [UNLISTED, 220_000_000, 0]]
    assert trace.kernels[["name", "duration_ns", "count"]].values.tolist() == expected
    assert set(trace.kernels["device"]) == {"cuda"}


EMPTY = " |" * (len(NEW) - 1)
SUMS = [
    f"| **Self CPU time total:** 2.500ms<br>**Self CUDA time total:** 5.000ms{EMPTY} |",
    f"| Self CPU time total: <br>Self CUDA time total: | 2.500ms<br>5.000ms{EMPTY[2:]} |",
    f"| Self CPU time total: 2.500ms{EMPTY} |\n| Self CUDA time total: 5.000ms{EMPTY} |",
]


@pytest.mark.parametrize("sums", SUMS)
def test_sums_in_rows_of_markdown(tmp_path, sums):
    rule = "|" + " --- |" * len(NEW)
    trace = read(tmp_path, markdown(NEW, ROWS).rstrip() + f"\n{rule}\n{sums}\n")
    assert trace.kernels["duration_ns"].tolist() == [3_000_000, 2_000_000]
    assert trace.info["host_ns"] == 2_500_000
    assert captures.lost(trace) == {}
    first = markdown(NEW, ROWS).splitlines()
    again = read(tmp_path, "\n".join([*first[:2], *sums.splitlines(), *first[2:]]) + "\n")
    assert again.kernels["duration_ns"].tolist() == [3_000_000, 2_000_000]


def test_sums_alone_are_refused_with_what_is_missing(tmp_path):
    path = tmp_path / "post.md"
    path.write_text("My result:\n\n```\nSelf CPU time total: 466.943ms\nSelf CUDA time total: 5.416ms\n```\n")
    with pytest.raises(EvidenceError, match=r"only the sums below a table of torch.profiler; needed are its titles and rows"):
        detect(path)


def test_rows_without_their_titles_are_refused_with_what_is_missing(tmp_path):
    path = tmp_path / "post.txt"
    text = printed(NEW, ROWS, ("Self CPU time total: 2.500ms",))
    lines = text.splitlines(keepends=True)
    path.write_text("".join(f"# {line}" for line in lines[2:]))
    with pytest.raises(EvidenceError, match=r"without its line of titles \(Name, Self CPU %, \.\.\.\)"):
        captures.read(path)
    path.write_text(text)
    assert len(captures.read(path).kernels)


@pytest.mark.parametrize(
    "text", ["Self CPU time total: 2.500ms\naten::mm is slow\n", "aten::mm   50.00%   1.000ms  2\n", "My notes on aten::mm\n"]
)
def test_other_texts_are_no_rows_without_titles(text):
    assert not tables.lacks_titles(text)
