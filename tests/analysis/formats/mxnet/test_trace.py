"""Dumps of mx.profiler: pairs found here with stacks, counters with json."""

import gzip
import json
import random
from collections import Counter, defaultdict

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.mxnet import trace as mxnet
from kernelscope.analysis.recordings import captures
from tests import places
from tests.places import ROOT

CORPUS = places.CORPUS / "mxnet"
OURS = sorted((ROOT / "tests/data/mxnet").glob("*/operators.mxnet.json.gz"))
DEVICES = {"cpu": "cpu", "gpu": "cuda:0"}


def of_corpus(kind):
    path = CORPUS / f"sandeep-krishnamurthy__mxnet-profiler-demo__{kind}_mnist_cnn_profile_output.json"
    if not path.exists():
        pytest.skip("a dump of other people: needs ../shared/corpus")
    return path


def events_of(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    return json.loads(content)["traceEvents"]


def pairs_of(events, begin, end, category):
    """Return (process, name, start_ns, duration_ns) of the begins and ends of a category, paired thread by thread with stacks."""
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    stacks, found = defaultdict(list), []
    for event in events:
        key = event["pid"], event.get("tid")
        if event["ph"] == begin and event["cat"] == category:
            stacks[key].append(event)
        elif event["ph"] == end and event["cat"] == category:
            opened = stacks[key].pop()
            found.append((names[key[0]], event["name"], opened["ts"] * 1000, (event["ts"] - opened["ts"]) * 1000))
    return found


def check(path):
    events = events_of(path)
    rows = pairs_of(events, "B", "E", "operator")
    trace = mxnet.read(path)
    trace.check()
    computing = Counter(
        (DEVICES[process[:3]], name, start, duration) for process, name, start, duration in rows
        if name not in ("WaitForVar", "DeleteVariable") and not name.startswith("Copy")
    )  # fmt: skip
    kernels = trace.kernels
    assert Counter(zip(kernels["device"], kernels["name"], kernels["start_ns"], kernels["duration_ns"], strict=True)) == computing
    copies = trace.copies
    copied = Counter(row[1:] for row in rows if row[1].startswith("Copy"))
    assert Counter(zip(copies["start_ns"], copies["duration_ns"], strict=True)) == Counter(row[1:] for row in copied.elements())
    waits = Counter(row[2] for row in rows if row[1] == "WaitForVar")
    assert Counter(trace.syncs["start_ns"]) == waits
    operators = trace.operators
    assert Counter(operators["name"]) == Counter(row[1] for row in rows if row[1] != "WaitForVar")
    calls = trace.calls
    called = pairs_of(events, "b", "e", "MXNET_C_API")
    assert Counter(zip(calls["name"], calls["start_ns"], calls["end_ns"] - calls["start_ns"], strict=True)) == Counter(
        row[1:] for row in called
    )
    assert trace.diagnostics == {"operators recorded again as tasks": len(pairs_of(events, "b", "e", "operator"))}
    assert trace.info["clock"] == "wall"
    return trace, events


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_a_dump_of_the_corpus(kind):
    trace, events = check(of_corpus(kind))
    counters = [event for event in events if event["ph"] == "C"]
    memory = {"cpu": [], "cuda:0": []}
    for event in sorted(counters, key=lambda event: event["ts"]):
        if event["name"].startswith("Memory: "):
            memory[DEVICES[event["name"][8:11]]].append((event["ts"] * 1000, event["args"][event["name"]]))
    for device, expected in memory.items():
        rows = trace.memory[trace.memory["device"] == device]
        assert list(zip(rows["time_ns"], rows["allocated_bytes"], strict=True)) == expected
        assert rows["bytes"].cumsum().tolist() == [value for _, value in expected]
    others = Counter(
        (event["name"], event["ts"] * 1000, float(next(iter(event["args"].values()))))
        for event in counters
        if not event["name"].startswith("Memory: ")
    )
    samples = trace.samples
    assert Counter(zip(samples["metric"], samples["time_ns"], samples["value"], strict=True)) == others
    assert ("cuda:0" in set(trace.kernels["device"])) == (kind == "gpu")
    assert len(trace.copies) == (2 if kind == "gpu" else 0)
    backward = trace.kernels[trace.kernels["name"].str.startswith("_backward_")]
    assert set(backward["phase"]) == {"backward"}


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parent.name)
def test_a_dump_of_this_project(path):
    check(path)


def event(phase, ts, name="Convolution", tid=1, pid=0, cat="operator", **more):
    return {"name": name, "cat": cat, "ph": phase, "ts": ts, "pid": pid, "tid": tid, **more}


DEVICE = {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "gpu/0"}}
DOMAIN = {"ph": "M", "name": "process_name", "pid": 77, "args": {"name": "mine"}}


def read(tmp_path, *events, text=None):
    path = tmp_path / "dump.json"
    path.write_text(text or json.dumps({"traceEvents": [DEVICE, DOMAIN, *events], "displayTimeUnit": "ms"}, indent=1))
    assert mxnet.matches(read_head(path))
    trace = mxnet.read(path)
    trace.check()
    return trace


def test_operators_that_hold_others_and_housekeeping_are_no_kernels(tmp_path):
    trace = read(
        tmp_path, event("B", 1, "outer"), event("B", 2, "[Convolution,Activation]"), event("E", 5, "[Convolution,Activation]"),
        event("E", 9, "outer"), event("B", 10, "DeleteVariable"), event("E", 11, "DeleteVariable"), event("B", 20, "CopyGPU2CPU"),
        event("E", 24, "CopyGPU2CPU"),
    )  # fmt: skip
    assert trace.kernels["name"].tolist() == ["[Convolution,Activation]"]
    assert trace.copies[["operation", "duration_ns"]].values.tolist() == [["device to host", 4000]]
    assert trace.operators["name"].tolist() == ["outer", "[Convolution,Activation]", "DeleteVariable", "CopyGPU2CPU"]
    assert any("bulk" in note for note in trace.info["notes"])
    assert trace.info["clock"] == "relative"


