"""Tables in Markdown: cells as they are shown, with bars around rows or without."""

import re

import pyarrow as pa
import pytest

from kernelscope.analysis.files import markdown


def test_rows_are_as_they_are_shown():
    row = r"| aten::\_mm | `a\_b` | f(a \|\| b) | **x** | |"
    assert markdown.pipe_cells(row) == ["aten::_mm", r"a\_b", "f(a || b)", "x", ""]
    table, odd = markdown.pipe_rows([row, "| too | few |", "text"], 5)
    assert table.isna().to_numpy().tolist() == [[False] * 4 + [True]]
    assert odd == ["| too | few |", "text"]
    assert markdown.same_pipes(row, "|-|-|-|-|-|")


def test_bars_around_rows_may_be_missing():
    rows = ["aten::mm | 12.5ms | 3", "aten::add | | 4", "aten::t | 1us |", "| aten::sum | 2us | 5 |", "text"]
    table, odd = markdown.pipe_rows(rows, 3)
    assert table.fillna("").to_numpy().tolist() == [
        ["aten::mm", "12.5ms", "3"],
        ["aten::add", "", "4"],
        ["aten::t", "1us", ""],
        ["aten::sum", "2us", "5"],
    ]
    assert odd == ["text"]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("**17.5ms**", "17.5ms"), ("*3*", "3"), ("***a b***", "a b"), ("__4us__", "4us"), ("**`x`**", "x"), ("`**x**`", "**x**"),
        ("__init__", "__init__"), ("a**b**", "a**b**"), ("**a** b **c**", "**a** b **c**"), ("****", "****"),
        (r"\*\*x\*\*", "**x**"),
    ],
)  # fmt: skip
def test_marks_around_a_whole_cell_are_no_part_of_it(cell, shown):
    assert markdown.pipe_cells(f"| {cell} | 1 |") == [shown, "1"]


def test_marked_cells_stand_between_spaces():
    lines = ["a **1.5ms** **3** `2us` **f<1>**", "  **name**  4", "f(int **, char**) 3", "pow(a ** 2) 4"]
    assert markdown.without_marks(pa.array(lines, pa.large_string())).to_pylist() == [
        "a 1.5ms 3 2us **f<1>**",  # a single space is part of a name
        "  name  4",
        "f(int **, char**) 3",
        "pow(a ** 2) 4",
    ]


@pytest.mark.parametrize("rule", ["-- | --", "|---|:-:|", " --- | ---: | - |", "- | -"])
def test_rules_of_markdown(rule):
    assert re.fullmatch(markdown.PIPES, rule)


@pytest.mark.parametrize("line", ["---", "|---|", "-- --", "a | b", "|", "", "--|--|x", " " * 30_000 + "x", "-|" * 30_000 + "x"])
def test_other_lines_are_no_rules(line):
    assert not re.fullmatch(markdown.PIPES, line)
