"""The interactive panels of a sweep's page: which cells they have, what they say, and that a browser draws them."""

import json
import re

import pytest

from kernelscope.analysis.comparisons import sweeps
from kernelscope.reports import html
from kernelscope.reports.sweeps import cells, page
from kernelscope.reports.sweeps.panels import panels


@pytest.fixture
def rows(shi):
    return cells.rows([sweeps.read(shi)])


def test_a_panel_is_the_cells_that_differ_in_one_thing(rows):
    (part,) = panels(rows)
    charts = {chart["title"]: chart for chart in part.data["charts"]}
    # three batch sizes over threads, time and efficiency each, and three numbers of threads over batch sizes
    assert len(charts) == 3 + 3 + 3
    chart = charts["fcn5, training, batch 64; CPU: time against threads"]
    assert [line["name"] for line in chart["series"]] == ["pytorch", "cntk", "tensorflow"]
    assert chart["x"]["ticks"] == [1, 2, 4]
    assert chart["x"]["log"]
    assert chart["about"] == "out of memory: tensorflow at 1, tensorflow at 2, tensorflow at 4"
    (line,) = (line for line in chart["series"] if line["name"] == "cntk")
    mine = sorted((row for row in rows if row["framework"] == "cntk" and row["batch"] == 64), key=lambda row: row["threads"])
    assert line["y"] == [row["step_ns"] for row in mine]
    assert (line["low"], line["high"]) == ([row["step_low_ns"] for row in mine], [row["step_high_ns"] for row in mine])
    (gone,) = (line for line in chart["series"] if line["name"] == "tensorflow")
    assert gone["y"] == [None, None, None]
    json.dumps(part.data, allow_nan=False)


def test_efficiencies_are_of_the_fewest_threads(rows):
    (part,) = panels(rows)
    chart = next(c for c in part.data["charts"] if "batch 16" in c["title"] and "efficiency" in c["title"])
    # the cells' rate grows with the root of their threads
    assert chart["series"][0]["y"] == pytest.approx([1, 2**-0.5, 0.5], rel=1e-6)
    assert chart["series"][0]["low"][0] is None, "the base is 1 by definition"


def test_a_sweep_of_one_set_up_has_none(thesis):
    assert panels(cells.rows([sweeps.read(thesis)])) == []


EVIL = "<script>alert(1)</script>\x1b[31m\u202e" + "A" * 10_000


def test_the_page_of_a_sweep_has_them_whatever_frameworks_are_called(make_cell, make_sweep, tmp_path):
    folder = make_sweep("hostile", [make_cell(EVIL, "lenet", threads=threads, version=EVIL) for threads in (1, 2)])
    (part,) = panels(cells.rows([sweeps.read(folder)]))
    text = json.dumps(part.data, ensure_ascii=False)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 3000
    page.write([sweeps.read(folder)], tmp_path / "report.html")
    written = (tmp_path / "report.html").read_text(encoding="utf8")
    assert 'id="panels-section"' in written
    assert "<script>alert" not in written


DRIVE = """<script>addEventListener("load", () => setTimeout(() => {
  const chart = document.getElementById("panels"), select = document.querySelector("#panels-tools select");
  const drawn = () => echarts.getInstanceByDom(chart).getOption().title[0].text;
  const told = [select.options.length, drawn()];
  select.value = 4; select.dispatchEvent(new Event("change"));
  told.push(drawn(), select.options[4].textContent);
  document.title = told.join("|");
}, 700));</script>"""


@pytest.mark.slow
def test_a_browser_draws_the_panel_that_is_chosen(rows, result, tmp_path, browse):
    path = tmp_path / "report.html"
    html.write_comparison(result, path, panels(rows))
    document, console = browse(path, DRIVE)
    assert console == []
    count, first, chosen, named = re.search(r"<title>(.*?)</title>", document).group(1).split("|")
    assert count == "9"
    assert chosen == named != first
