import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from kernelscope.reports.folded import Folded

LONG = "made from other pinned requirements: run `kernelscope env create lasagne` for the present ones"
ROWS = [
    {"framework": "pytorch", "device": "cpu", "ready": True, "batch": 64, "rate": 1234.5, "reason": None},
    {"framework": "keras-tensorflow", "device": "cpu", "ready": False, "batch": 8192, "rate": None, "reason": LONG},
    {"framework": "\u6c34" * 9, "device": "cpu", "ready": False, "batch": 1, "rate": 0.5, "reason": "\x1b[31m[bold]red[/bold]\n"},
]


def lines(rows, width, **options):
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(Folded("Title", rows))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120, 300])
def test_nothing_is_cut_and_nothing_is_wider_than_the_terminal(width):
    found = lines(ROWS, width)
    assert max(map(cell_len, found)) <= width
    text = " ".join(" ".join(found).split())
    words = [*LONG.split(), "8192", "1,234.50", "yes", "\\x1b[31m[bold]red[/bold]\\n"]
    assert [word for word in words if word not in text and width >= 45] == []
    assert "\x1b" not in text
    assert text.index("keras-tensorflow") < text.index("made from")


def test_where_there_is_room_a_row_is_a_line():
    found = lines(ROWS, 300)
    assert [line.split()[0] for line in found[3:]] == ["pytorch", "keras-tensorflow", "\u6c34" * 9]
    assert found[1].split() == ["framework", "device", "ready", "batch", "rate", "reason"]
    assert found[4].rstrip().endswith(LONG)


def test_what_is_the_same_in_all_rows_is_said_once_where_there_is_no_room():
    found = lines(ROWS, 80)
    assert found[1].strip() == "cpu"
    assert sum("cpu" in line for line in found) == 1


def test_texts_that_wrap_have_room_for_their_longest_word():
    path = "/" + "x" * 60
    found = lines([{"name": "a", "path": path}, {"name": "b", "path": "short"}], 60)
    assert sum(line.count("x") for line in found) == 60, "a path that is wider than the terminal is folded and not cut"
    found = lines([{"name": "a", "path": path}, {"name": "b", "path": "short"}], 80)
    assert any(path in line for line in found)


def test_colours_are_for_terminals_only(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in "".join(lines(ROWS, 80))
    assert "\x1b[1m" in "".join(lines(ROWS, 80, force_terminal=True))


def test_no_rows():
    assert lines([], 80) == ["Title", "(none)"]
