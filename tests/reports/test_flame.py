"""Flame graphs and lines over time in a real browser: zoom, search, keys and choices say what the data says."""

import re
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.timeline import over_time as analysed
from kernelscope.analysis.timeline.flame import flame
from kernelscope.analysis.timeline.memory import memory_over_time
from kernelscope.reports import html
from kernelscope.reports.flame import flame as part
from kernelscope.reports.memory import memory
from kernelscope.reports.over_time import over_time
from tests.places import CORPUS

CAPTURE = Path(__file__).parents[1] / "data" / "pytorch" / "lenet-train" / "operators.pt.trace.json.gz"
OF_A_GPU = CORPUS / "kineto" / "AMD-AGI__TraceLens__h100_timesformer.json.gz"
EVIL = "<script>alert(1)</script>\x1b[31m\u202e" + "A" * 10_000


@pytest.fixture(scope="module")
def trace():
    return ks.read(CAPTURE)


@pytest.fixture(scope="module")
def folded(trace):
    return flame(trace)


def test_a_run_without_a_flame_graph_says_why(folded):
    both = part([("one", folded), ("other", "it has no kernels pass")])
    assert "other: it has no kernels pass" in both.note
    assert [side["name"] for side in both.data["sides"]] == ["one"]
    neither = part([("one", "no timeline")])
    assert neither.data == {}
    assert "no timeline" in neither.note


def test_names_are_made_harmless(folded):
    hostile = {**folded, "names": [EVIL for _ in folded["names"]]}
    name = part([(EVIL, hostile)]).data["sides"][0]["names"][0]
    assert "\x1b" not in name
    assert "\u202e" not in name
    assert len(name) < 4100


def series(key, unit, value, reason=None):
    line = {"name": "process", "time_ns": [0, 10**9], "value": [value, value]}
    found = {"key": key, "unit": unit, "about": "a clock", "series": [] if reason else [line], "spans": [], "unavailable": reason}
    return {"quantities": [found]}


def test_what_no_run_has_is_said_once_and_what_one_lacks_with_its_name():
    def noted(*sides):
        (only,) = over_time(list(zip(("one", "other"), sides, strict=True)))
        return only

    absent = noted(series("power", "W", 1.0, "no counter"), series("power", "W", 1.0, "no counter"))
    assert absent.note == "Not shown: power: no counter"
    assert absent.data == {}
    half = noted(series("power", "W", 250.0), series("power", "W", 1.0, "no counter"))
    assert half.note == "Not shown: power of other: no counter"
    assert "power of one, process: at most 250 W" in half.alternative
    (chart,) = half.data["charts"]
    assert [(line["name"], line["y"]) for line in chart["series"]] == [("one: process", [250.0, 250.0])]


@pytest.fixture
def driven(tmp_path, result, browse):
    def run(parts, *scripts):
        """Run scripts in the page once its parts are drawn; return what each tells."""
        html.write_comparison(result, tmp_path / "report.html", parts)
        tell = "".join(f"{{ const told = []; {script} all.push(told.join('|')); }}" for script in scripts)
        tell = f"const all = []; {tell} document.title = all.join('||');"
        drive = f'<script>addEventListener("load", () => setTimeout(() => {{ {tell} }}, 700));</script>'
        document, console = browse(tmp_path / "report.html", drive, milliseconds=4000)
        assert console == []
        told = re.search(r"<title>(.*?)</title>", document).group(1).split("||")
        return [one.split("|") for one in told]

    return run


FLAME = """
const chart = document.getElementById("flame"), said = () => document.getElementById("flame-said").textContent;
const press = (key) => { chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); told.push(said()); };
const tools = document.getElementById("flame-tools"), box = tools.querySelector("input");
const [run, how] = tools.querySelectorAll("select");
press("ArrowDown"); press("g"); told.push(location.hash); press("Enter"); press("Home");
box.value = "conv"; box.dispatchEvent(new Event("input")); told.push(said());
press("/"); told.push(document.activeElement === box);
box.value = ""; box.dispatchEvent(new Event("input"));
const other = tools.querySelectorAll("select")[2]; other.value = 2; other.dispatchEvent(new Event("change")); press("ArrowDown");
how.value = 1; how.dispatchEvent(new Event("change")); press("ArrowDown");
run.value = 1; run.dispatchEvent(new Event("change"));
told.push(tools.querySelectorAll("select")[1].selectedOptions[0].textContent);
chart.dispatchEvent(new Event("resize"));
told.push(chart.querySelectorAll("canvas").length);
"""


