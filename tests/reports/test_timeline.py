"""Timelines in pages: what is embedded is what was recorded, and a browser zooms, searches and leads to rows."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.attribution.frameworks import Clock, Context, pytorch
from kernelscope.analysis.timeline.lanes import timeline
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.records import read_object, read_table
from kernelscope.reports import colours, html
from kernelscope.reports.timeline import LANES
from kernelscope.reports.timeline import timeline as part

DATA = Path(__file__).parents[1] / "data" / "pytorch" / "lenet-train"
EVIL = "<script>alert(1)</script>\x1b[31m\u202e" + "A" * 10_000


@pytest.fixture(scope="module")
def trace():
    """Our own recording of LeNet's training: steps, ranges, operators and kernels."""
    report = read_object(DATA / "child.json")
    steps, ranges = (read_table(DATA / f"{name}.jsonl", name) for name in ("steps", "ranges"))
    context = Context(steps, ranges, report["network"], "train", report, Clock.from_anchors(report["anchors"]))
    evidence = pytorch.read(DATA, context)
    kernels, operators = conform("kernels", evidence.kernels), conform("operators", evidence.operators)
    return Trace(steps=steps, ranges=ranges, operators=operators, kernels=kernels)


@pytest.fixture(scope="module")
def made(trace):
    return timeline(trace)


def unpacked(side):
    """Return {title of a lane: [(start, duration, name, layer)]} of what a page holds, as its script reads it."""
    found = {}
    for lane in side["lanes"]:
        events = found.setdefault(lane["title"].partition(":")[0], [])
        for row in lane["rows"]:
            at = 0
            for gap, lasted, label in zip(row["gap"], row["lasted"], row["label"], strict=True):
                texts = [side["labels"][key][label] for key in ("name", "layer")]
                shown = [None if at < 0 else side["texts"][key][at] for key, at in zip(("name", "layer"), texts, strict=True)]
                events.append((at + gap, lasted, *shown))
                at += gap + lasted
    return found


def test_a_page_holds_every_kernel_of_the_step(trace, made):
    only = part([("pytorch", made)])
    (side,) = only.data["sides"]
    step = trace.steps[trace.steps["step"] == made["step"]].iloc[0]
    inside = trace.kernels[(trace.kernels["start_ns"] < step["end_ns"]) & (trace.kernels["end_ns"] > step["start_ns"])]
    (thread,) = inside["thread"].unique()
    start = inside["start_ns"] - step["start_ns"]
    expected = zip(start, inside["end_ns"] - inside["start_ns"], inside["name"], inside["layer"], strict=True)
    found = unpacked(side)[f"kernels, cpu, thread {thread} (loop)"]
    layers = [None if pd.isna(layer) else layer for layer in inside["layer"]]
    assert sorted(found, key=str) == sorted(((*row[:3], layer) for row, layer in zip(expected, layers, strict=True)), key=str)
    assert sum(lasted for _, lasted, _, _ in unpacked(side)["the whole"]) == made["wall_ns"] == side["wall"]
    assert f"step {made['step']}" in only.alternative


def test_several_recordings_are_whole_and_aligned_at_the_steps_shown_first(trace):
    earlier = trace.steps.assign(start_ns=trace.steps["start_ns"] - 1000)  # the same, but its steps begin 1,000 ns earlier
    other = Trace(steps=earlier, ranges=trace.ranges, operators=trace.operators, kernels=trace.kernels)
    several = [("a", timeline(trace, whole=True)), ("b", timeline(other, whole=True))]
    both = part(several).data["sides"]
    for side, (_, made) in zip(both, several, strict=True):
        low, high = side["shown"]
        assert [low, high] == made["step_ns"]
        assert side["begins"] + low == 0
        assert 0 < high - low < side["wall"] == made["wall_ns"]
    [alone] = part(several[:1]).data["sides"]
    assert alone["begins"] == 0


def test_colours_are_by_kind_as_in_every_chart_and_by_phase_where_none_is_known(made):
    drawn = part([("pytorch", made)])
    kinds = [entry["title"] for entry in drawn.data["legend"] if entry["of"] == "work"]
    assert drawn.data["legend"][0] == {"title": "(computing)", "of": "owners", "colour": colours.COMPUTING}
    assert "convolution forward" in kinds
    named = [drawn.data["legend"][slot]["title"] for slot in drawn.data["sides"][0]["colours"]]
    for kind, title in zip(made["labels"]["kind"], named, strict=True):
        assert title == (kind if kind in kinds else kinds[-1])
    unknown = {**made, "labels": {**made["labels"], "kind": [None] * len(made["labels"]["kind"])}}
    legend = part([("pytorch", unknown)]).data["legend"]
    assert [entry["title"] for entry in legend if entry["of"] == "work"][:3] == ["forward", "backward", "optimizer"]


