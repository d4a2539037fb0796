"""The page of a job of several ranks, and what the terminal says: made up, with names that must not run."""

import copy
import io

import pytest
from rich.console import Console

from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.reports import ranks, ranks_page
from kernelscope.reports.figures.ranks import CELLS, ROWS, caused

EVIL = "<script>alert(1)</script>"


def rank(number, **parts):
    told = dict.fromkeys(JOB_PARTS, 0) | parts
    return {"rank": number, "path": f"/home/somebody/rank{number}.json", "told_by": "the capture", "device": "cuda:0",
            "hardware": EVIL, "steps": 4, "step_ns": sum(told.values()), "hidden_ns": 0,
            "offset_ns": -1500 * number, **told}  # fmt: skip


@pytest.fixture
def job():
    rows = [rank(0, compute=5_000_000, transfer=1_000_000), rank(1, compute=2_000_000, transfer=1_000_000)]
    rows[1]["waiting for ranks"] = 3_000_000
    rows[1]["step_ns"] += 3_000_000
    return {
        "schema": "kernelscope/ranks/1", "ranks": rows, "world": 2, "steps": 4, "step_ns": 6_000_000, "missing": 0,
        "partial": False,
        "parts": {name: sum(row[name] for row in rows) for name in JOB_PARTS},
        "collectives": [{"operation": "all-reduce", "count": 8, "wait_ns": 3_000_000, "transfer_ns": 2_000_000,
                         "exposed_wait_ns": 3_000_000, "single_ns": 125_000, "bytes": 12_500_000, "members": 2,
                         "algorithm_gb_s": 100.0, "bus_gb_s": None}],
        "blame": [
            {"rank": 0, "operation": "all-reduce", "cause": "kernels", "where": "layer1", "name": EVIL, "count": 4,
             "ns": 2_500_000},
            {"rank": None, "operation": "all-reduce", "cause": None, "where": None, "name": None, "count": 4, "ns": 500_000},
        ],
        "what_if": {
            "error": 0.001, "measured_ns": 6_000_000, "late_ranks": [0],
            "changes": [{"name": "no late rank", "step_ns": 3_000_000, "saved_ns": 3_000_000},
                        {"name": "balanced work", "step_ns": 4_500_000, "saved_ns": 1_500_000},
                        {"name": "no transfer", "step_ns": 5_990_000, "saved_ns": 10_000}],
        },
        "clocks": {"uncertainty_ns": 1500, "apart_ns": 4000, "impossible": 0}, "matched": 8,
        "messages": 0, "groups": [], "unmatched": 0, "notes": ["a note"],
        "caused": [{"rank": 0, "step": step, "ns": 2_500_000} for step in range(4)],
    }  # fmt: skip


def test_the_answer(job):
    said = ranks.answer(job)
    assert said.startswith("A step takes 6.00 ms on 2 ranks: computing 58%, waiting for other ranks 25%, transfer that nothing")
    assert "Rank 0 makes the others wait most: 2.50 ms a step, added up over ranks (83% of their waiting" in said
    assert "for one another), mostly by kernels" in said
    assert f"kernels that take longer: {EVIL} in layer1." in said
    assert said.endswith("A step would be shorter by 3.00 ms if rank 0 were as fast as the others, by 1.50 ms if all ranks were "
                         "as fast as their mean.")  # fmt: skip


def test_what_could_be_won_is_told_where_it_can_be(job):
    job["what_if"]["changes"][:2] = []
    assert ranks.gains(job).startswith(
        "Ranks that are all as fast as their mean, or transfers that take no time, would save less"
    )
    job["what_if"] |= {"changes": [], "error": -0.08}
    assert ranks.gains(job) == ""
    assert "what could be saved is unknown: replayed unchanged, the job takes 8.0% less than measured" in ranks.notes(job)
    job["what_if"] = None
    assert ranks.gains(job) == ""


