"""A table of hundreds of rows in a real browser: all of them are there, and only those in sight are laid out."""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.breakdowns import Breakdown
from kernelscope.analysis.recordings import imported
from kernelscope.reports import html
from tests.places import corpus

pytestmark = pytest.mark.slow

CAPTURE = "kineto/AMD-AGI__TraceLens__h100_Qwen1.5-0.5B.json.gz"
VIEW = "by-layer-kernel"
# What is laid out, the times of the rows in sight, and whether there is more below
STATE = f"""() => {{
  const view = document.getElementById("{VIEW}"), box = view.querySelector(".scroll"), around = box.getBoundingClientRect();
  const laid = [...view.querySelectorAll("tbody tr:not([hidden]):not(.space)")];
  const within = ({{ top, bottom }}) => bottom > around.top && top < around.bottom;
  const seen = laid.filter((row) => within(row.getBoundingClientRect()));
  return {{
    laid: laid.length, seen: seen.map((row) => Number(row.cells[1].dataset.value)),
    targets: seen.filter((row) => row.matches(".target")).length,
  }};
}}"""
SCROLL = f"(top) => {{ document.querySelector('#{VIEW} .scroll').scrollTop = top; }}"


@pytest.fixture(scope="module")
def table() -> Breakdown:
    return ks.breakdown(ks.read(corpus(CAPTURE)), "layer-kernel")


@pytest.fixture
def opened(table: Breakdown, tmp_path: Path, chromium: Any) -> Any:
    """A function that opens the page of the table and returns its Playwright page, with or without scripts."""
    path = corpus(CAPTURE)
    record = imported.write(ks.read(path), [path], tmp_path / "imported", "2026-11-26", "1")
    html.write_capture(record, [table.as_dict()], tmp_path / "report.html")

    def page(scripts: bool = True) -> Any:
        result = chromium.new_page(java_script_enabled=scripts, viewport={"width": 1280, "height": 900})
        result.goto((tmp_path / "report.html").as_uri())
        if scripts:
            result.wait_for_function("document.documentElement.dataset.tables")
        return result

    return page


def copied(page: Any) -> list[int]:
    """Return the time of every row, as the table is copied as CSV."""
    page.evaluate("navigator.clipboard ?? Object.defineProperty(navigator, 'clipboard', {value: {}})")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.locator(f"#{VIEW} .tools button", has_text="Copy").click()
    page.wait_for_function("window.copied")
    return [int(row["time"]) for row in csv.DictReader(io.StringIO(page.evaluate("window.copied")))]


def unfolded(page: Any) -> Any:
    """Return the page with the table opened."""
    page.evaluate(f"document.getElementById('{VIEW}').closest('details').open = true")
    return page


def test_all_rows_are_there_and_only_those_in_sight_are_laid_out(opened: Any) -> None:
    page = unfolded(opened())
    times = sorted(copied(page)[:-1], reverse=True)  # without the row for what no kernel took, which stands below
    assert page.evaluate(STATE)["laid"] == 15
    page.locator(f"#{VIEW} button.more").click()
    page.locator(f"#{VIEW} thead button", has_text="time").click()  # from large to small
    state = page.evaluate(STATE)
    assert state["laid"] < 100
    assert state["seen"] == times[: len(state["seen"])]
    for place in (0.3, 0.7, 1.0, 1.0):  # rows that are laid out first near the end may be higher than was reckoned with
        page.evaluate(SCROLL, int(place * page.evaluate(f"document.querySelector('#{VIEW} .scroll').scrollHeight")))
        page.wait_for_timeout(200)
        state = page.evaluate(STATE)
        assert 3 < len(state["seen"]) <= state["laid"] < 100
        first = times.index(state["seen"][0])
        assert first > 100 * place
        assert any(times[at : at + len(state["seen"])] == state["seen"] for at in range(first, len(times)))
    assert state["seen"][-1] == times[-1]


def test_every_row_is_summed_copied_and_found(table: Breakdown, opened: Any) -> None:
    page = unfolded(opened())
    times = copied(page)
    kernels = table.table[~table.table["kernel"].str.startswith("(")]["time_ns"]
    assert len(times) > len(kernels) > 500
    assert sum(times) == table.step_ns
    assert Counter(kernels) <= Counter(times)
    last = page.evaluate(f"""() => {{
      const rows = [...document.querySelectorAll("#{VIEW} tbody tr")];
      rows.at(-1).id = "the-last";
      location.hash = "the-last";
      return Number(rows.at(-1).cells[1].dataset.value);
    }}""")
    page.wait_for_timeout(500)
    state = page.evaluate(STATE)
    assert state["targets"] == 1
    assert last in state["seen"]


@pytest.mark.long
def test_without_scripts_the_first_rows_stand_there_and_the_rest_are_counted(opened: Any) -> None:
    every = len(copied(unfolded(opened()))) - 1
    rows = opened(scripts=False).locator(f"#{VIEW} tbody tr")
    assert rows.count() == 301
    assert rows.last.locator("th").text_content() == f"({every - 300} more)"