def test_what_is_left_out_is_said(made):
    assert part([("one", made), ("other", "it has no kernels pass")]).note.endswith("other: no timeline: it has no kernels pass.")
    neither = part([("one", "it is gone")])
    assert (neither.data, neither.note) == ({}, "one: no timeline: it is gone.")
    lane = made["lanes"][-1]
    many = {**made, "cut": 3, "together_ns": 128, "lanes": [*made["lanes"], *([lane] * LANES)]}
    only = part([("one", many)])
    assert len(only.data["sides"][0]["lanes"]) == LANES
    assert only.data["sides"][0]["lanes"][0]["kind"] == "step"
    assert "(3 events)" in only.note
    assert "shorter than 128 ns" in only.note
    assert f"{len(made['lanes'])} lanes with the least time are left out" in only.note


def test_names_are_made_harmless(made):
    hostile = {**made, "labels": {key: [EVIL for _ in texts] for key, texts in made["labels"].items()}}
    only = part([(EVIL, hostile)])
    for text in (only.alternative, only.note, only.data["sides"][0]["texts"]["name"][0], only.data["sides"][0]["title"]):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert len(text) < 4100
    assert not set(only.embedded) & set("<>&")


# --- in a browser -----------------------------------------------------------------------------------------------------------


DRIVER = """<script>(() => {
const chart = document.getElementById("timeline"), tools = document.getElementById("timeline-tools"), told = [];
const box = () => tools.querySelector("input"), said = () => document.getElementById("timeline-said").textContent;
const press = (at, key) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const zoomed = () => echarts.getInstanceByDom(chart).getOption().dataZoom[0];
const range = () => `${zoomed().startValue} ${zoomed().endValue}`;
const begin = () => {
  if (!("drawn" in chart.dataset)) return setTimeout(begin, 50);
  SCRIPT
  document.title = told.join("|");
};
addEventListener("load", begin);
})();</script>"""


@pytest.fixture
def driven(tmp_path, result, browse):
    def run(only, script):
        """Run a script in the page once its parts are drawn; return what it tells."""
        html.write_comparison(result, tmp_path / "report.html", [only])
        document, console = browse(tmp_path / "report.html", DRIVER.replace("SCRIPT", script), milliseconds=6000)
        assert console == []
        return re.search(r"<title>(.*?)</title>", document).group(1).split("|")

    return run


DRIVE = """
const row = () => document.querySelector("tr:target")?.textContent.trim().replace(/\\s+/g, " ");
told.push(range());
press(chart, "+");
told.push(range());
press(chart, "ArrowRight");
told.push(range(), said());
press(chart, "Home");
told.push(range());
press(chart, "/");
told.push(document.activeElement === box());
box().value = "conv2 backward layer";
press(box(), "Enter");
told.push(tools.querySelector("output").textContent, said(), range());
press(chart, "Enter");
const details = () => document.querySelector(".details");
told.push(details().querySelector("dl").textContent, row() ?? "nowhere");
details().querySelector("button").click();
told.push(row());
location.hash = "";
// the same event by the mouse: it is somewhere above the middle of the visible time
const canvas = chart.querySelector("canvas"), tip = () => chart.querySelector(".tip");
const mouse = (kind, y) => {
  const place = canvas.getBoundingClientRect();
  const at = place.width * MIDDLE;
  canvas.dispatchEvent(new MouseEvent(kind, { clientX: place.x + at, clientY: place.y + y, bubbles: true }));
};
let met = false;
for (let y = 30; y < 900 && !met; y += 4) {
  mouse("mousemove", y);
  met = !tip().hidden && tip().textContent.startsWith("conv2");
  if (met) for (const kind of ["mousedown", "mouseup", "click"]) mouse(kind, y);
}
const lines = tip().textContent.split("\\n");
details().querySelector("button").click();
told.push(lines[1], row(), lines.at(-1), document.querySelectorAll("img").length);
"""


def found(made, *words):
    """Return (start, duration) of the events that all of the words are said of, in the order of lanes."""
    texts = list(zip(*made["labels"].values(), strict=True))
    hits = [all(word in " ".join(text or "" for text in label).lower() for word in words) for label in texts]
    rows = [row for lane in made["lanes"] for row in lane["rows"]]
    events = [event for row in rows for event in zip(row["start_ns"], row["duration_ns"], row["label"], strict=True)]
    return [(start, lasted) for start, lasted, label in events if hits[label]]