def test_little_waiting_and_unmatched_ranks(job):
    calm = copy.deepcopy(job)
    calm["parts"]["waiting for ranks"] = 1
    assert "No rank makes the others wait much: waiting is 0% of the time." in ranks.answer(calm)
    assert "rank 0" not in ranks.gains(calm)  # it is not named, so its work is not either
    calm["matched"] = 0
    assert "no collective of all ranks ends at the same time" in ranks.answer(calm)


def test_the_terminal_and_markdown_hold_all(job):
    stream = io.StringIO()
    Console(file=stream, width=100, color_system=None).print(ranks.shown(job))
    page = ranks.markdown(job)
    for said in (stream.getvalue(), page):
        assert "undecided" in said
        assert "8 collectives of all ranks" in said
        assert "a note" in said
    assert "<script>" not in page


@pytest.mark.parametrize("count", [2, ROWS + 8])
def test_the_page(job, tmp_path, parse, count):
    job["ranks"] += [rank(number, compute=number * 1000) for number in range(2, count)]
    job["parts"] = {name: sum(row[name] for row in job["ranks"]) for name in JOB_PARTS}
    ranks_page.write(job, tmp_path / "job.html")
    text = (tmp_path / "job.html").read_text(encoding="utf8")
    page = parse(text)
    assert "<script>alert" not in text
    assert f"<h1>A step takes 6.00 ms on {count} ranks" in text
    rows = [row for row in page.rows if row and row[0].isdigit()]
    assert len({row[0] for row in rows}) == count
    assert ("8 more are in the table" in text) == (count > ROWS)
    identifiers = [value for _, name, value in page.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))


def test_the_page_shows_who_was_waited_for_in_which_step(job, tmp_path):
    lanes = [{"rank": 0, "start_ns": [0, 3], "duration_ns": [3, 2], "part": ["computing", "transfer"],
              "operation": [None, EVIL], "steps": [[0, 5], [5, 10]]}]  # fmt: skip
    ranks_page.write({**job, "timeline": {"wall_ns": 10, "lanes": lanes}}, tmp_path / "job.html")
    text = (tmp_path / "job.html").read_text(encoding="utf8")
    assert "How long the others waited for a rank" in text
    assert "Timeline of the ranks" in text
    assert "<script>alert" not in text
    ranks_page.write({**job, "steps": 1}, tmp_path / "single.html")
    assert "How long the others waited for a rank" not in (tmp_path / "single.html").read_text(encoding="utf8")


DRAWN = """<script>addEventListener("load", function begin() {
  const chart = document.getElementById("timeline");
  if (!("drawn" in chart.dataset)) return setTimeout(begin, 50);
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
  const drawing = echarts.getInstanceByDom(chart);
  drawing.getZr().flush();
  const bars = drawing.getZr().storage.getDisplayList(true).filter((one) => one.shape?.bars).flatMap(({ shape }) => shape.bars);
  const { startValue, endValue } = drawing.getOption().dataZoom[0];
  document.title = `${bars.length / 4} ${startValue} ${endValue}`;
});</script>"""


@pytest.mark.slow
def test_the_timeline_of_ranks_is_drawn(job, tmp_path, browse):
    lane = {"start_ns": [0, 300], "duration_ns": [300, 600], "part": ["computing", "transfer"], "operation": [None, "all-reduce"]}
    lanes = [{**lane, "rank": number, "steps": [[0], [1000]]} for number in (0, 1)]
    ranks_page.write({**job, "timeline": {"wall_ns": 1000, "lanes": lanes}}, tmp_path / "job.html")
    page, console = browse(tmp_path / "job.html", DRAWN, milliseconds=4000)
    assert console == []
    assert "<title>4 0 1000</title>" in page, "two bars of each rank"


def test_of_many_ranks_no_late_one_vanishes_in_the_picture(job):
    many = 10 * CELLS
    job["ranks"] = [rank(number, compute=1000) for number in range(many)]
    job["caused"] = [{"rank": 777, "step": 2, "ns": 9_000_000}, {"rank": 778, "step": 2, "ns": 1}]
    drawn = caused(job).axes[0].images[0].get_array()
    assert drawn.shape == (CELLS, 4)
    assert drawn.max() == drawn[77, 2] == 9.0
