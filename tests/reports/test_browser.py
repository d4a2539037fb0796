"""The report in a real browser: its script runs, nothing else does, and nothing is asked of a network."""

import html as html_text
import json
import re

import pytest

from kernelscope.reports import html
from kernelscope.reports.content import INSTRUMENTATION as OVERHEAD

pytestmark = pytest.mark.slow

# sorts the layers' table by its third column and filters it, through the page's own buttons and boxes, once the page is loaded
DRIVE = """
<script>addEventListener("load", () => {
  document.querySelector("th button").click();
  const box = document.querySelector("input[data-filter]");
  box.value = "conv1"; box.dispatchEvent(new Event("input"));
  document.title = "driven " + document.querySelector("th[aria-sort]").getAttribute("aria-sort");
});</script>"""


@pytest.fixture
def opened(tmp_path, browse):
    def run(result, more="", write=html.write_comparison):
        write(result, tmp_path / "report.html")
        return browse(tmp_path / "report.html", more)

    return run


def test_the_report_opens_without_a_console_message(opened, result):
    page, console = opened(result)
    assert console == []
    assert "data-tables=" in page, "the page's own script ran"


def test_sorting_and_filtering_work(opened, result):
    page, console = opened(result, DRIVE)
    assert console == []
    assert re.search(r"<title>driven (ascending|descending)</title>", page)
    assert re.search(r"<output[^>]*>2 of \d+ rows</output>", page), "conv1 has a forward and a backward row"
    assert 'hidden=""' in page


def test_hostile_names_do_not_run(opened, hostile):
    page, console = opened(hostile)
    assert console == []
    assert "<script>alert" not in page
    assert "<img" not in page


# follows the first link from a cause to a row of the account
FOLLOW = """
<script>addEventListener("load", () => {
  const link = document.querySelector(".findings a[href^='#why-1-r']");
  link.click();
  document.title = "driven " + (document.querySelector("tr:target").id === link.hash.slice(1));
});</script>"""


def test_an_explanation_opens_and_its_links_lead_to_rows(opened, explained):
    page, console = opened(explained, FOLLOW, html.write_explanation)
    assert console == []
    assert "<title>driven true</title>" in page


def test_hostile_names_in_an_explanation_do_not_run(opened, hostile_explained, result):
    page, console = opened(hostile_explained, write=html.write_explanation)
    assert console == []
    assert "<script>alert" not in page
    assert "<img" not in page
    result["explanations"] = [hostile_explained]
    assert "<script>alert" not in opened(result)[0]


# groups the layers by phase, and follows a link to a row in a group that is closed; what the page then says goes into the title
GROUP = """
<script>addEventListener("load", async () => {
  const table = document.querySelector("#layers-table"), choice = table.querySelector("[data-group]");
  choice.value = "phase"; choice.dispatchEvent(new Event("change"));
  const groups = [...table.querySelectorAll("tr.group")].map((row) => [row.cells[0].querySelector("button").firstChild.data,
    ...[...row.cells].slice(2).map((cell) => Number(cell.dataset.value ?? 0))]);
  const numbers = (row) => [...row.cells].slice(-4).map((cell) => Number(cell.dataset.value));
  const foot = [...table.querySelectorAll("tfoot tr")].map(numbers);
  const closed = [...table.querySelectorAll("tbody tr:not(.group)")].every((row) => row.hidden);
  location.hash = "#layers-3";
  await new Promise((done) => setTimeout(done, 300));
  const row = document.getElementById("layers-3");
  const seen = !row.hidden && row.classList.contains("target");
  const text = JSON.stringify({ groups, foot, closed, seen, output: table.querySelector("output").textContent });
  document.title = "driven " + text;
});</script>"""


def test_groups_add_up_to_the_total_and_links_open_them(opened, result):
    page, console = opened(result, GROUP)
    assert console == []
    found = json.loads(html_text.unescape(re.search(r"<title>driven (.*?)</title>", page).group(1)))
    sums = {}
    layers = [row for row in result["layers"] if row["layer"] != OVERHEAD]  # which stands before the total, in no group
    assert len(layers) == len(result["layers"]) - 1
    for row in layers:
        column = sums.setdefault(row["phase"], dict.fromkeys(result["frameworks"], 0))
        for name in result["frameworks"]:
            column[name] += row["time_ns"][name] or 0
    assert {name: values for name, *values in found["groups"]} == {name: list(column.values()) for name, column in sums.items()}
    overhead, total = found["foot"]
    assert total == [row["step_median_ns"] for row in result["summary"]]
    assert total == [sum(column) for column in zip(overhead, *(one.values() for one in sums.values()), strict=True)]
    assert found["closed"]
    assert found["seen"]
    assert found["output"] == f"{len(layers)} rows in {len(sums)} groups"


# what a long table shows at first and when asked, which columns it has, and what is copied of it
LONG = """
<script>addEventListener("load", async () => {
  const views = [...document.querySelectorAll(".view")].filter((one) => one.querySelector(".tools"));
  const view = views.find((one) => one.querySelectorAll("tbody tr").length > 20);
  view.closest("details")?.setAttribute("open", "");
  const shown = () => view.querySelectorAll("tbody tr:not([hidden])").length;
  const told = [view.querySelectorAll("tbody tr").length, shown()];
  const more = view.querySelector("button.more");
  more.click();
  told.push(shown());
  more.click();
  told.push(shown());
  const boxes = view.querySelectorAll(".chooser input");
  boxes[1].click();
  const cells = view.querySelector("tbody tr").cells;
  told.push(getComputedStyle(cells[0]).display, getComputedStyle(cells[1]).display, boxes.length === cells.length);
  let copied = "";
  navigator.clipboard.writeText = async (text) => { copied = text; };
  [...view.querySelectorAll(".tools button")].find((one) => one.textContent.startsWith("Copy")).click();
  await new Promise((done) => setTimeout(done, 50));
  told.push(copied.split("\\n").length, [...view.querySelectorAll("tbody tr")].every((row) => [...row.cells].slice(1).every(
    (cell) => cell.dataset.value === undefined || copied.includes(cell.dataset.value))));
  document.title = "driven " + JSON.stringify(told);
});</script>"""


def test_a_long_table_is_folded_and_can_be_taken_along(opened, result):
    page, console = opened(result, LONG)
    assert console == []
    rows, first, all_, again, name, hidden, boxes, lines, exact = json.loads(
        html_text.unescape(re.search(r"<title>driven (.*?)</title>", page).group(1))
    )
    assert rows > 20
    assert (first, all_, again) == (15, rows, 15)
    assert name == "table-cell"
    assert hidden == "none"
    assert boxes
    assert lines == rows + 2  # the header, and what recording cost, which stands before the total
    assert exact


# shows the rows of the first cause alone, then all again
ALONE = """
<script>addEventListener("load", () => {
  const button = document.querySelector("[data-only]"), table = document.getElementById(button.dataset.of);
  const ids = () => [...table.querySelectorAll("tbody tr:not([hidden])")].map((row) => row.id).sort();
  const all = ids().length;
  button.click();
  const right = ids().join() === button.dataset.only.split(" ").sort().join();
  table.querySelector("[data-all]").click();
  document.title = `driven ${right} ${ids().length === all} ${all > 5}`;
});</script>"""


def test_the_rows_of_a_cause_can_be_shown_alone(opened, explained):
    page, console = opened(explained, ALONE, html.write_explanation)
    assert console == []
    assert "<title>driven true true true</title>" in page
