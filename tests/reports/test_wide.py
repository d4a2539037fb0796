"""Tables of many columns: no terminal is too narrow for them, and nothing of a row is lost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kernelscope.reports import device
from kernelscope.reports.wide import Wide

ROW = {
    "kernel": "volta_sgemm_128x64_tn[/bold]", "grid": "8, 4, 1", "registers": 57, "duration (ms)": "12.345", "share": "98.7%",
    "occupancy": "50.0%", "limiter": "registers", "tail": "3.1%", "whole": True, "nothing": None,
}  # fmt: skip
REST = dict.fromkeys(ROW) | {"kernel": "(7 more)", "duration (ms)": "0.100", "share": "1.3%"}
FIRST = ("duration (ms)", "share", "not there", "occupancy", "limiter")


def drawn(width: int, rows: tuple[dict[str, object], ...] = (ROW, REST)) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(Wide("A title", rows, "kernel", FIRST))
    return out.getvalue()


@pytest.mark.parametrize("width", [44, 60, 80, 100, 200])
def test_it_fits_and_holds_everything(width: int) -> None:
    text = drawn(width)
    assert max(map(len, text.splitlines())) <= width
    joined = "".join(text.split())
    for value in ROW.values():
        if isinstance(value, str):
            assert value.replace(" ", "") in joined
    assert "(7 more)" in text


def test_what_counts_most_stands_beside_the_name_as_far_as_there_is_room() -> None:
    """At 60 columns a third is the name's: 8 + 2 for the duration, 5 + 2, 9 + 2 and 9 + 2 of the 40 others."""
    header = " ".join(drawn(60).splitlines()[1:3]).split()
    assert header == ["duration", "(ms)", "share", "occupancy", "limiter", "kernel"]
    assert "[/bold] grid 8, 4, 1 · registers 57 · tail 3.1%" in " ".join(drawn(60).split())
    header = " ".join(drawn(44).splitlines()[1:3]).split()
    assert header == ["duration", "(ms)", "share", "kernel"]
    assert "occupancy 50.0%" in " ".join(drawn(44).split())


def test_columns_stand_as_they_come_where_all_have_room() -> None:
    header = drawn(200).splitlines()[1].split()
    assert header == [
        "kernel",
        "grid",
        "registers",
        "duration",
        "(ms)",
        "share",
        "occupancy",
        "limiter",
        "tail",
        "whole",
        "nothing",
    ]


def test_an_empty_table() -> None:
    assert drawn(80, ()).split() == ["A", "title", "(none)"]


def test_every_table_of_a_device_has_a_name() -> None:
    assert set(device.TITLES) | {"roofline by kernel", "roofline by layer"} == set(device.NAMES)