def test_old_dumps_name_no_category_and_new_ones_hold_complete_events(tmp_path):
    trace = read(
        tmp_path, event("B", 1, "Pooling", cat="category"), event("E", 3, "Pooling", cat="category"),
        event("X", 10, "Dot", dur=4), event("X", 20.5, "Dot", dur=0.25),
    )  # fmt: skip
    assert trace.kernels[["name", "start_ns", "duration_ns"]].values.tolist() == [
        ["Pooling", 1000, 2000], ["Dot", 10_000, 4000], ["Dot", 20_500, 250],
    ]  # fmt: skip


def test_the_users_own_tasks_and_marks_are_ranges(tmp_path):
    trace = read(
        tmp_path, event("b", 1, "load", pid=77, cat="mine"), event("e", 5, "load", pid=77, cat="mine"),
        event("i", 7, "here", pid=77, cat="mine"),
        event("C", 8, "rate", pid=77, cat="mine", args={"rate": 3.5}),
    )  # fmt: skip
    assert trace.ranges[["name", "category", "domain", "nested"]].values.tolist() == [
        ["load", "user", "mine", False], ["here", "mark", "mine", False],
    ]  # fmt: skip
    assert trace.samples[["metric", "value"]].values.tolist() == [["rate", 3.5]]
    assert "kernels" in trace.info["unavailable"]


def test_a_dump_that_was_not_closed_is_read(tmp_path):
    text = json.dumps({"traceEvents": [DEVICE, event("B", 1), event("E", 2)]})[:-2]
    trace = read(tmp_path, text=text + ",\n")
    assert len(trace.kernels) == 1
    assert trace.diagnostics == {"dump not closed": 1}


def test_what_has_no_partner_no_time_or_no_duration_is_left_out_and_told_by_every_command(tmp_path):
    untimed = {"name": "x", "cat": "operator", "ph": "B", "pid": 0, "tid": 1}
    trace = read(
        tmp_path, event("B", 9), event("E", 4), event("B", 20, "Lost"), untimed, event("X", 30, "Dot"),
        event("X", 40, "Dot", dur=2),
    )  # fmt: skip
    lost = {"events without a partner": 3, "events without a time": 1, "events without a usable duration": 1}
    assert trace.diagnostics == captures.lost(trace) == lost
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [["Dot", 2000]]


def test_a_lost_end_leaves_the_other_operators_as_they_are(tmp_path):
    rows = [event(phase, at) for start in (0, 10, 20) for phase, at in (("B", start), ("E", start + 3))]
    trace = read(tmp_path, *rows[:1], *rows[2:])
    assert trace.kernels[["start_ns", "duration_ns"]].values.tolist() == [[10_000, 3000], [20_000, 3000]]
    assert captures.lost(trace) == {"events without a partner": 1}


@pytest.mark.parametrize("order", ["reversed", "by name", "shuffled"])
def test_events_in_any_order_make_the_same_kernels(tmp_path, order):
    rows = [
        event("B", 1, "outer"), event("B", 1, "Dot"), event("E", 4, "Dot"), event("B", 4, "Dot"), event("E", 4, "Dot"),
        event("B", 4, "Dot"), event("E", 9, "Dot"), event("E", 9, "outer"), event("B", 9, "outer"), event("E", 9, "outer"),
    ]  # fmt: skip
    other = {
        "reversed": rows[::-1],
        "by name": sorted(rows, key=lambda row: (row["name"], -row["ts"])),
        "shuffled": random.Random(5).sample(rows, len(rows)),
    }[order]
    expected = [("Dot", 1000, 3000), ("Dot", 4000, 0), ("Dot", 4000, 5000), ("outer", 9000, 0)]
    for written in (rows, other):
        trace = read(tmp_path, *written)
        kernels = trace.kernels
        assert sorted(zip(kernels["name"], kernels["start_ns"], kernels["duration_ns"], strict=True)) == expected
        assert captures.lost(trace) == {}


@pytest.mark.parametrize(
    "row", [event("B", "soon"), event("B", 10**30), event("X", 1, dur=1e300), event("B", 1, name=5), [], 5, {"ph": None}]
)
def test_a_damaged_event_is_left_out_and_a_file_of_nothing_else_is_refused_by_name(tmp_path, row):
    whole = json.dumps({"traceEvents": [DEVICE, event("B", 1), row, event("E", 4)]})
    for text, odd in ((whole, {chrome_json.ODD: 1}), (whole[:-2], {chrome_json.ODD: 1, "dump not closed": 1})):
        trace = read(tmp_path, text=text)
        assert trace.kernels["duration_ns"].tolist() == [3000]
        assert trace.diagnostics == odd
    path = tmp_path / "nothing.json"
    path.write_text(json.dumps({"traceEvents": [row]}))
    with pytest.raises(EvidenceError, match=r"nothing\.json: not a dump") as raised:
        mxnet.read(path)
    assert "\n" not in str(raised.value)


def test_odd_arguments_are_no_names(tmp_path):
    odd = [{"ph": "M", "name": "process_name", "pid": 5, "args": value} for value in ([], "x", {"name": 3}, {"other": 1})]
    assert read(tmp_path, *odd, event("C", 3, "c", args={"c": "text"}), event("C", 3, "d", args=[])).samples.empty
