import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from kernelscope.reports import device
from kernelscope.reports.renderers import RENDERERS
from kernelscope.reports.table import Table, of_rows

LONG = "made from other pinned requirements: run `kernelscope env create lasagne` for the present ones"
ROWS = [
    {"framework": "pytorch", "device": "cpu", "ready": True, "batch": 64, "rate": 1234.5, "reason": None},
    {"framework": "keras-tensorflow", "device": "cpu", "ready": False, "batch": 8192, "rate": None, "reason": LONG},
    {"framework": "\u6c34" * 9, "device": "cpu", "ready": False, "batch": 1, "rate": 0.5, "reason": "\x1b[31m[bold]red[/bold]\n"},
]

ROW = {
    "kernel": "volta_sgemm_128x64_tn[/bold]", "grid": "8, 4, 1", "registers": 57, "duration (ms)": "12.345", "share": "98.7%",
    "occupancy": "50.0%", "limiter": "registers", "tail": "3.1%", "whole": True, "nothing": None,
}  # fmt: skip
REST = dict.fromkeys(ROW) | {"kernel": "(7 more)", "duration (ms)": "0.100", "share": "1.3%"}
FIRST = ("kernel", "duration (ms)", "share", "not there", "occupancy", "limiter")


def lines(rows, width, first=(), **options):
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(RENDERERS["table"].render(of_rows("table", rows, title="Title", first=first)))
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


@pytest.mark.parametrize("width", [44, 60, 80, 100, 200])
def test_a_table_with_columns_that_count_most_fits_and_holds_everything(width):
    text = "\n".join(lines([ROW, REST], width, FIRST))
    assert max(map(len, text.splitlines())) <= width
    joined = "".join(text.split())
    names = "".join(line.split("  ")[0] for line in text.splitlines())  # a long name goes on in the next line
    for value in ROW.values():
        if isinstance(value, str):
            assert value.replace(" ", "") in joined or value in names
    assert "(7 more)" in text


def test_the_name_comes_first_and_what_counts_most_beside_it_as_far_as_there_is_room():
    """At 60 columns a third is the name's: 8 + 2 for the duration, 5 + 2, 9 + 2 and 9 + 2 of the 40 others."""
    assert " ".join(lines([ROW, REST], 60, FIRST)[1:3]).split() == [
        "duration", "kernel", "(ms)", "share", "occupancy", "limiter",
    ]  # fmt: skip
    assert "grid 8, 4, 1 \u00b7 registers 57 \u00b7 tail 3.1%" in " ".join(" ".join(lines([ROW, REST], 60, FIRST)).split())
    assert "occupancy 50.0%" in " ".join(" ".join(lines([ROW, REST], 44, FIRST)).split())


def test_columns_stand_as_they_come_where_all_have_room():
    assert lines([ROW, REST], 200, FIRST)[1].split() == " ".join(ROW).split()


def test_every_table_of_a_device_has_a_name():
    assert set(device.TITLES) | {"roofline by kernel", "roofline by layer"} == set(device.NAMES)


def test_rows_must_fit_the_columns():
    with pytest.raises(ValueError, match="another number of cells"):
        Table("table", ("a", "b"), [[1]])
