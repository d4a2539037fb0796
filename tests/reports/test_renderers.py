"""One table in every medium: nothing of it is lost, and nothing in it is taken for markup, a formula or an escape."""

import csv
import io
import json

import pytest
from rich.console import Console

from kernelscope.reports.renderers import RENDERERS
from kernelscope.reports.table import of_rows

ROWS = [
    {"kernel": "=gemm|<b>\x1b[31m", "count": 3, "share": 0.25, "graph": True, "reason": None},
    {"kernel": "attention", "count": 12_000, "share": 0.75, "graph": False, "reason": "none"},
]


def rendered(form, rows=ROWS):
    console = Console(width=200, file=io.StringIO())
    found = RENDERERS[form].render(of_rows("kernels", rows, title="Kernels"))
    if isinstance(found, str):
        return found
    console.print(found)
    return console.file.getvalue()


@pytest.mark.parametrize("form", RENDERERS)
def test_every_medium_holds_every_row(form):
    text = rendered(form)
    assert "gemm" in text
    assert "attention" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("form", RENDERERS)
def test_no_rows_are_no_error(form):
    assert rendered(form, []).endswith("\n")


def test_json_and_csv_hold_values_as_they_are():
    assert json.loads(rendered("json")) == {"schema": "kernelscope/kernels/1", "rows": ROWS}
    first, second = csv.DictReader(io.StringIO(rendered("csv")))
    assert first["kernel"].startswith("'=gemm"), "no spreadsheet takes it for a formula"
    assert (first["reason"], second["count"], second["graph"]) == ("", "12000", "false"), "unknown is empty and not 0"


def test_markdown_is_escaped():
    page = rendered("markdown")
    assert page.startswith("### Kernels\n")
    assert "<b>" not in page
    assert {line.count("|") for line in page.splitlines() if line.startswith("|")} == {6}
