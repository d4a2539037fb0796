"""Marks of comments and quotations before lines of tables."""

import pytest

from kernelscope.analysis.files.quoting import unquoted


@pytest.mark.parametrize("mark", ["#", ">", "//"])
def test_a_mark_before_three_lines_in_succession_goes(mark):
    text = f"before\n{mark}  a  b\n{mark}\n{mark} 1  2\r\n\n{mark} after\n"
    assert unquoted(text) == "before\n a  b\n\n1  2\r\n\nafter\n"
    assert unquoted(text.replace("\n", "\r\n")) == "before\r\n a  b\r\n\r\n1  2\r\r\n\r\nafter\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "# Kernels\n\n# Copies\n a  b\n# Calls\n",
        "#a\n#b\n#c\n",
        "## a\n## b\n## c\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "a # b\n1 # 2\n3 # 4\n",
        "",
    ],
)
def test_other_text_stays(text):
    assert unquoted(text) == text
