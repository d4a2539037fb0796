"""The reader of torch.profiler's traces, on a trace recorded by this project and on damaged ones."""

import gzip
import json

import pytest
from pandas.testing import assert_frame_equal

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto.groups import EventGroup
from tests.places import ROOT

TRACE = ROOT / "tests" / "data" / "pytorch" / "lenet-train" / "operators.pt.trace.json.gz"

ARGUMENTS = ("sequence", "forward_thread", "external_id", "correlation", "device", "stream", "shapes")


def complete(path, content=None):
    """All complete events of a file, or of JSON text, in the file's order; attrs: base_ns, and dropped ones."""
    scan = kineto.scan(path, {"all": EventGroup(None, frozenset("X"), ARGUMENTS)}, content=content)
    table = scan.tables["all"]
    tracks = scan.tracks.take(table["track"].to_numpy())
    table["thread"] = kineto.whole_numbers(tracks["thread"]).array
    table["track"] = (tracks["process"] + "/" + tracks["thread"]).array
    table.attrs.update(base_ns=scan.base_ns, dropped=scan.untimed["all"])
    return table


def test_every_complete_event_is_read_with_absolute_times():
    raw = json.loads(gzip.decompress(TRACE.read_bytes()))
    expected = [event for event in raw["traceEvents"] if event["ph"] == "X"]
    events = complete(TRACE)
    assert len(events) == len(expected)
    assert events["name"].tolist() == [event["name"] for event in expected]
    start = [raw["baseTimeNanoseconds"] + round(event["ts"] * 1000) for event in expected]
    assert events["start_ns"].tolist() == start
    assert events["duration_ns"].tolist() == [round(event["dur"] * 1000) for event in expected]
    assert events.attrs["base_ns"] == raw["baseTimeNanoseconds"]
    assert events.attrs["dropped"] == 0


def test_a_trace_in_parts_is_read_as_one(tmp_path):
    raw = json.loads(gzip.decompress(TRACE.read_bytes()))
    middle = len(raw["traceEvents"]) // 2
    paths = [tmp_path / "first.json", tmp_path / "second.json"]
    for path, events in zip(paths, (raw["traceEvents"][:middle], raw["traceEvents"][middle:]), strict=True):
        path.write_text(json.dumps({**raw, "traceEvents": events}))
    groups = {"all": EventGroup(None, frozenset("X"), ARGUMENTS)}
    whole, parts = kineto.scan(TRACE, groups), kineto.scan(paths[0], groups, parts=paths[1:])
    assert_frame_equal(parts.tables["all"], whole.tables["all"])
    assert_frame_equal(parts.tracks, whole.tracks)
    assert (parts.counts, parts.base_ns) == (whole.counts, whole.base_ns)
    paths[1].write_text("no trace")
    with pytest.raises(EvidenceError, match=r"second\.json"):
        kineto.scan(paths[0], groups, parts=paths[1:])


def test_arguments_keep_their_meaning():
    events = complete(TRACE)
    forward = events[events["name"] == "aten::addmm"].iloc[0]
    assert json.loads(forward["shapes"])[1:3] == [[64, 400], [400, 120]]
    backward = events[events["name"].astype(str).str.endswith("evaluate_function: AddmmBackward0")]
    made = backward[backward["sequence"] == forward["sequence"]]
    assert len(made) == 1
    assert made["forward_thread"].iloc[0] > 0
    assert forward["forward_thread"] == 0
    views = events[events["name"] == "aten::as_strided"]
    assert views["sequence"].isna().all()


def test_device_events_and_odd_values():
    text = json.dumps(
        {
            "traceEvents": [
                {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10.5, "dur": 2,
                 "args": {"correlation": 42, "device": 0, "stream": 7, "External id": 5}},
                {"ph": "X", "cat": "Trace", "name": "window", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 9},
                {"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 1, "tid": 1, "ts": None, "dur": 1},
                {"ph": "X", "cat": "cpu_op", "name": "negative", "pid": 1, "tid": 1, "ts": 5, "dur": -1},
                {"ph": "i", "cat": "cpu_op", "name": "instant", "pid": 1, "tid": 1, "ts": 5},
            ]
        }
    )  # fmt: skip
    events = complete("trace", text.encode())
    assert events["name"].tolist() == ["gemm", "window"]
    assert events["start_ns"].tolist() == [10_500, 0]
    assert events.loc[0, ["correlation", "stream", "external_id", "thread"]].tolist() == [42, 7, 5, 7]
    assert events["thread"].isna().tolist() == [False, True]
    assert events["track"].tolist() == ["0/7", "Spans/PyTorch Profiler"]
    assert events.attrs["dropped"] == 2
    assert events.attrs["base_ns"] is None


def test_a_bare_list_of_events_and_an_empty_one():
    events = complete("trace", b'[{"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 1, "tid": "x", "ts": 1, "dur": 1}]')
    assert events["category"].tolist() == ["Operator"]
    assert len(complete("trace", b'{"traceEvents": []}')) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"traceEvents": [{"ph": "X", "na', "cut short"),
        (b"", "cut short"),
        (b'{"nodes": []}', "not a trace"),
        (b'{"traceEvents": 5}', "not a trace"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "damaged or cut short"),
        (b"\x1f\x8bnonsense", "damaged or cut short"),
    ],
)
def test_damaged_files_are_refused_with_their_name(tmp_path, content, message):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=message) as refused:
        complete(path)
    assert "broken.json" in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(EvidenceError, match=r"none\.json"):
        complete(tmp_path / "none.json")