@pytest.mark.slow
def test_keys_words_and_clicks_lead_to_events_and_rows(driven, made):
    wall, events = made["wall_ns"], found(made, "conv2", "backward", "layer")
    start, lasted = events[0]
    begin = min(start - 2 * lasted, wall - 5 * lasted)  # what is shown stays within the step
    middle = (start + lasted / 2 - begin) / (5 * lasted)
    both = part([("<img src=x onerror=alert(1)>", made), ("other", made)])
    whole, zoomed, moved, told, home, focused, matched, event, close, details, nowhere, row, tip, clicked, where, images = driven(
        both, DRIVE.replace("MIDDLE", str(middle))
    )

    def ends(text):
        return [float(end) for end in text.split()]

    assert ends(whole) == [0, wall]
    assert ends(zoomed) == pytest.approx([wall / 4, wall * 3 / 4], rel=1e-6)
    assert ends(moved) == pytest.approx([wall * 0.35, wall * 0.85], rel=1e-6)
    assert told.endswith("is shown")
    assert home == whole
    assert focused == "true"
    assert matched.startswith(f"{2 * len(events)} events, "), "of both runs"
    assert event.startswith(f"1 of {2 * len(events)}: conv2; conv2 · backward")
    assert ends(close) == pytest.approx([begin, begin + 5 * lasted], rel=1e-6)
    assert "conv2" in details
    assert "backward" in details
    assert f"({lasted:,} ns)" in details
    assert nowhere == "nowhere", "an event's details do not take the reader away"
    assert row.startswith("conv2backward")
    assert tip == "conv2 · backward · layer"
    assert clicked == row
    assert where.startswith("&lt;img src=x onerror=alert(1)&gt;, ranges, thread "), "a name is text"
    assert images == "0"


WHOLE = """
told.push(range());
press(chart, "Home");
told.push(range());
[...tools.querySelectorAll("button")].find((one) => one.textContent === "One step").click();
told.push(range());
"""


@pytest.mark.slow
def test_of_several_whole_recordings_one_step_of_each_is_shown_first(driven, trace):
    made = timeline(trace, whole=True)
    later = {**made, "step_ns": [ns + 500 for ns in made["step_ns"]], "wall_ns": made["wall_ns"] + 500}
    shown, everything, again = driven(part([("a", made), ("b", later)]), WHOLE)
    low, high = made["step_ns"]
    assert shown == f"0 {high - low}"
    assert everything == f"{-low - 500} {made['wall_ns'] - low}"
    assert again == shown


SAVE = """
URL.createObjectURL = (blob) => { told.push(blob.parts[0].replaceAll("|", "/")); return "#"; };
window.Blob = function Blob(parts) { this.parts = parts; };
[...tools.querySelectorAll("button")].find((one) => one.textContent === "Save for Perfetto").click();
told.push(said());
"""


@pytest.mark.slow
def test_what_is_shown_is_saved_as_a_trace_for_perfetto(driven, made):
    saved, said = driven(part([("<one>", made), ("other", {**made, "step_ns": None})]), SAVE)
    assert said.startswith("timeline.json is saved")
    events = json.loads(unescape(saved))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {"<one>", "other"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    for number in (0, 1):
        mine = [event for event in slices if event["pid"] == number]
        assert len(mine) == sum(lane["events"] for lane in made["lanes"])
        for lane in made["lanes"]:
            if lane["kind"] == "kernels":
                kernels = [event for event in mine if tracks[number, event["tid"]].startswith("kernels")]
                assert round(sum(event["dur"] for event in kernels) * 1000) == lane["sum_ns"]
                first = min(kernels, key=lambda event: event["ts"])
                assert round(first["ts"] * 1000) == min(row["start_ns"][0] for row in lane["rows"])
        assert any(event["args"].get("layer") == "conv2" for event in mine)


MANY = """
for (let step = 0; step < 30; step += 1) {
  press(chart, "+");
  echarts.getInstanceByDom(chart).getZr().flush();
}
told.push(range());
press(chart, "Home");
box().value = "op3.";
press(box(), "Enter");
told.push(tools.querySelector("output").textContent, said());
"""


@pytest.mark.slow
@pytest.mark.long
def test_two_hundred_thousand_events_are_drawn_zoomed_and_searched(driven):
    random = np.random.default_rng(7)
    count = 199_000
    lasted = random.integers(50, 5000, count)
    end = np.cumsum(lasted)
    names = [f"op{number}." for number in random.integers(0, 200, count)]
    operators = pd.DataFrame({"thread": 1, "start_ns": end - lasted, "end_ns": end, "name": names})
    steps = [{"step": 0, "warmup": False, "thread": 1, "start_ns": 0, "end_ns": int(end[-1])}]
    made = timeline(Trace(steps=conform("steps", steps), operators=conform("operators", operators)))
    assert made["together_ns"] == 0
    only = part([("many", made)])
    assert len(only.embedded) < 1_200_000
    closest, matched, event = driven(only, MANY)
    first, last = map(float, closest.split())
    assert 20 <= last - first <= 21, "ns, the least that is shown"
    assert matched.startswith(f"{names.count('op3.')} events, ")
    assert event.startswith(f"1 of {names.count('op3.')}: op3.; ")