SERIES = """
const chart = document.getElementById("over-time"), said = () => document.getElementById("over-time-said").textContent;
const press = (key) => { chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); told.push(said()); };
const zoom = () => echarts.getInstanceByDom(chart).getOption().dataZoom[0], shown = () => `${zoom().start} to ${zoom().end}`;
press("+"); told.push(shown()); press("ArrowRight"); press("Home"); told.push(shown());
const drawn = echarts.getInstanceByDom(chart).getOption();
told.push(drawn.series.length, drawn.grid.length, drawn.series[0].data.at(-1)[1]);
"""


def check_frames(said, folded):
    """Compare what a driven flame graph says with what the data says, worked out anew."""
    tree = folded["trees"][0]
    nodes = list(zip(tree["depth"], (folded["names"][name] for name in tree["name"]), tree["total_ns"], strict=True))
    whole, largest = nodes[0], nodes[1]
    # frames whose name holds the word, those inside of another that does not counted again
    found, until = [], None
    for depth, name, total in nodes:
        until = until if until is not None and depth > until else None
        if "conv" in name.lower():
            found.append((total, until is None))
            until = depth if until is None else until
    assert found, "the capture has convolutions"
    share = 100 * sum(total for total, first in found if first) / whole[2]
    down, _, row, enter, home, matched, _, focused, less, below, how, canvases = said
    assert down.startswith(largest[1])
    assert float(re.search(r"([\d.,]+)%", down).group(1)) == pytest.approx(100 * largest[2] / whole[2], rel=6e-3)
    assert row.startswith("#"), "a row of a table has the same phase"
    assert enter == down
    assert home.startswith("all, ")
    assert "100% of the" in home
    assert matched.startswith(f"{len(found)} frames match")
    assert float(re.search(r"([\d.,]+)%", matched).group(1)) == pytest.approx(share, rel=6e-3)
    assert focused == "true"
    assert re.fullmatch(r"(.*), ([\d.,]+ \S+), (.*), \2 less than in other, in recorded steps.*", less), less
    assert below.startswith(folded["names"][folded["trees"][1]["name"][1]])
    assert how == folded["trees"][1]["title"], "another run is shown folded the same way"
    assert canvases == "1"


@pytest.mark.slow
def test_frames_and_lines_are_moved_about_in_by_keys_and_words(driven, folded):
    sides = [("one", series("memory", "B", 5e6)), ("<b>other</b>", series("power", "W", 250.0))]
    # the other run takes twice as long for all, and does not have the very last frame
    cells, *threads = folded["trees"]
    columns = {key: column[:-1] if isinstance(column, list) else column for key, column in cells.items()}
    twice = {**columns, "total_ns": [2 * total for total in columns["total_ns"]]}
    two = part([("one", folded), ("other", {**folded, "trees": [twice, *threads]})])
    frames, lines = driven([two, *over_time(sides)], FLAME, SERIES)
    check_frames(frames, folded)
    assert lines[:2] == ["25% to 75% of the axis is shown", "25 to 75"]
    assert lines[2:5] == ["31% to 81% of the axis is shown", "0% to 100% of the axis is shown", "0 to 100"]
    assert lines[5:] == ["2", "2", "5000000"]


def test_a_capture_s_allocator_is_drawn(trace):
    (only,) = over_time([("capture", analysed.of_trace(trace))])
    assert only.note.startswith("Not shown: memory: the capture holds no samples")


# the layers that hold most when most is held; the moment before; and the one that is clicked, at the very beginning
MEMORY = """
const chart = document.getElementById("memory");
const rows = () => [...document.querySelectorAll("#memory-layers tr")].map((row) => row.textContent);
const said = () => document.getElementById("memory-said").textContent;
const first = () => told.push(document.querySelector("#memory-layers caption").textContent, said(), rows().join("; "));
first();
chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true })); told.push(said());
const zr = echarts.getInstanceByDom(chart).getZr();
zr.trigger("click", { offsetX: 71, offsetY: 150 });
first();
"""


@pytest.mark.slow
def test_a_moment_s_memory_is_told_by_layer(driven):
    if not OF_A_GPU.is_file():
        pytest.skip("no captures of other people on this machine")
    (only,) = memory([("capture", memory_over_time(ks.read(OF_A_GPU)))])
    device, other = only.data["devices"]
    assert (device["name"], other["name"]) == ("cuda:0", "cpu"), "what holds most comes first"
    totals = [sum(sizes) for sizes in zip(*(layer["bytes"] for layer in device["layers"]), strict=True)]
    peak = totals.index(max(totals))
    (told,) = driven([only], MEMORY)
    caption, said, rows, before, start, at_start, _ = told
    shown = f"{totals[peak] / 1e9:.3g} GB"
    assert caption.endswith(f"by the layer that allocated it: {shown}")
    assert said.endswith(f": {shown} in use")
    most = max(device["layers"], key=lambda layer: layer["bytes"][peak])
    assert rows.startswith(most["name"])
    assert before != said
    assert start.startswith("In use at 0 ms")
    assert at_start.startswith("at 0 ms")
